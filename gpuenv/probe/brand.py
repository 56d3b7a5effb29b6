"""A GPU's brand, in the words that container images compare it with. Pure."""

from __future__ import annotations

from gpuenv.model.reading import Reading, known, missing
from gpuenv.probe.assemble_health import why_not
from gpuenv.probe.raw import NvmlGpu

# nvmlBrandType_t of nvml.h (NVML_BRAND_* of nvidia-ml-py 13.615.71), as NVIDIA_REQUIRE_CUDA of NVIDIA's images spells
# them (nvidia/cuda 11.0.3 to 13.1.0, read November 2026). The first seven are the words of libnvidia-container too
# (src/driver.c, driver_get_device_brand_1_svc, read 2026-11-21: Quadro, Tesla, NVS, GRID, GeForce, TITAN, else Unknown;
# compared without regard to case). It knows the others from container toolkit 1.9.0 on (nvidia-container-toolkit, issue
# 24, said of quadrortx) and calls them unknown before, which is why images list that word.
BRANDS = (
    "unknown",
    "quadro",
    "tesla",
    "nvs",
    "grid",
    "geforce",
    "titan",
    "vapps",
    "vpc",
    "vcs",
    "vws",
    "cloudgaming",
    "quadrortx",
    "nvidiartx",
    "nvidia",
    "geforcertx",
    "titanrtx",
)


def brand(gpu: NvmlGpu | None) -> Reading[str]:
    """The brand that NVML tells; a number without a name is none."""
    number = gpu.brand if gpu else None
    if number is None:
        return missing(why_not(gpu, "nvmlDeviceGetBrand"))
    if not 0 <= number < len(BRANDS):
        return missing(f"nvmlDeviceGetBrand answered {number}, which has no name")
    return known(BRANDS[number], "nvml")
