"""What a test asks of its process: variables of its own, and that nobody else shares its context."""

from __future__ import annotations

import os
from typing import Any, Mapping, Optional

TEMPORARY = "(temporary folder)"
# cudaDevAttrMpsEnabled (driver_types.h from CUDA 12.3 on).
MPS_ENABLED = 133
DAEMON = "/tmp/nvidia-mps"  # noqa: S108 - where MPS has its pipes unless told otherwise


def set_variables(module: Any, folder: str = "") -> None:
    """Sets the variables in its ``ENVIRONMENT``: before CuPy and the driver are loaded, which read them then."""
    for key, value in getattr(module, "ENVIRONMENT", {}).items():
        os.environ[key] = folder if value == TEMPORARY else value


def harm_to_others(module: Any, cp: Any) -> Optional[str]:
    """Why it must not run where it loses its context on purpose.

    A fatal fault of one client of MPS ends all that share the GPU with it (Multi-Process Service, Error Containment).
    """
    if getattr(module, "LOSES_CONTEXT", False) and through_mps(_told(cp), os.environ):
        return "needs a GPU without MPS: the fault that it makes would end the other programs on this GPU too"
    return None


def _told(cp: Any) -> Optional[int]:
    """What CUDA says of MPS; None where it does not know."""
    try:
        return int(cp.cuda.runtime.deviceGetAttribute(MPS_ENABLED, 0))
    except cp.cuda.runtime.CUDARuntimeError:
        return None


def through_mps(told: Optional[int], environment: Mapping[str, str]) -> bool:
    """Whether this process is a client of MPS: what CUDA told, else whether its control daemon has a pipe here."""
    if told is not None:
        return told != 0
    return os.path.exists(os.path.join(environment.get("CUDA_MPS_PIPE_DIRECTORY") or DAEMON, "control"))
