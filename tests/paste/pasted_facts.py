"""Facts of a pasted text, by names for tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from gpuenv.data import data_path
from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.load import load
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Snapshot
from gpuenv.paste.partial_snapshot import to_snapshot
from gpuenv.paste.reader import read_paste

T = TypeVar("T")

MATRIX = load(data_path("matrix.yaml"))


def snapshot_of(text: str) -> Snapshot:
    return to_snapshot(read_paste(text), MATRIX)


def primary(text: str) -> str | None:
    """The cause of the primary finding; None without one."""
    snapshot = snapshot_of(text)
    findings = diagnose(snapshot, MATRIX, lambda: 0.0).findings
    return next((finding.cause.value for finding in findings if finding.primary), None)


def fact(snapshot: Snapshot, path: str) -> str | None:
    """``driver.version`` and the like, as text; ``gpus`` as name, capability and GiB, ``cupy`` as name and release."""
    if path == "gpus":
        return "; ".join(
            " ".join(part or "?" for part in (gpu.name.value, _text(gpu.compute_capability), _size(gpu.memory_total)))
            for gpu in snapshot.gpus
        )
    if path == "cupy":
        return "; ".join(f"{entry.distribution} {entry.release}" for entry in snapshot.target.cupy)
    if path.startswith(("package.", "environment.")):
        entries = snapshot.target.packages if path.startswith("package.") else snapshot.environment
        return entries.get(path.partition(".")[2])
    value: object = snapshot
    for name in path.split("."):
        value = getattr(value, name)
    return _text(value) if isinstance(value, Reading) else str(value)


def _text(reading: Reading[T]) -> str | None:
    return None if reading.value is None else str(getattr(reading.value, "value", reading.value))


def _size(reading: Reading[int]) -> str | None:
    return None if reading.value is None else f"{reading.value / 2**30:.0f}"


def wrong(text: str, expected: Mapping[str, str | None]) -> dict[str, tuple[str | None, str | None]]:
    """The facts that differ: expected and found."""
    snapshot = snapshot_of(text)
    return {path: (value, fact(snapshot, path)) for path, value in expected.items() if fact(snapshot, path) != value}
