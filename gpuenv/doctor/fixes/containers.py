"""How each container engine gives a container the GPU and its driver.

Incus, Instance options, NVIDIA and CUDA configuration, and Devices, Type: gpu (LXD has the same); NVIDIA Container
Toolkit, Running a Sample Workload and CDI; Kubernetes, Schedule GPUs; Apptainer, GPU Support; Proxmox VE, pct.conf,
dev[n], with 8.1 (read November 2026).
"""

from __future__ import annotations

from gpuenv.doctor.fixes.distributions import container_toolkit_fixes, system_of
from gpuenv.doctor.fixes.table import steps_of
from gpuenv.doctor.predicates import is_system_container
from gpuenv.model.finding import Fix
from gpuenv.model.gpus import driver_nodes, in_docker_desktop, is_tegra, module_loaded
from gpuenv.model.snapshot import Container, Snapshot

CREATE_NODES = ("sudo", "nvidia-modprobe", "-c", "0", "-u")  # nvidia-modprobe(1)
_POD_RUNTIME = Fix("If the pod was granted a GPU, its runtime did not add it: set runtimeClassName: nvidia in the pod.")
_NODES = "Add the host's nodes /dev/nvidia*, and the rules that allow them, to the container's configuration"
_PROXMOX = Fix("With Proxmox VE 8.1 or newer: a line for each in /etc/pve/lxc/ID.conf, such as dev0: /dev/nvidia-uvm.")
# gVisor, User Guide, GPU Support: nvproxy forwards the driver's calls, and is off by default.
_GVISOR = Fix("Under gVisor, enable the driver in its runtime: runsc with --nvproxy=true, on the host.")
_LOAD_ON_HOST = Fix(
    "On the host, whose kernel has not loaded the driver's module, load it, or install the driver.",
    ("sudo", "modprobe", "nvidia"),
)
_LXC = Fix("With Incus or LXD: add a device of type gpu, and set nvidia.runtime=true.")


# Docker, GPU support in Docker Desktop (read November 2026).
_DOCKER_DESKTOP = (
    Fix(
        "Docker Desktop gives containers a GPU on Windows with WSL 2 only. On Windows, turn on its WSL 2 engine "
        "(Settings, General), and start the container again."
    ),
    Fix("On Linux, use Docker Engine instead of Docker Desktop. On a Mac no container can use an NVIDIA GPU."),
)


def cannot_share_gpus(snapshot: Snapshot) -> bool:
    """Whether Docker is installed without the NVIDIA runtime, toolkit or a CDI description."""
    support = snapshot.container_support
    by_cdi = any((entry.kind or "").startswith("nvidia.com/") for entry in support.cdi_files)
    by_runtime = "nvidia" in (support.runtimes.value or ())
    return support.docker.known and support.has_toolkit.value is False and not (by_cdi or by_runtime)


def gpu_access_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How to start this kind of container with a GPU."""
    kind = _kind(snapshot)
    if in_docker_desktop(snapshot):
        return (*_DOCKER_DESKTOP, *_start(kind))
    if kind is Container.KUBERNETES:
        return _pod_fixes(snapshot)
    if is_system_container(snapshot):
        libraries = matching_libraries_fix(snapshot)
        by_incus = (_LXC,) if kind is Container.LXC else ()
        nodes = Fix(f"{_NODES}.")
        if driver_nodes(snapshot):
            return (libraries, *by_incus)
        # A system container shows the modules of the host's kernel.
        load = () if module_loaded(snapshot) or not snapshot.driver.module.known else (_LOAD_ON_HOST,)
        return (*load, nodes, *((_PROXMOX,) if by_incus else ()), *by_incus, libraries)
    if kind not in (Container.DOCKER, Container.PODMAN):
        return _start(kind)
    gvisor = (_GVISOR,) if snapshot.host.sandbox.value == "gvisor" else ()
    return (*_start(kind, tegra=is_tegra(snapshot)), *gvisor, *container_toolkit_fixes(snapshot))


def remove_from_image_fixes(snapshot: Snapshot, paths: tuple[str, ...]) -> tuple[Fix, ...]:
    """How to remove the driver's libraries from an image, whose distribution is the container's own."""
    if not paths:
        text = "Remove libcuda and libnvidia-ml from the image: the host's are mounted when the container starts."
        return (Fix(text),)
    line = f"RUN rm -f {' '.join(paths)} && ldconfig"
    owner = steps_of("owner", system_of(snapshot).places, path=paths[0])
    text = (
        "Remove the driver's libraries from the image, in its Dockerfile: the package that owns them, which this shows."
    )
    return (
        *(fix._replace(text=text) for fix in owner),
        Fix(f"Or, if no package owns them, the files: {line}"),
        Fix("Then build the image again: the host's libraries are mounted when the container starts with a GPU."),
        *_start(_kind(snapshot), tegra=is_tegra(snapshot)),
    )


def _start(kind: Container, *, tegra: bool = False) -> tuple[Fix, ...]:
    return steps_of("start-with-gpu", (*((f"{kind.value} on tegra",) if tegra else ()), kind.value))


def _pod_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """NVIDIA/k8s-device-plugin, README: it sets the variable, unless it grants by mounts or by CDI."""
    start = _start(Container.KUBERNETES)
    if snapshot.environment.get("NVIDIA_VISIBLE_DEVICES") == "void":
        return start  # the pod requested none
    on_node = steps_of("configure-engine", (Container.KUBERNETES.value,))
    runtime = (
        _POD_RUNTIME,
        *(fix._replace(text=f"Or, on the node: {fix.text[0].lower()}{fix.text[1:]}") for fix in on_node),
    )
    return (*runtime, *start) if snapshot.grant.devices.value else (*start, *runtime)


def request_gpu_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How a job or a pod requests a GPU from its scheduler."""
    return steps_of("request-gpu", (snapshot.grant.by.value or "",))


def matching_libraries_fix(snapshot: Snapshot) -> Fix:
    """How a system container gets libraries that match the host's driver."""
    version = snapshot.driver.module_version.value or "the host's version"
    return Fix(f"Install the driver libraries of exactly {version} in the container, without a kernel module.")


def device_node_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How this kind of container gets a missing device node; the host may lack it as well."""
    kind = _kind(snapshot)
    create = Fix("If the host lacks them too, create them there.", CREATE_NODES)
    if kind is Container.KUBERNETES:
        return (create, Fix("Then restart the pod, with a GPU from the device plugin: nvidia.com/gpu: 1."))
    if is_system_container(snapshot):
        proxmox = (_PROXMOX,) if kind is Container.LXC else ()
        return (Fix(f"{_NODES}, all of them."), *proxmox, create)
    (start,) = _start(kind)
    return (Fix("Pass every device node of the driver to the container.", start.command), create)


def lost_gpu_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How a container whose control group lost the nodes gets them back, and keeps them.

    NVIDIA Container Toolkit, Troubleshooting, Containers losing access to GPUs: systemctl daemon-reload on the host
    rewrites the rules of every container, and those of the nodes are kept only if the engine knows the nodes.
    """
    devices = " ".join(f"--device {node}" for node in driver_nodes(snapshot))
    return steps_of("lost-gpu", (_kind(snapshot).value,), devices=devices)


def compute_capability_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How this kind of container gets the compute capability."""
    return steps_of("start-with-compute", (_kind(snapshot).value,))


def _kind(snapshot: Snapshot) -> Container:
    return snapshot.host.container.value or Container.OTHER
