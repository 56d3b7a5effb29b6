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
    """A distribution that is taken out, by its canonical name."""

    name: str
    release: str
    reason: Reason
    files: int  # how many its RECORD lists


@dataclass(frozen=True, slots=True)
class Pin:
    """One wheel that is put in, by its canonical name and its exact version."""

    name: str
    release: str
    sha256: tuple[str, ...] = ()  # of the files that may be taken; empty where no index has any
    size: int | None = None  # bytes to download, where the index has it
    former: str | None = None  # the version that it takes the place of
    wheel: str | None = None  # the file's name, where the installer prints it


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or folder of CuPy's that no distribution owns."""

    path: str
    reason: Reason = Reason.NO_OWNER


@dataclass(frozen=True, slots=True)
class PlannedCommand:
    """A command as an argument list, and its purpose."""

    purpose: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """Room on the target's file system, in bytes; null where unknown beforehand."""

    download: int | None  # including what is cached
    free: int | None
    unpacked: int | None = None  # at most, by how much such wheels grow when they are unpacked


@dataclass(frozen=True, slots=True)
class TargetEnvironment:
    """The target environment: its interpreter, the folder that all lies below, that of its modules, and its kind."""

    executable: str
    root: str
    packages: str
    kind: str  # ``venv``, ``conda`` or ``system``


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that an install would do."""

    target: TargetEnvironment
    installer: str  # its name and version
    requirements: tuple[str, ...]  # the resolver's
    remove: tuple[Removal, ...]
    leftovers: tuple[Leftover, ...]
    install: tuple[Pin, ...]
    moves: tuple[str, ...]  # names of those that change a package which is not CuPy's own; they need consent
    commands: tuple[PlannedCommand, ...]  # in the order in which they run
    undo: PlannedCommand
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
class Verification:
    """A verification; ``passed`` is null where nothing could be shown here."""

    name: str
    passed: bool | None
    detail: str
    duration: float = 0.0  # seconds


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the work and the seconds it took."""

    name: str
    duration: float


@dataclass(frozen=True, slots=True)
class InstallOutcome:
    """What was done."""

    status: Result
    exit_code: int
    message: str  # one sentence
    transaction: str | None  # the number to roll back; null where nothing was changed
    target: TargetEnvironment | None
    plan: Plan | None = None  # null for a rollback
    proofs: tuple[Verification, ...] = ()
    phases: tuple[Phase, ...] = ()
    undo: PlannedCommand | None = None
    not_restored: tuple[str, ...] = ()  # files
    recovered: tuple[str, ...] = ()  # numbers of earlier, unfinished transactions that were put back first
    remedy: str | None = None  # for a failure, where one is known
    schema: str = OUTCOME


def is_name(text: str) -> bool:
    """Whether a text is the name of a distribution (PyPA, "Names and normalization")."""
    return _NAME.fullmatch(text) is not None


@dataclass(slots=True)
class Clock:
    """Time of consecutive phases, so that their sum is the whole."""

    since: float = field(default_factory=time.monotonic)  # when the present phase began, by ``time.monotonic``
    part: str = "start"
    spent: dict[str, float] = field(default_factory=dict)  # seconds, in the order in which the phases began

    def begin(self, part: str) -> None:
        """Ends the present phase and begins another one, or goes on with an earlier one."""
        now = time.monotonic()
        self.spent[self.part] = self.spent.get(self.part, 0.0) + now - self.since
        self.since, self.part = now, part

    def phases(self) -> tuple[Phase, ...]:
        """Every phase until now."""
        self.begin(self.part)
        return tuple(Phase(name, seconds) for name, seconds in self.spent.items())
