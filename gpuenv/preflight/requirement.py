"""The grammar of requirements. Pure.

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
import re
from dataclasses import dataclass

from gpuenv.model.lines import cuda_major
from gpuenv.preflight.keys import KEYS, Key

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
