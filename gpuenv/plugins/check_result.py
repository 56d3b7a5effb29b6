"""What a check of another package answers."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gpuenv.doctor.registry import NotKnown, Symptom
from gpuenv.model.snapshot import Snapshot

_MOST = 50  # symptoms of one check: a check that finds more has found one thing
_MOST_HEARD = 1000  # entries: one that yields without end would fill the memory until its deadline


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found, and what it could not tell.

    Attributes:
        title: the first line of its docstring.
        symptoms: what is wrong.
        unknown: why it could not tell.
    """

    title: str
    symptoms: tuple[Symptom, ...]
    unknown: tuple[NotKnown, ...]


def run_check(check: Any, snapshot: Snapshot) -> CheckResult:  # noqa: ANN401 - another package's
    """Runs a check.

    Raises:
        TypeError: when it is no function, or yields something else than ``Symptom`` and ``NotKnown``.
    """
    if not callable(check):
        raise TypeError(f"a check is a function of a Snapshot; found {type(check).__name__}")
    title = (inspect.getdoc(check) or "").split("\n", 1)[0]
    said = check(snapshot)
    if said is not None and (not isinstance(said, Iterable) or isinstance(said, str | bytes)):
        raise TypeError(f"a check yields Symptom and NotKnown; found {type(said).__name__}")
    entries = list(islice(() if said is None else said, _MOST_HEARD))
    strange = next((entry for entry in entries if not isinstance(entry, Symptom | NotKnown)), None)
    if strange is not None:
        raise TypeError(f"a check yields Symptom and NotKnown; found {type(strange).__name__}")
    symptoms = tuple(entry for entry in entries if isinstance(entry, Symptom))
    without = next((entry for entry in symptoms if entry.cause is None), None)
    if without is not None:
        raise TypeError(f"a Symptom of a plug-in names its cause; {without.title!r} names none")
    return CheckResult(
        title, symptoms[:_MOST], tuple(entry for entry in entries if isinstance(entry, NotKnown))[:_MOST]
    )
