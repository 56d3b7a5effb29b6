"""Records of the plan of an install (``gpuenv.plan/1``) and of its outcome (``gpuenv.outcome/1``)."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, field
from enum import Enum

PLAN = "gpuenv.plan/1"
OUTCOME = "gpuenv.outcome/1"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")


class Reason(str, Enum):
    """Why something is removed from the target."""

    OTHER_LINE = "other-cupy-line"
    REPLACED = "replaced"
    SHARED_FILES = "shares-files-with-another-line"
    STRAY_CUDA = "cuda-of-another-major"
    NO_OWNER = "no-distribution-owns-it"
    CAME_WITH_INSTALL = "came-with-the-install"
    CONDA_SAYS = "conda-takes-it-out"
    KEPT_TO_UNDO = "kept-to-undo-an-install"


@dataclass(frozen=True, slots=True)
class Removal:
    """A distribution to remove, by its canonical name."""

    name: str
    release: str
    reason: Reason
    files: int  # number of files in its RECORD


@dataclass(frozen=True, slots=True)
class Pin:
    """A wheel to install, by its canonical name and exact version."""

    name: str
    release: str
    sha256: tuple[str, ...] = ()  # of the acceptable files; empty if the index has none
    size: int | None = None  # of the file in bytes, if the index reports it or a bundle has it
    former: str | None = None  # the version it replaces
    wheel: str | None = None  # file name, if the installer prints it


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file or folder of CuPy that no distribution owns, or what an install keeps."""

    path: str
    reason: Reason = Reason.NO_OWNER


@dataclass(frozen=True, slots=True)
class PlannedCommand:
    """A command as an argument list, with its purpose."""

    purpose: str
    argv: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Space:
    """Space on the target's file system, in bytes; null if unknown."""

    download: int | None  # including cached files; 0 for a bundle
    free: int | None
    unpacked: int | None = None  # upper bound, from the usual growth of wheels


@dataclass(frozen=True, slots=True)
class TargetEnvironment:
    """The target environment: its interpreter, root folder, folder of modules, and kind."""

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
    moves: tuple[str, ...]  # names of changed packages other than CuPy's; they need consent
    commands: tuple[PlannedCommand, ...]  # in the order in which they run
    undo: PlannedCommand
    space: Space
    notes: tuple[str, ...] = ()
    needs_toolkit: str | None = None  # what the new CuPy needs from elsewhere
    schema: str = PLAN

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.remove or self.leftovers or self.install)


class Result(str, Enum):
    """How a transaction ended; ``failed`` means that nothing was changed."""

    INSTALLED = "installed"
    UNCHANGED = "unchanged"
    RESTORED = "restored"
    ROLLED_BACK = "rolled-back"
    FORGOTTEN = "forgotten"
    NOT_RESTORED = "not-restored"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of a verification; ``passed`` is null if it is undetermined."""

    name: str
    passed: bool | None
    detail: str
    duration: float = 0.0  # seconds


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of the install and its duration in seconds."""

    name: str
    duration: float


@dataclass(frozen=True, slots=True)
class InstallOutcome:
    """The outcome of an install or a rollback."""

    status: Result
    exit_code: int
    message: str  # one sentence
    transaction: str | None  # the number to roll back; null if nothing was changed
    target: TargetEnvironment | None
    plan: Plan | None = None  # null for a rollback
    proofs: tuple[Verification, ...] = ()
    phases: tuple[Phase, ...] = ()
    undo: PlannedCommand | None = None
    not_restored: tuple[str, ...] = ()  # files
    recovered: tuple[str, ...] = ()  # numbers of interrupted transactions that were rolled back first
    remedy: str | None = None  # for a failure, if one is known
    schema: str = OUTCOME


def is_name(text: str) -> bool:
    """Whether a text is the name of a distribution (PyPA, "Names and normalization")."""
    return _NAME.fullmatch(text) is not None


@dataclass(slots=True)
class Clock:
    """Measures consecutive phases; their sum is the total time."""

    since: float = field(default_factory=time.monotonic)  # start of the current phase, by ``time.monotonic``
    part: str = "start"
    spent: dict[str, float] = field(default_factory=dict)  # seconds by phase, in order of their start

    def begin(self, part: str) -> None:
        """Ends the current phase and begins or resumes another one."""
        now = time.monotonic()
        self.spent[self.part] = self.spent.get(self.part, 0.0) + now - self.since
        self.since, self.part = now, part

    def phases(self) -> tuple[Phase, ...]:
        """The phases so far."""
        self.begin(self.part)
        return tuple(Phase(name, seconds) for name, seconds in self.spent.items())
