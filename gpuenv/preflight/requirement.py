"""Requirements: their grammar, their keys and the kinds of values that they compare.

A requirement is a key and one or more clauses, all of which must hold::

    requirement = key [ clause { "," clause } ]
    clause      = operator value
    operator    = ">=" | "<=" | "==" | "!=" | ">" | "<" | "~="
    value       = anything without a comma

Space around each part is dropped. A key that is on or off may stand alone, which means ``==on``. ``|`` separates
alternatives of words: ``name~=H100|H200``. Driver and Python versions are compared in as many parts as are given:
``driver==550`` is every 550.x. ``cupy`` and ``numpy`` take ranges as pip reads them, ``cupy~=14.1`` among them.
"""

from __future__ import annotations

import difflib
import operator as operators
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from gpuenv.model.cupy import cuda_major, is_published
from gpuenv.model.snapshot import architecture, operating_system
from gpuenv.model.text import parse_size, size_text, whole_number
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion
from gpuenv.preflight import seen
from gpuenv.preflight.seen import Seen, of_each_gpu

if TYPE_CHECKING:
    from packaging.version import Version


T = TypeVar("T")
Predicate = Callable[[T], bool]

ORDERED = (">=", "<=", "==", "!=", ">", "<")
EQUAL = ("==", "!=")
NONE = "none"
_LARGEST_COUNT = 4096
_LARGEST_MAJOR = 20  # 20 and above are major and minor: 90 is 9.0
_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operators.ge,
    "<=": operators.le,
    "==": operators.eq,
    "!=": operators.ne,
    ">": operators.gt,
    "<": operators.lt,
}
_YES, _NO = ("yes", "on", "true"), ("no", "off", "false")


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """A kind of value.

    Attributes:
        operators: those that a clause may have, the usual one first.
        read: makes a clause's operator and value into a test of a value; a ``ValueError`` says what was expected.
        show: a value in words.
        bare: the clause that the key alone stands for; None where it cannot stand alone.
    """

    operators: tuple[str, ...]
    read: Callable[[str, str], Predicate[T]]
    show: Callable[[T], str] = str
    bare: tuple[str, str] | None = None


def _ordered(parse: Callable[[str], T]) -> Callable[[str, str], Predicate[T]]:
    def read(operator: str, text: str) -> Predicate[T]:
        wanted = parse(text)
        return lambda found: _COMPARE[operator](found, wanted)

    return read


def _count(text: str) -> int:
    number = whole_number(text, len(str(_LARGEST_COUNT)))
    if number is None:
        raise ValueError("expected a whole number like 2")
    return number


def _capability(text: str) -> ComputeCapability:
    """As everywhere; and a bare ``8`` or ``12`` is the major version, since no driver here knows a GPU of 1.x."""
    number = whole_number(text)
    return ComputeCapability(number, 0) if number and number < _LARGEST_MAJOR else ComputeCapability.parse(text)


def _by_parts(operator: str, wanted: Sequence[int]) -> Callable[[Sequence[int]], bool]:
    """Compares as many parts as were asked for: ``==550`` is every 550.x, ``>550`` begins with 551."""
    return lambda found: _COMPARE[operator](tuple(found[: len(wanted)]), tuple(wanted))


def _driver(operator: str, text: str) -> Predicate[DriverVersion]:
    holds = _by_parts(operator, DriverVersion.parse(text).parts)
    return lambda found: holds(found.parts)


def _python(operator: str, text: str) -> Predicate[PythonVersion]:
    wanted = PythonVersion.parse(text)
    holds = _by_parts(operator, _python_parts(wanted))
    if not wanted.free_threaded:
        return lambda found: holds(_python_parts(found))
    if operator not in EQUAL:
        raise ValueError("a free-threaded Python can be asked for with == or != alone")
    return lambda found: (
        (found.free_threaded and _by_parts("==", _python_parts(wanted))(_python_parts(found))) == (operator == "==")
    )


def _python_parts(version: PythonVersion) -> tuple[int, ...]:
    return (version.major, version.minor, *(() if version.micro is None else (version.micro,)))


def _libc(operator: str, text: str) -> Predicate[Libc]:
    """Another C library is neither newer nor older: it is another one."""
    wanted = Libc.parse(text)
    return lambda found: _COMPARE[operator](found, wanted) if found.family == wanted.family else operator == "!="


def _specifier(operator: str, text: str) -> Predicate[Version | None]:
    """A version range as pip reads it; ``==none`` says that the package is not to be there."""
    if text.lower() == NONE:
        if operator not in EQUAL:
            raise ValueError("none can be compared with == or != alone")
        return lambda found: (found is None) == (operator == "==")
    try:
        wanted = SpecifierSet(f"{operator}{text}")
    except InvalidSpecifier:
        raise ValueError("expected a version like 14.2.0") from None
    return lambda found: found is not None and wanted.contains(found, prereleases=True)


def _switch(operator: str, text: str) -> Predicate[bool]:
    if text.lower() not in (*_YES, *_NO):
        raise ValueError("expected on or off")
    wanted = (text.lower() in _YES) == (operator == "==")
    return lambda found: found is wanted


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip().lower() for word in text.split("|"))
    if not all(words):
        raise ValueError("expected a word, or several with | between them")
    return words


