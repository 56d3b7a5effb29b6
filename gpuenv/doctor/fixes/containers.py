"""How each container engine gives a container the GPU and its driver.

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
_POD_LIMITS = Fix("Request a GPU for the pod: resources.limits with nvidia.com/gpu: 1.")
# NVIDIA/k8s-device-plugin, README: the plugin names the GPUs in NVIDIA_VISIBLE_DEVICES, and the runtime adds them.
_POD_RUNTIME = (
    Fix("If the pod was granted a GPU, its runtime did not add it: set runtimeClassName: nvidia in the pod."),
    Fix(
        "Or, on the node, make NVIDIA's runtime the default, and restart containerd.",
        ("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=containerd", "--set-as-default"),
    ),
)
_NODES = "Add the host's nodes /dev/nvidia*, and the rules that allow them, to the container's configuration"
_PROXMOX = Fix("With Proxmox VE 8.1 or newer: a line for each in /etc/pve/lxc/ID.conf, such as dev0: /dev/nvidia-uvm.")
# gVisor, User Guide, GPU Support: nvproxy forwards the driver's calls, and is off by default.
_GVISOR = Fix("Under gVisor, enable the driver in its runtime: runsc with --nvproxy=true, on the host.")
_LXC = Fix("With Incus or LXD: add a device of type gpu, and set nvidia.runtime=true.")


def cannot_share_gpus(snapshot: Snapshot) -> bool:
    """Whether Docker is installed without the NVIDIA runtime, toolkit or a CDI description."""
    support = snapshot.container_support
    by_cdi = any((entry.kind or "").startswith("nvidia.com/") for entry in support.cdi_files)
    by_runtime = "nvidia" in (support.runtimes.value or ())
    return support.docker.known and support.has_toolkit.value is False and not (by_cdi or by_runtime)


def gpu_access_fixes(snapshot: Snapshot, *, tegra: bool) -> tuple[Fix, ...]:
    """How to start this kind of container with a GPU."""
    kind = _kind(snapshot)
    if kind is Container.KUBERNETES:
        # The device plugin sets this variable, unless it grants by mounts or by CDI.
        if snapshot.environment.get("NVIDIA_VISIBLE_DEVICES") == "void":
            return (_POD_LIMITS,)  # the pod requested none
        return (*_POD_RUNTIME, _POD_LIMITS) if snapshot.grant.devices.value else (_POD_LIMITS, *_POD_RUNTIME)
    if is_system_container(snapshot):
        libraries = matching_libraries_fix(snapshot)
        by_incus = (_LXC,) if kind is Container.LXC else ()
        nodes = Fix(f"{_NODES}.")
        if driver_nodes(snapshot):
            return (libraries, *by_incus)
        return (nodes, *((_PROXMOX,) if by_incus else ()), *by_incus, libraries)
    if kind not in _COMMANDS:
        return (Fix("Start the container with the GPU's device nodes and the host's driver libraries."),)
    start = Fix("Start the container with access to the GPUs.", _TEGRA if tegra else _COMMANDS[kind])
    gvisor = (_GVISOR,) if snapshot.host.sandbox.value == "gvisor" else ()
    return (start,) if kind is Container.APPTAINER else (start, *gvisor, *container_toolkit_fixes(snapshot))


def matching_libraries_fix(snapshot: Snapshot) -> Fix:
    """How a system container gets libraries that match the host's driver."""
    version = snapshot.driver.module_version.value or "the host's version"
    return Fix(f"Install the driver libraries of exactly {version} in the container, without a kernel module.")


def device_node_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How this kind of container gets a missing device node; the host may lack it as well."""
    kind = _kind(snapshot)
    create = Fix("If the host lacks them too, create them there.", ("sudo", "nvidia-modprobe", "-c", "0", "-u"))
    if kind is Container.KUBERNETES:
        return (create, Fix("Then restart the pod, with a GPU from the device plugin: nvidia.com/gpu: 1."))
    if is_system_container(snapshot):
        proxmox = (_PROXMOX,) if kind is Container.LXC else ()
        return (Fix(f"{_NODES}, all of them."), *proxmox, create)
    return (Fix("Pass every device node of the driver to the container.", _COMMANDS.get(kind)), create)


def compute_capability_fix(snapshot: Snapshot) -> Fix:
    """How this kind of container gets the compute capability."""
    kind = _kind(snapshot)
    if kind is Container.DOCKER:
        command = (*_DOCKER[:-1], "-e", _CAPABILITIES, _DOCKER[-1])
        return Fix("Start the container with the compute capability.", command)
    if kind is Container.PODMAN:
        return Fix("Start the container with the whole driver, by CDI.", _COMMANDS[kind])
    if kind is Container.LXC:
        return Fix("Add CUDA to the container; with Incus or LXD: nvidia.driver.capabilities=compute,utility.")
    where = "in the pod's specification (env)" if kind is Container.KUBERNETES else "for it"
    return Fix(f"Set {_CAPABILITIES} {where}, and restart it.")


def _kind(snapshot: Snapshot) -> Container:
    return snapshot.host.container.value or Container.OTHER
