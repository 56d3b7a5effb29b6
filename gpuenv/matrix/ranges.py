"""Whether a release is in a range of versions, as pip and the specification of version specifiers have it. Pure.

Nearly all that is asked here is about final releases, and for those a range is nothing but numbers compared part by
part. All else is left to the library of packaging, whose specifiers take as long to load as all our checks together.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias

_Numbers: TypeAlias = "tuple[int, ...]"
_Compare: TypeAlias = "Callable[[_Numbers, _Numbers], bool]"
_COMPARED: dict[str, _Compare] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}


@lru_cache(maxsize=4096)
def within(release: str, wanted: str) -> bool:
    """Whether a release is in a range such as ``>=13.5,<14``, pre-releases too.

    Raises:
        InvalidVersion: where it is no version.
    """
    found, clauses = _numbers(release), [_clause(clause.strip()) for clause in wanted.split(",")]
    told = [clause for clause in clauses if clause is not None]
    if found is None or len(told) < len(clauses):
        return _by_the_library(release, wanted)
    return all(compare(found, bound) for compare, bound in told)


def _clause(text: str) -> tuple[_Compare, _Numbers] | None:
    """What compares, and with which release; None for anything but a final one."""
    sign = text.rstrip("0123456789. ")
    bound = _numbers(text[len(sign) :])
    return (_COMPARED[sign], bound) if sign in _COMPARED and bound is not None else None


def _numbers(release: str) -> _Numbers | None:
    """The parts of a final release without the zeros at its end, which make no difference; None for any other."""
    parts = release.strip().split(".")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    while len(parts) > 1 and not parts[-1].strip("0"):
        parts.pop()
    return tuple(map(int, parts))


def _by_the_library(release: str, wanted: str) -> bool:
    from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - see above
    from packaging.version import Version  # noqa: PLC0415 - likewise

    return SpecifierSet(wanted).contains(Version(release), prereleases=True)
