"""How each kind of container engine gives a container the GPU and its driver.

Incus, Instance options, NVIDIA and CUDA configuration, and Devices, Type: gpu (LXD has the same); NVIDIA Container
Toolkit, Running a Sample Workload and CDI; Kubernetes, Schedule GPUs; Apptainer, GPU Support; Proxmox VE, pct.conf,
dev[n], with 8.1 (read November 2026).
"""

from __future__ import annotations

from gpuenv.doctor.fixes.distributions import container_toolkit_fixes
from gpuenv.doctor.predicates import is_system_container
from gpuenv.model.finding import Fix
from gpuenv.model.gpus import driver_nodes
from gpuenv.model.snapshot import Container, Snapshot

_DOCKER = ("docker", "run", "--gpus", "all", "IMAGE")
_COMMANDS = {
    Container.DOCKER: _DOCKER,
    Container.PODMAN: ("podman", "run", "--device", "nvidia.com/gpu=all", "IMAGE"),
    Container.APPTAINER: ("apptainer", "exec", "--nv", "IMAGE", "COMMAND"),
}
_TEGRA = ("docker", "run", "--runtime", "nvidia", "IMAGE")
_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES=compute,utility"
_OF_A_POD = Fix("Give the pod a GPU: resources.limits with nvidia.com/gpu: 1.")
# NVIDIA/k8s-device-plugin, README: the plugin names the GPUs in NVIDIA_VISIBLE_DEVICES, and the runtime brings them.
_OF_THE_RUNTIME = (
    Fix("Where the pod was granted a GPU, its runtime has brought none: set runtimeClassName: nvidia in the pod."),
    Fix(
        "Or, on the node, make NVIDIA's runtime the one that is used where none is named, and restart containerd.",
        ("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=containerd", "--set-as-default"),
    ),
)
_NODES = "Give the container the host's nodes /dev/nvidia*, and the rules that allow them, in its configuration"
_OF_PROXMOX = Fix(
    "With Proxmox VE 8.1 or newer: a line for each, dev0: /dev/nvidia-uvm and so on, in /etc/pve/lxc/ID.conf."
)
# gVisor, User Guide, GPU Support: nvproxy forwards the driver's calls, and is off unless the runtime is told.
_OF_GVISOR = Fix("Under gVisor, let its runtime hand the driver on: runsc with --nvproxy=true, on the host.")
_OF_LXC = Fix("With Incus or LXD: a device of the type gpu, and nvidia.runtime=true.")


def cannot_share_gpus(snapshot: Snapshot) -> bool:
    """Whether Docker is installed without the NVIDIA runtime, toolkit or a CDI description."""
    support = snapshot.container_support
    by_cdi = any((entry.kind or "").startswith("nvidia.com/") for entry in support.cdi_files)
    by_runtime = "nvidia" in (support.runtimes.value or ())
    return support.docker.known and support.has_toolkit.value is False and not (by_cdi or by_runtime)


def gpu_access_fixes(snapshot: Snapshot, *, tegra: bool) -> tuple[Fix, ...]:
    """How this kind of container is started with a GPU."""
    kind = _kind(snapshot)
    if kind is Container.KUBERNETES:
        # The device plugin names what it has granted by this variable, unless it grants by mounts or by CDI.
        if snapshot.environment.get("NVIDIA_VISIBLE_DEVICES") == "void":
            return (_OF_A_POD,)  # for a pod that asked for none
        return (*_OF_THE_RUNTIME, _OF_A_POD) if snapshot.grant.devices.value else (_OF_A_POD, *_OF_THE_RUNTIME)
    if is_system_container(snapshot):
        libraries = matching_libraries_fix(snapshot)
        by_engine = (_OF_LXC,) if kind is Container.LXC else ()
        nodes = Fix(f"{_NODES}.")
        if driver_nodes(snapshot):
            return (libraries, *by_engine)
        return (nodes, *((_OF_PROXMOX,) if by_engine else ()), *by_engine, libraries)
    if kind not in _COMMANDS:
        return (Fix("Start the container again with the GPU's device nodes and the host's driver libraries in it."),)
    again = Fix("Start the container with access to the GPUs.", _TEGRA if tegra else _COMMANDS[kind])
    inside = (_OF_GVISOR,) if snapshot.host.sandbox.value == "gvisor" else ()
    return (again,) if kind is Container.APPTAINER else (again, *inside, *container_toolkit_fixes(snapshot))


def matching_libraries_fix(snapshot: Snapshot) -> Fix:
    """What a container that is set up like a machine has in place of the host's libraries."""
    version = snapshot.driver.module_version.value or "the host's version"
    return Fix(f"Install the driver's libraries of exactly {version} in the container, without a kernel module.")


def device_node_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How this kind of container gets a node that it lacks; the host may lack it as well."""
    kind = _kind(snapshot)
    make = Fix("Where the host lacks them too, make them there.", ("sudo", "nvidia-modprobe", "-c", "0", "-u"))
    if kind is Container.KUBERNETES:
        return (make, Fix("Then start the pod again, with a GPU of the device plugin's: nvidia.com/gpu: 1."))
    if is_system_container(snapshot):
        proxmox = (_OF_PROXMOX,) if kind is Container.LXC else ()
        return (Fix(f"{_NODES}, every one of them."), *proxmox, make)
    return (Fix("Pass every node of the driver to the container.", _COMMANDS.get(kind)), make)


def compute_capability_fix(snapshot: Snapshot) -> Fix:
    """How this kind of container gets the compute capability."""
    kind = _kind(snapshot)
    if kind is Container.DOCKER:
        command = (*_DOCKER[:-1], "-e", _CAPABILITIES, _DOCKER[-1])
        return Fix("Start the container with the compute capability.", command)
    if kind is Container.PODMAN:
        return Fix("Start the container with all of the driver, by CDI.", _COMMANDS[kind])
    if kind is Container.LXC:
        return Fix("Let it have CUDA too; with Incus or LXD: nvidia.driver.capabilities=compute,utility.")
    where = "in the pod's specification (env)" if kind is Container.KUBERNETES else "for it"
    return Fix(f"Set {_CAPABILITIES} {where}, and start it again.")


def _kind(snapshot: Snapshot) -> Container:
    return snapshot.host.container.value or Container.OTHER
