"""The registry of checks: each is a function with a code, causes, requirements and a docstring that explains it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from enum import Enum
from inspect import getdoc
from typing import Any, NamedTuple

from gpuenv.matrix.needs import Needs
from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Finding, Fix, RequirementResult, Severity
from gpuenv.model.resolution import Resolution
from gpuenv.model.smoke import SmokeResult
from gpuenv.model.snapshot import Snapshot

SECTIONS = ("What it means", "How it is seen", "What to do")
GPU_FAMILIES = ("DRV", "GPU", "CTR", "TEG", "SMK")
"""Prefixes of the codes of checks of the driver and the GPUs: where no GPU is expected, their errors become notes."""
# Several commands report the finding, so the text names those that have the option.
EXPECT_NO_GPU = Fix("If no GPU is expected here: --expect-no-gpu of doctor and preflight makes this a note.")


class CheckContext(NamedTuple):
    """Arguments of a check.

    Attributes:
        needs: the facts that the resolver uses.
        resolution: the CuPy that fits.
        smoke: the result of the GPU tests; None if they did not run.
    """

    snapshot: Snapshot
    needs: Needs
    matrix: Matrix
    resolution: Resolution
    requirements: tuple[RequirementResult, ...] = ()
    smoke: SmokeResult | None = None


class Symptom(NamedTuple):
    """Problem that a check found.

    Attributes:
        title: one sentence, without a full stop.
        evidence: the facts behind it.
        fix: the fixes, the best first.
        cause: overrides the first cause of the check.
        independent: whether it never follows from another finding, despite the check's ``follows``.
        in_image: whether the fault lies in the container's image, so that every host has it.
        hardware_fault: whether a GPU is broken, which is always an error of ``preflight``.
    """

    title: str
    evidence: tuple[Evidence, ...]
    fix: tuple[Fix, ...]
    severity: Severity = Severity.ERROR
    cause: Cause | None = None
    independent: bool = False
    in_image: bool = False
    hardware_fault: bool = False


class NotKnown(NamedTuple):
    """The check is undetermined, for this reason: unknown is neither healthy nor broken."""

    reason: str


Outcome = Iterator[Symptom | NotKnown]
CheckFunction = Callable[[CheckContext], Outcome]


def severity_for_unusable_gpu(ctx: CheckContext) -> Severity:
    """Severity of an unusable GPU while others work: error if a requirement fails because of it, else warning."""
    return Severity.ERROR if any(entry.by_unusable for entry in ctx.requirements) else Severity.WARNING


class DocumentedCheck:
    """A function with a code, causes and a docstring in three sections: a check, or a rule for images.

    Attributes:
        code: stable, such as DRV102.
        causes: the causes that it reports, the default first.
    """

    code: str
    causes: tuple[Cause, ...]
    run: Callable[..., Any]

    @property
    def title(self) -> str:
        """The first line of the docstring."""
        return (self.run.__doc__ or "").lstrip().split("\n", 1)[0]

    @property
    def sections(self) -> dict[str, str]:
        """The sections of the docstring: what it means, how it is seen, what to do."""
        return {name: _section(getdoc(self.run) or "", name) for name in SECTIONS}


def _section(text: str, name: str) -> str:
    match = re.search(rf"^{name}: (.*?)(?=^(?:{'|'.join(SECTIONS)}): |\Z)", text, re.MULTILINE | re.DOTALL)
    return " ".join(match[1].split()) if match else ""


def to_finding(check: DocumentedCheck, symptom: Symptom) -> Finding:
    """Converts a symptom to a finding; the cause defaults to the first one of the check."""
    return Finding(
        code=check.code,
        cause=symptom.cause or check.causes[0],
        severity=symptom.severity,
        primary=False,
        follows_from=None,
        title=symptom.title,
        evidence=symptom.evidence,
        fix=symptom.fix,
        docs=f"gpuenv explain {check.code}",
        in_image=symptom.in_image,
    )


class RepairKind(Enum):
    """How ``doctor --fix`` repairs a finding inside the target environment."""

    REPLACE = "installs the CuPy that fits"
    REPLACE_WITH_LIBRARIES = "installs the CuPy that fits, with the CUDA libraries"
    REINSTALL = "reinstalls the same releases, because files are missing or changed"
    REINSTALL_CRASHING = "reinstalls the distributions of the libraries that crash, too"
    ADD = "installs additional requirements that the fixes name"
    CLEAR = "removes stale metadata of other releases"


class Component(Enum):
    """Component that a check reports as missing, and that a user may expect to be missing."""

    GPU = "gpu"
    CUPY = "cupy"


class Check(DocumentedCheck):
    """A registered check with everything that other parts of gpuenv need to know; the decorator of its function.

    Attributes:
        requires: codes of checks; an error of one makes this check pointless, as does skipping one after an error.
        follows: families (``DRV``) or codes whose errors explain the findings of this check.
        unless: codes of checks whose error makes this check pointless; it runs if they are skipped.
        repair: how ``doctor --fix`` repairs its findings; None if it cannot.
        missing: the component that it reports as missing.
        compares_with_gpu: whether it compares CuPy with driver and GPUs: skipped where no GPU is expected or usable.
        decisive: whether CuPy is not called compatible while this check is undetermined.
        decisive_if_assumed: the same, if CuPy is assumed and not installed in a real interpreter.
        of_process: whether it concerns the environment of this process, which a container started later does not share.
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
        missing: Component | None = None,
        compares_with_gpu: bool = False,
        decisive: bool = False,
        decisive_if_assumed: bool = False,
        of_process: bool = False,
    ) -> None:
        """Stores the attributes."""
        self.code, self.causes = code, causes
        self.requires, self.follows, self.unless = requires, follows, unless
        self.repair, self.missing, self.compares_with_gpu = repair, missing, compares_with_gpu
        self.decisive, self.decisive_if_assumed, self.of_process = decisive, decisive_if_assumed, of_process

    def __call__(self, function: CheckFunction) -> CheckFunction:
        """Registers the function. Checks run in the order of registration, so required checks must be registered first.

        Raises:
            ValueError: if the code is taken, or a required check is not registered yet.
        """
        if self.code in REGISTERED:
            raise ValueError(f"the code {self.code} is taken by {REGISTERED[self.code].run.__name__}")
        for code in (*self.requires, *self.unless):
            if code not in REGISTERED:
                raise ValueError(f"{self.code} requires {code}, which is not registered before it")
        self.run = function
        REGISTERED[self.code] = self
        return function

    @property
    def concerns_gpu(self) -> bool:
        """Whether it concerns the driver and the GPUs, not what is installed."""
        return self.code.startswith(GPU_FAMILIES)

    @property
    def concerns_target(self) -> bool:
        """Whether it concerns what is installed in the target environment."""
        return self.code.startswith(("ENV", "WHL", "LIB"))

    @property
    def concerns_host(self) -> bool:
        """Whether it needs nothing of the target: it concerns driver, GPUs or container, or a requirement."""
        needs_target = self.compares_with_gpu or any(code.startswith(("ENV", "WHL", "LIB")) for code in self.requires)
        return self.code.startswith((*GPU_FAMILIES, "REQ")) and not self.reads_gpu_tests and not needs_target

    @property
    def concerns_libraries(self) -> bool:
        """Whether it concerns the CUDA libraries, which may lie outside of the target."""
        return self.code.startswith("LIB")

    @property
    def reads_gpu_tests(self) -> bool:
        """Whether it reads the result of the GPU tests, and does not run without one."""
        return self.code.startswith("SMK")


REGISTERED: dict[str, Check] = {}
"""The checks by their codes, as far as their modules are imported; gpuenv.doctor.checks imports all of them."""
check = Check
