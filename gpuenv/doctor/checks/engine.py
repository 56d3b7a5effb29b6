"""The engine on this host that starts containers: can it hand GPUs to them?"""

from __future__ import annotations

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.fixes.containers import hands_over_nothing
from gpuenv.doctor.fixes.distributions import container_toolkit
from gpuenv.doctor.predicates import contained, driver_sees_gpu
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix, Severity

_SNAP = Fix("Docker of a snap package cannot use it: install Docker's own packages in its place.")


@check("CTR307", Cause.CONTAINER_TOOLKIT_BROKEN, requires=("DRV100", "GPU201", "CTR301"))
def docker_without_toolkit(facts: Facts) -> Outcome:
    """Docker on this host cannot hand GPUs to containers.

    What it means: programs on this host may use the GPU, but docker run --gpus ends with "could not select device
    driver": the NVIDIA container toolkit, which gives a container the nodes and the libraries, is not there.
    How it is seen: Docker's program is there; none of the toolkit's programs, no runtime of its own in Docker's
    configuration, and no file of the Container Device Interface.
    What to do: install the NVIDIA container toolkit, tell Docker of it, and restart Docker. Where no container needs a
    GPU, nothing.
    """
    snapshot = facts.snapshot
    if contained(snapshot) or not driver_sees_gpu(snapshot) or not hands_over_nothing(snapshot):
        return
    support = snapshot.container_support
    of_snap = (support.docker.value or "").startswith("/snap/")
    yield Symptom(
        "Docker is on this host, and cannot hand its GPUs to containers: there is no NVIDIA container toolkit",
        fact("container_support.docker", support.docker)
        + fact("container_support.has_toolkit", support.has_toolkit)
        + fact("container_support.runtimes", support.runtimes),
        (*container_toolkit(snapshot), *((_SNAP,) if of_snap else ())),
        Severity.NOTE,
    )
