"""The registry: a check is a function with a code, a cause, what it requires and a docstring that explains it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple, Protocol

from gpuenv.matrix.needs import Needs
from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Finding, Fix, RequirementResult, Severity
from gpuenv.model.resolution import Resolution
from gpuenv.model.smoke import SmokeResult
from gpuenv.model.snapshot import Snapshot

SECTIONS = ("What it means", "How it is seen", "What to do")
GPU_FAMILIES = ("DRV", "GPU", "CTR", "TEG", "SMK")
"""First letters of the codes of checks that concern the driver and the GPUs: without these, they find notes at most."""
# A report is read elsewhere than where it was made, and a finding is told by several commands: both are named.
NONE_EXPECTED = Fix("Where none is expected here, --expect-no-gpu of doctor and preflight makes this a note.")


class CheckContext(NamedTuple):
    """What a check may look at.

    Attributes:
        snapshot: the recorded facts.
        needs: the same as the resolver sees it.
        matrix: the compatibility matrix.
        resolution: what would fit.
        requirements: the evaluated requirements.
        smoke: the result of the GPU tests; None if they did not run.
    """

    snapshot: Snapshot
    needs: Needs
    matrix: Matrix
    resolution: Resolution
    requirements: tuple[RequirementResult, ...] = ()
    smoke: SmokeResult | None = None


class Symptom(NamedTuple):
    """What a check found.

    Attributes:
        title: one sentence, without a full stop.
        evidence: the facts behind it.
        fix: what to do, the best first.
        severity: how much it matters.
        cause: in place of the check's own, where one check tells several apart.
        stands_alone: whether it follows from no other finding, despite the check's ``follows``.
    """

    title: str
    evidence: tuple[Evidence, ...]
    fix: tuple[Fix, ...]
    severity: Severity = Severity.ERROR
    cause: Cause | None = None
    stands_alone: bool = False


class NotKnown(NamedTuple):
    """The check cannot tell, and why: unknown is neither healthy nor broken."""

    reason: str


Outcome = Iterator[Symptom | NotKnown]
CheckFunction = Callable[[CheckContext], Outcome]


def severity_for_unusable_gpu(ctx: CheckContext) -> Severity:
    """Severity of an unusable GPU while others work: error if a requirement fails because of it, else warning."""
    return Severity.ERROR if any(entry.by_unusable for entry in ctx.requirements) else Severity.WARNING


class Explained(Protocol):
    """What has a code and a docstring in three sections: a check, or a rule of another part."""

    @property
    def code(self) -> str:
        """Stable."""

    @property
    def causes(self) -> tuple[Cause, ...]:
        """The causes that it can name."""

    @property
    def title(self) -> str:
        """The first line of the docstring."""

    @property
    def sections(self) -> Mapping[str, str]:
        """What it means, how it is seen, what to do."""


def finding_of(found_by: Explained, symptom: Symptom) -> Finding:
    """A symptom with the code of what found it, and its own cause where the symptom names none."""
    return Finding(
        code=found_by.code,
        cause=symptom.cause or found_by.causes[0],
        severity=symptom.severity,
        primary=False,
        follows_from=None,
        title=symptom.title,
        evidence=symptom.evidence,
        fix=symptom.fix,
        docs=f"gpuenv explain {found_by.code}",
    )


class RepairKind(Enum):
    """What ``doctor --fix`` does inside the target environment about a finding."""

    REPLACE = "installs the CuPy that fits, alone, with its libraries"
    REPLACE_WITH_LIBRARIES = "installs the CuPy that fits, together with CUDA's libraries"
    REINSTALL = "installs the same releases again, for files are missing or changed"
    REINSTALL_CRASHING = "installs again the distributions of the libraries that end the process, too"
    ADD = "installs the further requirements that the fixes name"
    CLEAR = "removes metadata that other releases have left"


class Absence(Enum):
    """What a check finds to be missing, where a caller may expect just that."""

    GPU = "gpu"
    CUPY = "cupy"


class Check:
    """A registered check, with all that the rest of gpuenv has to know of it; it is the decorator of its function.

    Attributes:
        code: stable, such as DRV102.
        causes: the causes it can name, its own first.
        requires: codes of checks whose error, or whose being skipped for one, makes this one pointless.
        follows: families (``DRV``) or codes an error of which explains what this one finds.
        unless: codes of checks whose own error makes this one pointless; their being skipped does not.
        repair: what ``doctor --fix`` does about its findings; None where a person has to act.
        absence: what it finds to be missing: the GPU, or CuPy.
        compares_with_gpu: whether it compares CuPy with driver and GPUs: skipped where no GPU is expected or usable.
        decisive: whether CuPy is not called fit while this check cannot tell.
        decisive_if_assumed: the same, where no interpreter has shown the CuPy that is judged.
        of_process: whether it concerns the environment of this process, which a container started later does not have.
        run: the function.
    """

    run: CheckFunction

    def __init__(  # noqa: PLR0913 - one for each attribute
        self,
        code: str,
        *causes: Cause,
        requires: tuple[str, ...] = (),
        follows: tuple[str, ...] = (),
        unless: tuple[str, ...] = (),
        repair: RepairKind | None = None,
        absence: Absence | None = None,
        compares_with_gpu: bool = False,
        decisive: bool = False,
        decisive_if_assumed: bool = False,
        of_process: bool = False,
    ) -> None:
        """Takes the attributes."""
        self.code, self.causes = code, causes
        self.requires, self.follows, self.unless = requires, follows, unless
        self.repair, self.absence, self.compares_with_gpu = repair, absence, compares_with_gpu
        self.decisive, self.decisive_if_assumed, self.of_process = decisive, decisive_if_assumed, of_process

    def __call__(self, function: CheckFunction) -> CheckFunction:
        """Registers the check; what it requires must be registered before it: the order of files is the order of runs.

        Raises:
            ValueError: for a code that is taken, or a requirement that is not there yet.
        """
        if self.code in _CHECKS:
            raise ValueError(f"the code {self.code} is taken by {_CHECKS[self.code].run.__name__}")
        for needed in (*self.requires, *self.unless):
            if needed not in _CHECKS:
                raise ValueError(f"{self.code} requires {needed}, which is not registered before it")
        self.run = function
        _CHECKS[self.code] = self
        return function

    @property
    def concerns_gpu(self) -> bool:
        """Whether it is about the driver and the GPUs, not about what is installed."""
        return self.code.startswith(GPU_FAMILIES)

    @property
    def concerns_target(self) -> bool:
        """Whether it is about what is installed in the target environment."""
        return self.code.startswith(("ENV", "WHL", "LIB"))

    @property
    def concerns_libraries(self) -> bool:
        """Whether it is about the CUDA libraries, which may come from elsewhere than the target."""
        return self.code.startswith("LIB")

    @property
    def of_the_tests(self) -> bool:
        """Whether it reads the result of the GPU tests; without one it does not run."""
        return self.code.startswith("SMK")

    @property
    def title(self) -> str:
        """The first line of the docstring."""
        return title_of(self.run)

    @property
    def sections(self) -> dict[str, str]:
        """What it means, how it is seen, what to do."""
        return sections_of(self.run)


_CHECKS: dict[str, Check] = {}
check = Check


def all_checks() -> tuple[Check, ...]:
    """Every check, in the order in which they run."""
    from gpuenv.doctor import checks  # noqa: PLC0415 - importing it registers them

    del checks
    return tuple(_CHECKS.values())


def find_check(code: str) -> Check | None:
    """The check of a code; None for a code of a plug-in or of an image's rule."""
    all_checks()
    return _CHECKS.get(code)


def title_of(function: Callable[..., object]) -> str:
    """The first line of a docstring."""
    return (function.__doc__ or "").lstrip().split("\n", 1)[0]


def sections_of(function: Callable[..., object]) -> dict[str, str]:
    """What it means, how it is seen, what to do: the docstring's sections."""
    from inspect import getdoc  # noqa: PLC0415 - slow to import, and of use where somebody reads

    return {name: _section(getdoc(function) or "", name) for name in SECTIONS}


def _section(text: str, name: str) -> str:
    match = re.search(rf"^{name}: (.*?)(?=^(?:{'|'.join(SECTIONS)}): |\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(match[1].split()) if match else ""
