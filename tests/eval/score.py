"""Scores the explanations of error texts from public reports with a known root cause: ``make eval``.

Each text goes through the functions of the command, alone and with the environment that its report states. The cause
of a case is stated in its report or follows from printed facts; for ``unconfirmed`` it is an interpretation of the
thread. Where no message is known, the guess counts as the answer. Most sets since ``reported`` are retold, and split
into ``open`` and ``held`` by a hash of the id; those since ``recent`` were labelled before they were first scored.

What unseen texts get is in the first scores of each set, before anything had learnt from it. In percent, by messages
(M), or messages and words (MW):

===================  =====  ==  =====  ===========  ======
set                  cases  by  first  among three  silent
===================  =====  ==  =====  ===========  ======
fetched                 64  M    75.0         79.7    10.9
reported               114  M    66.7         82.5     9.6
recent and unseen      155  M    71.6         76.1    18.7
further                 99  MW   62.6         73.7    18.2
later                   84  MW   50.0         59.5    27.4
fresh                  106  MW   60.4         66.0    21.7
untried                162  MW   57.4         71.0    14.8
blind                  141  MW   55.3         63.1    20.6
unmet                   97  MW   68.0         83.5     6.2
afresh                 110  MW   74.5         86.4     6.4
anew                    90  MW   62.2         72.2    11.1
whole_reports           80  MW   65.0         73.8    16.2
===================  =====  ==  =====  ===========  ======

The messages and the classifier have learnt from all of them since, so the scores below are higher; what the classifier
makes of texts left out of its training is printed when it is trained.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.explanation import explain_text
from gpuenv.cli.sources import MachineSource
from gpuenv.paste.error_text import scan_text
from tests.eval.printed_messages import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HERE = Path(__file__).parent
# Sets of cases from public reports, one file each.
SETS = (
    "established",
    "collected",
    "gathered",
    "fetched",
    "reported",
    "recent",
    "unseen",
    "further",
    "later",
    "fresh",
    "untried",
    "blind",
    "unmet",
    "afresh",
    "anew",
    "whole_reports",
    "unconfirmed",
)
PARTS = {"open": ", open half", "held": ", held half", "later": " later"}
SURE = 0.8
WAYS = ("alone", "with its environment")


@dataclass(frozen=True, slots=True)
class Case:
    """An error text, the root cause in its report, and its environment as arguments of ``--assume``."""

    id: str
    source: str
    root_cause: str
    error_text: str
    assume: tuple[str, ...]
    split: str


@dataclass(frozen=True, slots=True)
class Answer:
    """The causes of a case with their confidence, most likely first; the guess and its alternatives if it has none."""

    case: Case
    causes: tuple[tuple[str, float], ...]
    is_guess: bool = False
    error: str = ""

    @property
    def first(self) -> bool:
        return bool(self.causes) and self.causes[0][0] == self.case.root_cause

    @property
    def among_three(self) -> bool:
        return self.case.root_cause in [cause for cause, _ in self.causes[:3]]

    @property
    def wrong_and_sure(self) -> bool:
        return bool(self.causes) and not self.first and self.causes[0][1] >= SURE

    @property
    def reason(self) -> str:
        """Why the case was missed."""
        if self.error:
            return f"error: {self.error}"
        if not self.causes:
            return "silent"
        causes = ", ".join(f"{cause} {confidence:.2f}" for cause, confidence in self.causes[:3])
        return ("ranked lower: " if self.among_three else "not among three: ") + causes


def load(name: str) -> tuple[Case, ...]:
    rows = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return tuple(
        Case(
            row["id"],
            row["source"],
            row["root_cause"],
            row["error_text"],
            tuple(row["assume"]),
            row.get("split", name),
        )
        for row in rows
    )


def explain_case(case: Case, facts: Sequence[str]) -> Answer:
    """The answer to a text, by the functions of the command; other tests verify that the command gives the same."""
    subject = MachineSource(None, None, facts, no_probe=True, timeout=30, driver_root="/")
    try:
        explanation = explain_text(scan_text([case.error_text.encode()]), subject, None)
    except CommandError as error:
        return Answer(case, (), error=error.message)
    guess = explanation.guess
    if guess is not None and not explanation.causes:
        causes = (guess.cause, *guess.alternatives)
        return Answer(case, tuple((cause.value, guess.confidence) for cause in causes), is_guess=True)
    return Answer(case, tuple((entry.cause.value, entry.confidence) for entry in explanation.causes))


def answers(cases: Iterable[Case], *, with_facts: bool) -> list[Answer]:
    return [explain_case(case, case.assume if with_facts else ()) for case in cases]


def row(results: Sequence[Answer]) -> str:
    """The four scores of all cases, and the first two averaged over causes."""
    count = len(results)
    causes = sorted({answer.case.root_cause for answer in results})
    by_cause = [[answer for answer in results if answer.case.root_cause == cause] for cause in causes]
    first = sum(answer.first for answer in results)
    three = sum(answer.among_three for answer in results)
    sure = sum(answer.wrong_and_sure for answer in results)
    silent = sum(not answer.causes for answer in results)
    guessed = sum(answer.is_guess for answer in results)
    macro_first = sum(sum(a.first for a in group) / len(group) for group in by_cause) / len(by_cause)
    macro_three = sum(sum(a.among_three for a in group) / len(group) for group in by_cause) / len(by_cause)
    return (
        f"first {first}/{count} ({first / count:.1%}; over {len(causes)} causes {macro_first:.1%})  "
        f"among three {three}/{count} ({three / count:.1%}; {macro_three:.1%})  "
        f"wrong and sure {sure} ({sure / count:.1%})  guessed {guessed}  silent {silent} ({silent / count:.1%})"
    )


def _groups() -> dict[str, tuple[Case, ...]]:
    """Each set, or its parts if it was scored in parts."""
    groups: dict[str, tuple[Case, ...]] = {}
    for name in SETS:
        cases = load(name)
        parts = {case.split for case in cases}
        for split, title in PARTS.items():
            if split in parts and len(parts) > 1:
                groups[name + title] = tuple(case for case in cases if case.split == split)
        if len(parts) == 1:
            groups[name] = cases
    return groups


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--misses", choices=("all", "established", "none"), default="established")
    options = parser.parse_args()
    for name, cases in _groups().items():
        for way, with_facts in zip(WAYS, (False, True), strict=True):
            results = answers(cases, with_facts=with_facts)
            sys.stdout.write(f"{name}, {way}\n  {row(results)}\n")
            if options.misses in {"all", name}:
                for answer in results:
                    if not answer.first:
                        sys.stdout.write(f"    {answer.case.id}: {answer.case.root_cause}: {answer.reason}\n")
    sys.stdout.write("what libraries and tools can print, alone\n")
    sys.stdout.writelines(f"{line}\n" for line in table())


if __name__ == "__main__":
    main()
