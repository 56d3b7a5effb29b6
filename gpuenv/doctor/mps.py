"""CUDA through NVIDIA's Multi-Process Service (MPS): what its answers mean, and how it is left. Pure."""

from __future__ import annotations

from gpuenv.doctor.registry import Symptom
from gpuenv.model.codes import Cuda
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.presence import contained
from gpuenv.model.snapshot import Snapshot

_FEWER_CLIENTS = "End other clients of MPS, or wait for them."
_END_MPS = ("sh", "-c", "echo quit | nvidia-cuda-mps-control")
# CUDA Driver API, Data types used by CUDA driver, CUresult; NVIDIA, Multi-Process Service (read November 2026).
MPS_TROUBLES = {
    Cuda.MPS_CONNECTION_FAILED: (
        "its control daemon or its server cannot be reached",
        "Start MPS's control daemon as this user, and let CUDA_MPS_PIPE_DIRECTORY name its folder.",
    ),
    Cuda.MPS_RPC_FAILURE: ("a call to its server has failed", "Start MPS's control daemon anew."),
    Cuda.MPS_SERVER_NOT_READY: (
        "its server is not ready, which may pass",
        "Wait a moment; MPS's server recovers from a fault of a client.",
    ),
    Cuda.MPS_MAX_CLIENTS_REACHED: ("its server takes no more clients", _FEWER_CLIENTS),
    Cuda.MPS_MAX_CONNECTIONS_REACHED: ("its server takes no more connections", _FEWER_CLIENTS),
    Cuda.MPS_CLIENT_TERMINATED: (
        "its server has ended this client",
        "Start the program again; see what another client of MPS did.",
    ),
}


def by_mps(snapshot: Snapshot, code: int, evidence: tuple[Evidence, ...]) -> Symptom:
    """The driver is reached through NVIDIA's Multi-Process Service, which gives it no room or does not answer.

    Its daemon is the host's: a container is given the folder of its pipes alone.
    """
    title, first = MPS_TROUBLES[Cuda(code)]
    where = " on the host" if contained(snapshot) else ""
    if where and "daemon" in first:
        first = f"On the host: {first[0].lower()}{first[1:]}"
    return Symptom(
        f"CUDA cannot be initialised through MPS: {title}",
        evidence,
        (
            Fix(first),
            Fix(f"Or leave MPS: end its daemon{where}, as the user who has started it.", _END_MPS),
        ),
    )
