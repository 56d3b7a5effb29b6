"""CuPy's own variables, as an image or a Dockerfile sets them."""

from __future__ import annotations

from gpuenv.doctor.registry import Symptom
from gpuenv.image.dockerfile.build_target import BuildTarget
from gpuenv.image.dockerfile.cupy_lines import release_of
from gpuenv.image.dockerfile.install_requests import SourceLocation
from gpuenv.image.dockerfile.rules_docker import symptom_at
from gpuenv.image.dockerfile.variables import is_known
from gpuenv.image.inspect.history import lines_together
from gpuenv.image.inspect.rule_context import RuleContext
from gpuenv.image.inspect.rules import FileOutcome, ImageOutcome, of_image, rule
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import refused_variables
from gpuenv.model.finding import Evidence, Fix, Severity


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


@rule("DKF919", Cause.DOCKERFILE_FAULT)
def file_sets_what_cupy_refuses(target: BuildTarget) -> FileOutcome:
    """A variable of CuPy's is set to a value that CuPy refuses.

    What it means: CuPy reads its variables when it is imported, and ends with an error at a value that it cannot read.
    How it is seen: the ENV instructions of the stages that the image is made of, against what CuPy takes; a value that
    holds a variable is not judged.
    What to do: leave the variable out, or correct it.
    """
    settings = {name: setting for name, setting in target.environment.items() if is_known(setting.value)}
    releases = [release_of(target, install) for install in target.cupy]
    release = releases[0].cupy if releases and releases[0] else None
    for wrong in refused_variables({name: setting.value for name, setting in settings.items()}, release):
        setting = settings[wrong.name]
        yield symptom_at(
            SourceLocation(target.file, setting.line, setting.end_line),
            f"{wrong.name}={wrong.value or '(empty)'}: CuPy refuses this value",
            f"Leave it out, or correct it: {wrong.taken}.",
            Evidence(wrong.name, wrong.value or "(empty)", target.file),
        )
