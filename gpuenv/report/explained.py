"""What a check or a cause means, as lines of text: the words are the check's own docstring. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.doctor.registry import Explained
from gpuenv.explain.records import Signature
from gpuenv.model.causes import Cause
from gpuenv.report.text import Line, Style


def check_lines(check: Explained) -> Iterator[Line]:
    """A check: its title, its causes and its three sections."""
    yield Line(f"{check.code}: {check.title}", Style.HEADING)
    for cause in check.causes:
        yield Line(f"  {cause}: {cause.sentence}", Style.QUIET, 4)
    for name, text in check.sections.items():
        yield Line()
        yield Line(f"{name}: {text}", hang=2)


def cause_lines(cause: Cause, checks: Sequence[Explained]) -> Iterator[Line]:
    """A cause, and every check that can name it."""
    yield Line(f"{cause}: {cause.sentence}.", Style.HEADING, 2)
    for check in checks:
        if cause in check.causes:
            yield Line()
            yield from check_lines(check)


def list_lines(checks: Sequence[Explained]) -> Iterator[Line]:
    """Every check with its title and the causes that it can name."""
    for check in checks:
        yield Line(f"{check.code}  {check.title}", hang=8)
        yield Line(f"        {', '.join(check.causes)}", Style.QUIET, 8)


def signature_lines(signature: Signature) -> Iterator[Line]:
    """A message of a program: who prints it, and the causes it can have."""
    yield Line(f"{signature.name}: a message of {signature.scope}", Style.HEADING)
    for cause, weight in signature.causes:
        yield Line(f"  {cause} ({weight:.0%} where nothing else is known): {cause.sentence}", hang=4)
    yield Line(f"  read from: {signature.source}", Style.QUIET, 4)
    if signature.decides:
        yield Line(f"  It would be decided by: {signature.decides}.", hang=4)
