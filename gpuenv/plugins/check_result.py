"""Runs a check of another package and collects its result."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Any

from gpuenv.doctor.registry import NotKnown, Symptom
from gpuenv.model.snapshot import Snapshot

_MOST = 50  # symptoms kept of one check
_MOST_YIELDED = 1000  # entries read: an endless generator would fill the memory until its deadline


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check.

    Attributes:
        title: the first line of its docstring.
        symptoms: the problems that it found.
        unknown: what it could not determine, and why.
    """

    title: str
    symptoms: tuple[Symptom, ...]
    unknown: tuple[NotKnown, ...]


def run_check(check: Any, snapshot: Snapshot) -> CheckResult:  # noqa: ANN401 - of another package
    """Runs a check.

    Raises:
        TypeError: when it is not callable, or yields anything but ``Symptom`` and ``NotKnown``.
    """
    if not callable(check):
        raise TypeError(f"a check is a function of a Snapshot; found {type(check).__name__}")
    title = (inspect.getdoc(check) or "").split("\n", 1)[0]
    yielded = check(snapshot)
    if yielded is not None and (not isinstance(yielded, Iterable) or isinstance(yielded, str | bytes)):
        raise TypeError(f"a check yields Symptom and NotKnown; found {type(yielded).__name__}")
    entries = list(islice(() if yielded is None else yielded, _MOST_YIELDED))
    invalid = next((entry for entry in entries if not isinstance(entry, Symptom | NotKnown)), None)
    if invalid is not None:
        raise TypeError(f"a check yields Symptom and NotKnown; found {type(invalid).__name__}")
    symptoms = tuple(entry for entry in entries if isinstance(entry, Symptom))
    unnamed = next((entry for entry in symptoms if entry.cause is None), None)
    if unnamed is not None:
        raise TypeError(f"a Symptom of a plug-in names its cause; {unnamed.title!r} names none")
    return CheckResult(
        title, symptoms[:_MOST], tuple(entry for entry in entries if isinstance(entry, NotKnown))[:_MOST]
    )
