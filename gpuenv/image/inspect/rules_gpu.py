"""An image's CUDA and CuPy against the GPUs of a machine."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.doctor.registry import NotKnown, Symptom
from gpuenv.image.inspect.rule_context import HostGpu, RuleContext, read
from gpuenv.image.inspect.rules import OTHER_IMAGE, ImageOutcome, of_image, rule
from gpuenv.image.inspect.rules_image import carried_forward
from gpuenv.image.inspect.rules_line import of_line, other_major
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
def gpu_outside_cuda(ctx: RuleContext) -> ImageOutcome:
    """The CUDA or the CuPy in the image makes no code for this GPU.

    What it means: NVRTC and nvcc of a CUDA version know a set of GPUs, and CuPy asks for no more than it knows itself.
    The container starts, and the first kernel fails.
    How it is seen: CUDA and CuPy by the image's labels, variables or name, against the GPU's compute capability. A
    CuPy that a Dockerfile installs in a condition is a warning at most.
    What to do: use an image whose CUDA knows every GPU of the machine.
    """
    contents = ctx.contents
    wheel = _wheel(ctx)
    cuda = None if contents.bundled else contents.cuda
    of_cupy = [*(_of_wheel(ctx, wheel, cuda) if wheel is not None else of_line(ctx, cuda))]
    if not contents.perhaps and (wheel is not None or of_cupy):
        yield from of_cupy
        return
    of_cuda = [*_of_cuda(ctx, contents.cuda)] if contents.cuda is not None else []
    yield from of_cuda or map(_as_warning, of_cupy)


def _as_warning(outcome: Symptom | NotKnown) -> Symptom | NotKnown:
    """A symptom as a warning, for what may not be in the image at all."""
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


def _of_wheel(ctx: RuleContext, wheel: WheelCandidate, cuda: CudaVersion | None) -> ImageOutcome:
    """CuPy's own limits; without the CUDA of the image, those of any minor that its line can have."""
    name = f"{wheel.line.name} {wheel.release.cupy}"
    if cuda is not None and cuda.major != wheel.line.cuda_major:
        yield other_major(ctx, name, cuda, wheel.line.cuda_major)
        return
    inside = replace(
        inside_container(ctx.needs),
        python=read(PythonVersion.parse, ctx.image.environment.get("PYTHON_VERSION")),
    )
    own = next((row for row in ctx.matrix.cuda_minors if row.cuda == cuda), None)
    if own is not None and own not in serving_minors(wheel, inside, ctx.matrix):
        cause = outside_cuda(ctx, own) or Cause.CUPY_TOO_OLD_FOR_GPU
        yield _outside_symptom(ctx, f"{name} with CUDA {cuda}", cause, ctx.matrix.cite(own.source))
        return
    yield from _rejected(ctx, wheel, inside, name)


def _rejected(ctx: RuleContext, wheel: WheelCandidate, inside: Needs, name: str) -> ImageOutcome:
    own = ctx.contents.cuda
    forward = own is not None and own.major >= wheel.line.cuda_major and carried_forward(ctx)
    for constraint, cause in _CONSTRAINTS:
        if constraint is driver_minimum and forward:
            continue  # the libraries in the image are the driver's newer part
        verdict = constraint(wheel, inside, ctx.matrix)
        if isinstance(verdict, Rejected):
            yield Symptom(
                f"{name} in the image does not fit: needs {verdict.needed}, found {verdict.found}",
                (of_image("CuPy", name), Evidence("needed", verdict.needed, verdict.source)),
                (Fix("Use an image with a CuPy that fits this machine; gpuenv resolve names one."),),
                cause=_of_line(ctx, wheel) if constraint is nvrtc_compiles_for_gpu else cause,
            )
            return
        if isinstance(verdict, Unknown) and constraint is driver_minimum:
            yield NotKnown(f"whether {name} runs: {verdict.fact} is not known")


def _of_line(ctx: RuleContext, wheel: WheelCandidate) -> Cause:
    """Whether a GPU is too old or too new for every CUDA of the line, or only this CuPy does not know it."""
    supported = {known for row in minors_of(wheel, ctx.matrix) for known in row.capabilities}
    return outside(supported, [gpu.compute_capability for gpu in ctx.gpus if gpu.compute_capability])


