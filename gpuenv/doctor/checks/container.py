"""Checks whether a container has access to the GPU, and whether the container engine here can give it access."""

from __future__ import annotations

from gpuenv.doctor.driver_libraries import unsearched_libcuda
from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.containers import (
    CREATE_NODES,
    cannot_share_gpus,
    compute_capability_fixes,
    device_node_fixes,
    gpu_access_fixes,
    lost_gpu_fixes,
    request_gpu_fixes,
)
from gpuenv.doctor.predicates import (
    closed_nodes,
    is_driver_probed,
    is_gpu_node,
    is_open_to_all,
    libcuda_absent,
    libraries_absent,
    machine_fails_cuda,
)
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import (
    CONTROL,
    HIDDEN_HOST,
    driver_nodes,
    driver_sees_gpu,
    host_is_hidden,
    in_docker_desktop,
    is_contained,
    is_tegra,
    module_loaded,
)
from gpuenv.model.nvidia import Nvml
from gpuenv.model.snapshot import Container, DeviceNode, Snapshot, SourceState

_UVM = "/dev/nvidia-uvm"
_LOG_IN_AGAIN = Fix("Then log out and in again: running programs keep their groups.")
# NVIDIA Container Toolkit, CDI, Running a Workload with CDI: its example for Podman turns the label off.
_WITHOUT_LABEL = ("podman", "run", "--device", "nvidia.com/gpu=all", "--security-opt=label=disable", "IMAGE")
_WITHOUT_SELINUX = Fix(
    "If SELinux denies access from the start, turn its label off for this container.", _WITHOUT_LABEL
)


@check("CTR301", Cause.CONTAINER_WITHOUT_GPU, requires=("DRV100", "DRV101", "GPU201", "GPU202"))
def container_without_gpu(ctx: CheckContext) -> Outcome:
    """The container was started without access to a GPU.

    What it means: this process runs in a container that has no device node of the driver. Installing anything inside
    does not help: the container must be started with a GPU.
    How it is seen: the signs of a container engine, no /dev/nvidia* and no GPU that the driver lists. Where neither the
    PCI bus nor a module of the driver is visible, as with an empty /sys, nothing shows that the host has a GPU, and the
    check draws no conclusion. A LinuxKit kernel belongs to Docker Desktop's virtual machine, which has no GPU even if
    the host has one.
    What to do: Docker needs the NVIDIA container toolkit on the host and --gpus all; Podman a CDI file and --device
    nvidia.com/gpu=all; Kubernetes a limit of nvidia.com/gpu; Apptainer --nv; LXC the nodes in its configuration.
    """
    snapshot = ctx.snapshot
    if not is_contained(snapshot) or driver_nodes(snapshot) or driver_sees_gpu(snapshot):
        return
    if not is_driver_probed(snapshot) or (ctx.needs.tegra and not libraries_absent(snapshot)):
        return
    if host_is_hidden(snapshot):
        yield NotKnown(HIDDEN_HOST)
        return
    title = "This container was started without access to a GPU"
    if in_docker_desktop(snapshot):
        title = "This container runs in Docker Desktop's virtual machine, which has no GPU even if the host does"
    yield Symptom(
        title,
        evidence_of(snapshot, "host.container", *(("host.kernel",) if in_docker_desktop(snapshot) else ()))
        + (Evidence("driver.device_nodes", "none", "/dev"),)
        + evidence_of(snapshot, "libcuda"),
        gpu_access_fixes(snapshot),
    )


@check("CTR305", Cause.CONTAINER_TOOLKIT_BROKEN, Cause.CONTAINER_WITHOUT_GPU, requires=("CTR301",))
def driver_not_mounted(ctx: CheckContext) -> Outcome:
    """The container has the device nodes, but not the driver's libraries.

    What it means: the nodes were passed explicitly (--device, --privileged), or the engine shares the host's /dev, but
    without the NVIDIA container toolkit, which mounts the driver's libraries.
    How it is seen: in a container, device nodes or the kernel module are visible, but neither NVML nor libcuda is
    found.
    What to do: start the container through the NVIDIA container toolkit; with Apptainer add --nv. Installing a driver
    inside the image does not help: it must be the host's.
    """
    snapshot = ctx.snapshot
    has_driver = driver_nodes(snapshot) or module_loaded(snapshot)
    if not is_contained(snapshot) or not has_driver or not libraries_absent(snapshot) or unsearched_libcuda(snapshot):
        return
    if _capabilities_omit_libraries(snapshot):
        return  # CTR302 reports it
    nodes = ", ".join(driver_nodes(snapshot)) or "none"
    yield Symptom(
        "This container lacks the driver's libraries",
        evidence_of(snapshot, "host.container")
        + (Evidence("driver.device_nodes", nodes, "/dev"),)
        + evidence_of(snapshot, "libcuda", "nvml"),
        gpu_access_fixes(snapshot),
        cause=Cause.CONTAINER_WITHOUT_GPU if snapshot.host.container.value is Container.APPTAINER else None,
    )


