"""Explanations of error texts as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.explain.explanation_types import Explanation, Guess, LikelyCause, QuotedLine
from gpuenv.explain.score import CERTAIN
from gpuenv.model.redaction import cut_text
from gpuenv.report.text import fix_lines
from gpuenv.report.text_line import Style, TextLine

_MAX_QUOTE = 160  # characters of a quoted line
_LIKELIHOODS = ((CERTAIN, "almost certainly"), (0.5, "probably"), (0.25, "perhaps"), (0.0, "possibly"))
_NO_CAUSE = "No known cause in this text."
_GUESS = "No known error message in this text. A guess, by its words:"


def explanation_text(explanation: Explanation, *, verbose: bool = False) -> Iterator[TextLine]:
    """The causes, most likely first, or the guess; fixes of the other causes only if ``verbose``."""
    if explanation.causes:
        yield from _causes(explanation.causes, verbose=verbose)
    elif explanation.guess:
        yield from _guess(explanation.guess)
    else:
        yield TextLine(_NO_CAUSE, Style.WARNING)
        yield TextLine("To examine this machine: gpuenv doctor", hang=2)
    if explanation.facts:
        yield TextLine()
        yield TextLine(f"Stated in the text: {', '.join(explanation.facts)}", Style.QUIET, 2)
    for note in explanation.notes:
        yield TextLine()
        yield TextLine(f"{note[0].upper()}{note[1:]}.", Style.WARNING, 2)


def _causes(causes: Sequence[LikelyCause], *, verbose: bool) -> Iterator[TextLine]:
    first, *others = causes
    yield from _cause(first, with_fix=True)
    if others:
        yield TextLine()
        yield TextLine("Other possible causes" if first.confidence < CERTAIN else "Less likely", Style.HEADING)
    for cause in others:
        yield from _cause(cause, with_fix=verbose)


def _guess(guess: Guess) -> Iterator[TextLine]:
    yield TextLine(_GUESS, Style.WARNING)
    yield TextLine(f"{guess.cause} ({guess.confidence:.0%})", Style.BAD, 2)
    yield TextLine(f"  {guess.title}.", hang=2)
    yield from _quotes(guess.lines)
    if guess.alternatives:
        yield TextLine(f"  or: {', '.join(guess.alternatives)}", Style.QUIET, 4)
    if guess.would_decide:
        yield TextLine(f"  To settle this, check: {guess.would_decide}.", hang=4)
    yield from fix_lines(guess.fix)


def _quotes(lines: Sequence[QuotedLine]) -> Iterator[TextLine]:
    for line in lines:
        yield TextLine(f"  - line {line.number}: {cut_text(line.text, _MAX_QUOTE)}", Style.QUIET, 4)


def _cause(cause: LikelyCause, *, with_fix: bool) -> Iterator[TextLine]:
    likelihood = next(text for minimum, text in _LIKELIHOODS if cause.confidence >= minimum)
    style = Style.BAD if with_fix else Style.PLAIN
    yield TextLine(f"{cause.cause} ({likelihood}, {cause.confidence:.0%}) {cause.code}", style, 2)
    yield TextLine(f"  {cause.title}.", hang=2)
    yield from _quotes(cause.lines if with_fix else cause.lines[:1])
    for fact in cause.supported_by:
        yield TextLine(f"  - the doctor: {fact}", Style.QUIET, 4)
    if cause.surfaced_late:
        yield TextLine("  GPU work is asynchronous: the error is often caused before the line that reports it.", hang=2)
    if not with_fix:
        return
    if cause.would_decide:
        yield TextLine(f"  To settle this, check: {cause.would_decide}.", hang=4)
    yield from fix_lines(cause.fix)