def _word(operator: str, text: str) -> Predicate[str]:
    words = _words(text)
    if operator == "~=":
        return lambda found: any(word in found.lower() for word in words)
    return lambda found: (found.lower() in words) == (operator == "==")


COUNT: Kind[int] = Kind(ORDERED, _ordered(_count))
SIZE: Kind[int] = Kind(ORDERED, _ordered(parse_size), size_text)
CAPABILITY: Kind[ComputeCapability] = Kind(ORDERED, _ordered(_capability))
CUDA: Kind[CudaVersion] = Kind(ORDERED, _ordered(CudaVersion.parse))
DRIVER: Kind[DriverVersion] = Kind(ORDERED, _driver)
PYTHON: Kind[PythonVersion] = Kind(ORDERED, _python)
LIBC: Kind[Libc] = Kind(ORDERED, _libc)
PACKAGE: Kind[Version | None] = Kind((*ORDERED, "~="), _specifier, lambda found: str(found or "not installed"))
NAME: Kind[str] = Kind(("~=", *EQUAL), _word)
SWITCH: Kind[bool] = Kind(EQUAL, _switch, lambda found: "on" if found else "off", ("==", "on"))


def one_of(
    choices: Sequence[str], admits: Callable[[str], bool] = lambda _: False, usual: Callable[[str], str] = str
) -> Kind[str]:
    """A kind whose values are a closed list.

    Args:
        choices: those that are named to people.
        admits: whether a value is one of the others, which few ask for.
        usual: the value that is meant by what people write for it.
    """

    def read(operator: str, text: str) -> Predicate[str]:
        words = [usual(word) for word in _words(text)]
        if [word for word in words if word not in choices and not admits(word)]:
            raise ValueError(f"expected one of {', '.join(choices)}")
        return _word(operator, "|".join(words))

    return Kind(EQUAL, read)


_LINES = ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy-cuda14x", "cupy", "cupy-core")
_SYSTEM = one_of(("linux", "windows", "darwin"), usual=operating_system)
_PROCESSOR = one_of(("x86_64", "aarch64"), usual=architecture)


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """Something that can be required.

    Attributes:
        name: as it is written.
        kind: what its values are.
        look: what a machine has of it.
        meaning: one line of help.
        example: a requirement with it.
        of_host: whether another host could meet it where this one does not.
        counts: whether it is a number or a sum of GPUs, which those that are not to be seen make smaller.
    """

    name: str
    kind: Kind[T]
    look: Callable[[Any], Seen[T]]
    meaning: str
    example: str
    of_host: bool = True
    counts: bool = False


_ALL: tuple[Key[Any], ...] = (
    Key("gpu", COUNT, seen.gpu_count, "how many GPUs a program sees here", "gpu>=1", counts=True),
    Key(
        "cc",
        CAPABILITY,
        of_each_gpu("compute_capability", lambda gpu: gpu.compute_capability),
        "compute capability of each GPU",
        "cc>=8.0",
    ),
    Key("name", NAME, of_each_gpu("name", lambda gpu: gpu.name), "a word in each GPU's name", "name~=H100|H200"),
    Key("memory", SIZE, seen.memory, "memory of each GPU (each MIG instance)", "memory>=40GiB"),
    Key(
        "total-memory",
        SIZE,
        seen.total_memory,
        "memory of all GPUs together",
        "total-memory>=320GiB",
        counts=True,
    ),
    Key(
        "free-memory",
        SIZE,
        of_each_gpu("memory_free", lambda gpu: gpu.memory_free),
        "free memory of each GPU",
        "free-memory>=20GiB",
    ),
    Key("no-other-processes", SWITCH, seen.alone, "no compute process holds a GPU", "no-other-processes"),
    Key("nvlink", SWITCH, seen.nvlink, "each GPU has an NVLink that is up", "nvlink"),
    Key("p2p", SWITCH, seen.peer_to_peer, "each GPU reads every other's memory", "p2p"),
    Key("mig", SWITCH, seen.mig, "MIG mode of each GPU", "mig==off"),
    Key("ecc", SWITCH, seen.ecc, "error correction of each GPU", "ecc==on"),
    Key("driver", DRIVER, seen.driver, "the driver's version, or its branch", "driver>=550"),
    Key("driver-cuda", CUDA, seen.driver_cuda, "newest CUDA that the driver supports", "driver-cuda>=12.4"),
    Key("os", _SYSTEM, seen.operating_system, "operating system", "os==linux"),
    Key("arch", _PROCESSOR, seen.architecture, "processor architecture", "arch==x86_64"),
    Key("libc", LIBC, seen.libc, "the C library", "libc>=glibc-2.28", of_host=False),
    Key("container", SWITCH, seen.container, "inside a container", "container==no", of_host=False),
    Key("toolkit", CUDA, seen.toolkit, "the CUDA toolkit on the host", "toolkit>=12.4", of_host=False),
    Key("python", PYTHON, seen.python, "the target's Python", "python>=3.11,<3.14", of_host=False),
    Key("cupy", PACKAGE, seen.cupy, "CuPy's version; none: not there", "cupy>=14,<15", of_host=False),
    Key(
        "line",
        one_of(_LINES, is_published),
        seen.line,
        "the wheel line of CuPy",
        "line==cupy-cuda12x",
        of_host=False,
    ),
    Key("numpy", PACKAGE, seen.numpy, "NumPy's version; none: not there", "numpy>=2", of_host=False),
)
KEYS: dict[str, Key[Any]] = {key.name: key for key in _ALL}
"""Every key by its name, in the order in which they are listed."""

