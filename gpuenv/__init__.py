"""gpuenv: a doctor for CuPy environments on NVIDIA GPUs.

``take_snapshot``, ``diagnose``, ``resolve``, ``check`` and ``explain_text`` do what the commands do, and return the
records that the commands print as JSON; failures are ``GpuenvError``. They are imported when they are first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # the module typing would be most of what importing gpuenv takes

if TYPE_CHECKING:
    from gpuenv.api import check, diagnose, explain_text, resolve, take_snapshot
    from gpuenv.ipython_extension import Shell
    from gpuenv.model.errors import GpuenvError

__version__ = "0.1.0"
__all__ = ["GpuenvError", "__version__", "check", "diagnose", "explain_text", "resolve", "take_snapshot"]


def __getattr__(name: str) -> object:
    from importlib import import_module  # noqa: PLC0415 - importing gpuenv alone costs nothing

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("gpuenv.model.errors" if name == "GpuenvError" else "gpuenv.api"), name)


def load_ipython_extension(shell: Shell) -> None:
    """Adds the magic ``%gpuenv`` to IPython; called by ``%load_ext gpuenv``."""
    from gpuenv.ipython_extension import register  # noqa: PLC0415 - importing gpuenv alone costs nothing

    register(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
