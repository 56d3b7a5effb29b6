"""Faults of variables, containers and target environments."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine, DeviceNodeSpec
from tests.scenarios.driver_states import NUMPY
from tests.scenarios.scenario import combine, driver, host, stub, target, variables
from tests.unseen.machine_table import PODMAN, case, in_sequence, with_variables
from tests.unseen.target_setups import (
    leftover_directory,
    loader_path_without_wsl,
    python_for_a_newer_libc,
    python_of_another_architecture,
    python_that_exits,
    python_without_ctypes,
    read_only_home,
    user_cupy,
    without_library,
)

L4, H100, H200 = "l4-550", "h100-535", "h200-580"
CLOSED_NODES = tuple(DeviceNodeSpec(name, 0o000) for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))
HIDDEN_GPU = "visible-devices-hide-gpu"
POWER9 = host(arch="ppc64le", distribution="rhel 8.10")

ENVIRONMENTS = (
    case(
        HIDDEN_GPU,
        "quotes from an env file",
        L4,
        with_variables(CUDA_VISIBLE_DEVICES='"0"'),
        first_fix="CUDA_VISIBLE_DEVICES",
    ),
    case(
        HIDDEN_GPU, "the value all", H100, with_variables(CUDA_VISIBLE_DEVICES="all"), first_fix="CUDA_VISIBLE_DEVICES"
    ),
    case(
        HIDDEN_GPU,
        "the UUID of a replaced GPU",
        H200,
        with_variables(CUDA_VISIBLE_DEVICES="GPU-0c94455e-89eb-9a9d-5a0c-2416159a6698"),
        first_fix="CUDA_VISIBLE_DEVICES",
    ),
    case(HIDDEN_GPU, "an image that sets NoDevFiles", L4, with_variables(CUDA_VISIBLE_DEVICES="NoDevFiles")),
    case(
        "wsl-libcuda",
        "a loader that does not search the WSL libraries",
        "wsl-rtx3060-560",
        setup=loader_path_without_wsl,
        first_fix="/usr/lib/wsl/lib",
    ),
    case(
        "device-node-permission",
        "Podman for a user outside the group of the nodes",
        L4,
        combine(
            PODMAN,
            host(distribution="fedora 41"),
            driver(nodes=CLOSED_NODES),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
        ),
        unprivileged=True,
        first_fix="--group-add",
    ),
    case(
        "multiple-cupy-packages",
        "a user package and one of the environment",
        L4,
        setup=user_cupy,
        first_fix="cupy-cuda11x",
    ),
    case(
        "cuda-path-wrong",
        "CUDA_PATH appended to itself",
        L4,
        setup=variables(CUDA_PATH=":/usr/local/cuda"),
        error=False,
    ),
    case(
        "numpy-incompatible",
        "NumPy 2 under CuPy 12",
        H100,
        target("cupy-cuda12x==12.3.0", "numpy==2.1.0"),
        assumptions=("--assume", "python=3.11"),
    ),
    case(
        "cuda-library-missing",
        "CUDA's base image",
        L4,
        combine(host(container=ContainerEngine.DOCKER), target("cupy-cuda12x==14.2.0", NUMPY, toolkit=None)),
        first_fix="[ctk]",
    ),
    case(
        "cuda-library-missing",
        "a toolkit with NVRTC only",
        L4,
        setup=without_library("libcublas.so.12", "libcufft.so.11", "libcurand.so.10", "libcusolver.so.11"),
    ),
    case(
        "kernel-cache-unwritable",
        "a home that is read-only",
        H100,
        setup=read_only_home,
        unprivileged=True,
        first_fix="CUPY_CACHE_DIR",
    ),
    case(
        "target-environment-broken",
        "a Python of another architecture",
        L4,
        setup=python_of_another_architecture,
        assumptions=(),
    ),
    case(
        "target-environment-broken",
        "a Python that requires a newer libc",
        L4,
        setup=python_for_a_newer_libc,
        assumptions=(),
    ),
    case(
        "target-environment-broken",
        "a Python that pyenv built without libffi",
        L4,
        setup=python_without_ctypes,
        first_fix="libffi-dev",
        assumptions=(),
    ),
    case("target-environment-broken", "a .pth file that ends Python", L4, setup=python_that_exits, assumptions=()),
    case(
        "platform-wheel-missing",
        "a POWER9 server",
        "v100-580",
        combine(POWER9, driver(version="535.183.01", library="535.183.01", cuda=12020), target(NUMPY, toolkit="12.2")),
        first_fix="Use a system",
    ),
    case(
        "python-unsupported",
        "a new Python release",
        L4,
        target(NUMPY),
        assumptions=("--assume", "python=3.16"),
    ),
    case("cupy-not-installed", "a directory left by an uninstall", L4, target(NUMPY), setup=leftover_directory),
    case(
        "cupy-variable-invalid",
        "a limit with a unit",
        L4,
        setup=variables(CUPY_GPU_MEMORY_LIMIT="8GB"),
        first_fix="CUPY_GPU_MEMORY_LIMIT",
    ),
    case(
        "numpy-incompatible",
        "CuPy 13.0 with NumPy 2 and a variable",
        L4,
        target("cupy-cuda12x==13.0.0", "numpy==2.3.4"),
        setup=in_sequence(variables(CUDA_MODULE_LOADING="LAZY")),
    ),
)
