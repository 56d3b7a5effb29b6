"""The kinds of values that requirements compare, and how a clause such as ``>=8.0`` is read. Pure."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from gpuenv.model.numbers import whole_number
from gpuenv.model.sizes import parse_size, size_text
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

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
