"""Rules for an image on a machine: its platform, its own requirements, and its CUDA against the driver."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.registry import NotKnown, Symptom
from gpuenv.image.inspect.image_facts import ImagePlatform, parse_platform
from gpuenv.image.inspect.image_report import ImageRequirementStatus, RequirementVerdict
from gpuenv.image.inspect.nvidia_require import (
    HostFacts,
    RequireError,
    Requirement,
    certain,
    holds,
    parse,
    requirement_text,
    requirements,
    summarize,
    unmet,
)
from gpuenv.image.inspect.rule_context import HostGpu, RuleContext
from gpuenv.image.rule_registry import OTHER_IMAGE, ImageSymptoms, image_evidence, rule
from gpuenv.matrix.needs import Needs
from gpuenv.matrix.products import branch_of, generation_for
from gpuenv.matrix.tables import DriverBranch
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.versions import CudaVersion, DriverVersion

# NVIDIA, CUDA Compatibility, "Forward Compatibility Support Across Major Toolkit Versions" (read 2026-11-21): for data
# center GPUs, select NGC Server Ready SKUs of RTX cards, and Jetson boards. So a GeForce or TITAN is refused; an RTX or
# Quadro is neither refused nor accepted, since its brand does not show whether the server is NGC Ready.
_FORWARD_BRANDS, _NO_FORWARD_BRANDS = ("tesla", "nvidia"), ("geforce", "geforcertx", "titan", "titanrtx")
# Images of NGC keep the libraries in compat/lib.real, where no toolkit looks, and have compat/lib in LD_LIBRARY_PATH,
# which is not there until their own start makes it: /etc/shinit_v2 asks cudaCheck first whether they work on this GPU.
# Public notes on /etc/shinit_v2 of these images, and of one who had to link lib to lib.real by hand in a 24.06 that
# could not be written to; nvidia-container-toolkit, cudacompat_test.go, compat/libcuda.so.* (read November 2026).
_OWN_CHECK = "_CUDA_COMPAT_PATH"
_COMPAT_FOLDER = re.compile(r"/cuda[^/]*/compat(?:/lib(?:\.real)?)?/?$")
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
def other_platform(ctx: RuleContext) -> ImageSymptoms:
    """The image is built for another processor or operating system.

    What it means: an image of linux/amd64 does not start on an ARM machine, and an emulation gives it no GPU.
    How it is seen: the platform in the image's configuration, or the list of platforms of a multi-platform image.
    What to do: use an image that has this machine's platform, or build it for that platform.
    """
    if ctx.image.platform is None:
        yield NotKnown("the platform of the image")
        return
    wanted, own = wanted_platform(ctx.needs), parse_platform(ctx.image.platform)
    if own.serves(wanted):
        return
    offered = ", ".join(ctx.image.offered) or ctx.image.platform
    yield Symptom(
        f"The image is for {offered}, and this machine runs {wanted}",
        (image_evidence("platform", offered), *evidence_of(ctx.snapshot, "host.arch")),
        (Fix(f"Use or build an image for {wanted}.", ("docker", "buildx", "build", "--platform", str(wanted), ".")),),
    )


@rule("IMG907", Cause.GPU_TOO_NEW_FOR_DRIVER, Cause.GPU_REMOVED_FROM_DRIVER, follows=("GPU204",))
def gpu_outside_driver(ctx: RuleContext) -> ImageSymptoms:
    """The driver's branch does not support this GPU.

    What it means: if the driver itself does not support the GPU yet, or no longer does, no image can use the GPU.
    How it is seen: the driver's branch is compared with those that support the GPU's generation. If the driver lists
    the GPU, the check passes.
    What to do: install a driver of a branch that supports it.
    """
    branch = branch_of(ctx.driver, ctx.matrix) if ctx.driver is not None else None
    for gpu in ctx.gpus:
        driven = generation_for(gpu.compute_capability, ctx.matrix)
        if branch is None or gpu.listed or driven is None or driven.wants(branch) is None:
            continue
        newer = driven.first_branch is not None and branch < driven.first_branch
        yield Symptom(
            f"Driver {ctx.driver} does not drive {gpu.label}: it needs {driven.wants(branch)}",
            (
                Evidence("driver.version", str(ctx.driver), ""),
                Evidence("needed", gpu.label, ctx.matrix.cite(driven.source)),
            ),
            (Fix(f"Install a driver of {driven.wants(branch)}."),),
            cause=Cause.GPU_TOO_NEW_FOR_DRIVER if newer else Cause.GPU_REMOVED_FROM_DRIVER,
        )
        return


def requirement_verdicts(ctx: RuleContext) -> tuple[RequirementVerdict, ...]:
    """The verdict on each requirement of the image for each GPU, in the order of libnvidia-container."""
    gpus: list[tuple[str | None, tuple[HostFacts, ...]]] = [(gpu.label, gpu.facts) for gpu in ctx.gpus]
    gpus = gpus or [(None, (ctx.host,))]
    verdicts = []
    for variable, text in requirements(ctx.image.environment).items():
        try:
            requirement = parse(text)
        except RequireError as error:
            verdicts.append(RequirementVerdict(variable, None, ImageRequirementStatus.INVALID, (str(error),)))
        else:
            verdicts += [_verdict(variable, label, requirement, each) for label, each in gpus]
    return tuple(verdicts)


def _verdict(
    variable: str, label: str | None, requirement: Requirement, facts: tuple[HostFacts, ...]
) -> RequirementVerdict:
    """The verdict on a requirement: met or unmet only if unknown values do not matter."""
    failed = [unmet(requirement, entry) for entry in facts]
    if all(failed):
        texts = tuple(", ".join(map(str, conditions)) for conditions in failed[0])
        return RequirementVerdict(variable, label, ImageRequirementStatus.UNMET, texts)
    met = all(certain(requirement, entry) for entry in facts)
    return RequirementVerdict(variable, label, ImageRequirementStatus.MET if met else ImageRequirementStatus.UNKNOWN)


@rule("IMG902", Cause.IMAGE_REQUIRES_OTHER_DRIVER, follows=OTHER_IMAGE)
def requirement_unmet(ctx: RuleContext) -> ImageSymptoms:
    """The image requires another driver, CUDA level or GPU than this machine has.

    What it means: images state their requirements in NVIDIA_REQUIRE_*: blanks separate alternatives, commas separate
    conditions that must hold together, and each variable must hold for each GPU. The container toolkit's legacy mode
    refuses to start an image whose requirement is not met; CDI, the default of its runtime from 1.18.0 on, does not
    enforce it. It is an error in either case, because the image states the requirement and the mode of a host is
    unknown.
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
            yield Symptom(
                f"{variable} of the image is invalid, so the container toolkit refuses to start it",
                (image_evidence(variable, verdicts[0].failed[0]),),
                (Fix(f"Set {variable} right in the image, or start the container with an empty one."),),
            )
        elif ImageRequirementStatus.UNMET in statuses:
            refused = [entry.gpu for entry in verdicts if entry.status is ImageRequirementStatus.UNMET]
            yield _unmet_symptom(ctx, variable, refused)
        elif ImageRequirementStatus.UNKNOWN in statuses:
            lacks = [name for name, value in (("the driver", ctx.driver), ("its CUDA level", ctx.level)) if not value]
            missing = " and ".join(lacks) or "the GPU's brand or compute capability"
            yield NotKnown(f"whether {variable} is met: {missing} is not known")


