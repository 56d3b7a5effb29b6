"""CuPy in an image: its variables, and two of its lines beside each other."""

from __future__ import annotations

from gpuenv.doctor.registry import Symptom
from gpuenv.image.inspect.history import lines_together
from gpuenv.image.inspect.rule_context import RuleContext
from gpuenv.image.inspect.rules import ImageOutcome, of_image, rule
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import refused_variables
from gpuenv.model.finding import Fix, Severity


@rule("IMG918", Cause.CUPY_VARIABLE_INVALID)
def image_sets_what_cupy_refuses(ctx: RuleContext) -> ImageOutcome:
    """A variable of CuPy's has a value in the image that CuPy refuses.

    What it means: CuPy reads its variables when it is imported, and ends with an error at a value that it cannot read,
    however the container is started.
    How it is seen: the variables in the image's configuration whose names begin with CUPY_, against what CuPy takes.
    What to do: leave the variable out of the image, or correct it.
    """
    for wrong in refused_variables(ctx.image.environment, ctx.contents.cupy):
        yield Symptom(
            f"{wrong.name}={wrong.value or '(empty)'} of the image: CuPy refuses this value",
            (of_image(wrong.name, wrong.value),),
            (Fix(f"Leave it out of the image, or correct it: {wrong.taken}."),),
        )


@rule("IMG921", Cause.MULTIPLE_CUPY_PACKAGES)
def several_lines(ctx: RuleContext) -> ImageOutcome:
    """Two distributions of CuPy were installed into the image, and neither was removed.

    What it means: the lines of CuPy own the same files. They install without a complaint; which one is imported is
    chance, and removing one breaks the other.
    How it is seen: the steps of the image's history that install a line, without one that takes it away. Steps that
    name environments of their own are distinguished; those that do so in another way are not, so it is a warning.
    What to do: keep one: remove both in the step that installs the other, and install it anew.
    """
    lines = lines_together(ctx.image.history) if ctx.image.source != "dockerfile" else ()  # DKF905 tells it
    if lines:
        yield Symptom(
            f"The image has had {' and '.join(lines)} installed, which own the same files",
            (of_image("history", ", ".join(lines)),),
            (Fix("Build it with one of them alone."),),
            Severity.WARNING,
        )
