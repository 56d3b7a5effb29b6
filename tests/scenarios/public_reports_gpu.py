"""Machines of public reports: the GPUs and what hides them."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.simulate.profile import ContainerEngine
from tests.scenarios.driver_states import NUMPY, NUMPY_1
from tests.scenarios.public_reports import GEFORCE, L4, T4, V100, card, case, driver_release, linked_with
from tests.scenarios.scenario import combine, host, stub, target, variables

GPU = (
    case(
        "cupy/cupy#9475",
        "gpu-removed-from-toolkit",
        "gtx1080ti-580",
        combine(
            host(distribution="arch", kernel="6.17.5-arch1-1"),
            driver_release("580.95.05", level=13000),
            card("NVIDIA GeForce GTX 1080", "6.1", "1b80"),
            target("cupy==13.6.0", NUMPY, toolkit="13.0"),
        ),
        setup=linked_with(13),
        python="3.13",
        fix_text="cupy-cuda12x",
    ),
    case(
        "LiberTEM/LiberTEM#959",
        "gpu-removed-from-toolkit",
        "k80-470",
        combine(
            driver_release("455.45.01", level=11010),
            card("Quadro K2000", "3.0", "0ffe"),
            target("cupy-cuda111==8.6.0", "numpy==1.19.5", toolkit="11.1"),
        ),
        python="3.8",
    ),
    case(
        "xsuite/xsuite#684",
        "gpu-too-new-for-toolkit",
        GEFORCE,
        combine(
            card("NVIDIA GeForce RTX 5080", "12.0", "2c02"), target("cupy-cuda11x==13.6.0", NUMPY_1, toolkit="11.8")
        ),
        fix_text="cupy-cuda1",
    ),
    case(
        "motokimura/spacenet_building_detection#4",
        "gpu-too-new-for-toolkit",
        T4,
        combine(
            host(container=ContainerEngine.DOCKER),
            driver_release("435.21", level=10010),
            card("GeForce RTX 2080", "7.5", "1e82"),
            target("cupy-cuda80==5.4.0", "numpy==1.16.6", toolkit=None),
        ),
        error=False,
        python="3.6",
    ),
    case(
        "cupy/cupy#2087",
        "gpu-too-new-for-toolkit",
        V100,
        combine(
            host(distribution="ubuntu 16.04"),
            driver_release("384.81", level=9000),
            target("cupy-cuda80==4.5.0", "numpy==1.16.6", toolkit=None),
        ),
        error=False,
        python="3.6",
    ),
    case(
        "cupy/cupy#5847",
        "gpu-removed-from-toolkit",
        V100,
        lambda p: replace(
            combine(
                driver_release("470.63.01", level=11040), target("cupy-cuda114==9.5.0", "numpy==1.19.5", toolkit="11.4")
            )(p),
            gpus=(
                replace(p.gpus[0], name="NVIDIA TITAN V", device="1d81"),
                replace(
                    p.gpus[0],
                    name="NVIDIA Quadro K600",
                    device="0ffa",
                    capability="3.0",
                    pci="0000:65:00.0",
                    uuid="GPU-11111111-2222-3333-4444-555555555555",
                ),
            ),
        ),
        fix_text="CUDA_VISIBLE_DEVICES",
    ),
    case(
        "numba/numba#5793",
        "visible-devices-hide-gpu",
        L4,
        setup=variables(CUDA_VISIBLE_DEVICES="-1"),
        fix_text="CUDA_VISIBLE_DEVICES",
    ),
    case(
        "YoujiaZhang/Ref-GS#4",
        "visible-devices-hide-gpu",
        L4,
        setup=variables(CUDA_VISIBLE_DEVICES="2"),
        fix_text="CUDA_VISIBLE_DEVICES",
    ),
    case(
        "pytorch/pytorch#130181",
        "mig-misconfigured",
        "a100-mig-535",
        setup=variables(CUDA_VISIBLE_DEVICES=",".join(f"MIG-00000000-0000-0000-0000-{n:012x}" for n in (0, 1))),
        error=False,
        fix_text="one instance",
    ),
    case(
        "rapidsai/dask-cuda#583",
        "mig-misconfigured",
        "a100-mig-535",
        setup=variables(CUDA_VISIBLE_DEVICES="MIG-GPU-0:0,MIG-GPU-0:1,MIG-GPU-0:2"),
        fix_text="MIG",
    ),
    case(
        "NVIDIA/DIGITS#2005",
        "compute-mode-exclusive",
        "v100-exclusive-in-use",
        combine(card("Tesla K40m", "3.5", "1023"), driver_release("375.26", level=8000), target(NUMPY_1, toolkit=None)),
        fix_text="nvidia-smi",
    ),
    case(
        "cBio/cbio-cluster#144",
        "compute-mode-exclusive",
        "v100-exclusive-in-use",
        combine(
            card("GeForce GTX TITAN", "3.5", "1005"),
            driver_release("340.29", level=6050),
            target(NUMPY_1, toolkit=None),
            stub(gpu__0__compute_mode="1"),
        ),
        fix_text="nvidia-smi",
    ),
    case("cwpearson/stencil#11", "compute-mode-exclusive", "v100-exclusive-in-use", fix_text="nvidia-smi"),
)