def _unmet_symptom(ctx: RuleContext, variable: str, refused: list[str | None]) -> Symptom:
    requirement = parse(requirements(ctx.image.environment)[variable])
    gpus = [gpu for gpu in ctx.gpus if gpu.label in refused]
    return Symptom(
        f"The image demands {summarize(requirement)}, and this machine has {ctx.driver_text}",
        (
            image_evidence(variable, requirement_text(requirement)),
            *evidence_of(ctx.snapshot, "driver.version"),
            Evidence("driver.cuda", str(ctx.level or "unknown"), ctx.snapshot.driver.cuda.source or ""),
            *dict.fromkeys(Evidence("gpus[]", f"{gpu.label}, brand {gpu.brand}", gpu.brand_source) for gpu in gpus),
            Evidence("enforced", _TOOLKIT, ""),
        ),
        _alternatives(_requirement_fixes(requirement, ctx, refused)),
    )


def _alternatives(texts: Iterable[str]) -> tuple[Fix, ...]:
    """Alternative fixes: all but the first begin with Or."""
    return tuple(Fix(text if number == 0 else f"Or {text[0].lower()}{text[1:]}") for number, text in enumerate(texts))


def _requirement_fixes(requirement: Requirement, ctx: RuleContext, refused: list[str | None]) -> Iterator[str]:
    """Changes that would meet the requirement on this machine, the simplest first."""
    branches = ctx.matrix.driver_branches if not ctx.needs.tegra else ()  # a Jetson's comes with its JetPack
    branch = next((row for row in branches if _would_meet(requirement, row, ctx)), None)
    if branch is not None:
        first = f" ({branch.first} or newer)" if branch.first else ""
        yield f"Update the driver to branch {branch.branch}{first}: its CUDA level is {branch.cuda}."
    allowed = [gpu.label for gpu in ctx.gpus if gpu.label not in refused]
    if allowed:
        yield f"Give the container only the GPUs that it allows: {', '.join(dict.fromkeys(allowed))}."
    cuda, level = ctx.contents.cuda, ctx.level
    if level is not None:
        yield f"Use an image of CUDA {level} or older."
    if cuda is not None and level is not None and runs_by_minor(cuda, ctx):
        yield (
            f"Set NVIDIA_DISABLE_REQUIRE=1, or start the container with CDI: CUDA {cuda} itself runs on this driver "
            "(minor-version compatibility), which is enough for programs that need nothing newer than the driver."
        )


