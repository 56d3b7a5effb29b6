"""CuPy's own variables: with some values CuPy cannot be imported, or cannot allocate. Pure.

Which values those are was measured by importing cupy-cuda12x 13.6.0, 14.0.0, 14.0.1, 14.1.0 and 14.2.0 with each
(2026-11-22): the variables of ``_NUMBERS`` end in "invalid literal for int()", CUPY_ACCELERATORS in "Unknown
accelerator" (a blank beside a name is a part of it), CUPY_GPU_MEMORY_LIMIT when the memory pool is made. A share
above 100% and a size below 0 are refused then too: SingleDeviceMemoryPool.set_limit of 14.2.0, called with both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from packaging.version import Version

_ACCELERATORS = ("cub", "cutensor", "cutensornet")
_NUMBERS = (
    "CUPY_CUDA_ARRAY_INTERFACE_EXPORT_VERSION",
    "CUPY_CUDA_ARRAY_INTERFACE_SYNC",
    "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM",
    "CUPY_ENABLE_UMP",
)
_LIMIT, _FOLDER = "CUPY_GPU_MEMORY_LIMIT", "CUPY_CACHE_DIR"
_FIRST_TO_MAKE_THE_FOLDER = Version("14.1.0")  # when it is imported; 14.0.1 waits for the first kernel


@dataclass(frozen=True, slots=True)
class RefusedVariable:
    """A variable with a value that CuPy refuses.

    Attributes:
        name: the variable.
        value: its value.
        taken: what CuPy takes, in words.
    """

    name: str
    value: str
    taken: str


def refused_variables(variables: Mapping[str, str], release: str | None) -> Iterator[RefusedVariable]:
    """Those that CuPy refuses; ``release`` is CuPy's, null where it is not known."""
    words = variables.get("CUPY_ACCELERATORS", "").split(",")
    if any(word not in ("", *_ACCELERATORS) for word in words):
        names = f"{', '.join(_ACCELERATORS)}, separated by commas, without blanks"
        yield RefusedVariable("CUPY_ACCELERATORS", variables["CUPY_ACCELERATORS"], names)
    for name in _NUMBERS:
        if name in variables and not _is_number(variables[name], int):
            yield RefusedVariable(name, variables[name], "a whole number, such as 0 or 1")
    limit = variables.get(_LIMIT)
    if limit is not None and not _is_limit(limit):
        yield RefusedVariable(_LIMIT, limit, "a number of bytes, such as 8589934592, or a share, such as 80%")
    if variables.get(_FOLDER) == "" and _makes_its_folder(release):
        yield RefusedVariable(_FOLDER, "", "the path of a folder")


def _is_limit(text: str) -> bool:
    """Whether CuPy takes it for a limit: a share of the memory's, or bytes that are not below none."""
    if text.endswith("%"):
        return _is_number(text[:-1], float) and 0 <= float(text[:-1]) / 100 <= 1
    return _is_number(text, int) and int(text) >= 0


def _is_number(text: str, kind: type[int | float]) -> bool:
    """Whether Python, and so CuPy, reads a number of this kind in it."""
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _makes_its_folder(release: str | None) -> bool:
    if release is None:
        return False
    try:
        return Version(release) >= _FIRST_TO_MAKE_THE_FOLDER
    except ValueError:  # InvalidVersion, or more digits than int takes
        return False
