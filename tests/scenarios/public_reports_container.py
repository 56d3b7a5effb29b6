"""Machines of public reports: containers, WSL and the fabric."""

from __future__ import annotations

from gpuenv.simulate.profile import CompatSpec, ContainerEngine, DeviceNodeSpec
from tests.scenarios.driver_states import NO_DRIVER_LIBRARIES, NUMPY_1
from tests.scenarios.public_reports import L4, card, case, driver_release, nodes_of_another_user
from tests.scenarios.scenario import combine, driver, files, host, stub, target

CONTAINER = (
    case(
        "weaviate/weaviate-helm#101",
        "container-driver-capabilities",
        "container-utility-only",
        host(container=ContainerEngine.KUBERNETES),
        fix_text="NVIDIA_DRIVER_CAPABILITIES",
    ),
    case(
        "NVIDIA/nvidia-container-toolkit#1227",
        "container-cgroup-lost-gpu",
        "cgroup-lost-gpu",
        host(container=ContainerEngine.KUBERNETES),
        fix_text="delete the pod",
    ),
    case(
        "NVIDIA/nvidia-container-toolkit#251",
        "container-cgroup-lost-gpu",
        "cgroup-v1-rule-missing",
        combine(
            host(container=ContainerEngine.KUBERNETES),
            files(sys__fs__cgroup__devices__devices__list="c *:* m\nb *:* m\nc 195:* m\nc 1:3 rwm\nc 136:* rwm\n"),
        ),
        fix_text="delete the pod",
    ),
    case("NVIDIA/nvidia-docker#1678", "container-cgroup-lost-gpu", "cgroup-lost-gpu", fix_text="restart the container"),
    case(
        "NVIDIA/nvidia-docker#1034",
        "container-toolkit-broken",
        "gtx1080ti-580",
        combine(host(distribution="ubuntu 18.04"), files(usr__bin__docker="")),
        error=False,
        fix_text="gpuenv explain container-toolkit-broken",
    ),
    case(
        "NVIDIA/nvidia-docker#1591",
        "container-toolkit-broken",
        "gtx1080ti-580",
        combine(host(distribution="ubuntu 20.04"), files(snap__bin__docker="")),
        error=False,
        fix_text="Docker's own packages",
    ),
    case(
        "junhyung-SPALab/D-Align#1",
        "container-without-gpu",
        "container-without-gpu",
        target(NUMPY_1, toolkit="11.8"),
        fix_text="--gpus",
    ),
    case(
        "canonical/lxd#4534",
        "device-node-permission",
        L4,
        combine(
            host(container=ContainerEngine.DOCKER, distribution="ubuntu 16.04"),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
        ),
        nodes_of_another_user(0o660),
        unprivileged=True,
        needs_root=True,
    ),
    case(
        "NVIDIA/nvidia-docker#1449",
        "device-node-permission",
        "jetson-orin-540",
        combine(
            host(container=ContainerEngine.DOCKER),
            driver(nodes=tuple(DeviceNodeSpec(n, 0o660) for n in ("nvmap", "nvgpu/igpu0"))),
            stub(cuda__return__cuInit="100"),
        ),
        nodes_of_another_user(0o660),
        unprivileged=True,
        needs_root=True,
    ),
    case(
        "AIR-DISCOVER/ICRA2024-Sim2Real-AXS#5",
        "forward-compat-unsupported",
        "rtx4090-545",
        combine(
            host(container=ContainerEngine.DOCKER),
            driver_release("525.147.05", level=12000),
            driver(compat=CompatSpec("530.30.02", 12010)),
            card("NVIDIA GeForce RTX 3090", "8.6", "2204"),
            stub(cuda__return__cuInit="804"),
            target(NUMPY_1, toolkit="12.0"),
        ),
        fix_text="compat",
    ),
    case(
        "mistralai/mistral-inference#144",
        "forward-compat-unsupported",
        "rtx4090-545",
        combine(
            driver_release("525.147.05", level=12000),
            driver(compat=CompatSpec("545.23.08", 12030)),
            stub(cuda__return__cuInit="804"),
        ),
        fix_text="compat",
    ),
    case(
        "NVIDIA/nvidia-container-toolkit#291",
        "forward-compat-unsupported",
        "rtx4090-545",
        combine(
            host(container=ContainerEngine.DOCKER, distribution="ubuntu 20.04"),
            driver_release("460.91.03", level=11020),
            driver(compat=CompatSpec("465.19.01", 11030)),
            card("NVIDIA GeForce RTX 2080 Ti", "7.5", "1e07"),
            stub(cuda__return__cuInit="804"),
            target("cupy-cuda11x==12.3.0", NUMPY_1, toolkit="11.3"),
        ),
        fix_text="compat",
    ),
    case(
        "huggingface/huggingface_hub#4134",
        "fabric-manager-not-running",
        "h200-fabric-in-progress",
        host(container=ContainerEngine.DOCKER),
        fix_text="host",
    ),
    case(
        "pytorch/pytorch#35710",
        "fabric-manager-not-running",
        "fabric-manager",
        host(distribution="ubuntu 20.04"),
        fix_text="fabricmanager",
    ),
    case(
        "wilicc/gpu-burn#92",
        "fabric-manager-not-running",
        "fabric-manager",
        combine(
            host(distribution="centos 7", kernel="3.10.0-1160.71.1.el7.x86_64"),
            driver_release("545.23.08", level=12030),
        ),
        fix_text="fabricmanager",
    ),
    case(
        "Genesis-Embodied-AI/genesis-world#114",
        "wsl-libcuda",
        "wsl-rtx3060-560",
        combine(driver(folder=None, library="535.183.01"), stub(cuda__return__cuInit="100")),
        fix_text="Remove the Linux driver",
    ),
    case(
        "chelsea0x3b/cudarc#255",
        "wsl-libcuda",
        "wsl-rtx3060-560",
        combine(
            driver(folder=None, **NO_DRIVER_LIBRARIES),
            files(**{"usr__lib__wsl__lib__libcuda.so.1": ""}),
        ),
        fix_text="/usr/lib/wsl/lib",
    ),
)
