"""Measured numbers for people. Pure."""

from __future__ import annotations

from gpuenv.model.smoke import Quantity

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def quantity_text(quantity: Quantity) -> str:
    """A number with a prefix: 52.1 TFLOP/s, 24 GB/s, 3.1 us."""
    value, unit = quantity.value, quantity.unit
    if unit == "1":
        return f"{value:.3g}"
    if unit == "s":
        scale, prefix = next(((s, p) for s, p in _SMALL if value >= s), _SMALL[-1])
        return f"{value / scale:.3g} {prefix}{unit}"
    if unit in ("B/s", "FLOP/s", "B"):
        scale, prefix = next(((s, p) for s, p in _SCALES if value >= s), (1.0, ""))
        return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def share_text(ratio: float) -> str:
    """One number beside another, in percent; what is little is not called nothing: 0.31%, 96%, 104%."""
    return f"{ratio:.0%}" if ratio >= 0.01 or ratio <= 0 else f"{ratio * 100:.2g}%"  # noqa: PLR2004 - one percent