def _would_meet(requirement: Requirement, row: DriverBranch, ctx: RuleContext) -> bool:
    """Whether a newer driver branch would meet the requirement with the machine's GPUs."""
    if (ctx.driver is not None and row.branch <= ctx.driver.branch) or not _supports_gpus(row.branch, ctx):
        return False
    version = str(row.first or f"{row.branch}.0")
    facts = [entry for gpu in ctx.gpus for entry in gpu.facts] or [HostFacts()]
    return all(holds(requirement, HostFacts(str(row.cuda), version, each.arch, each.brand)) for each in facts)


def oldest_driver(cuda: CudaVersion, ctx: RuleContext) -> DriverVersion | None:
    """The oldest driver that runs programs of a CUDA major."""
    row = next((entry for entry in ctx.matrix.cuda_majors if entry.major == cuda.major), None)
    return (row.windows if ctx.needs.windows else row.linux) if row else None


def runs_by_minor(cuda: CudaVersion, ctx: RuleContext) -> bool:
    """Whether CUDA's minor-version compatibility lets its programs run on this driver."""
    oldest = oldest_driver(cuda, ctx)
    return oldest is not None and ctx.driver is not None and ctx.driver >= oldest


def _supports_gpus(branch: int, ctx: RuleContext) -> bool:
    """Whether a driver branch supports every GPU of the machine, according to the matrix."""
    ranges = [generation_for(gpu.compute_capability, ctx.matrix) for gpu in ctx.gpus]
    return not any(each.wants(branch) for each in ranges if each is not None)


@rule("IMG903", Cause.DRIVER_TOO_OLD_FOR_CUDA, follows=("IMG902", *OTHER_IMAGE))
def driver_below_cuda(ctx: RuleContext) -> ImageSymptoms:
    """The driver is older than the image's CUDA can run on.

    What it means: within a CUDA major, programs run on older drivers too (minor-version compatibility); below the
    major's oldest driver they do not, unless the forward-compatibility libraries in the image may be used.
    How it is seen: CUDA_VERSION or a label of the image, and the driver's version and CUDA level.
    What to do: update the driver, or use an image of an older CUDA.
    """
    cuda, level = ctx.contents.cuda, ctx.level
    if cuda is None:
        return
    if level is None:
        yield NotKnown(f"whether the driver runs CUDA {cuda}: its version is not known")
        return
    if level.major >= cuda.major or runs_by_minor(cuda, ctx):
        return  # within a major the level's minor does not matter to a program's start
    evidence = (image_evidence(ctx.contents.cuda_source, str(cuda)), *evidence_of(ctx.snapshot, "driver.version"))
    if runs_by_forward_compatibility(ctx):
        yield Symptom(
            f"CUDA {cuda} runs on driver {ctx.driver} only through the forward-compatibility libraries in the image",
            evidence,
            (Fix(f"A driver of CUDA {cuda} does not need them."),),
            Severity.WARNING,
        )
        return
    oldest = oldest_driver(cuda, ctx)
    needed = oldest or f"one of CUDA {cuda.major}"
    update = (
        [f"Update the driver to {needed} or newer."] if oldest is None or _supports_gpus(oldest.branch, ctx) else []
    )
    older_image = f"Use an image of CUDA {level.major} (this driver's level is {level})."
    yield Symptom(
        f"CUDA {cuda} in the image needs driver {oldest or f'of CUDA {cuda.major}'} or newer: this machine has "
        f"{ctx.driver_text}",
        evidence,
        _alternatives([*update, older_image]),
    )


def runs_by_forward_compatibility(ctx: RuleContext) -> bool:
    """Whether forward-compatibility libraries run it: the image has them, and every GPU allows them."""
    met = all(entry.status is ImageRequirementStatus.MET for entry in requirement_verdicts(ctx))
    allowed = bool(ctx.gpus) and all(set(gpu.brands) <= set(_FORWARD_BRANDS) for gpu in ctx.gpus)
    declared = "NVIDIA_REQUIRE_CUDA" in requirements(ctx.image.environment)
    return ctx.contents.compat is True and met and declared and allowed


