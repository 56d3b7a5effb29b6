"""A wheel line of CuPy's in an image, where its release is not known: what holds for every release of it."""

from __future__ import annotations

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.registry import Symptom
from gpuenv.image.inspect.require_text import oldest_driver, runs_by_minor
from gpuenv.image.inspect.rule_context import RuleContext
from gpuenv.image.inspect.rules import ImageOutcome, of_image
from gpuenv.image.inspect.rules_image import carried_forward
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.versions import CudaVersion


def of_line(ctx: RuleContext, cuda: CudaVersion | None) -> ImageOutcome:
    """A CUDA major that the image has not, that its driver does not run, or that compiles for a GPU no more.

    Args:
        ctx: an image whose CuPy is of a line and of no known release.
        cuda: of the image; none where the wheels bring their own.
    """
    row = next((entry for entry in ctx.matrix.wheel_lines if entry.name == ctx.contents.line), None)
    if row is None:
        return
    if cuda is not None and cuda.major != row.cuda_major:
        yield other_major(ctx, row.name, cuda, row.cuda_major)
        return
    least = CudaVersion(row.cuda_major, 0)
    if ctx.level is not None and ctx.level.major < row.cuda_major and not runs_by_minor(least, ctx):
        own = ctx.contents.cuda
        if not (own is not None and own.major >= row.cuda_major and carried_forward(ctx)):
            yield _driver(ctx, row.name, least)
            return
    yield from _removed(ctx, row.name, row.cuda_major)


def other_major(ctx: RuleContext, name: str, cuda: CudaVersion, major: int) -> Symptom:
    """A wheel for another CUDA than the image has."""
    return Symptom(
        f"{name} is for CUDA {major}, and the image has CUDA {cuda}",
        (of_image(ctx.contents.cuda_source, str(cuda)), of_image("CuPy", name)),
        (Fix(f"Install the line of CUDA {cuda.major} in the image, or base it on CUDA {major}."),),
        cause=Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
    )


def _driver(ctx: RuleContext, name: str, least: CudaVersion) -> Symptom:
    oldest = oldest_driver(least, ctx)
    needed = f"driver >= {oldest}" if oldest else f"a driver of CUDA {least.major}"
    found = f"driver {ctx.driver}" if ctx.driver else f"a driver of CUDA {ctx.level}"
    return Symptom(
        f"{name} in the image does not fit: needs {needed}, found {found}",
        (of_image("CuPy", name), *fact("driver.version", ctx.snapshot.driver.version)),
        (Fix("Use an image with a CuPy that fits this machine; gpuenv resolve names one."),),
        cause=Cause.DRIVER_TOO_OLD_FOR_CUDA,
    )


def _removed(ctx: RuleContext, name: str, major: int) -> ImageOutcome:
    """A GPU that is older than any that a CUDA of this major compiles for."""
    rows = [row for row in ctx.matrix.cuda_minors if row.cuda.major == major and row.capabilities]
    if not rows:
        return
    least = min(rows, key=lambda row: min(row.capabilities))
    oldest = min(least.capabilities)
    for gpu in ctx.gpus:
        if gpu.compute_capability is not None and gpu.compute_capability < oldest:
            cited = ctx.matrix.cite(least.source)
            yield Symptom(
                f"{name} in the image does not fit: needs compute capability >= {oldest}, found {gpu.label}",
                (of_image("CuPy", name), Evidence("needed", f"compute capability >= {oldest}", cited)),
                (Fix("Use an image with a CuPy that fits this machine; gpuenv resolve names one."),),
                cause=Cause.GPU_REMOVED_FROM_TOOLKIT,
            )
            return
