"""Version numbers, with a separate type for each kind, so that they cannot be confused.

Every type has ``parse``, raises ``ValueError`` with the accepted spellings, and prints itself in one spelling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import total_ordering

from gpuenv.model.strings import pattern

_DRIVER = pattern(r"(?:[Rr](?=\d+$))?(\d{3,4}(?:\.\d{1,5}){0,3})")
_CUDA = pattern(r"(?:cuda[- ]?|cu|v)?(\d{1,2})\.(\d{1,2})(?:\.\d+)*", re.IGNORECASE)
_CUDA_COMPACT = pattern(r"cu(\d{2})(\d)", re.IGNORECASE)
_CAPABILITY = pattern(r"(?:sm|compute)?[_-]?(\d{1,2})\.?(\d)[af]?", re.IGNORECASE)
_LIBC = pattern(r"(glibc|musl)[-= ]?(\d{1,2})\.(\d{1,3})(?:\.\d+)*", re.IGNORECASE)
_PYTHON = pattern(r"(?:cp|python)?[ ]?(\d)\.(\d{1,2})(?:\.(\d{1,3}))?(?:(?:a|b|rc)\d+)?\+?(t)?", re.IGNORECASE)
_PYTHON_TAG = pattern(r"cp(\d)(\d{1,2})()(t)?", re.IGNORECASE)
_LARGEST_CUDA_MAJOR = 99
_LAST_WITH_M = (3, 7)


@dataclass(frozen=True, slots=True, order=True)
class DriverVersion:
    """A driver version such as 580.95.05: printed as written, compared part by part."""

    text: str = field(compare=False)
    parts: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> DriverVersion:
        """Reads ``535.104.05``, ``418.87`` or a bare branch such as ``580`` or ``R580``."""
        match = _DRIVER.fullmatch(text.strip())
        if not match:
            raise ValueError(
                f"{text!r} is no driver version; expected one like 535.104.05, or a branch like 580 (no CUDA version)"
            )
        return cls(match[1], tuple(int(part) for part in match[1].split(".")))

    @property
    def branch(self) -> int:
        """The driver branch: 580 for 580.95.05."""
        return self.parts[0]

    @property
    def is_bare_branch(self) -> bool:
        """Whether it is only a branch."""
        return len(self.parts) == 1

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, order=True)
class CudaVersion:
    """A CUDA version by major and minor; the name of the field says what it is the version *of*."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> CudaVersion:
        """Reads ``12.4``, ``v12.4``, ``cu124`` and ``12.4.1``."""
        text = text.strip()
        match = _CUDA.fullmatch(text) or _CUDA_COMPACT.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is no CUDA version; expected one like 12.4, v12.4 or cu124")
        return cls(int(match[1]), int(match[2]))

    @classmethod
    def from_number(cls, number: int) -> CudaVersion:
        """Reads the integer of the C interfaces: 12040 is 12.4.

        Raises:
            ValueError: outside 1.0 to 99.9, such as a 0 that an unanswered out-parameter kept.
        """
        major, minor = number // 1000, number % 1000 // 10
        if not 1 <= major <= _LARGEST_CUDA_MAJOR:
            raise ValueError(f"{number} is no CUDA version number; expected one like 12040")
        return cls(major, minor)

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


def cuda_of_number(text: str) -> str:
    """Converts a version number of CUDA's C interfaces: ``12040`` to ``12.4``.

    Raises:
        ValueError: for any other text.
    """
    return str(CudaVersion.from_number(int(text)))


@dataclass(frozen=True, slots=True, order=True)
class ComputeCapability:
    """A compute capability, such as 9.0."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> ComputeCapability:
        """Reads ``9.0``, ``90``, ``sm_90``, ``sm_90a``, ``compute_100`` and ``12.0``."""
        text = text.strip()
        match = _CAPABILITY.fullmatch(text)
        if not match or int(match[1]) == 0:
            raise ValueError(f"{text!r} is no compute capability; expected one like 9.0, 90 or sm_90")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


@dataclass(frozen=True, slots=True, order=True)
class Libc:
    """The C library: glibc-2.36 or musl-1.2."""

    family: str
    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Libc:
        """Reads ``glibc-2.36``, ``glibc 2.36``, ``glibc=2.36`` and ``musl-1.2.5``."""
        match = _LIBC.fullmatch(text.strip())
        if not match:
            raise ValueError(f"{text!r} is no C library; expected one like glibc-2.36 or musl-1.2")
        return cls(match[1].lower(), int(match[2]), int(match[3]))

    def __str__(self) -> str:
        return f"{self.family}-{self.major}.{self.minor}"


@total_ordering
@dataclass(frozen=True, slots=True)
class PythonVersion:
    """A Python release; ``3.14t`` is the free-threaded build."""

    major: int
    minor: int
    micro: int | None = None
    free_threaded: bool = False

    @classmethod
    def parse(cls, text: str) -> PythonVersion:
        """Reads ``3.12``, ``3.12.4``, ``3.14t``, ``python3.11`` and ``cp313``."""
        match = _PYTHON.fullmatch(text.strip()) or _PYTHON_TAG.fullmatch(text.strip())
        if not match:
            raise ValueError(f"{text!r} is no Python version; expected one like 3.12, 3.12.4 or 3.14t")
        micro = int(match[3]) if match[3] else None
        return cls(int(match[1]), int(match[2]), micro, match[4] is not None)

    @property
    def tag(self) -> str:
        """The name of the Python version in the matrix and in wheel tags: cp312, or cp314t."""
        return f"cp{self.major}{self.minor}{'t' if self.free_threaded else ''}"

    @property
    def abi(self) -> str:
        """The ABI tag: cp312, cp314t, and up to Python 3.7 with an m (PEP 3149)."""
        return self.tag + ("m" if (self.major, self.minor) <= _LAST_WITH_M else "")

    def __lt__(self, other: PythonVersion) -> bool:
        one, two = ((v.major, v.minor, v.micro or 0, v.free_threaded) for v in (self, other))
        return one < two

    def __str__(self) -> str:
        micro = "" if self.micro is None else f".{self.micro}"
        return f"{self.major}.{self.minor}{micro}{'t' if self.free_threaded else ''}"
