"""Machines of public reports: containers, WSL and the fabric."""

from __future__ import annotations

from gpuenv.simulate.profile import CompatSpec, ContainerEngine, DeviceNodeSpec
from tests.scenarios.ground import both, driver, files, host, stub, target
from tests.scenarios.reported import L4, card, case, on, owned
from tests.scenarios.states import NOTHING, NUMPY_1

CONTAINER = (
    case(
        "weaviate/weaviate-helm#101",
        "container-driver-capabilities",
        "container-utility-only",
        host(container=ContainerEngine.KUBERNETES),
        cure="NVIDIA_DRIVER_CAPABILITIES",
    ),
    case(
        "NVIDIA/nvidia-container-toolkit#1227",
        "container-cgroup-lost-gpu",
        "cgroup-lost-gpu",
        host(container=ContainerEngine.KUBERNETES),
        cure="restart the container",
    ),
    case(
        "NVIDIA/nvidia-container-toolkit#251",
        "container-cgroup-lost-gpu",
        "cgroup-v1-rule-missing",
        both(
            host(container=ContainerEngine.KUBERNETES),
            files(sys__fs__cgroup__devices__devices__list="c *:* m\nb *:* m\nc 195:* m\nc 1:3 rwm\nc 136:* rwm\n"),
        ),
        cure="restart the container",
    ),
    case("NVIDIA/nvidia-docker#1678", "container-cgroup-lost-gpu", "cgroup-lost-gpu", cure="restart the container"),
    case(
        "NVIDIA/nvidia-docker#1034",
        "container-toolkit-broken",
        "gtx1080ti-580",
        both(host(distribution="ubuntu 18.04"), files(usr__bin__docker="")),
        error=False,
        cure="apt-get install nvidia-container-toolkit",
    ),
    case(
        "NVIDIA/nvidia-docker#1591",
        "container-toolkit-broken",
        "gtx1080ti-580",
        both(host(distribution="ubuntu 20.04"), files(snap__bin__docker="")),
        error=False,
        cure="container toolkit",
    ),
    case(
        "junhyung-SPALab/D-Align#1",
        "container-without-gpu",
        "container-without-gpu",
        target(NUMPY_1, toolkit="11.8"),
        cure="--gpus",
    ),
    case(
        "canonical/lxd#4534",
        "device-node-permission",
        L4,
        both(
            host(container=ContainerEngine.DOCKER, distribution="ubuntu 16.04"),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
        ),
        owned(0o660),
        without_rights=True,
        root=True,
    ),
    case(
        "NVIDIA/nvidia-docker#1449",
        "device-node-permission",
        "jetson-orin-540",
        both(
            host(container=ContainerEngine.DOCKER),
            driver(nodes=tuple(DeviceNodeSpec(n, 0o660) for n in ("nvmap", "nvgpu/igpu0"))),
            stub(cuda__return__cuInit="100"),
        ),
        owned(0o660),
        without_rights=True,
        root=True,
    ),
    case(
        "AIR-DISCOVER/ICRA2024-Sim2Real-AXS#5",
        "forward-compat-unsupported",
        "rtx4090-545",
        both(
            host(container=ContainerEngine.DOCKER),
            on("525.147.05", level=12000),
            driver(compat=CompatSpec("530.30.02", 12010)),
            card("NVIDIA GeForce RTX 3090", "8.6", "2204"),
            stub(cuda__return__cuInit="804"),
            target(NUMPY_1, toolkit="12.0"),
        ),
        cure="compat",
    ),
    case(
        "mistralai/mistral-inference#144",
        "forward-compat-unsupported",
        "rtx4090-545",
        both(
            on("525.147.05", level=12000),
            driver(compat=CompatSpec("545.23.08", 12030)),
            stub(cuda__return__cuInit="804"),
        ),
        cure="compat",
    ),
    case(
        "NVIDIA/nvidia-container-toolkit#291",
        "forward-compat-unsupported",
        "rtx4090-545",
        both(
            host(container=ContainerEngine.DOCKER, distribution="ubuntu 20.04"),
            on("460.91.03", level=11020),
            driver(compat=CompatSpec("465.19.01", 11030)),
            card("NVIDIA GeForce RTX 2080 Ti", "7.5", "1e07"),
            stub(cuda__return__cuInit="804"),
            target("cupy-cuda11x==12.3.0", NUMPY_1, toolkit="11.3"),
        ),
        cure="compat",
    ),
    case(
        "huggingface/huggingface_hub#4134",
        "fabric-manager-not-running",
        "h200-fabric-in-progress",
        host(container=ContainerEngine.DOCKER),
        cure="host",
    ),
    case(
        "pytorch/pytorch#35710",
        "fabric-manager-not-running",
        "fabric-manager",
        host(distribution="ubuntu 20.04"),
        cure="fabricmanager",
    ),
    case(
        "wilicc/gpu-burn#92",
        "fabric-manager-not-running",
        "fabric-manager",
        both(host(distribution="centos 7", kernel="3.10.0-1160.71.1.el7.x86_64"), on("545.23.08", level=12030)),
        cure="fabricmanager",
    ),
    case(
        "Genesis-Embodied-AI/genesis-world#114",
        "wsl-libcuda",
        "wsl-rtx3060-560",
        both(driver(folder=None, library="535.183.01"), stub(cuda__return__cuInit="100")),
        cure="Remove the Linux driver",
    ),
    case(
        "chelsea0x3b/cudarc#255",
        "wsl-libcuda",
        "wsl-rtx3060-560",
        both(
            driver(folder=None, **NOTHING),
            files(**{"usr__lib__wsl__lib__libcuda.so.1": ""}),
        ),
        cure="/usr/lib/wsl/lib",
    ),
)
