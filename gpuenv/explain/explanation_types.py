"""The records of an explanation."""

from __future__ import annotations

from dataclasses import dataclass

from gpuenv.explain.messages import Message
from gpuenv.model.causes import Cause
from gpuenv.model.codec import to_json
from gpuenv.model.finding import Fix
from gpuenv.model.notebook import Printer, text_html

SCHEMA = "gpuenv.explanation/1"


@dataclass(frozen=True, slots=True)
class QuotedLine:
    """A quoted line of the text; ``number`` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A message found in a text, with the values that it captured."""

    message: Message
    line: QuotedLine
    values: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """One cause that a text may have.

    Attributes:
        cause: the root cause.
        code: the doctor's check that finds it on a machine; without one, the id of the message.
        confidence: 0 to 1; those of one explanation add up to 1 at most.
        lines: the lines that indicate it.
        title: one sentence.
        fix: what to do, the best first.
        would_decide: the fact that would settle a doubt; null without a doubt.
        surfaced_late: whether the error is asynchronous: an earlier call than the reporting one caused it.
        signatures: the ids of the messages that indicate it; the name is that of the field's first version.
        supported_by: the facts of the machine that support it.
        words: the words that indicate it, if no known message does.
    """

    cause: Cause
    code: str
    confidence: float
    lines: tuple[QuotedLine, ...]
    title: str
    fix: tuple[Fix, ...]
    would_decide: str | None
    surfaced_late: bool
    signatures: tuple[str, ...]
    supported_by: tuple[str, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Guess:
    """The cause that the words of a text without a known message indicate.

    Attributes:
        cause: the cause of reports in similar words.
        confidence: 0 to 0.79.
        title: one sentence.
        words: the words that indicate it.
        lines: the lines with most of these words.
        alternatives: the next likely causes.
        fix: what to do if the guess is right.
        would_decide: the fact that would settle the doubt; null where the machine was examined.
    """

    cause: Cause
    confidence: float
    title: str
    words: tuple[str, ...]
    lines: tuple[QuotedLine, ...]
    alternatives: tuple[Cause, ...]
    fix: tuple[Fix, ...]
    would_decide: str | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """The likely causes of a text.

    Attributes:
        causes: the most likely first; empty for a text without a known message.
        guess: a cause guessed from the words of a text without a known message.
        facts: the facts about the machine that the text contains, in the form of ``--assume``.
        lines_read: how many lines were read.
        notes: remarks on how the text was read, such as which of several environments in it was used.
    """

    schema: str = SCHEMA
    causes: tuple[LikelyCause, ...] = ()
    facts: tuple[str, ...] = ()
    lines_read: int = 0
    notes: tuple[str, ...] = ()
    guess: Guess | None = None

    def to_json(self) -> str:
        """The explanation as JSON."""
        return to_json(self)

    def __str__(self) -> str:
        from gpuenv.report.explanation import explanation_text  # noqa: PLC0415 - it imports this module

        return "\n".join(line.text for line in explanation_text(self))

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def _repr_pretty_(self, printer: Printer, _cycle: object) -> None:
        printer.text(str(self))
