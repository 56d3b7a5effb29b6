"""The records of an explanation, and of the signatures that it is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix

SCHEMA = "gpuenv.explanation/1"


class Level(str, Enum):
    """How loudly a line speaks: an error outranks a warning, and a mark names no cause of its own."""

    ERROR = "error"
    WARNING = "warning"
    MARK = "mark"


@dataclass(frozen=True, slots=True)
class Sway:
    """What else is known raises or lowers a cause.

    Attributes:
        mark: something that the text or the machine shows; ``!`` before it means that nothing shows it.
        cause: the cause that it sways.
        factor: what its weight is multiplied with.
    """

    mark: str
    cause: Cause
    factor: float


Weights = tuple[tuple[Cause, float], ...]
Judge = Callable[[Mapping[str, str]], Weights]


@dataclass(frozen=True, slots=True)
class Signature:
    """A message that a program prints, and the causes it can have.

    Attributes:
        name: stable, such as ``nvml.version-mismatch``; its first word is the family.
        scope: who prints it.
        literals: lower-case texts one of which the line must contain; cheap to look for.
        pattern: a regular expression over the line, where the literals do not suffice; a space in it stands for any
            white space, a group with a name is a captured value.
        causes: each with its weight (0 to 1) where nothing else is known.
        source: the binary, header, package or document that has the message.
        title: a sentence for the user, with ``{captured}`` values; without one, the cause's own sentence.
        level: how loudly the line speaks.
        sways: what raises or lowers its causes.
        decides: which further fact would settle a doubt.
        late: whether the line that fails is not the one to blame, since the GPU works asynchronously.
        mark: what the line shows beside its causes, for the sways of others.
        needs: marks one of which the text must show, where the message alone may be of any program.
        judge: the causes by the captured values, where these decide.
        unless: a regular expression like ``pattern``: where it holds too, the sentence is advice or good news.
        code: the check of the doctor that finds on a machine what these words say, where it is not the cause's own.
        fix: that check's cures, where they are more exact than those of the cause.
    """

    name: str
    scope: str
    literals: tuple[str, ...]
    causes: Weights
    source: str
    pattern: str | None = None
    title: str | None = None
    level: Level = Level.ERROR
    sways: tuple[Sway, ...] = ()
    decides: str | None = None
    late: bool = False
    mark: str | None = None
    needs: tuple[str, ...] = ()
    judge: Judge | None = None
    unless: str | None = None
    code: str | None = None
    fix: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class SaidLine:
    """A line of the text that says so; ``number`` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A signature found in a text, with the values that it captured."""

    signature: Signature
    line: SaidLine
    values: tuple[tuple[str, str], ...] = ()

    def value(self, name: str) -> str | None:
        """A captured value."""
        return dict(self.values).get(name)


@dataclass(frozen=True, slots=True)
class LikelyCause:
    """One cause that a text may have.

    Attributes:
        cause: the root cause.
        code: the doctor's check that finds it on a machine; the signature's name where there is none.
        confidence: 0 to 1; all of an explanation together are at most 1.
        lines: those that say so.
        title: one sentence.
        fix: what to do, the best first.
        would_decide: the fact that would settle a doubt; null where there is none.
        surfaced_late: the error is asynchronous: the line that reports it is not the one to blame.
        signatures: the names of the signatures behind it.
        supported_by: the facts of the machine that speak for it.
        words: where no message that is known names it: the words by which the text is like reports of it.
    """

    cause: Cause
    code: str
    confidence: float
    lines: tuple[SaidLine, ...]
    title: str
    fix: tuple[Fix, ...]
    would_decide: str | None
    surfaced_late: bool
    signatures: tuple[str, ...]
    supported_by: tuple[str, ...]
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a text says of its cause.

    Attributes:
        causes: most likely first; empty where nothing is known.
        facts: what the text itself states of its machine, as ``--assume`` takes it.
        lines_read: how many lines were read.
        notes: what else is to be known of how the text was read: which of several environments in it was used.
    """

    schema: str = SCHEMA
    causes: tuple[LikelyCause, ...] = ()
    facts: tuple[str, ...] = ()
    lines_read: int = 0
    notes: tuple[str, ...] = ()

    @property
    def is_guess(self) -> bool:
        """Whether no message that is known speaks for any cause, but the words alone."""
        return bool(self.causes) and all(cause.words for cause in self.causes)
