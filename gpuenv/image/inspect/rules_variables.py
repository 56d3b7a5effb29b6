"""Rules for an image's variables, labels and history on a machine, and for Docker on the machine."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.containers import cannot_share_gpus
from gpuenv.doctor.fixes.distributions import container_toolkit_fixes
from gpuenv.doctor.registry import Symptom
from gpuenv.image import labels
from gpuenv.image.container_variables import (
    CUDA_VISIBLE_DEVICES,
    DRIVER_CAPABILITIES,
    STUBS,
    VISIBLE_DEVICES,
    capabilities_fault,
    hides_all,
    requests_no_gpu,
)
from gpuenv.image.dockerfile.driver_packages import driver_in
from gpuenv.image.inspect.history import lines_together
from gpuenv.image.inspect.image_report import ImageRequirementStatus
from gpuenv.image.inspect.nvidia_require import requirements
from gpuenv.image.inspect.rule_context import RuleContext, parse_or_none
from gpuenv.image.inspect.rules_driver import requirement_verdicts
from gpuenv.image.rule_registry import ImageSymptoms, image_evidence, rule
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import refused_variables
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import is_contained, parse_visible
from gpuenv.model.redaction import cut_text
from gpuenv.model.versions import ComputeCapability, DriverVersion

_VERIFICATION_FAILED = ("failed", "crashed", "timed-out", "unfit")


@rule("IMG911", Cause.CONTAINER_DRIVER_CAPABILITIES)
def driver_capabilities(ctx: RuleContext) -> ImageSymptoms:
    """The image requests the driver without the compute or the utility capability.

    What it means: NVIDIA_DRIVER_CAPABILITIES selects the driver's libraries that the container toolkit mounts. Without
    compute there is no libcuda, without utility no NVML and no nvidia-smi; the toolkit refuses a container with an
    unknown capability.
    How it is seen: the variable in the image's configuration. Unset or empty it means utility and compute.
    What to do: set NVIDIA_DRIVER_CAPABILITIES=compute,utility, in the image or when the container is started.
    """
    value = ctx.image.environment.get(DRIVER_CAPABILITIES, "")
    fault = capabilities_fault(value)
    if fault is not None:
        title, severity = fault
        setting = f"{DRIVER_CAPABILITIES}=compute,utility"
        # A file or a Dockerfile has no name to start.
        image = ctx.image.reference if ctx.image.source in ("engine", "registry") else "IMAGE"
        command = ("docker", "run", "--gpus", "all", "-e", setting, image)
        yield Symptom(
            f"{DRIVER_CAPABILITIES} of the image {title}",
            (image_evidence(DRIVER_CAPABILITIES, value),),
            (Fix(f"Set {setting}.", command),),
            severity,
        )


@rule("IMG912", Cause.VISIBLE_DEVICES_HIDE_GPU)
def gpus_hidden(ctx: RuleContext) -> ImageSymptoms:
    """A variable of the image hides the GPUs.

    What it means: CUDA_VISIBLE_DEVICES in the image hides every GPU from CUDA, however the container is started.
    With NVIDIA_VISIBLE_DEVICES=void or none the container has no GPU, unless --gpus replaces the value.
    How it is seen: the variables in the image's configuration, and how many GPUs the machine has.
    What to do: leave them out of the image; the engine sets NVIDIA_VISIBLE_DEVICES.
    """
    environment = ctx.image.environment
    shown, requested = environment.get(CUDA_VISIBLE_DEVICES), environment.get(VISIBLE_DEVICES)
    missing = _missing_gpu_reason(shown, ctx) if shown is not None else None
    if shown is not None and (missing or hides_all(shown)):
        count = (Evidence("gpus[]", str(len(ctx.snapshot.gpus)), ""),) if missing else ()
        why = f": {missing}" if missing else ""
        yield Symptom(
            f"{CUDA_VISIBLE_DEVICES}={cut_text(shown, 80)} of the image hides every GPU{why}",
            (image_evidence(CUDA_VISIBLE_DEVICES, shown), *count),
            (Fix(f"Leave {CUDA_VISIBLE_DEVICES} out of the image."),),
        )
    if requested is not None and requests_no_gpu(requested):
        yield Symptom(
            f"{VISIBLE_DEVICES} of the image requests no GPU, unless the container is started with --gpus",
            (image_evidence(VISIBLE_DEVICES, requested),),
            (Fix(f"Set {VISIBLE_DEVICES}=all, or start the container with --gpus all."),),
            Severity.WARNING,
        )
    elif requested is None and environment.get("NVIDIA_REQUIRE_CUDA"):
        yield Symptom(
            f"{VISIBLE_DEVICES} is not set in the image: without --gpus the NVIDIA runtime gives it no GPU",
            (image_evidence(VISIBLE_DEVICES, "not set"),),
            (Fix("Start the container with --gpus all, or with the variable set to all."),),
            Severity.NOTE,
        )


def _missing_gpu_reason(value: str, ctx: RuleContext) -> str | None:
    """Why the first GPU of the list is missing; None inside a container, which may see fewer GPUs.

    A UUID is not looked up: those of a recording may be pseudonyms.
    """
    first, count = value.split(",", maxsplit=1)[0].strip(), len(ctx.snapshot.gpus)
    ordinal = first.isascii() and first.isdecimal()
    if not ordinal or not count or is_contained(ctx.snapshot) or parse_visible(first, count, ()).entries:
        return None
    return f"there is no GPU {first[:20]} on a machine with {count}"


@rule("IMG913", Cause.LIBRARY_PATH_CONFLICT)
def stubs_on_path(ctx: RuleContext) -> ImageSymptoms:
    """LD_LIBRARY_PATH of the image names the toolkit's stub libraries.

    What it means: the stub libcuda is only for linking; a program that loads it finds no GPU (error 34).
    How it is seen: a folder named stubs in LD_LIBRARY_PATH of the image.
    What to do: give the folder to the linker (LIBRARY_PATH), not to the loader.
    """
    for part in ctx.image.environment.get("LD_LIBRARY_PATH", "").split(":"):
        if STUBS.search(part):
            yield Symptom(
                "LD_LIBRARY_PATH of the image names the stub of libcuda",
                (image_evidence("LD_LIBRARY_PATH", part),),
                (Fix(f"Leave {part} out of LD_LIBRARY_PATH."),),
            )


@rule("IMG914", Cause.DRIVER_LIBRARY_VERSION_MISMATCH)
def driver_baked_in(ctx: RuleContext) -> ImageSymptoms:
    """The image contains the driver's own libraries.

    What it means: libcuda and NVML must be those of the host's kernel module; the container toolkit mounts them. If the
    image has another version, it may be found first.
    How it is seen: the steps of the image's history that install a driver's packages. Layers are not inspected: an
    image without a history, or one that copies the files, may have a driver without this finding.
    What to do: leave the driver out of the image.
    """
    for step in ctx.image.history:
        found = driver_in(step)
        if found is None:
            continue
        branch = re.search(r"(?<!\d)(\d{3})(?!\d)", found)
        newer = branch is not None and ctx.driver is not None and int(branch[1]) > ctx.driver.branch
        yield Symptom(
            f"The image has a driver of its own: {found}",
            (
                image_evidence("history", cut_text(step, 160)),
                Evidence("driver.version", str(ctx.driver or "unknown"), ""),
            ),
            (Fix("Leave the driver out of the image: the container toolkit provides that of the host."),),
            Severity.ERROR if newer else Severity.WARNING,
        )
        return


@rule("IMG915", Cause.IMAGE_REQUIRES_OTHER_DRIVER)
def switched_off(ctx: RuleContext) -> ImageSymptoms:
    """The image switches its own requirements off.

    What it means: with NVIDIA_DISABLE_REQUIRE=1 the container starts on any driver; whether CUDA works depends on the
    driver's version.
    How it is seen: the variable in the image's configuration, and what the other variables would have required.
    What to do: nothing, if CUDA runs on this driver.
    """
    environment = ctx.image.environment
    rest = {name: value for name, value in environment.items() if name != "NVIDIA_DISABLE_REQUIRE"}
    if requirements(environment) or not requirements(rest):
        return
    verdicts = requirement_verdicts(replace(ctx, image=replace(ctx.image, environment=rest)))
    failed = (ImageRequirementStatus.UNMET, ImageRequirementStatus.INVALID)
    would = "would not be met" if any(entry.status in failed for entry in verdicts) else "would be met"
    yield Symptom(
        f"The image switches its requirements off (NVIDIA_DISABLE_REQUIRE); they {would} here",
        (image_evidence("NVIDIA_DISABLE_REQUIRE", environment["NVIDIA_DISABLE_REQUIRE"]),),
        (Fix("Nothing has to be done where CUDA runs on this driver."),),
        Severity.NOTE,
    )


@rule("IMG917", Cause.IMAGE_REQUIRES_OTHER_DRIVER)
def no_gpu_software(ctx: RuleContext) -> ImageSymptoms:
    """The image is not known to use a GPU, or its CUDA is unknown.

    What it means: the image starts on the machine, but GPU work may fail: neither variables, labels nor history name
    its CUDA. That is not an error: an image with CUDA from wheels may look like this. CuPy has no wheels for Alpine and
    its C library, musl.
    How it is seen: no variable, label or step of CUDA, NVIDIA, ROCm or CuPy; Alpine by its name or its first step.
    What to do: run the GPU tests in it (gpuenv smoke); images of gpuenv build-image have labels for their contents.
    """
    contents = ctx.contents
    if contents.for_gpus or contents.rocm is not None or ctx.image.frameworks:
        return
    musl = ": it is of Alpine (musl), for which CuPy has no wheels" if contents.musl else ""
    layers = "" if ctx.image.source == "dockerfile" else "; its layers were not read"
    title = f"The CUDA of {contents.software} in the image is unknown"
    yield Symptom(
        f"{title if contents.software else 'Nothing in the image is known to use a GPU'}{musl}{layers}",
        (image_evidence("labels", ", ".join(ctx.image.labels) or "none"),),
        (Fix("Run gpuenv smoke in it, on a machine with a GPU."),),
        Severity.NOTE,
    )


@rule(
    "IMG916",
    Cause.DRIVER_TOO_OLD_FOR_CUDA,
    Cause.NO_KERNEL_IMAGE,
    Cause.IMAGE_REQUIRES_OTHER_DRIVER,
    follows=("IMG902", "IMG903", "IMG905"),
)
def own_labels(ctx: RuleContext) -> ImageSymptoms:
    """The labels of an image that gpuenv has built do not fit this machine.

    What it means: such an image has labels with its GPUs, its oldest driver and the result of its tests.
    How it is seen: the labels io.gpuenv.*.
    What to do: build an image for this machine: gpuenv build-image.
    """
    image_labels = ctx.image.labels
    oldest = parse_or_none(DriverVersion.parse, image_labels.get(labels.MINIMUM_DRIVER))
    if oldest and ctx.driver and not ctx.needs.windows and ctx.driver < oldest:
        yield _label_symptom(labels.MINIMUM_DRIVER, str(oldest), f"driver {ctx.driver}", Cause.DRIVER_TOO_OLD_FOR_CUDA)
    texts = [text.strip() for text in image_labels.get(labels.COMPUTE_CAPABILITIES, "").split(",") if text.strip()]
    served = {capability for text in texts if (capability := parse_or_none(ComputeCapability.parse, text))}
    for gpu in ctx.gpus if served else ():
        own = gpu.compute_capability
        if own is not None and not any(known.major == own.major and known <= own for known in served):
            yield _label_symptom(labels.COMPUTE_CAPABILITIES, ", ".join(texts), gpu.label, Cause.NO_KERNEL_IMAGE)
            break
    result = image_labels.get(labels.PROOF, "")
    if any(word in result.lower() for word in _VERIFICATION_FAILED):
        yield Symptom(
            "The image failed its verification when it was built",
            (image_evidence(labels.PROOF, cut_text(result, 160)),),
            (Fix("Build it again: gpuenv build-image."),),
            Severity.WARNING,
            Cause.IMAGE_REQUIRES_OTHER_DRIVER,
        )


def _label_symptom(name: str, value: str, found: str, cause: Cause) -> Symptom:
    return Symptom(
        f"The image was built for {name.removeprefix(labels.PREFIX)} {value}, and this machine has {found}",
        (image_evidence(name, value), Evidence("found", found, "")),
        (Fix("Build one for this machine: gpuenv build-image."),),
        cause=cause,
    )


@rule("IMG920", Cause.CONTAINER_TOOLKIT_BROKEN)
def no_container_toolkit(ctx: RuleContext) -> ImageSymptoms:
    """Docker on the machine cannot give GPUs to containers.

    What it means: docker run --gpus ends with "could not select device driver" for every image. The NVIDIA container
    toolkit, which gives a container the driver's nodes and libraries, is not on the machine.
    How it is seen: Docker's program is installed, but none of the toolkit's programs, no runtime of it in Docker's
    configuration, and no file of the Container Device Interface.
    What to do: install the NVIDIA container toolkit, configure Docker for it, and restart Docker.
    """
    snapshot = ctx.snapshot
    if not ctx.contents.for_gpus or is_contained(snapshot) or not cannot_share_gpus(snapshot):
        return
    names = ("docker", "has_toolkit", "runtimes")
    yield Symptom(
        "Docker on this machine cannot hand GPUs to containers: there is no NVIDIA container toolkit",
        evidence_of(snapshot, *(f"container_support.{name}" for name in names)),
        container_toolkit_fixes(snapshot),
    )


@rule("IMG918", Cause.CUPY_VARIABLE_INVALID)
def image_sets_what_cupy_refuses(ctx: RuleContext) -> ImageSymptoms:
    """A CuPy variable has a value in the image that CuPy rejects.

    What it means: CuPy reads its variables when it is imported, and ends with an error at a value that it cannot read,
    however the container is started.
    How it is seen: the variables in the image's configuration whose names begin with CUPY_ are compared with the values
    that CuPy accepts.
    What to do: leave the variable out of the image, or correct it.
    """
    for wrong in refused_variables(ctx.image.environment, ctx.contents.cupy):
        yield Symptom(
            f"{wrong.name}={wrong.value or '(empty)'} of the image: CuPy refuses this value",
            (image_evidence(wrong.name, wrong.value),),
            (Fix(f"Leave it out of the image, or correct it: {wrong.taken}."),),
        )


@rule("IMG921", Cause.MULTIPLE_CUPY_PACKAGES)
def several_lines(ctx: RuleContext) -> ImageSymptoms:
    """Two distributions of CuPy were installed into the image, and neither was removed.

    What it means: the lines of CuPy own the same files. They install without an error; either may be imported, and
    removing one breaks the other.
    How it is seen: the steps of the image's history that install a line, without one that removes it. Only the options
    and variables of the commands distinguish environments, so it is a warning.
    What to do: keep one: remove both, then install one again, in one step.
    """
    lines = lines_together(ctx.image.history) if ctx.image.source != "dockerfile" else ()  # DKF905 reports it
    if lines:
        yield Symptom(
            f"The image has had {' and '.join(lines)} installed, which own the same files",
            (image_evidence("history", ", ".join(lines)),),
            (Fix("Build it with only one of them."),),
            Severity.WARNING,
        )
