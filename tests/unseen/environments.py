"""Variables, containers and target environments."""

from __future__ import annotations

from gpuenv.simulate.profile import ContainerEngine, DeviceNodeSpec
from tests.scenarios.ground import both, driver, host, stub, target, variables
from tests.scenarios.states import NUMPY
from tests.unseen.spoilt import (
    another_machines_python,
    cupy_of_the_user,
    exits_at_once,
    folder_left_behind,
    libc_too_old,
    loader_without_wsl,
    without_library,
    write_protected_home,
)
from tests.unseen.table import PODMAN, after, given, unseen

L4, H100, H200 = "l4-550", "h100-535", "h200-580"
CLOSED = tuple(DeviceNodeSpec(name, 0o000) for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))
HIDDEN = "visible-devices-hide-gpu"
POWER = host(arch="ppc64le", distribution="rhel 8.10")

ENVIRONMENTS = (
    unseen(HIDDEN, "quotes from an env file", L4, given(CUDA_VISIBLE_DEVICES='"0"'), first="CUDA_VISIBLE_DEVICES"),
    unseen(HIDDEN, "the word all", H100, given(CUDA_VISIBLE_DEVICES="all"), first="CUDA_VISIBLE_DEVICES"),
    unseen(
        HIDDEN,
        "the UUID of a card that was replaced",
        H200,
        given(CUDA_VISIBLE_DEVICES="GPU-0c94455e-89eb-9a9d-5a0c-2416159a6698"),
        first="CUDA_VISIBLE_DEVICES",
    ),
    unseen(HIDDEN, "an image that sets NoDevFiles", L4, given(CUDA_VISIBLE_DEVICES="NoDevFiles")),
    unseen(
        "wsl-libcuda",
        "a loader that does not know Windows' libraries",
        "wsl-rtx3060-560",
        spoil=loader_without_wsl,
        first="/usr/lib/wsl/lib",
    ),
    unseen(
        "device-node-permission",
        "Podman, for a user who is not in the group of the nodes",
        L4,
        both(
            PODMAN,
            host(distribution="fedora 41"),
            driver(nodes=CLOSED),
            stub(cuda__return__cuInit="100", nvml__return__nvmlInitWithFlags="4", nvml__return__nvmlInit_v2="4"),
        ),
        without_rights=True,
        first="--group-add",
    ),
    unseen(
        "multiple-cupy-packages",
        "one of the user's own below that of the environment",
        L4,
        spoil=cupy_of_the_user,
        first="cupy-cuda11x",
    ),
    unseen(
        "cuda-path-wrong",
        "CUDA_PATH appended to itself",
        L4,
        spoil=variables(CUDA_PATH=":/usr/local/cuda"),
        error=False,
    ),
    unseen(
        "numpy-incompatible",
        "NumPy 2 under CuPy 12",
        H100,
        target("cupy-cuda12x==12.3.0", "numpy==2.1.0"),
        assuming=("--assume", "python=3.11"),
    ),
    unseen(
        "cuda-library-missing",
        "CUDA's base image",
        L4,
        both(host(container=ContainerEngine.DOCKER), target("cupy-cuda12x==14.2.0", NUMPY, toolkit=None)),
        first="[ctk]",
    ),
    unseen(
        "cuda-library-missing",
        "a toolkit of which NVRTC alone was installed",
        L4,
        spoil=without_library("libcublas.so.12", "libcufft.so.11", "libcurand.so.10", "libcusolver.so.11"),
    ),
    unseen(
        "kernel-cache-unwritable",
        "a home that is read-only",
        H100,
        spoil=write_protected_home,
        without_rights=True,
        first="CUPY_CACHE_DIR",
    ),
    unseen("target-environment-broken", "a Python of another machine", L4, spoil=another_machines_python, assuming=()),
    unseen("target-environment-broken", "a Python of a newer libc", L4, spoil=libc_too_old, assuming=()),
    unseen("target-environment-broken", "a path file that ends Python", L4, spoil=exits_at_once, assuming=()),
    unseen(
        "platform-wheel-missing",
        "a POWER9 server",
        "v100-580",
        both(POWER, driver(version="535.183.01", library="535.183.01", cuda=12020), target(NUMPY, toolkit="12.2")),
        first="Use a system",
    ),
    unseen(
        "python-unsupported",
        "a Python that was released yesterday",
        L4,
        target(NUMPY),
        assuming=("--assume", "python=3.16"),
    ),
    unseen("cupy-not-installed", "a folder that an uninstall left", L4, target(NUMPY), spoil=folder_left_behind),
    unseen(
        "cupy-variable-invalid",
        "a limit with a unit",
        L4,
        spoil=variables(CUPY_GPU_MEMORY_LIMIT="8GB"),
        first="CUPY_GPU_MEMORY_LIMIT",
    ),
    unseen(
        "numpy-incompatible",
        "CuPy 13.0 with NumPy 2, and a variable on top",
        L4,
        target("cupy-cuda12x==13.0.0", "numpy==2.3.4"),
        spoil=after(variables(CUDA_MODULE_LOADING="LAZY")),
    ),
)
