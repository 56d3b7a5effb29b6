"""The records of an explanation, and of the signatures that it is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix

SCHEMA = "gpuenv.explanation/1"


class Level(str, Enum):
    """How severe a line is: an error outranks a warning; evidence names no cause of its own."""

    ERROR = "error"
    WARNING = "warning"
    EVIDENCE = "mark"


@dataclass(frozen=True, slots=True)
class Modifier:
    """Evidence that raises or lowers the weight of a cause.

    Attributes:
        evidence: name of something that the text or the machine shows; ``!`` before it negates it.
        cause: the cause whose weight changes.
        factor: what the weight is multiplied with.
    """

    evidence: str
    cause: Cause
    factor: float


Weights = tuple[tuple[Cause, float], ...]
WeightsFunction = Callable[[Mapping[str, str]], Weights]


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
        level: how severe the line is.
        modifiers: evidence that raises or lowers its causes.
        decisive_fact: the further fact that would settle a doubt.
        asynchronous: whether the line that fails is not the one to blame, since the GPU works asynchronously.
        evidence: what the line shows apart from its causes, for the modifiers of other signatures.
        requires: evidence of which the text must show at least one, where any program may print the message.
        weights_fn: computes the causes from the captured values, where these decide.
        unless: a regular expression like ``pattern``: where it holds too, the sentence is advice or good news.
        code: the check of the doctor that finds this on a machine, where it is not the cause's own.
        fix: that check's fixes, where they are more exact than those of the cause.
    """

    name: str
    scope: str
    literals: tuple[str, ...]
    causes: Weights
    source: str
    pattern: str | None = None
    title: str | None = None
    level: Level = Level.ERROR
    modifiers: tuple[Modifier, ...] = ()
    decisive_fact: str | None = None
    asynchronous: bool = False
    evidence: str | None = None
    requires: tuple[str, ...] = ()
    weights_fn: WeightsFunction | None = None
    unless: str | None = None
    code: str | None = None
    fix: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class QuotedLine:
    """A line of the text that is quoted; ``number`` counts from 1."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A signature found in a text, with the values that it captured."""

    signature: Signature
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
        code: the doctor's check that finds it on a machine; the signature's name where there is none.
        confidence: 0 to 1; all of an explanation together are at most 1.
        lines: those that name it.
        title: one sentence.
        fix: what to do, the best first.
        would_decide: the fact that would settle a doubt; null where there is none.
        surfaced_late: the error is asynchronous: the line that reports it is not the one to blame.
        signatures: the names of the signatures behind it.
        supported_by: the facts of the machine that support it.
        words: where no known message names it: the words that the text shares with reports of it.
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
        """Whether only the classifier names causes, and no known message."""
        return bool(self.causes) and all(cause.words for cause in self.causes)
