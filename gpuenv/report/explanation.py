"""Explanations of error texts as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.explain.explanation_types import Explanation, LikelyCause
from gpuenv.model.redaction import cut_text
from gpuenv.report.text import fix_lines
from gpuenv.report.text_line import Style, TextLine

_SURE = 0.8
_MAX_QUOTE = 160  # characters of a quoted line
_LIKELIHOODS = ((0.8, "almost certainly"), (0.5, "probably"), (0.25, "perhaps"), (0.0, "possibly"))
_NO_CAUSE = "No known cause in this text."
_GUESS = "No known error message in this text. Its wording resembles reports of:"


def explanation_text(explanation: Explanation, *, verbose: bool = False) -> Iterator[TextLine]:
    """The causes, most likely first; fixes of the others only if ``verbose``."""
    if not explanation.causes:
        yield TextLine(_NO_CAUSE, Style.WARNING)
        yield TextLine("To examine this machine: gpuenv doctor", hang=2)
        yield from _notes(explanation)
        return
    first, *others = explanation.causes
    if explanation.is_guess:
        yield TextLine(_GUESS, Style.WARNING)
    yield from _cause(first, with_fix=True)
    if others:
        yield TextLine()
        yield TextLine("Other possible causes" if first.confidence < _SURE else "Less likely", Style.HEADING)
    for cause in others:
        yield from _cause(cause, with_fix=verbose)
    if explanation.facts:
        yield TextLine()
        yield TextLine(f"Stated in the text: {', '.join(explanation.facts)}", Style.QUIET, 2)
    yield from _notes(explanation)


def _notes(explanation: Explanation) -> Iterator[TextLine]:
    for note in explanation.notes:
        yield TextLine()
        yield TextLine(f"{note[0].upper()}{note[1:]}.", Style.WARNING, 2)


def _cause(cause: LikelyCause, *, with_fix: bool) -> Iterator[TextLine]:
    likelihood = next(text for minimum, text in _LIKELIHOODS if cause.confidence >= minimum)
    style = Style.BAD if with_fix else Style.PLAIN
    yield TextLine(f"{cause.cause} ({likelihood}, {cause.confidence:.0%}) {cause.code}", style, 2)
    yield TextLine(f"  {cause.title}.", hang=2)
    for line in cause.lines if with_fix else cause.lines[:1]:
        yield TextLine(f"  - line {line.number}: {cut_text(line.text, _MAX_QUOTE)}", Style.QUIET, 4)
    if cause.words:
        yield TextLine(f"  - wording only: {', '.join(cause.words)}", Style.QUIET, 4)
    for fact in cause.supported_by:
        yield TextLine(f"  - on this machine: {fact}", Style.QUIET, 4)
    if cause.surfaced_late:
        yield TextLine("  GPU work is asynchronous: the error is often caused before the line that reports it.", hang=2)
    if not with_fix:
        return
    yield from fix_lines(cause.fix)
    if cause.would_decide:
        yield TextLine(f"  To settle this, check: {cause.would_decide}.", hang=4)
