"""An image's forward-compatibility libraries on a machine."""

from __future__ import annotations

import re

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.registry import Symptom
from gpuenv.image.inspect.image_report import ImageRequirementStatus
from gpuenv.image.inspect.rule_context import HostGpu, RuleContext
from gpuenv.image.inspect.rules import OTHER_IMAGE, ImageOutcome, of_image, rule
from gpuenv.image.inspect.rules_image import requirement_verdicts
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity

# NVIDIA, CUDA Compatibility, "Forward Compatibility Support Across Major Toolkit Versions" (read 2026-11-21): for data
# center GPUs, select NGC Server Ready SKUs of RTX cards, and Jetson boards. So a GeForce or TITAN is refused; an RTX or
# Quadro is neither refused nor let through, for its brand does not tell whether the server is such a one.
_NOT_FORWARD = ("geforce", "geforcertx", "titan", "titanrtx")
# Images of NGC keep the libraries in compat/lib.real, where no toolkit looks, and have compat/lib in LD_LIBRARY_PATH,
# which is not there until their own start makes it: /etc/shinit_v2 asks cudaCheck first whether they work on this GPU.
# Public notes on /etc/shinit_v2 of these images, and of one who had to link lib to lib.real by hand in a 24.06 that
# could not be written to; nvidia-container-toolkit, cudacompat_test.go, compat/libcuda.so.* (read November 2026).
_OWN_CHECK = "_CUDA_COMPAT_PATH"
_COMPAT = re.compile(r"/cuda[^/]*/compat(?:/lib(?:\.real)?)?/?$")


@rule("IMG904", Cause.FORWARD_COMPAT_UNSUPPORTED, follows=OTHER_IMAGE)
def forward_compatibility(ctx: RuleContext) -> ImageOutcome:
    """Forward-compatibility libraries would be used on a GPU that does not allow them.

    What it means: the package cuda-compat brings a newer libcuda for an older driver. It works on data-centre GPUs;
    on a GeForce or TITAN cuInit fails with 804, although the driver's own libcuda might do; and with a driver that is
    newer than the package, on any GPU, it fails with 803. Container toolkits 1.17.4 and 1.20 or newer do not put it
    first of themselves, or only where the libraries say that they fit the driver; all the others do, so that it is an
    error and no warning.
    How it is seen: the compat folder in LD_LIBRARY_PATH of the image; or the package in an image whose CUDA is newer
    than the driver, where the container toolkit puts it first. Images that check at their start whether the libraries
    work on the GPU, as NGC's do, are left to it.
    What to do: leave the folder out of LD_LIBRARY_PATH, and update the driver or use an image of its CUDA.
    """
    environment = ctx.image.environment
    checks = environment.get(_OWN_CHECK)
    paths = [part for part in environment.get("LD_LIBRARY_PATH", "").split(":") if _COMPAT.search(part)]
    paths = [part for part in paths if not checks or part.rstrip("/") != f"{checks.rstrip('/')}/lib"]
    forbidding = [gpu for gpu in ctx.gpus if gpu.brands and set(gpu.brands) <= set(_NOT_FORWARD)]
    if paths:
        yield _on_path(paths[0], forbidding, ctx)
    elif forbidding and ctx.contents.compat and not checks and _older_branch(ctx):
        starts = all(entry.status is not ImageRequirementStatus.UNMET for entry in requirement_verdicts(ctx))
        if starts:
            yield Symptom(
                f"The container toolkit uses the image's forward-compatibility libraries, which "
                f"{forbidding[0].label} does not allow",
                (*_forbidding(forbidding), *fact("driver.version", ctx.snapshot.driver.version)),
                (
                    Fix(f"Update the driver to one of CUDA {ctx.contents.cuda}."),
                    Fix(f"Or use an image of CUDA {ctx.level} or older."),
                ),
            )


def _on_path(path: str, forbidding: list[HostGpu], ctx: RuleContext) -> Symptom:
    """Fatal on a GPU that forbids it, and on a driver that is newer than the libraries, if they are there.

    The latter: nvidia-container-toolkit, pull request 1679; espressomd/espresso, pull request 4090 (read 2026-11-21).
    """
    newer = ctx.contents.compat is True and _branches(ctx) > 0
    severity = Severity.ERROR if forbidding or newer else Severity.WARNING
    which = ", whatever driver the host has"
    if forbidding:
        which = f": {forbidding[0].label} does not allow it"
    elif newer:
        which = f": they are older than driver {ctx.driver}, and fail with it"
    return Symptom(
        f"LD_LIBRARY_PATH of the image puts forward-compatibility libraries first{which}",
        (
            of_image("LD_LIBRARY_PATH", path),
            *_forbidding(forbidding),
            *fact("driver.version", ctx.snapshot.driver.version),
        ),
        (Fix(f"Leave {path} out of LD_LIBRARY_PATH: the container toolkit finds it where it is needed."),),
        severity,
    )


def _forbidding(gpus: list[HostGpu]) -> tuple[Evidence, ...]:
    entries = (Evidence("gpus[].brand", f"{gpu.brand} ({gpu.label})", gpu.brand_source) for gpu in gpus)
    return tuple(dict.fromkeys(entries))


def _branches(ctx: RuleContext) -> int:
    """How the branch of the host's driver compares with that of the libraries: -1, 0, 1; 0 where one is not known."""
    cuda, driver = ctx.contents.cuda, ctx.driver
    branch = next((row.branch for row in ctx.matrix.driver_branches if row.cuda == cuda), None)
    return 0 if branch is None or driver is None else (driver.branch > branch) - (driver.branch < branch)


def _older_branch(ctx: RuleContext) -> bool:
    """Whether the host's driver is of an older branch than the libraries.

    That is when a toolkit up to 1.19 puts them first: libnvidia-container, src/cli/compat_mode.c,
    filter_by_major_version; nvidia-container-toolkit, cmd/nvidia-cdi-hook/cudacompat/cudacompat.go,
    getContainerForwardCompatDir. Its CHANGELOG, v1.17.4: not at all; its release notes, v1.20.0: by the ELF header of
    the image's libcuda (all read 2026-11-21). Which toolkit there is, is not known: the older ones are assumed.
    """
    return _branches(ctx) < 0
