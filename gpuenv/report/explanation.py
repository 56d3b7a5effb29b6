"""An explanation of an error text as lines: readable in ten seconds, in ASCII, without colour."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.explain.records import Explanation, LikelyCause
from gpuenv.report.lines import Line, Style
from gpuenv.report.text import fix_lines

_SURE = 0.8
_WIDEST = 160  # characters of a quoted line
_WORDS = ((0.8, "almost certainly"), (0.5, "probably"), (0.25, "perhaps"), (0.0, "possibly"))
_NOTHING = "No known cause in this text."
_GUESSED = "No known message in this text. By its words it is most like reports of:"


def explanation_text(explanation: Explanation, *, verbose: bool = False) -> Iterator[Line]:
    """The causes, most likely first; only the first one's cure unless there is a doubt or more is asked for."""
    if not explanation.causes:
        yield Line(_NOTHING, Style.WARNING)
        yield Line("gpuenv doctor examines the machine itself.", hang=2)
        return
    first, *others = explanation.causes
    if explanation.is_guess:
        yield Line(_GUESSED, Style.WARNING)
    yield from _cause(first, with_fix=True)
    if others:
        yield Line()
        yield Line("Or else" if first.confidence < _SURE else "Less likely", Style.HEADING)
    for cause in others:
        yield from _cause(cause, with_fix=verbose)
    if explanation.facts:
        yield Line()
        yield Line(f"Stated in the text: {', '.join(explanation.facts)}", Style.QUIET, 2)
    for note in explanation.notes:
        yield Line()
        yield Line(f"{note[0].upper()}{note[1:]}.", Style.WARNING, 2)


def _cause(cause: LikelyCause, *, with_fix: bool) -> Iterator[Line]:
    word = next(word for least, word in _WORDS if cause.confidence >= least)
    yield Line(
        f"{cause.cause} ({word}, {cause.confidence:.0%}) {cause.code}", Style.BAD if with_fix else Style.PLAIN, 2
    )
    yield Line(f"  {cause.title}.", hang=2)
    for said in cause.lines if with_fix else cause.lines[:1]:
        text = said.text if len(said.text) <= _WIDEST else f"{said.text[: _WIDEST - 4]} ..."
        yield Line(f"  - line {said.number}: {text}", Style.QUIET, 4)
    if cause.words:
        yield Line(f"  - by its words alone: {', '.join(cause.words)}", Style.QUIET, 4)
    for fact in cause.supported_by:
        yield Line(f"  - on this machine: {fact}", Style.QUIET, 4)
    if cause.surfaced_late:
        yield Line("  The GPU works asynchronously: the line that reports this is not the one to blame.", hang=2)
    if not with_fix:
        return
    yield from fix_lines(cause.fix)
    if cause.would_decide:
        yield Line(f"  It would be decided by: {cause.would_decide}.", hang=4)
