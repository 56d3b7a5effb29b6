"""Incompatible wheel lines, toolkits and GPUs, and some compatible ones."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine, KernelModule, PciVisibility
from tests.scenarios.driver_states import NOT_RESPONDING, NUMPY
from tests.scenarios.scenario import combine, driver, gpus, host, target
from tests.unseen.machine_table import case, more_gpus, with_files
from tests.unseen.target_setups import removed_kernel_modules, toolkit_on_library_path

L4, H100, H200, GEFORCE, PASCAL, V100 = "l4-550", "h100-535", "h200-580", "rtx5090-570", "gtx1080ti-580", "v100-580"
LINE_12, LINE_13 = "cupy-cuda12x==14.2.0", "cupy-cuda13x==14.2.0"
CUDA_13 = target(LINE_13, NUMPY, toolkit="13.0")
UPDATED_KERNEL = "6.18.2-arch2-1"
CARD_5090 = {
    "name": "NVIDIA GeForce RTX 5090",
    "capability": "12.0",
    "device": "2b85",
    "pci": "0000:05:00.0",
    "shown": PciVisibility.BUS,
    "uuid": "GPU-6e7a3c10-52d4-4b1f-9c00-0000000000cc",
}

WHEELS = (
    case(
        "driver-module-not-loaded",
        "Arch after an update without a restart",
        L4,
        combine(
            host(distribution="arch rolling", kernel="6.18.1-arch1-1"),
            driver(module=KernelModule.NONE),
            NOT_RESPONDING,
            with_files({f"lib/modules/{UPDATED_KERNEL}/modules.dep": "extramodules/nvidia.ko.zst:\n"}),
        ),
        removed_kernel_modules,
        first_fix="reboot",
    ),
    case(
        "gpu-too-new-for-driver",
        "an RTX 5090 and a GTX 1080 Ti under the proprietary modules",
        PASCAL,
        more_gpus(CARD_5090),
        error=False,
        first_fix="another machine",
    ),
    case(
        "driver-too-old-for-cuda",
        "an image of CUDA 13 on a host of R535",
        H100,
        combine(host(container=ContainerEngine.DOCKER), CUDA_13),
        first_fix="cupy-cuda12x",
    ),
    case(
        "gpu-removed-from-toolkit",
        "a Tesla M40 with CUDA 13",
        V100,
        combine(gpus(name="Tesla M40 24GB", capability="5.2", device="17fd"), CUDA_13),
        first_fix="cupy-cuda12x",
    ),
    case(
        "driver-too-old-for-cuda",
        "JetPack 5 with the wheel of CUDA 12",
        "jetson-orin-540",
        combine(
            driver(version="35.4.1", library="1.1", cuda=11040),
            with_files({"etc/nv_tegra_release": "# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref\n"}),
            target("cupy-cuda12x==13.6.0", NUMPY, toolkit="11.4"),
        ),
        first_fix="cupy-cuda11x",
        excluded=("nvidia.com/drivers",),
    ),
    case(
        "gpu-too-new-for-toolkit",
        "CUDA 12.4 of a module system before a newer toolkit",
        GEFORCE,
        setup=toolkit_on_library_path("12.4"),
        first_fix="LD_LIBRARY_PATH",
    ),
    case(
        "driver-too-old-for-cuda",
        "R570 with the newest wheel line",
        GEFORCE,
        CUDA_13,
        first_fix="cupy-cuda12x",
        excluded=("cupy-cuda11x",),
    ),
    case(
        "multiple-cupy-packages",
        "one from source and one from a wheel",
        L4,
        target("cupy==13.6.0", LINE_12, NUMPY),
        first_fix="remove all",
    ),
    # CuPy 13.3 compares capabilities as text, so its limit of 90 does not exclude 120, as the matrix records.
    case("", "CuPy 13.3 on an RTX 5090", GEFORCE, target("cupy-cuda12x==13.3.0", "numpy==2.2.6")),
    case(
        "",
        "a Maxwell Quadro on its last branch",
        PASCAL,
        gpus(name="Quadro K2200", capability="5.0", device="13ba", memory=4096 << 20),
    ),
    case(
        "",
        "Python 3.8 with its last releases",
        H100,
        target("cupy-cuda12x==12.3.0", "numpy==1.24.4"),
        assumptions=("--assume", "python=3.8"),
    ),
    case(
        "",
        "an image of CUDA 12.2 on a newer driver",
        H200,
        combine(host(container=ContainerEngine.DOCKER), target(LINE_12, NUMPY, toolkit="12.2")),
    ),
    case("", "the same toolkit twice", H200, setup=toolkit_on_library_path("13.0")),
)
