"""Wheel lines, toolkits and GPUs that do not go together, and some that do."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine, KernelModule, PciVisibility
from tests.scenarios.ground import both, driver, gpus, host, target
from tests.scenarios.states import ANSWERS_NOT, NUMPY
from tests.unseen.spoilt import another_toolkit_first, modules_gone
from tests.unseen.table import more_gpus, placed, unseen

L4, H100, H200, GEFORCE, PASCAL, V100 = "l4-550", "h100-535", "h200-580", "rtx5090-570", "gtx1080ti-580", "v100-580"
LINE_12, LINE_13 = "cupy-cuda12x==14.2.0", "cupy-cuda13x==14.2.0"
NEW = target(LINE_13, NUMPY, toolkit="13.0")
UPDATED = "6.18.2-arch2-1"
CARD_5090 = {
    "name": "NVIDIA GeForce RTX 5090",
    "capability": "12.0",
    "device": "2b85",
    "pci": "0000:05:00.0",
    "shown": PciVisibility.BUS,
    "uuid": "GPU-6e7a3c10-52d4-4b1f-9c00-0000000000cc",
}

WHEELS = (
    unseen(
        "driver-module-not-loaded",
        "Arch after an update, before the restart: the running kernel's modules are gone",
        L4,
        both(
            host(distribution="arch rolling", kernel="6.18.1-arch1-1"),
            driver(module=KernelModule.NONE),
            ANSWERS_NOT,
            placed({f"lib/modules/{UPDATED}/modules.dep": "extramodules/nvidia.ko.zst:\n"}),
        ),
        modules_gone,
        first="reboot",
    ),
    unseen(
        "gpu-too-new-for-driver",
        "an RTX 5090 beside a GTX 1080 Ti, under the proprietary modules",
        PASCAL,
        more_gpus(CARD_5090),
        error=False,
        first="another machine",
    ),
    unseen(
        "driver-too-old-for-cuda",
        "an image of CUDA 13 on a host of R535",
        H100,
        both(host(container=ContainerEngine.DOCKER), NEW),
        first="cupy-cuda12x",
    ),
    unseen(
        "gpu-removed-from-toolkit",
        "a Tesla M40 with CUDA 13",
        V100,
        both(gpus(name="Tesla M40 24GB", capability="5.2", device="17fd"), NEW),
        first="cupy-cuda12x",
    ),
    unseen(
        "driver-too-old-for-cuda",
        "JetPack 5 with the wheel of CUDA 12",
        "jetson-orin-540",
        both(
            driver(version="35.4.1", library="1.1", cuda=11040),
            placed({"etc/nv_tegra_release": "# R35 (release), REVISION: 4.1, GCID: 33958178, BOARD: t186ref\n"}),
            target("cupy-cuda12x==13.6.0", NUMPY, toolkit="11.4"),
        ),
        first="cupy-cuda11x",
        unsaid=("nvidia.com/drivers",),
    ),
    unseen(
        "gpu-too-new-for-toolkit",
        "a module system's CUDA 12.4 before the toolkit that knows the RTX 5090",
        GEFORCE,
        spoil=another_toolkit_first("12.4"),
        first="LD_LIBRARY_PATH",
    ),
    unseen(
        "driver-too-old-for-cuda",
        "R570 with the newest line",
        GEFORCE,
        NEW,
        first="cupy-cuda12x",
        unsaid=("cupy-cuda11x",),
    ),
    unseen(
        "multiple-cupy-packages",
        "one from source beside one from a wheel",
        L4,
        target("cupy==13.6.0", LINE_12, NUMPY),
        first="Remove all",
    ),
    # It compares capabilities as texts, so that its cap of 90 is no cap for 120: the matrix has it from the wheel.
    unseen("", "CuPy 13.3 on an RTX 5090", GEFORCE, target("cupy-cuda12x==13.3.0", "numpy==2.2.6")),
    unseen(
        "",
        "a Quadro of Maxwell's on its last branch",
        PASCAL,
        gpus(name="Quadro K2200", capability="5.0", device="13ba", memory=4096 << 20),
    ),
    unseen(
        "",
        "Python 3.8 with what was last for it",
        H100,
        target("cupy-cuda12x==12.3.0", "numpy==1.24.4"),
        assuming=("--assume", "python=3.8"),
    ),
    unseen(
        "",
        "an image of CUDA 12.2 on a newer driver",
        H200,
        both(host(container=ContainerEngine.DOCKER), target(LINE_12, NUMPY, toolkit="12.2")),
    ),
    unseen("", "the same toolkit twice", H200, spoil=another_toolkit_first("13.0")),
)
