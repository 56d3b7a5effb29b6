"""The table at the end of ``make test-faults``: of each function how often which fault ended how."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any


def fault_table(rows: Iterable[tuple[str, str, dict[str, int]]]) -> Iterator[str]:
    """One line a function, one column an outcome, and the sums."""
    found = sorted(rows)
    columns = sorted({name for _, _, outcomes in found for name in outcomes})
    width = max((len(f"{api} {symbol}") for api, symbol, _ in found), default=0)
    sums: Counter[str] = Counter()
    yield " " * width + "".join(f"  {name}" for name in columns)
    for api, symbol, outcomes in found:
        sums.update(outcomes)
        yield f"{api} {symbol}".ljust(width) + _cells(columns, outcomes)
    yield "all".ljust(width) + _cells(columns, sums)


def _cells(columns: list[str], outcomes: dict[str, int]) -> str:
    return "".join(f"  {outcomes.get(name, 0):>{len(name)}}" for name in columns)


def faults_of(reports: Iterable[Any]) -> list[tuple[str, str, dict[str, int]]]:
    """What the tests recorded, of every report of pytest's."""
    return [
        (api, symbol, outcomes)
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "fault"
        for api, symbol, outcomes in [value]
    ]


def told_of(reports: Iterable[Any]) -> list[tuple[str, str, str]]:
    """What the tests recorded of whole answers: the thing, the fault, and what came of it."""
    return [
        (thing, fault, outcome)
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "outcome"
        for thing, fault, outcome in [value]
    ]


def told_table(rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """One line a thing and fault."""
    found = sorted(rows)
    things = max((len(thing) for thing, _, _ in found), default=0)
    faults = max((len(fault) for _, fault, _ in found), default=0)
    last = ""
    for thing, fault, outcome in found:
        yield f"{'' if thing == last else thing:<{things}}  {fault:<{faults}}  {outcome}"
        last = thing