@check("CTR306", Cause.CONTAINER_CGROUP_LOST_GPU, Cause.DEVICE_NODE_PERMISSION, requires=("CTR301", "CTR305"))
def cgroup_lost_gpu(ctx: CheckContext) -> Outcome:
    """A running container has lost access to its device nodes.

    What it means: the container had the GPU, then the engine's control group was rewritten, often by a systemd
    daemon-reload on the host, and the rules that allowed the device nodes were lost.
    How it is seen: in a container that has device nodes, NVML answers with an unknown error or no permission, and CUDA
    finds no device. The rules of control groups of version 1 show that none allows the nodes; those of version 2 cannot
    be read. If NVML answers with no permission, though every user may open the nodes, it is probably SELinux: a
    control group's refusal is an unknown error.
    What to do: restart the container; to prevent it, use CDI or the cgroupfs driver, or name the device nodes when it
    is started. If SELinux denies access, turn its label off for the container, or allow containers to use devices.
    """
    snapshot = ctx.snapshot
    closed = closed_nodes(snapshot)
    rules = snapshot.container_support.device_rules
    refused = snapshot.driver.nvml_init.value in (Nvml.UNKNOWN, Nvml.NO_PERMISSION)
    refused = refused or (rules.value is not None and not any("r" in rule.rpartition(" ")[2] for rule in rules.value))
    refused = refused or any(map(is_open_to_all, closed))
    if not is_contained(snapshot) or not driver_nodes(snapshot) or not refused or not machine_fails_cuda(snapshot):
        return
    if not all(map(is_open_to_all, closed)):
        return  # their mode denies access to this user; nothing was lost
    if snapshot.driver.nvml_init.value == Nvml.NO_PERMISSION and not rules.known:
        yield _denied_by_selinux(snapshot)
        return
    yield Symptom(
        "This container has lost access to the GPU that it was started with",
        evidence_of(snapshot, "nvml", "libcuda")
        + (Evidence("driver.device_nodes", ", ".join(driver_nodes(snapshot)), "/dev"),)
        + (evidence_of(snapshot, "container_support.device_rules") if rules.known else ()),
        (
            *lost_gpu_fixes(snapshot),
            *((_WITHOUT_SELINUX,) if snapshot.host.container.value is Container.PODMAN else ()),
        ),
    )


def _denied_by_selinux(snapshot: Snapshot) -> Symptom:
    """NVML's words "Insufficient Permissions" are for EACCES, which SELinux returns; control groups return EPERM.

    Reports: NVIDIA/nvidia-container-toolkit#33 and #210, NVIDIA/nvidia-docker#676; of control groups, whose words are
    "Unknown Error", NVIDIA/nvidia-docker#1678. The boolean: container-selinux, container_selinux(8).
    """
    commands = {
        Container.PODMAN: _WITHOUT_LABEL,
        Container.DOCKER: ("docker", "run", "--gpus", "all", "--security-opt=label=disable", "IMAGE"),
    }
    command = commands.get(snapshot.host.container.value or Container.OTHER)
    return Symptom(
        "This container is denied access to the GPU, whose nodes every user may open: probably by SELinux on the host",
        evidence_of(snapshot, "nvml", "libcuda")
        + (Evidence("driver.device_nodes", ", ".join(driver_nodes(snapshot)), "/dev"),),
        (
            Fix("If SELinux is enforcing (getenforce on the host), turn its label off for this container.", command),
            Fix(
                "Or, on the host, let containers use devices.",
                ("sudo", "setsebool", "-P", "container_use_devices", "1"),
            ),
            Fix("If the host has no SELinux (getenforce), restart the container: its control group lost the nodes."),
        ),
        cause=Cause.DEVICE_NODE_PERMISSION,
    )


