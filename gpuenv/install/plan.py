"""What an install would do (``gpuenv.plan/1``), and what one did (``gpuenv.outcome/1``)."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from enum import Enum

PLAN = "gpuenv.plan/1"
OUTCOME = "gpuenv.outcome/1"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class Reason(str, Enum):
    """Why something leaves the target."""

    OTHER_LINE = "other-cupy-line"
    REPLACED = "replaced"
    SHARED_FILES = "shares-files-with-another-line"
    STRAY_CUDA = "cuda-of-another-major"
    NO_OWNER = "no-distribution-owns-it"
    CAME_WITH_INSTALL = "came-with-the-install"
    CONDA_SAYS = "conda-takes-it-out"


@dataclass(frozen=True, slots=True)
class Removal:
    """A distribution that is taken out.

    Attributes:
        name: canonical name.
        release: the version that is there.
        reason: why it goes.
        files: how many files its RECORD lists.
    """

    name: str
    release: str
    reason: Reason
    files: int


@dataclass(frozen=True, slots=True)
class Pin:
    """One wheel that is put in.

    Attributes:
        name: canonical name.
        release: the exact version.
        sha256: the digests of the files that may be taken; empty where no index tells any.
        size: bytes to download, where the index tells.
        former: the version that it takes the place of; null where there is none.
        wheel: the file's name, where the installer tells.
    """

    name: str
    release: str
    sha256: tuple[str, ...] = ()
    size: int | None = None
    former: str | None = None
    wheel: str | None = None


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or folder of CuPy's that no distribution owns."""

    path: str
    reason: Reason = Reason.NO_OWNER


@dataclass(frozen=True, slots=True)
class Command:
    """A command as an argument list, and its purpose."""

    purpose: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """Room on the target's file system, in bytes; null where unknown beforehand.

    Attributes:
        download: what is to be downloaded, including what is cached.
        free: what is free.
        unpacked: what it may take on the disk at most, by how much such wheels grow when they are unpacked.
    """

    download: int | None
    free: int | None
    unpacked: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """The target environment.

    Attributes:
        executable: its interpreter.
        root: the folder that everything is installed below, and the journal in.
        packages: the folder that modules go to.
        kind: ``venv``, ``conda`` or ``system``.
    """

    executable: str
    root: str
    packages: str
    kind: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that an install would do.

    Attributes:
        target: where.
        installer: ``uv`` or ``pip``, and its version.
        requirements: what the resolver asks for.
        remove: the distributions that are taken out.
        leftovers: files that are taken out and that nobody owns.
        install: the wheels that are put in.
        moves: those of them that change a package which is not CuPy's own; they need consent.
        commands: what is run, in this order.
        undo: how it is undone afterwards.
        space: what is needed against what there is.
        notes: what else should be known.
    """

    target: Place
    installer: str
    requirements: tuple[str, ...]
    remove: tuple[Removal, ...]
    leftovers: tuple[Leftover, ...]
    install: tuple[Pin, ...]
    moves: tuple[str, ...]
    commands: tuple[Command, ...]
    undo: Command
    space: Space
    notes: tuple[str, ...] = ()
    schema: str = PLAN

    @property
    def empty(self) -> bool:
        """Whether everything is as it should be already."""
        return not (self.remove or self.leftovers or self.install)


class Result(str, Enum):
    """How a transaction ended; ``failed`` is one that ended before anything was changed."""

    INSTALLED = "installed"
    UNCHANGED = "unchanged"
    RESTORED = "restored"
    ROLLED_BACK = "rolled-back"
    NOT_RESTORED = "not-restored"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Proof:
    """One thing that was shown afterwards.

    Attributes:
        name: what.
        passed: whether it was; null where it could not be shown here.
        detail: in a few words, what was seen.
        duration: seconds.
    """

    name: str
    passed: bool | None
    detail: str
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the work and the seconds it took."""

    name: str
    duration: float


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done.

    Attributes:
        status: how it ended.
        exit_code: of the command.
        message: one sentence.
        transaction: the number to roll back; null where nothing was changed.
        target: where.
        plan: what was meant to be done; null for a rollback.
        proofs: what was shown afterwards.
        phases: where the time went.
        undo: how it is undone; null where there is nothing to undo.
        not_restored: the files that could not be put back.
        recovered: the numbers of earlier, unfinished transactions that were put back first.
        remedy: what to do about a failure, where that is known.
    """

    status: Result
    exit_code: int
    message: str
    transaction: str | None
    target: Place | None
    plan: Plan | None = None
    proofs: tuple[Proof, ...] = ()
    phases: tuple[Phase, ...] = ()
    undo: Command | None = None
    not_restored: tuple[str, ...] = ()
    recovered: tuple[str, ...] = ()
    remedy: str | None = None
    schema: str = OUTCOME


def is_name(text: str) -> bool:
    """Whether a text is the name of a distribution (PyPA, "Names and normalization")."""
    return _NAME.fullmatch(text) is not None


@dataclass(slots=True)
class Clock:
    """Time of consecutive phases, so that their sum is the whole.

    Attributes:
        since: reading of ``time.monotonic`` when the present phase began.
        part: its name.
        spent: seconds of the phases so far, in the order in which they began.
    """

    since: float = field(default_factory=time.monotonic)
    part: str = "start"
    spent: dict[str, float] = field(default_factory=dict)

    def begin(self, part: str) -> None:
        """Ends the present phase and begins another one, or goes on with an earlier one."""
        now = time.monotonic()
        self.spent[self.part] = self.spent.get(self.part, 0.0) + now - self.since
        self.since, self.part = now, part

    def told(self) -> tuple[Phase, ...]:
        """Every phase until now."""
        self.begin(self.part)
        return tuple(Phase(name, seconds) for name, seconds in self.spent.items())