@rule("IMG904", Cause.FORWARD_COMPAT_UNSUPPORTED, follows=OTHER_IMAGE)
def forward_compatibility(ctx: RuleContext) -> ImageSymptoms:
    """Forward-compatibility libraries would be used on a GPU that does not allow them.

    What it means: the package cuda-compat has a newer libcuda for an older driver. It works on data-centre GPUs; on a
    GeForce or TITAN cuInit fails with 804, although the driver's own libcuda might work; and with a driver that is
    newer than the package, on any GPU, it fails with 803. Container toolkits 1.17.4 and 1.20 or newer do not put it
    first, or only if the libraries fit the driver; all others do, so it is an error and not a warning.
    How it is seen: the compat folder in LD_LIBRARY_PATH of the image; or the package in an image whose CUDA is newer
    than the driver, where the container toolkit puts it first. Images that check at their start whether the libraries
    work on the GPU, as NGC's do, are not reported.
    What to do: leave the folder out of LD_LIBRARY_PATH, and update the driver or use an image of its CUDA.
    """
    environment = ctx.image.environment
    check = environment.get(_OWN_CHECK)
    paths = [part for part in environment.get("LD_LIBRARY_PATH", "").split(":") if _COMPAT_FOLDER.search(part)]
    paths = [part for part in paths if not check or part.rstrip("/") != f"{check.rstrip('/')}/lib"]
    forbidding = [gpu for gpu in ctx.gpus if gpu.brands and set(gpu.brands) <= set(_NO_FORWARD_BRANDS)]
    brands = dict.fromkeys(
        Evidence("gpus[].brand", f"{gpu.brand} ({gpu.label})", gpu.brand_source) for gpu in forbidding
    )
    evidence = (*brands, *evidence_of(ctx.snapshot, "driver.version"))
    if paths:
        yield _path_symptom(paths[0], forbidding, evidence, ctx)
    elif forbidding and ctx.contents.compat and not check and _compare_branches(ctx) < 0:
        # A toolkit up to 1.19 puts the libraries first if the host's driver is of an older branch: libnvidia-container,
        # src/cli/compat_mode.c, filter_by_major_version; nvidia-container-toolkit,
        # cmd/nvidia-cdi-hook/cudacompat/cudacompat.go, getContainerForwardCompatDir. Its CHANGELOG, v1.17.4: not at
        # all; its release notes, v1.20.0: by the ELF header of the image's libcuda (all read 2026-11-21). Which toolkit
        # there is, is unknown: the older ones are assumed. A container that is refused uses nothing.
        if any(entry.status is ImageRequirementStatus.UNMET for entry in requirement_verdicts(ctx)):
            return
        yield Symptom(
            f"The container toolkit uses the image's forward-compatibility libraries, which {forbidding[0].label} does "
            "not allow",
            evidence,
            (
                Fix(f"Update the driver to one of CUDA {ctx.contents.cuda}."),
                Fix(f"Or use an image of CUDA {ctx.level} or older."),
            ),
        )


def _path_symptom(path: str, forbidding: list[HostGpu], evidence: tuple[Evidence, ...], ctx: RuleContext) -> Symptom:
    """Fatal on a GPU that forbids the libraries, and on a driver that is newer than they are, if they are there.

    The latter: nvidia-container-toolkit, pull request 1679; espressomd/espresso, pull request 4090 (read 2026-11-21).
    """
    newer = ctx.contents.compat is True and _compare_branches(ctx) > 0
    reason = ", whatever driver the host has"
    if forbidding:
        reason = f": {forbidding[0].label} does not allow it"
    elif newer:
        reason = f": they are older than driver {ctx.driver}, and fail with it"
    return Symptom(
        f"LD_LIBRARY_PATH of the image puts forward-compatibility libraries first{reason}",
        (image_evidence("LD_LIBRARY_PATH", path), *evidence),
        (Fix(f"Leave {path} out of LD_LIBRARY_PATH: the container toolkit finds it where it is needed."),),
        Severity.ERROR if forbidding or newer else Severity.WARNING,
    )


def _compare_branches(ctx: RuleContext) -> int:
    """Compares the branches of the host's driver and of the libraries: -1, 0 or 1; 0 if one is unknown."""
    branch = next((row.branch for row in ctx.matrix.driver_branches if row.cuda == ctx.contents.cuda), None)
    if branch is None or ctx.driver is None:
        return 0
    return (ctx.driver.branch > branch) - (ctx.driver.branch < branch)
