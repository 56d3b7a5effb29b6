"""A comparison of two machines as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.model.difference import Comparison, Difference
from gpuenv.report.lines import counted
from gpuenv.report.text import Line, Style, command_text

_SHOWN = 12


def difference_lines(comparison: Comparison, *, verbose: bool = False) -> Iterator[Line]:
    """What to try first, what the doctor finds here alone, and the differences, the likeliest first."""
    if not comparison.differences:
        yield Line(f"No difference in the {counted(comparison.compared, 'fact')} that both machines told.", Style.GOOD)
        return
    count = len(comparison.differences)
    yield Line(f"{counted(count, 'difference')}; {counted(comparison.compared, 'fact')} told by both", Style.HEADING)
    if comparison.try_first:
        yield Line()
        yield Line("Try this first", Style.HEADING)
        for step in comparison.try_first:
            yield Line(f"  {step.text}", hang=2)
            if step.command:
                yield Line(f"  $ {command_text(step.command)}", Style.COMMAND, 4)
    if comparison.findings:
        yield Line()
        yield Line("Found here and not there", Style.HEADING)
        for finding in comparison.findings:
            yield Line(f"  {finding.code} {finding.cause.value}: {finding.title}", hang=4)
    yield Line()
    yield Line("Differences, the likeliest explanation first", Style.HEADING)
    shown = comparison.differences if verbose else comparison.differences[:_SHOWN]
    for difference in shown:
        yield from _one(difference)
    if len(shown) < count:
        yield Line(f"  and {count - len(shown)} less likely ones: -v shows them", Style.QUIET)


def _one(difference: Difference) -> Iterator[Line]:
    yield Line(f"  {difference.fact}: {difference.why}", hang=4)
    there, here = difference.shown
    yield Line(f"    there: {there}", Style.QUIET, 11)
    yield Line(f"    here:  {here}", Style.QUIET, 11)
