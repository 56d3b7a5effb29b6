"""Values of environment variables that take the GPUs or the driver's libraries from a container.

The rules for images, for Dockerfiles and for services share them.
"""

from __future__ import annotations

import re

from gpuenv.model.finding import Severity
from gpuenv.model.redaction import cut_text

VISIBLE_DEVICES, DRIVER_CAPABILITIES = "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"
CUDA_VISIBLE_DEVICES = "CUDA_VISIBLE_DEVICES"
# Folders on a search path: the toolkit's stub libraries, and forward-compatibility libraries.
STUBS = re.compile(r"/stubs/?$")
COMPAT = re.compile(r"/compat(?:/lib(?:\.real)?)?/?$")
# NVIDIA/nvidia-container-toolkit, cmd/nvidia-container-runtime-hook/container_config.go, getDriverCapabilities: an
# empty list means the default, an unsupported capability is refused; the names are those of
# internal/config/image/capabilities_test.go (read 2026-11-21). That is its legacy mode; nothing was found on CDI.
_CAPABILITIES = ("compute", "compat32", "graphics", "utility", "video", "display", "ngx", "all")


def capabilities_fault(value: str) -> tuple[str, Severity] | None:
    """The fault of a list of driver capabilities; an empty list means utility and compute."""
    words = [word.strip() for word in value.split(",") if word.strip()]
    if not words or "all" in words:
        return None
    unknown = [word for word in words if word not in _CAPABILITIES]
    if unknown:
        return f"names {cut_text(unknown[0], 40)!r}, which the container toolkit refuses", Severity.ERROR
    if "compute" not in words:
        return "lacks compute: there is no libcuda in the container", Severity.ERROR
    if "utility" not in words:
        return "lacks utility: there is neither NVML nor nvidia-smi in the container", Severity.WARNING
    return None


def hides_all(value: str) -> bool:
    """Whether a value of CUDA_VISIBLE_DEVICES hides every GPU: the list ends at the first invalid entry.

    CUDA Programming Guide, 5.2.1.1 CUDA_VISIBLE_DEVICES (read 2026-11-21).
    """
    return value.split(",", maxsplit=1)[0].strip() in ("", "-1", "NoDevFiles", "none", "void")


def requests_no_gpu(value: str) -> bool:
    """Whether a value of NVIDIA_VISIBLE_DEVICES requests no GPU."""
    return value.strip() in ("", "void", "none")