@check("CTR302", Cause.CONTAINER_DRIVER_CAPABILITIES, requires=("CTR301", "CTR305"))
def container_without_compute(ctx: CheckContext) -> Outcome:
    """The container has NVML but no libcuda: it lacks the compute capability.

    What it means: the container engine mounts the parts of the driver that NVIDIA_DRIVER_CAPABILITIES lists. With
    utility alone, nvidia-smi works and CUDA does not; with graphics or video alone, neither does.
    How it is seen: in a container, the loader finds no libcuda.so.1, and NVML answers, or the variable lists neither
    compute nor utility.
    What to do: start the container, or the pod, with NVIDIA_DRIVER_CAPABILITIES=compute,utility.
    """
    snapshot = ctx.snapshot
    if (
        not is_contained(snapshot)
        or not libcuda_absent(snapshot)
        or unsearched_libcuda(snapshot)
        or not (snapshot.source("nvml").state is SourceState.ANSWERED or _capabilities_omit_libraries(snapshot))
    ):
        return
    yield Symptom(
        "This container has the GPU without CUDA: libcuda is not mounted",
        evidence_of(snapshot, "environment.NVIDIA_DRIVER_CAPABILITIES", "libcuda", "nvml"),
        compute_capability_fixes(snapshot),
    )


def _capabilities_omit_libraries(snapshot: Snapshot) -> bool:
    """Whether the container has device nodes, and its capabilities mount neither libcuda nor NVML.

    NVIDIA Container Toolkit, Specialized Configurations with Docker, Driver Capabilities: compute mounts the libraries
    of CUDA, utility those of nvidia-smi and NVML; without a value, both are mounted.
    """
    names = set((snapshot.environment.get("NVIDIA_DRIVER_CAPABILITIES") or "all").split(","))
    return bool(driver_nodes(snapshot)) and names.isdisjoint(("all", "compute", "utility"))


_SHOW_MODPROBE = Fix(  # modprobe(8): --dry-run with --verbose shows what would be done
    "If it is still missing, see what modprobe does: a line in /etc/modprobe.d may run /bin/false.",
    ("modprobe", "--dry-run", "--verbose", "nvidia-uvm"),
)


@check("CTR303", Cause.DEVICE_NODE_MISSING, requires=("CTR301",))
def device_node_missing(ctx: CheckContext) -> Outcome:
    """A device node that CUDA needs is missing.

    What it means: CUDA opens /dev/nvidiactl, /dev/nvidia-uvm and one node for each GPU. If one is missing, CUDA cannot
    be initialized; nvidia-smi does not need nvidia-uvm, so it may work. If a host whose module drives the GPU has none
    at all, they were not created since boot, or this process has a /dev of its own, like services with PrivateDevices=
    and sandboxes.
    How it is seen: the list of nodes, together with an initialization that fails.
    What to do: on a host, nvidia-modprobe creates them; in a container, pass all of them (the container toolkit does);
    allow them in the unit of a service.
    """
    snapshot = ctx.snapshot
    nodes = driver_nodes(snapshot)
    if not nodes and _has_private_dev(snapshot):
        # systemd.exec(5), PrivateDevices= and DeviceAllow=, for services.
        yield Symptom(
            "The kernel module drives the GPU, but /dev has none of its nodes here",
            (Evidence("driver.device_nodes", "none", "/dev"),)
            + evidence_of(snapshot, "driver.module", "gpu_count", "nvml", "libcuda"),
            (
                Fix(
                    "If other programs on this machine see /dev/nvidia0, give this one access too: for a systemd "
                    "service, PrivateDevices=no in its unit; for a sandbox, pass the nodes to it."
                ),
                Fix("If no program does, create the nodes.", CREATE_NODES),
            ),
        )
        return
    if not nodes or nodes == ("/dev/dxg",) or ctx.needs.tegra or not machine_fails_cuda(snapshot):
        return  # JetPack 5 and 6 have no nvidia-uvm
    missing = [path for path in (CONTROL, _UVM) if path not in nodes]
    numbered = any(map(is_gpu_node, nodes))
    if not numbered and (is_contained(snapshot) or driver_sees_gpu(snapshot)):
        missing.append("/dev/nvidia0")  # on a host, a GPU that the driver does not drive has no node
    if not missing:
        return
    text = "Load the module nvidia-uvm and create the nodes." if _UVM in missing else "Create the nodes."
    create = Fix(text, CREATE_NODES)
    yield Symptom(
        f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing, and CUDA cannot start",
        (Evidence("driver.device_nodes", ", ".join(nodes), "/dev"),) + evidence_of(snapshot, "driver.cuda_init"),
        device_node_fixes(snapshot)
        if is_contained(snapshot)
        else (create, *((_SHOW_MODPROBE,) if _UVM in missing else ())),
    )