TRANSIENT = ("free-memory", "no-other-processes")
"""The keys whose violation may pass by itself, once others have left the GPU."""


_FORM = re.compile(r"([^<>=!~,\s]+)\s*(.*)", re.DOTALL)
_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([^<>=!~\s].*)", re.DOTALL)
_ALIASES = {
    "gpus": "gpu", "gpu-count": "gpu", "count": "gpu", "compute-capability": "cc", "capability": "cc", "sm": "cc",
    "gpu-memory": "memory", "vram": "memory", "memory-free": "free-memory", "memory-total": "total-memory",
    "gpu-name": "name", "model": "name", "cuda": "driver-cuda", "driver-version": "driver", "peer-to-peer": "p2p",
    "platform": "arch", "idle": "no-other-processes", "exclusive": "no-other-processes",
}  # fmt: skip
_SHOWN = 60
_LONGEST = 200


class RequirementError(ValueError):
    """A requirement that cannot be understood; the message names it, what was expected and the nearest spelling."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Who asks: an option of the command line, or a line of a file."""

    label: str = "--require"
    file: str | None = None
    line: int | None = None

    @property
    def text(self) -> str:
        """``--require``, or ``pyproject.toml: line 12``."""
        if self.file is None:
            return self.label
        return f"{self.file}: line {self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True)
class Clause:
    """An operator and the value it compares with."""

    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Requirement:
    """A requirement that has been understood."""

    text: str
    key: str
    clauses: tuple[Clause, ...]
    origin: Origin = Origin()


_UNSAID = Origin()


def parse_requirement(text: str, origin: Origin = _UNSAID) -> Requirement:
    """Reads one requirement.

    Raises:
        RequirementError: with the origin, the requirement, and what would be right.
    """
    try:
        return _parse(text, origin)
    except ValueError as error:
        shown = text.strip()[:_SHOWN] or "an empty text"
        raise RequirementError(f"{origin.text}: {_printable(shown)}: {error}") from error


def _parse(text: str, origin: Origin) -> Requirement:
    if len(text) > _LONGEST:
        raise ValueError(f"expected a requirement like gpu>=1, in less than {_LONGEST} characters")
    text = " ".join(text.split())
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("expected a requirement like gpu>=1")
    key = KEYS.get(match[1])
    if key is None:
        raise ValueError(_of_pip(match[1], match[2]) or _unknown(match[1]))
    clauses = _clauses(key, match[2])
    for clause in clauses:
        _understand(key, clause)
    return Requirement(text, key.name, clauses, origin)


def _of_pip(name: str, rest: str) -> str | None:
    """What to write for a wheel of CuPy's as pip asks for it; none for another text."""
    line = re.sub(r"[-_.]+", "-", name.partition("[")[0]).lower()
    if cuda_major(line) is None:
        return None
    version = rest.partition(";")[0].strip()
    asked = f"'line=={line}'" + (f" and 'cupy{version}'" if version else "")
    return f"a wheel's line and its version are requirements of their own: {asked}"


def _unknown(name: str) -> str:
    folded = re.sub(r"[\W_]+", "-", name).strip("-").lower()
    near = _ALIASES.get(folded)
    near = near or next(iter(difflib.get_close_matches(folded, list(KEYS), 1, 0.5)), None)
    hint = f"; did you mean {near}, as in {KEYS[near].example}?" if near else ""
    return f"unknown key {_printable(name[:_SHOWN])!r}{hint} (one of {', '.join(KEYS)})"


def _clauses(key: Key[object], text: str) -> tuple[Clause, ...]:
    if not text:
        if key.kind.bare is None:
            raise ValueError(f"expected a comparison, as in {key.example}")
        return (Clause(*key.kind.bare),)
    return tuple(_clause(key, part.strip()) for part in text.split(","))


def _clause(key: Key[object], text: str) -> Clause:
    match = _CLAUSE.fullmatch(text)
    if match is None:
        hint = "; did you mean ==?" if re.match(r"=(?!=)|is\b|:", text) else ""
        raise ValueError(f"expected an operator and a value, as in {key.example}{hint}")
    return Clause(match[1], match[2].strip())


def _understand(key: Key[object], clause: Clause) -> None:
    if clause.operator not in key.kind.operators:
        raise ValueError(
            f"{key.name} cannot be compared with {clause.operator}, only with {', '.join(key.kind.operators)}"
        )
    try:
        key.kind.read(clause.operator, clause.value)
    except ValueError as error:
        raise ValueError(f"{error}, as in {key.example}") from error


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)