def _major_of(gpu: HostGpu) -> int:
    return gpu.compute_capability.major if gpu.compute_capability else 0


def _of_cuda(ctx: RuleContext, cuda: CudaVersion) -> ImageOutcome:
    """Without CuPy's own limits: code runs on later GPUs of its own major, and on no other."""
    own = next((row for row in ctx.matrix.cuda_minors if row.cuda == cuda), None)
    if own is None:
        oldest = min(ctx.matrix.cuda_minors, key=lambda row: row.cuda)
        if cuda < oldest.cuda and outside_cuda(ctx, oldest) is Cause.GPU_TOO_NEW_FOR_TOOLKIT:
            cited = ctx.matrix.cite(oldest.source)  # what a later CUDA does not know yet, this one does not either
            yield _outside_symptom(ctx, f"CUDA {cuda}", Cause.GPU_TOO_NEW_FOR_TOOLKIT, cited)
            return
        newest = newest_of_old(cuda)
        if newest is not None and any(_major_of(gpu) > newest for gpu in ctx.gpus):
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
    """Why a GPU of the machine is outside of what a CUDA makes code for; none where each is known."""
    gpus = [gpu.compute_capability for gpu in ctx.gpus if gpu.compute_capability]
    if any(gpu < min(minor.capabilities) for gpu in gpus):
        return Cause.GPU_REMOVED_FROM_TOOLKIT
    runs = {gpu for gpu in gpus for known in minor.capabilities if known.major == gpu.major and known <= gpu}
    return Cause.GPU_TOO_NEW_FOR_TOOLKIT if set(gpus) - runs else None


def _outside_symptom(ctx: RuleContext, what: str, cause: Cause, source: str) -> Symptom:
    gpus = tuple(dict.fromkeys(Evidence("gpus[]", gpu.label, "") for gpu in ctx.gpus))
    words = {
        Cause.GPU_REMOVED_FROM_TOOLKIT: "no longer supports",
        Cause.GPU_TOO_NEW_FOR_TOOLKIT: "does not know yet",
        Cause.CUPY_TOO_OLD_FOR_GPU: "makes no code for",
    }[cause]
    older = "an older" if cause is Cause.GPU_REMOVED_FROM_TOOLKIT else "a newer"
    return Symptom(
        f"{what} in the image {words} a GPU of this machine",
        (of_image(ctx.contents.cuda_source, str(ctx.contents.cuda)), *gpus, Evidence("known", what, source)),
        (Fix(f"Use an image of {older} CUDA; gpuenv resolve names one for this machine."),),
        cause=cause,
    )


@rule("IMG906", Cause.JETSON_TEGRA, Cause.ROCM_MISMATCH)
def other_kind_of_gpu(ctx: RuleContext) -> ImageOutcome:
    """The image is for another kind of GPU: a server's, a Jetson's or AMD's.

    What it means: a Jetson runs images made for its JetPack, and no others; an image of ROCm runs on AMD GPUs alone.
    How it is seen: the variables that JetPack's and ROCm's images set, and the machine's GPU.
    What to do: use an image for this kind of machine.
    """
    contents = ctx.contents
    if contents.rocm is not None and contents.cuda is None and (ctx.driver or ctx.gpus):
        yield _kind("The image is made for AMD GPUs", Cause.ROCM_MISMATCH, contents.rocm, ctx)
    elif ctx.needs.tegra and contents.cuda is not None and contents.tegra is None:
        of_servers = CudaVersion(13, 0) <= contents.cuda and any(gpu.compute_capability == _THOR for gpu in ctx.gpus)
        if not of_servers:
            yield _kind("The image is made for servers, not for a Jetson", Cause.JETSON_TEGRA, "CUDA_VERSION", ctx)
    elif contents.tegra is not None and not ctx.needs.tegra and (ctx.driver or ctx.gpus):
        yield _kind("The image is made for a Jetson", Cause.JETSON_TEGRA, contents.tegra, ctx)


def _kind(title: str, cause: Cause, variable: str, ctx: RuleContext) -> Symptom:
    gpus = tuple(dict.fromkeys(Evidence("gpus[]", gpu.label, "") for gpu in ctx.gpus))
    return Symptom(
        title,
        (of_image(variable, ctx.image.environment.get(variable, "set")), *gpus),
        (Fix("Use an image that is made for this kind of GPU."),),
        cause=cause,
    )
