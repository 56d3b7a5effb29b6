"""The other frameworks that a Dockerfile installs, against the GPUs and the driver of a machine."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.registry import NotKnown, Symptom
from gpuenv.image.inspect.rule_context import RuleContext
from gpuenv.image.inspect.rules import ImageOutcome, of_image, rule
from gpuenv.image.inspect.rules_gpu import outside_cuda
from gpuenv.image.inspect.rules_image import carried_forward
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.versions import CudaVersion

_MEASURED = "linux/amd64"  # the platform whose wheels the matrix's rows of frameworks were read from


@rule(
    "IMG919",
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.DRIVER_TOO_OLD_FOR_CUDA,
)
def framework_outside(ctx: RuleContext) -> ImageOutcome:
    """The CUDA that another framework brings has no code for this GPU, or is beyond its driver.

    What it means: the wheels of PyTorch and the like hold code that their CUDA made, for the GPUs that it knew. On a
    newer GPU they load, and their first kernel fails; a driver of an older major runs none of them, unless the image
    has forward-compatibility libraries that the machine can use.
    How it is seen: the release or the index that the Dockerfile names for the framework, the CUDA of its wheels, and
    the machine's GPUs and driver. What is installed without a version is not judged; what is installed in a condition
    is a warning at most; which CUDA the wheels for other processors than x86_64 are of is not known.
    What to do: install a release whose CUDA knows every GPU of the machine and that its driver runs.
    """
    for name, version in ctx.image.frameworks.items():
        for symptom in _of(ctx, name, CudaVersion.parse(version)):
            if not (ctx.image.platform or _MEASURED).startswith(_MEASURED):
                yield NotKnown(f"which CUDA the wheels of {name} for {ctx.image.platform} are of")
            else:
                perhaps = name in ctx.image.perhaps
                yield symptom._replace(severity=Severity.WARNING) if perhaps else symptom


def _of(ctx: RuleContext, name: str, cuda: CudaVersion) -> Iterator[Symptom]:
    evidence = (of_image(name, f"CUDA {cuda}"), *(Evidence("gpus[]", gpu.label, "") for gpu in ctx.gpus))
    if ctx.level is not None and ctx.level.major < cuda.major and not _is_carried(ctx, cuda):
        yield Symptom(
            f"{name} in the image is of CUDA {cuda}, and the driver runs up to CUDA {ctx.level}",
            (*evidence, Evidence("driver.cuda", str(ctx.level), "")),
            (Fix(f"Install a {name} built for CUDA {ctx.level.major}, or update the driver."),),
            cause=Cause.DRIVER_TOO_OLD_FOR_CUDA,
        )
        return
    minor = next((row for row in ctx.matrix.cuda_minors if row.cuda == cuda), None)
    cause = outside_cuda(ctx, minor) if minor is not None else None
    if minor is None or cause is None:
        return
    new = cause is Cause.GPU_TOO_NEW_FOR_TOOLKIT
    yield Symptom(
        f"{name} in the image is of CUDA {cuda}, which {'does not know' if new else 'no longer supports'} a GPU here",
        (*evidence, Evidence("known", f"CUDA {cuda}", ctx.matrix.cite(minor.source))),
        (Fix(f"Install a {name} whose wheels are of {'a newer' if new else 'an older'} CUDA."),),
        cause=cause,
    )


def _is_carried(ctx: RuleContext, cuda: CudaVersion) -> bool:
    """Whether the libraries in the image are the driver's newer part, and of that major."""
    own = ctx.contents.cuda
    return own is not None and own.major >= cuda.major and carried_forward(ctx)