def _has_private_dev(snapshot: Snapshot) -> bool:
    """Whether the kernel module of this host drives a GPU, but NVML or CUDA finds no driver."""
    is_host = snapshot.host.container.value is Container.NONE and not snapshot.host.sandbox.known
    is_driven = module_loaded(snapshot) and snapshot.gpu_count.source == "/proc/driver/nvidia/gpus"
    refused = snapshot.driver.nvml_init.value == Nvml.DRIVER_NOT_LOADED
    return is_host and is_driven and bool(snapshot.gpu_count.value) and (refused or machine_fails_cuda(snapshot))


@check("CTR304", Cause.DEVICE_NODE_PERMISSION, requires=("CTR301",))
def device_node_permission(ctx: CheckContext) -> Outcome:
    """The device nodes exist, but this user may not open them.

    What it means: other users may read and write /dev/nvidia*, but not this one, so neither NVML nor CUDA works.
    How it is seen: the mode and owner of the nodes, together with an initialization that fails. Nodes of GPUs that a
    control group keeps for others do not count, as in a job with one GPU of eight.
    What to do: on a host, add the user to the group that owns the nodes; if that group is root, remove the module's
    option or the udev rule that restricts them: by default every user may open them. In a container, run with the group
    (--group-add) or allow the devices. A Slurm job can open only the GPUs that it requested.
    """
    snapshot = ctx.snapshot
    is_container = is_contained(snapshot)  # CTR306 reports control groups
    closed = [node for node in closed_nodes(snapshot) if not (is_container and is_open_to_all(node))]
    if not closed or not (machine_fails_cuda(snapshot) or snapshot.driver.nvml_init.value):
        return
    unknown_grant = snapshot.grant.by.value == "slurm" and not snapshot.grant.gpus.known
    yield Symptom(
        f"This user may not open {', '.join(node.path for node in closed)}",
        tuple(Evidence(node.path, f"{node.mode} {node.owner}", "/dev") for node in closed)
        + (evidence_of(snapshot, "driver.module_options") if snapshot.driver.module_options.value else ()),
        (*(request_gpu_fixes(snapshot) if unknown_grant else ()), *_access_fixes(snapshot, closed)),
    )


def _access_fixes(snapshot: Snapshot, closed: list[DeviceNode]) -> tuple[Fix, ...]:
    """How to get access to the nodes: from the scheduler, the mode, the group or the control group.

    NVreg_DeviceFileUID, NVreg_DeviceFileGID and NVreg_DeviceFileMode: open-gpu-kernel-modules, nv-reg.h; openSUSE's
    packages set them (modprobe.nvidia.install; both read 2026-11-22).
    """
    if snapshot.grant.by.value == "slurm" and snapshot.grant.gpus.value == 0:
        return request_gpu_fixes(snapshot)
    if all(is_open_to_all(node) for node in closed):
        return (Fix("Their mode allows every user: allow them in the control group or security policy too."),)
    groups = {node.owner.partition(":")[2] for node in closed if node.mode[4:6] == "rw"} - {"", "0"}
    group = next(iter(sorted(groups - _UNMAPPED)), None)
    if snapshot.host.container.value is Container.PODMAN:
        return (*_HOST_GROUP, _KEEP_GROUPS, *(_default_mode_fixes(snapshot) if not groups else ()))
    if group is None and groups and not is_contained(snapshot) and is_tegra(snapshot):
        return _TEGRA_GROUPS
    return _group_fixes(snapshot, group)


