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
    """A line of the text that is quoted; ``number`` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A message found in a text, with the values that it captured."""

    message: Message
    line: QuotedLine
    values: tuple[tuple[str, str], ...] = ()

    def value(self, name: str) -> str | None:
        """A captured value."""
        return dict(self.values).get(name)


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """One cause that a text may have.

    Attributes:
        cause: the root cause.
        code: the doctor's check that finds it on a machine; the id of the message where there is none.
        confidence: 0 to 1; all of an explanation together are at most 1.
        lines: those that name it.
        title: one sentence.
        fix: what to do, the best first.
        would_decide: the fact that would settle a doubt; null where there is none.
        surfaced_late: the error is asynchronous: the line that reports it is not the one to blame.
        signatures: the ids of the messages that name it; the field has the name that its first version gave it.
        supported_by: the facts of the machine that support it.
        words: where no known message names it: the words that speak for it.
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
    """What a text without a known message resembles by its words.

    Attributes:
        cause: the cause of reports in similar words.
        confidence: 0 to 0.79.
        title: one sentence.
        words: those that speak for it.
        lines: those with most of these words.
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
    """What a text says of its cause.

    Attributes:
        causes: most likely first; empty where no message is known.
        guess: the cause of reports in similar words, where no message is known.
        facts: what the text itself states of its machine, as ``--assume`` takes it.
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
