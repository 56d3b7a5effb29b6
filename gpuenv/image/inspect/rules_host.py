"""What starts containers on a machine."""

from __future__ import annotations

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.fixes.containers import cannot_share_gpus
from gpuenv.doctor.fixes.distributions import container_toolkit_fixes
from gpuenv.doctor.registry import Symptom
from gpuenv.image.inspect.rule_context import RuleContext
from gpuenv.image.inspect.rules import ImageOutcome, rule
from gpuenv.model.causes import Cause
from gpuenv.model.gpus import is_contained


@rule("IMG920", Cause.CONTAINER_TOOLKIT_BROKEN)
def no_container_toolkit(ctx: RuleContext) -> ImageOutcome:
    """Docker on the machine cannot hand GPUs to containers.

    What it means: docker run --gpus ends with "could not select device driver", whatever the image. The NVIDIA
    container toolkit, which gives a container the driver's nodes and libraries, is not on the machine.
    How it is seen: Docker's program is there; none of the toolkit's programs, no runtime of its own in Docker's
    configuration, and no file of the Container Device Interface.
    What to do: install the NVIDIA container toolkit, tell Docker of it, and restart Docker.
    """
    snapshot, support = ctx.snapshot, ctx.snapshot.container_support
    if not ctx.contents.for_gpus or is_contained(snapshot) or not cannot_share_gpus(snapshot):
        return
    yield Symptom(
        "Docker on this machine cannot hand GPUs to containers: there is no NVIDIA container toolkit",
        fact("container_support.docker", support.docker)
        + fact("container_support.has_toolkit", support.has_toolkit)
        + fact("container_support.runtimes", support.runtimes),
        container_toolkit_fixes(snapshot),
    )
