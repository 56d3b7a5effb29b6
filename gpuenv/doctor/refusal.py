"""What the loader says of a library that is there and cannot be loaded, since another one lacks what it needs. Pure."""

from __future__ import annotations

from gpuenv.model.pattern import pattern
from gpuenv.model.record import dataclass
from gpuenv.model.snapshot import Library

# glibc's own words (elf/dl-lookup.c, elf/dl-version.c): of a symbol, of a symbol's version, of a version as a whole.
_REFUSED = pattern(
    r"undefined symbol: (?P<a>\w+)(?:, version (?P<b>lib[\w.-]+)|(?!\w|, version))"
    r"|symbol (?P<c>\w+),? version (?P<d>lib[\w.-]+) not defined in file"
    r"|version [`'](?P<e>lib[\w.-]+)' not found"
)
# Those that export functions to the others; a longer name before the one that it begins with.
_OF_LIBRARY = pattern(r"_*(nvJitLink|cublasLt|cublas|cusparse|cusolver|curand|cufft|nvrtc|cuda)(?=[A-Z_])")


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the loader did not find in another library.

    Attributes:
        symbol: the symbol; empty where a whole version is not there.
        by: the soname of that library, where the loader names it.
    """

    symbol: str
    by: str | None


def refusal_of(library: Library) -> Refusal | None:
    """Why the loader refuses a library that is there; None where it loads, is not there, or fails otherwise."""
    found = None if library.path or library.optional else _REFUSED.search(library.error or "")
    if found is None:
        return None
    symbol, by = found["a"] or found["c"] or "", found["b"] or found["d"] or found["e"]
    # A symbol of the C++ runtime's, say, is no matter of CUDA's libraries among themselves.
    return Refusal(symbol, by) if by or library_of_symbol(symbol) else None


def library_of_symbol(symbol: str) -> str | None:
    """The CUDA library whose symbol it is: ``__nvJitLinkComplete_12_4`` is of nvJitLink."""
    found = _OF_LIBRARY.match(symbol)
    return found[1] if found else None
