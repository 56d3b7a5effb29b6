"""Return codes of NVML and of the CUDA driver API that tell one cause from another.

The numbers are those of ``nvmlReturn_t`` (nvml.h, as nvidia-ml-py 13.615.71 has them) and of ``CUresult`` (cuda.h of
CUDA 13.0).
"""

from __future__ import annotations

from enum import IntEnum


class Nvml(IntEnum):
    """Of ``nvmlReturn_t``."""

    INVALID_ARGUMENT = 2
    NOT_SUPPORTED = 3
    NO_PERMISSION = 4
    DRIVER_NOT_LOADED = 9
    LIBRARY_NOT_FOUND = 12
    FUNCTION_NOT_FOUND = 13
    GPU_IS_LOST = 15
    RESET_REQUIRED = 16
    LIB_RM_VERSION_MISMATCH = 18
    UNKNOWN = 999


class Cuda(IntEnum):
    """Of ``CUresult``."""

    OUT_OF_MEMORY = 2
    STUB_LIBRARY = 34
    NO_DEVICE = 100
    INVALID_DEVICE = 101
    OPERATING_SYSTEM = 304
    SYSTEM_NOT_READY = 802
    SYSTEM_DRIVER_MISMATCH = 803
    COMPAT_NOT_SUPPORTED_ON_DEVICE = 804
    MPS_CONNECTION_FAILED = 805
    MPS_RPC_FAILURE = 806
    MPS_SERVER_NOT_READY = 807
    MPS_MAX_CLIENTS_REACHED = 808
    MPS_MAX_CONNECTIONS_REACHED = 809
    MPS_CLIENT_TERMINATED = 810
    UNKNOWN = 999
