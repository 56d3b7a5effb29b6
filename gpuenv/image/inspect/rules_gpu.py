"""Rules for an image's CUDA, CuPy and other frameworks on the GPUs of a machine."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.registry import NotKnown, Symptom
from gpuenv.image.inspect.rule_context import RuleContext, parse_or_none
from gpuenv.image.inspect.rules_driver import oldest_driver, runs_by_forward_compatibility, runs_by_minor
from gpuenv.image.rule_registry import OTHER_IMAGE, ImageSymptoms, image_evidence, rule
from gpuenv.matrix.alternatives import inside_container
from gpuenv.matrix.candidates import WheelCandidate, minors_of, serving_minors
from gpuenv.matrix.constraints import (
    Constraint,
    Rejected,
    Unknown,
    driver_minimum,
    nvrtc_compiles_for_gpu,
    python,
    wheel_has_code_for_gpu,
)
from gpuenv.matrix.needs import Needs
from gpuenv.matrix.products import OF_OLD, newest_of_old, outside
from gpuenv.matrix.tables import CudaMinor, Flavour
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.versions import ComputeCapability, CudaVersion, PythonVersion

_CONSTRAINTS: tuple[tuple[Constraint, Cause], ...] = (
    (driver_minimum, Cause.DRIVER_TOO_OLD_FOR_CUDA),
    (nvrtc_compiles_for_gpu, Cause.GPU_TOO_NEW_FOR_TOOLKIT),
    (wheel_has_code_for_gpu, Cause.CUPY_TOO_OLD_FOR_GPU),
    (python, Cause.PYTHON_UNSUPPORTED),
)
# From CUDA 13.0 on Thor takes the toolkit, programs and container images of Arm servers, Orin does not: NVIDIA, "What's
# New in CUDA Toolkit 13.0 for Jetson Thor", Unifying CUDA for Arm (read 2026-11-21).
_THOR = ComputeCapability(11, 0)
_MEASURED = "linux/amd64"  # the platform whose wheels the matrix's rows of frameworks were read from


@rule(
    "IMG905",
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.CUPY_TOO_OLD_FOR_GPU,
    Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
    Cause.DRIVER_TOO_OLD_FOR_CUDA,
    Cause.PYTHON_UNSUPPORTED,
    follows=("IMG902", "IMG903", "IMG907", "GPU204", *OTHER_IMAGE),
)
def gpu_outside_cuda(ctx: RuleContext) -> ImageSymptoms:
    """The CUDA or the CuPy in the image generates no code for this GPU.

    What it means: NVRTC and nvcc of a CUDA version support a set of GPUs, and so does CuPy. The container starts, and
    the first kernel fails.
    How it is seen: the CUDA and the CuPy that the image's labels, variables or name show are compared with the GPU's
    compute capability. A CuPy that a step of the history installs in a condition is a warning at most.
    What to do: use an image whose CUDA knows every GPU of the machine.
    """
    contents = ctx.contents
    wheel = _wheel(ctx)
    cuda = None if contents.bundled else contents.cuda
    cupy_outcomes = [*(_check_wheel(ctx, wheel, cuda) if wheel is not None else _check_line(ctx, cuda))]
    if not contents.uncertain and (wheel is not None or cupy_outcomes):
        yield from cupy_outcomes
        return
    cuda_outcomes = [*_check_cuda(ctx, contents.cuda)] if contents.cuda is not None else []
    yield from cuda_outcomes or map(_as_warning, cupy_outcomes)


def _as_warning(outcome: Symptom | NotKnown) -> Symptom | NotKnown:
    """A symptom as a warning, for software that may be missing in the image."""
    return outcome._replace(severity=Severity.WARNING) if isinstance(outcome, Symptom) else outcome


def _wheel(ctx: RuleContext) -> WheelCandidate | None:
    contents = ctx.contents
    rows = (
        (line, row)
        for line in ctx.matrix.wheel_lines
        if line.name == contents.line
        for row in line.releases
        if row.cupy == contents.cupy
    )
    return next((WheelCandidate(line, row, None) for line, row in rows), None)


def _check_wheel(ctx: RuleContext, wheel: WheelCandidate, cuda: CudaVersion | None) -> ImageSymptoms:
    """The limits of a CuPy with the CUDA of the image; if unknown, with any CUDA of its line."""
    name = f"{wheel.line.name} {wheel.release.cupy}"
    if cuda is not None and cuda.major != wheel.line.cuda_major:
        yield _other_major(ctx, name, cuda, wheel.line.cuda_major)
        return
    inside = replace(
        inside_container(ctx.needs),
        python=parse_or_none(PythonVersion.parse, ctx.image.environment.get("PYTHON_VERSION")),
    )
    own = _minor(ctx, cuda)
    if own is not None and own not in serving_minors(wheel, inside, ctx.matrix):
        cause = outside_cuda(ctx, own) or Cause.CUPY_TOO_OLD_FOR_GPU
        yield _outside_symptom(ctx, f"{name} with CUDA {cuda}", cause, ctx.matrix.cite(own.source))
        return
    yield from _rejected(ctx, wheel, inside, name)


def _rejected(ctx: RuleContext, wheel: WheelCandidate, inside: Needs, name: str) -> ImageSymptoms:
    forward = _runs_forward(ctx, wheel.line.cuda_major)
    for constraint, usual_cause in _CONSTRAINTS:
        if constraint is driver_minimum and forward:
            continue  # the libraries in the image are the driver's newer part
        verdict = constraint(wheel, inside, ctx.matrix)
        if isinstance(verdict, Rejected):
            needed = Evidence("needed", verdict.needed, verdict.source)
            cause = _cause_of_nvrtc(ctx, wheel) if constraint is nvrtc_compiles_for_gpu else usual_cause
            yield _unfit(name, verdict.needed, verdict.found, (needed,), cause)
            return
        if isinstance(verdict, Unknown) and constraint is driver_minimum:
            yield NotKnown(f"whether {name} runs: {verdict.fact} is not known")


def _unfit(name: str, needed: str, found: object, evidence: tuple[Evidence, ...], cause: Cause) -> Symptom:
    return Symptom(
        f"{name} in the image does not fit: needs {needed}, found {found}",
        (image_evidence("CuPy", name), *evidence),
        (Fix("Use an image with a CuPy that fits this machine; gpuenv resolve names one."),),
        cause=cause,
    )


def _cause_of_nvrtc(ctx: RuleContext, wheel: WheelCandidate) -> Cause:
    """Whether a GPU is too old or too new for every CUDA of the line, or only this CuPy does not know it."""
    supported = {known for row in minors_of(wheel, ctx.matrix) for known in row.capabilities}
    return outside(supported, _capabilities(ctx))


def _minor(ctx: RuleContext, cuda: CudaVersion | None) -> CudaMinor | None:
    return next((row for row in ctx.matrix.cuda_minors if row.cuda == cuda), None)


def _capabilities(ctx: RuleContext) -> list[ComputeCapability]:
    return [gpu.compute_capability for gpu in ctx.gpus if gpu.compute_capability]


def _other_major(ctx: RuleContext, name: str, cuda: CudaVersion, major: int) -> Symptom:
    """A wheel for another CUDA than the image has."""
    return Symptom(
        f"{name} is for CUDA {major}, and the image has CUDA {cuda}",
        (image_evidence(ctx.contents.cuda_source, str(cuda)), image_evidence("CuPy", name)),
        (Fix(f"Install the line of CUDA {cuda.major} in the image, or base it on CUDA {major}."),),
        cause=Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
    )


def _check_line(ctx: RuleContext, cuda: CudaVersion | None) -> ImageSymptoms:
    """The limits of every release of a wheel line, for a CuPy of unknown release."""
    row = next((entry for entry in ctx.matrix.wheel_lines if entry.name == ctx.contents.line), None)
    if row is None:
        return
    name, major = row.name, row.cuda_major
    least = CudaVersion(major, 0)
    if cuda is not None and cuda.major != major:
        yield _other_major(ctx, name, cuda, major)
        return
    too_old = ctx.level is not None and ctx.level.major < major and not runs_by_minor(least, ctx)
    if too_old and not _runs_forward(ctx, major):
        oldest = oldest_driver(least, ctx)
        needed = f"driver >= {oldest}" if oldest else f"a driver of CUDA {major}"
        found = f"driver {ctx.driver}" if ctx.driver else f"a driver of CUDA {ctx.level}"
        yield _unfit(name, needed, found, evidence_of(ctx.snapshot, "driver.version"), Cause.DRIVER_TOO_OLD_FOR_CUDA)
        return
    rows = [row for row in ctx.matrix.cuda_minors if row.cuda.major == major and row.capabilities]
    oldest_gpu, source = min(((min(row.capabilities), row.source) for row in rows), default=(None, ""))
    for gpu in ctx.gpus:  # one that is older than any that a CUDA of this major compiles for
        if gpu.compute_capability is not None and oldest_gpu is not None and gpu.compute_capability < oldest_gpu:
            needed = f"compute capability >= {oldest_gpu}"
            cited = Evidence("needed", needed, ctx.matrix.cite(source))
            yield _unfit(name, needed, gpu.label, (cited,), Cause.GPU_REMOVED_FROM_TOOLKIT)
            return


def _check_cuda(ctx: RuleContext, cuda: CudaVersion) -> ImageSymptoms:
    """The limits of a CUDA without CuPy: its code runs on later GPUs of the same major only."""
    own = _minor(ctx, cuda)
    if own is None:
        oldest = min(ctx.matrix.cuda_minors, key=lambda row: row.cuda)
        if cuda < oldest.cuda and outside_cuda(ctx, oldest) is Cause.GPU_TOO_NEW_FOR_TOOLKIT:
            cited = ctx.matrix.cite(oldest.source)  # what a later CUDA does not know yet, this one does not either
            yield _outside_symptom(ctx, f"CUDA {cuda}", Cause.GPU_TOO_NEW_FOR_TOOLKIT, cited)
            return
        newest = newest_of_old(cuda)
        if newest is not None and any(gpu.major > newest for gpu in _capabilities(ctx)):
            yield _outside_symptom(ctx, f"CUDA {cuda}", Cause.GPU_TOO_NEW_FOR_TOOLKIT, OF_OLD)
            return
        yield NotKnown(f"which GPUs CUDA {cuda} compiles for: the matrix has no such CUDA")
        return
    cause = outside_cuda(ctx, own)
    if cause is None:
        return
    base = ctx.contents.flavour is Flavour.BASE
    severity = Severity.WARNING if base else Severity.ERROR
    yield _outside_symptom(ctx, f"CUDA {cuda}", cause, ctx.matrix.cite(own.source))._replace(severity=severity)


def outside_cuda(ctx: RuleContext, minor: CudaMinor) -> Cause | None:
    """The cause for which a CUDA makes no code for a GPU of the machine; None if it serves all GPUs."""
    gpus = _capabilities(ctx)
    if any(gpu < min(minor.capabilities) for gpu in gpus):
        return Cause.GPU_REMOVED_FROM_TOOLKIT
    runs = {gpu for gpu in gpus for known in minor.capabilities if known.major == gpu.major and known <= gpu}
    return Cause.GPU_TOO_NEW_FOR_TOOLKIT if set(gpus) - runs else None


def _outside_symptom(ctx: RuleContext, what: str, cause: Cause, source: str) -> Symptom:
    words = {
        Cause.GPU_REMOVED_FROM_TOOLKIT: "no longer supports",
        Cause.GPU_TOO_NEW_FOR_TOOLKIT: "does not know yet",
        Cause.CUPY_TOO_OLD_FOR_GPU: "makes no code for",
    }[cause]
    older = "an older" if cause is Cause.GPU_REMOVED_FROM_TOOLKIT else "a newer"
    return Symptom(
        f"{what} in the image {words} a GPU of this machine",
        (
            image_evidence(ctx.contents.cuda_source, str(ctx.contents.cuda)),
            *ctx.gpu_evidence,
            Evidence("known", what, source),
        ),
        (Fix(f"Use an image of {older} CUDA; gpuenv resolve names one for this machine."),),
        cause=cause,
    )


@rule("IMG906", Cause.JETSON_TEGRA, Cause.ROCM_MISMATCH)
def other_kind_of_gpu(ctx: RuleContext) -> ImageSymptoms:
    """The image is for another kind of GPU: a server GPU, a Jetson or an AMD GPU.

    What it means: a Jetson runs images made for its JetPack, and no others; an image of ROCm runs only on AMD GPUs.
    How it is seen: the variables that JetPack's and ROCm's images set, and the machine's GPU.
    What to do: use an image for this kind of machine.
    """
    contents = ctx.contents
    if contents.rocm is not None and contents.cuda is None and (ctx.driver or ctx.gpus):
        yield _other_kind("The image is made for AMD GPUs", Cause.ROCM_MISMATCH, contents.rocm, ctx)
    elif ctx.needs.tegra and contents.cuda is not None and contents.tegra is None:
        runs_server_images = CudaVersion(13, 0) <= contents.cuda and any(
            gpu.compute_capability == _THOR for gpu in ctx.gpus
        )
        if not runs_server_images:
            yield _other_kind(
                "The image is made for servers, not for a Jetson", Cause.JETSON_TEGRA, "CUDA_VERSION", ctx
            )
    elif contents.tegra is not None and not ctx.needs.tegra and (ctx.driver or ctx.gpus):
        yield _other_kind("The image is made for a Jetson", Cause.JETSON_TEGRA, contents.tegra, ctx)


def _other_kind(title: str, cause: Cause, variable: str, ctx: RuleContext) -> Symptom:
    return Symptom(
        title,
        (image_evidence(variable, ctx.image.environment.get(variable, "set")), *ctx.gpu_evidence),
        (Fix("Use an image that is made for this kind of GPU."),),
        cause=cause,
    )


@rule(
    "IMG919",
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.DRIVER_TOO_OLD_FOR_CUDA,
)
def framework_outside(ctx: RuleContext) -> ImageSymptoms:
    """The CUDA of another framework has no code for this GPU, or is too new for its driver.

    What it means: the wheels of PyTorch and similar frameworks contain code that their CUDA generated for the GPUs that
    it supports. On a newer GPU they load, but their first kernel fails; a driver of an older major runs none of them,
    unless the image has forward-compatibility libraries that the machine can use.
    How it is seen: the release or the index that the Dockerfile names for the framework, the CUDA of its wheels, and
    the machine's GPUs and driver. Installs without a version or in a condition are not checked, nor are the wheels for
    processors other than x86_64, whose CUDA is unknown.
    What to do: install a release whose CUDA knows every GPU of the machine and that its driver runs.
    """
    for name, version in ctx.image.frameworks.items():
        symptom = _check_framework(ctx, name, CudaVersion.parse(version))
        if symptom and not (ctx.image.platform or _MEASURED).startswith(_MEASURED):
            yield NotKnown(f"which CUDA the wheels of {name} for {ctx.image.platform} use")
        elif symptom:
            yield symptom


def _check_framework(ctx: RuleContext, name: str, cuda: CudaVersion) -> Symptom | None:
    evidence = (image_evidence(name, f"CUDA {cuda}"), *ctx.gpu_evidence)
    if ctx.level is not None and ctx.level.major < cuda.major and not _runs_forward(ctx, cuda.major):
        return Symptom(
            f"{name} in the image is of CUDA {cuda}, and the driver runs up to CUDA {ctx.level}",
            (*evidence, Evidence("driver.cuda", str(ctx.level), "")),
            (Fix(f"Install a {name} built for CUDA {ctx.level.major}, or update the driver."),),
            cause=Cause.DRIVER_TOO_OLD_FOR_CUDA,
        )
    minor = _minor(ctx, cuda)
    cause = outside_cuda(ctx, minor) if minor is not None else None
    if minor is None or cause is None:
        return None
    new = cause is Cause.GPU_TOO_NEW_FOR_TOOLKIT
    return Symptom(
        f"{name} in the image is of CUDA {cuda}, which {'does not know' if new else 'no longer supports'} a GPU here",
        (*evidence, Evidence("known", f"CUDA {cuda}", ctx.matrix.cite(minor.source))),
        (Fix(f"Install a {name} whose wheels are of {'a newer' if new else 'an older'} CUDA."),),
        cause=cause,
    )


def _runs_forward(ctx: RuleContext, major: int) -> bool:
    """Whether this machine can use the image's forward-compatibility libraries for a CUDA major."""
    return ctx.contents.cuda is not None and ctx.contents.cuda.major >= major and runs_by_forward_compatibility(ctx)