def _group_fixes(snapshot: Snapshot, group: str | None) -> tuple[Fix, ...]:
    """How to get a group that opens the nodes; None if only root may open them, or the group is not mapped."""
    if group is None:  # a scheduler closes the nodes of a job that did not request a GPU
        return () if snapshot.grant.by.value == "slurm" else _default_mode_fixes(snapshot)
    if is_contained(snapshot):
        by_docker = snapshot.host.container.value is Container.DOCKER
        command = ("docker", "run", "--group-add", group, "--gpus", "all", "IMAGE") if by_docker else None
        return (Fix(f"Start the container with the group that owns the nodes, {group} (--group-add).", command),)
    join = f'sudo usermod --append --groups {group} "$USER"'
    return (Fix(f"Add this user to the group that owns the nodes, {group}.", shell_line=join), _LOG_IN_AGAIN)


def _default_mode_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How to get nodes with the driver's default mode, 0666, if only root may open them, so that no group helps."""
    where = "On the host: " if is_contained(snapshot) else ""
    if is_tegra(snapshot):  # udev creates its nodes, regardless of module options
        return (Fix(f"{where}find the udev rule that restricts the nodes to root.", _GREP_RULES),)
    options = snapshot.driver.module_options.value or ()
    found = [line for line in options if "NVreg_DeviceFile" in line]
    cause = Fix(f"{where}Find the udev rule or the option that restricts the nodes to root.", _GREP_RULES)
    if found:
        cause = Fix(f"{where}Remove the options that restrict the nodes to root: {'; '.join(found)}")
    return (
        cause,
        Fix(
            f"{where}Then let the driver make them again with its default mode, 0666: restart the machine, or reload "
            "the modules while no program uses a GPU.",
            ("sudo", "modprobe", "-r", "nvidia_uvm", "nvidia_drm", "nvidia_modeset", "nvidia"),
        ),
        Fix(f"{where}After a reload: load them again, and make the nodes.", CREATE_NODES),
    )


# An id that is not mapped into a user namespace, and the group nogroup: joining it gives access to unrelated files.
_UNMAPPED = {"65534", "nobody", "nogroup"}
# NVIDIA, Jetson Linux: the nodes of the GPU belong to the group video, those of its renderer to render.
_TEGRA_GROUPS = (
    Fix(
        "Add this user to the groups of Tegra's GPU, video and render.",
        shell_line='sudo usermod -aG video,render "$USER"',
    ),
    _LOG_IN_AGAIN,
)
_HOST_GROUP = (
    Fix("On the host: see which group owns the nodes.", ("ls", "-l", "/dev/nvidia0")),
    Fix(
        "On the host: if it is not root, add the user who starts the container to it, in place of GROUP; log in again.",
        shell_line='sudo usermod -aG GROUP "$USER"',
    ),
)
# podman-run(1), --group-add: keep-groups gives the container the supplementary groups of the user who starts it.
_KEEP_GROUPS = Fix(
    "Start the container with the groups of the user who starts it; a container of Podman has none of them.",
    ("podman", "run", "--group-add=keep-groups", "--device", "nvidia.com/gpu=all", "IMAGE"),
)
_GREP_RULES = ("grep", "-rn", "nvidia", "/etc/modprobe.d", "/etc/udev/rules.d", "/usr/lib/udev/rules.d")


_SNAP = Fix("Docker from a snap package cannot use it: install Docker's own packages instead.")


@check("CTR307", Cause.CONTAINER_TOOLKIT_BROKEN, requires=("DRV100", "GPU201", "CTR301"))
def docker_without_toolkit(ctx: CheckContext) -> Outcome:
    """Docker on this host cannot give GPUs to containers.

    What it means: programs on this host may use the GPU, but docker run --gpus ends with "could not select device
    driver": the NVIDIA container toolkit, which gives a container the nodes and the libraries, is not installed.
    How it is seen: Docker is installed, but none of the toolkit's programs, no NVIDIA runtime in Docker's
    configuration, and no file of the Container Device Interface.
    What to do: install the NVIDIA container toolkit, configure Docker to use it, and restart Docker. If no container
    needs a GPU, do nothing.
    """
    snapshot = ctx.snapshot
    if is_contained(snapshot) or not driver_sees_gpu(snapshot) or not cannot_share_gpus(snapshot):
        return
    is_snap = (snapshot.container_support.docker.value or "").startswith("/snap/")
    yield Symptom(
        "Docker here cannot give GPUs to containers: the NVIDIA container toolkit is not installed",
        (),
        (_SNAP,)
        if is_snap
        else (Fix("Only if a container needs the GPU: gpuenv explain container-toolkit-broken has the steps."),),
        Severity.NOTE,
    )
