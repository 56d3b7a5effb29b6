"""An image on a machine: platform, its own conditions, CUDA against the driver."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.registry import NotKnown, Symptom
from gpuenv.image.inspect.image_facts import ImagePlatform, parse_platform
from gpuenv.image.inspect.image_report import ImageRequirementStatus, RequirementVerdict
from gpuenv.image.inspect.nvidia_require import Machine, RequireError, Requirement, certain, parse, requirements, unmet
from gpuenv.image.inspect.require_text import (
    changes,
    oldest_driver,
    requirement_text,
    runs_by_minor,
    supports_gpus,
    wants,
)
from gpuenv.image.inspect.rule_context import RuleContext
from gpuenv.image.inspect.rules import OTHER_IMAGE, ImageOutcome, of_image, rule
from gpuenv.matrix.needs import Needs
from gpuenv.matrix.products import branch_of, branches_for
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.versions import CudaVersion, DriverVersion

_FORWARD = ("tesla", "nvidia")  # rules_forward has the source
# CDI mode checks no requirement: nvidia-container-toolkit, issue 1470. From toolkit 1.18.0 on it is the runtime's
# default: its release notes, as in SUSE-SU-2025:4187-1. Docker's --gpus may try it first: moby, pull request 50228 (all
# read 2026-11-21).
_TOOLKIT = (
    "the NVIDIA container toolkit's legacy mode (its default before 1.18.0) refuses to start the container; under CDI "
    "(newer ones, Podman, --device nvidia.com/gpu=...) nothing checks it, and it is CUDA that fails or not"
)


def wanted_platform(needs: Needs) -> ImagePlatform:
    """The platform of images that a machine runs; containers with GPUs are those of Linux."""
    return parse_platform(needs.container_platform.replace("-", "/"))


@rule("IMG901", Cause.IMAGE_REQUIRES_OTHER_DRIVER)
def other_platform(ctx: RuleContext) -> ImageOutcome:
    """The image is built for another processor or operating system.

    What it means: an image of linux/amd64 does not start on an ARM machine, and an emulation gives it no GPU.
    How it is seen: the platform in the image's configuration, or the list of platforms of a multi-platform image.
    What to do: use an image that has this machine's platform, or build it for that platform.
    """
    if ctx.image.platform is None:
        yield NotKnown("the image does not say which platform it is for")
        return
    wanted, own = wanted_platform(ctx.needs), parse_platform(ctx.image.platform)
    if own.serves(wanted):
        return
    offered = ", ".join(ctx.image.offered) or ctx.image.platform
    yield Symptom(
        f"The image is for {offered}, and this machine runs {wanted}",
        (of_image("platform", offered), *fact("host.arch", ctx.snapshot.host.arch)),
        (Fix(f"Use or build an image for {wanted}.", ("docker", "buildx", "build", "--platform", str(wanted), ".")),),
    )


@rule("IMG907", Cause.GPU_TOO_NEW_FOR_DRIVER, Cause.GPU_REMOVED_FROM_DRIVER, follows=("GPU204",))
def gpu_outside_driver(ctx: RuleContext) -> ImageOutcome:
    """The driver's branch does not drive this GPU.

    What it means: no image helps where the driver itself does not know the GPU, or knows it no more.
    How it is seen: the driver's branch against those of the GPU's generation. A driver that lists the GPU is believed.
    What to do: install a driver of a branch that drives it.
    """
    for gpu in ctx.gpus if ctx.driver is not None else ():
        range_ = branches_for(gpu.compute_capability, ctx.matrix)
        branch = branch_of(ctx.driver, ctx.matrix) if ctx.driver is not None else None
        if gpu.listed or range_ is None or branch is None or range_.wants(branch) is None:
            continue
        newer = range_.first is not None and branch < range_.first
        yield Symptom(
            f"Driver {ctx.driver} does not drive {gpu.label}: it needs {range_.wants(branch)}",
            (Evidence("driver.version", str(ctx.driver), ""), Evidence("needed", gpu.label, range_.source)),
            (Fix(f"Install a driver of {range_.wants(branch)}."),),
            cause=Cause.GPU_TOO_NEW_FOR_DRIVER if newer else Cause.GPU_REMOVED_FROM_DRIVER,
        )
        return


def requirement_verdicts(ctx: RuleContext) -> tuple[RequirementVerdict, ...]:
    """Every requirement of the image against every GPU, as libnvidia-container goes through them."""
    return tuple(_verdicts(ctx))


def _verdicts(ctx: RuleContext) -> Iterator[RequirementVerdict]:
    host = Machine(_text(ctx.level), _text(ctx.driver))
    machines: list[tuple[str | None, tuple[Machine, ...]]] = [(gpu.label, gpu.machines) for gpu in ctx.gpus]
    for variable, text in requirements(ctx.image.environment).items():
        try:
            requirement = parse(text)
        except RequireError as error:
            yield RequirementVerdict(variable, None, ImageRequirementStatus.INVALID, (str(error),))
            continue
        for label, possible in machines or [(None, (host,))]:
            yield _verdict(variable, label, requirement, possible)


def _verdict(
    variable: str, label: str | None, requirement: Requirement, possible: tuple[Machine, ...]
) -> RequirementVerdict:
    """The verdict on a requirement: met or unmet only if unknown values do not matter."""
    failed = [unmet(requirement, machine) for machine in possible]
    if all(failed):
        conditions_failed = tuple(", ".join(map(str, conditions)) for conditions in failed[0])
        return RequirementVerdict(variable, label, ImageRequirementStatus.UNMET, conditions_failed)
    met = all(certain(requirement, machine) for machine in possible)
    return RequirementVerdict(variable, label, ImageRequirementStatus.MET if met else ImageRequirementStatus.UNKNOWN)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@rule("IMG902", Cause.IMAGE_REQUIRES_OTHER_DRIVER, follows=OTHER_IMAGE)
def requirement_unmet(ctx: RuleContext) -> ImageOutcome:
    """The image demands another driver, CUDA level or GPU than this machine has.

    What it means: images state in NVIDIA_REQUIRE_* what they need: blanks stand between alternatives, commas between
    what must hold together, and each variable must hold for each GPU. The container toolkit's legacy mode refuses to
    start what is not met; under CDI, which its runtime takes by itself from 1.18.0 on, nothing enforces it. It is an
    error all the same: it is what the image's maker demands, and which mode a host has is unknown.
    How it is seen: each variable is evaluated as libnvidia-container does, for each GPU of the machine, with its
    driver, CUDA level, compute capability and brand.
    What to do: update the driver, or use an image of a CUDA that this driver runs.
    """
    by_variable: dict[str, list[RequirementVerdict]] = {}
    for verdict in requirement_verdicts(ctx):
        by_variable.setdefault(verdict.variable, []).append(verdict)
    for variable, verdicts in by_variable.items():
        statuses = {entry.status for entry in verdicts}
        if ImageRequirementStatus.INVALID in statuses:
            yield _invalid(variable, verdicts[0])
        elif ImageRequirementStatus.UNMET in statuses:
            yield _unmet(ctx, variable, verdicts)
        elif ImageRequirementStatus.UNKNOWN in statuses:
            yield NotKnown(f"whether {variable} is met: {_lacking(ctx)} is not known")


def _lacking(ctx: RuleContext) -> str:
    lacks = [name for name, value in (("the driver", ctx.driver), ("its CUDA level", ctx.level)) if not value]
    return " and ".join(lacks) or "the GPU's brand or compute capability"


def _invalid(variable: str, verdict: RequirementVerdict) -> Symptom:
    return Symptom(
        f"{variable} of the image is no expression, and the container toolkit refuses to start it",
        (of_image(variable, verdict.failed[0]),),
        (Fix(f"Set {variable} right in the image, or start the container with an empty one."),),
    )


def _unmet(ctx: RuleContext, variable: str, verdicts: list[RequirementVerdict]) -> Symptom:
    environment = requirements(ctx.image.environment)
    requirement = parse(environment[variable])
    refused = [entry.gpu for entry in verdicts if entry.status is ImageRequirementStatus.UNMET]
    gpus = [gpu for gpu in ctx.gpus if gpu.label in refused]
    evidence = (
        of_image(variable, requirement_text(requirement)),
        *fact("driver.version", ctx.snapshot.driver.version),
        Evidence("driver.cuda", str(ctx.level or "unknown"), ctx.snapshot.driver.cuda.source or ""),
        *dict.fromkeys(Evidence("gpus[]", f"{gpu.label}, brand {gpu.brand}", gpu.brand_source) for gpu in gpus),
        Evidence("enforced", _TOOLKIT, ""),
    )
    return Symptom(
        f"The image demands {wants(requirement)}, and this machine has {_has(ctx)}",
        evidence,
        tuple(Fix(text) for text in changes(requirement, ctx, tuple(refused))),
    )


def _has(ctx: RuleContext) -> str:
    level = f" (CUDA {ctx.level})" if ctx.level else ""
    return f"driver {ctx.driver or 'unknown'}{level}"


@rule("IMG903", Cause.DRIVER_TOO_OLD_FOR_CUDA, follows=("IMG902", *OTHER_IMAGE))
def driver_below_cuda(ctx: RuleContext) -> ImageOutcome:
    """The driver is older than the image's CUDA can run on.

    What it means: within a CUDA major, programs run on older drivers too (minor-version compatibility); below the
    major's oldest driver they do not, unless the forward-compatibility libraries in the image may be used.
    How it is seen: CUDA_VERSION or a label of the image, and the driver's version and CUDA level.
    What to do: update the driver, or use an image of an older CUDA.
    """
    cuda, driver, level = ctx.contents.cuda, ctx.driver, ctx.level
    if cuda is None:
        return
    if level is None:
        yield NotKnown(f"whether the driver runs CUDA {cuda}: its version is not known")
        return
    if level.major >= cuda.major or runs_by_minor(cuda, ctx):
        return  # within a major the level's minor does not matter to a program's start
    oldest = oldest_driver(cuda, ctx)
    evidence = (
        of_image(ctx.contents.cuda_source, str(cuda)),
        *fact("driver.version", ctx.snapshot.driver.version),
    )
    if carried_forward(ctx):
        yield Symptom(
            f"CUDA {cuda} runs on driver {driver} through the forward-compatibility libraries in the image alone",
            (
                of_image(ctx.contents.cuda_source, str(cuda)),
                *fact("driver.version", ctx.snapshot.driver.version),
            ),
            (Fix(f"A driver of CUDA {cuda} needs them not."),),
            Severity.WARNING,
        )
        return
    yield Symptom(
        f"CUDA {cuda} in the image needs driver {oldest or f'of CUDA {cuda.major}'} or newer: this machine has "
        f"{_has(ctx)}",
        evidence,
        tuple(map(Fix, _ways(ctx, oldest, cuda, level))),
    )


def _ways(ctx: RuleContext, oldest: DriverVersion | None, cuda: CudaVersion, level: CudaVersion) -> Iterator[str]:
    """An older image, and before that a newer driver, where there is one for the GPUs."""
    image = f"se an image of CUDA {level.major} (this driver's level is {level})."
    if oldest is not None and not supports_gpus(oldest.branch, ctx):
        yield f"U{image}"
    else:
        yield f"Update the driver to {oldest or f'one of CUDA {cuda.major}'} or newer."
        yield f"Or u{image}"


def carried_forward(ctx: RuleContext) -> bool:
    """Whether forward compatibility carries it: the libraries are there, and every GPU allows them."""
    met = all(entry.status is ImageRequirementStatus.MET for entry in requirement_verdicts(ctx))
    allowed = bool(ctx.gpus) and all(set(gpu.brands) <= set(_FORWARD) for gpu in ctx.gpus)
    declared = "NVIDIA_REQUIRE_CUDA" in requirements(ctx.image.environment)
    return ctx.contents.compat is True and met and declared and allowed
