"""The tables at the end of ``make test-faults``: the outcomes of injected faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any


def fault_table(rows: Iterable[tuple[str, str, dict[str, int]]]) -> Iterator[str]:
    """One row per function, one column per outcome, and the sums."""
    ordered = sorted(rows)
    columns = sorted({name for _, _, outcomes in ordered for name in outcomes})
    width = max((len(f"{api} {symbol}") for api, symbol, _ in ordered), default=0)
    sums: Counter[str] = Counter()
    yield " " * width + "".join(f"  {name}" for name in columns)
    for api, symbol, outcomes in ordered:
        sums.update(outcomes)
        yield f"{api} {symbol}".ljust(width) + _cells(columns, outcomes)
    yield "all".ljust(width) + _cells(columns, sums)


def _cells(columns: list[str], outcomes: dict[str, int]) -> str:
    return "".join(f"  {outcomes.get(name, 0):>{len(name)}}" for name in columns)


def faults_of(reports: Iterable[Any]) -> list[tuple[str, str, dict[str, int]]]:
    """The faults of functions that the tests recorded in pytest's reports."""
    return [
        (api, symbol, outcomes)
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "fault"
        for api, symbol, outcomes in [value]
    ]


def answers_of(reports: Iterable[Any]) -> list[tuple[str, str, str]]:
    """The faults of external things that the tests recorded: thing, fault and outcome."""
    return [
        (thing, fault, outcome)
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "outcome"
        for thing, fault, outcome in [value]
    ]


def answer_table(rows: Iterable[tuple[str, str, str]]) -> Iterator[str]:
    """One row per thing and fault."""
    ordered = sorted(rows)
    things = max((len(thing) for thing, _, _ in ordered), default=0)
    faults = max((len(fault) for _, fault, _ in ordered), default=0)
    previous = ""
    for thing, fault, outcome in ordered:
        yield f"{'' if thing == previous else thing:<{things}}  {fault:<{faults}}  {outcome}"
        previous = thing
