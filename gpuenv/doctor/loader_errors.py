"""The loader's message about a library that exists and cannot be loaded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from gpuenv.model.snapshot import Library
from gpuenv.model.text import pattern

# glibc's own words (elf/dl-lookup.c, elf/dl-version.c): of a symbol, of a symbol's version, of a version as a whole.
_REFUSED = pattern(
    r"undefined symbol: (?P<a>\w+)(?:, version (?P<b>lib[\w.-]+)|(?!\w|, version))"
    r"|symbol (?P<c>\w+),? version (?P<d>lib[\w.-]+) not defined in file"
    r"|version [`'](?P<e>lib[\w.-]+)' not found"
)
# Those that export functions to the others; a longer name before the one that it begins with.
_OF_LIBRARY = pattern(r"_*(nvJitLink|cublasLt|cublas|cusparse|cusolver|curand|cufft|nvrtc|cuda)(?=[A-Z_])")
# Likewise, of the file itself (elf/dl-load.c), with what the probe adds where it could not be mapped.
_UNTAKEN = pattern(
    r"(?P<noexec>mounted noexec)|(?P<limit>ulimit -v is \d+ KiB)"
    r"|(?P<reserve>cannot allocate memory in static TLS)"
    r"|(?P<unmapped>failed to map segment"
    r"|cannot (?:allocate memory(?! in static TLS)|change memory protections|enable executable stack))"
    r"|(?P<denied>cannot open shared object file: (?:Permission denied|Operation not permitted))"
    r"|(?P<damaged>file too short|invalid ELF header|wrong ELF class|ELF file|ELF load command|cannot read file data"
    r"|only ET_DYN and ET_EXEC can be loaded|object file has no|Input/output error)"
)
_DRIVERS_OWN = pattern(r"libcuda\.so|libnvidia")


class Untaken(Enum):
    """Why the loader cannot load a file that exists; the first member that matches counts."""

    NOEXEC = "noexec"
    LIMIT = "limit"
    RESERVE = "reserve"
    UNMAPPED = "unmapped"
    DENIED = "denied"
    DAMAGED = "damaged"


def untaken(words: str | None) -> Untaken | None:
    """Why a file that is there cannot be loaded, by the loader's words; None where that is not what they say."""
    if not words or _DRIVERS_OWN.search(words):  # a library of the driver's: other checks tell of it
        return None
    found = {match.lastgroup for match in _UNTAKEN.finditer(words)}
    return next((kind for kind in Untaken if kind.value in found), None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the loader did not find in another library.

    Attributes:
        symbol: the symbol; empty where a whole version is missing.
        by: the soname of that library, if the loader names it.
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
