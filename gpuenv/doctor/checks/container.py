"""Is this a container, and was it given the GPU; can the engine here give its containers one?"""

from __future__ import annotations

from gpuenv.doctor.driver_libraries import unfound
from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.containers import hands_over_nothing, start_with_gpu, with_compute, with_every_node
from gpuenv.doctor.fixes.distributions import container_toolkit
from gpuenv.doctor.predicates import libcuda_absent, libraries_absent, probed
from gpuenv.doctor.registry import CheckContext, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import CONTROL, driver_nodes, driver_sees_gpu, is_contained, is_tegra, module_loaded
from gpuenv.model.nvidia import Nvml
from gpuenv.model.snapshot import Container, DeviceNode, Snapshot, SourceState

_UVM = "/dev/nvidia-uvm"
# NVIDIA Container Toolkit, CDI, Running a Workload with CDI: its example for Podman turns the label off.
_WITHOUT_SELINUX = Fix(
    "Where SELinux keeps it out from the start, turn its label off for this container.",
    ("podman", "run", "--device", "nvidia.com/gpu=all", "--security-opt=label=disable", "IMAGE"),
)
_WITH_A_GPU = Fix("Where this job has asked Slurm for no GPU, start it anew with one, as by --gpus=1.")


@check("CTR301", Cause.CONTAINER_WITHOUT_GPU, requires=("DRV100", "DRV101", "GPU201", "GPU202"))
def container_without_gpu(ctx: CheckContext) -> Outcome:
    """The container was started without access to a GPU.

    What it means: this process runs in a container that has no device node of the driver. Installing anything inside
    will not help: the container has to be started with a GPU.
    How it is seen: the marks of a container engine, no /dev/nvidia* and no GPU that the driver shows.
    What to do: Docker needs the NVIDIA container toolkit on the host and --gpus all; Podman a CDI file and --device
    nvidia.com/gpu=all; Kubernetes a limit of nvidia.com/gpu; Apptainer --nv; LXC the nodes in its configuration.
    """
    snapshot = ctx.snapshot
    if not is_contained(snapshot) or driver_nodes(snapshot) or driver_sees_gpu(snapshot):
        return
    if not probed(snapshot) or (ctx.needs.tegra and not libraries_absent(snapshot)):
        return
    yield Symptom(
        "This container was started without access to a GPU",
        evidence_of(snapshot, "host.container")
        + (Evidence("driver.device_nodes", "none", "/dev"),)
        + evidence_of(snapshot, "libcuda"),
        start_with_gpu(snapshot, tegra=ctx.needs.tegra),
    )


@check("CTR305", Cause.CONTAINER_TOOLKIT_BROKEN, Cause.CONTAINER_WITHOUT_GPU, requires=("CTR301",))
def driver_not_mounted(ctx: CheckContext) -> Outcome:
    """The container has the device nodes, but not the driver's libraries.

    What it means: the nodes were passed by hand (--device, --privileged), or the engine shares the host's /dev, but the
    NVIDIA container toolkit, which mounts the driver's libraries, took no part.
    How it is seen: in a container, device nodes or the kernel module are to be seen, and neither NVML nor libcuda is
    found.
    What to do: start the container through the NVIDIA container toolkit; with Apptainer add --nv. Installing a driver
    inside the image does not help: it must be the host's.
    """
    snapshot = ctx.snapshot
    there = driver_nodes(snapshot) or module_loaded(snapshot)
    if not is_contained(snapshot) or not there or not libraries_absent(snapshot) or unfound(snapshot):
        return
    nodes = ", ".join(driver_nodes(snapshot)) or "none"
    yield Symptom(
        "This container was not given the driver's libraries",
        evidence_of(snapshot, "host.container")
        + (Evidence("driver.device_nodes", nodes, "/dev"),)
        + evidence_of(snapshot, "libcuda", "nvml"),
        start_with_gpu(snapshot, tegra=ctx.needs.tegra),
        cause=Cause.CONTAINER_WITHOUT_GPU if snapshot.host.container.value is Container.APPTAINER else None,
    )


@check("CTR306", Cause.CONTAINER_CGROUP_LOST_GPU, requires=("CTR301", "CTR305"))
def cgroup_lost_gpu(ctx: CheckContext) -> Outcome:
    """A running container has lost access to its device nodes.

    What it means: the container had the GPU, then the engine's control group was written anew, often by a systemd
    daemon-reload on the host, and the rules that allowed the device nodes were lost.
    How it is seen: in a container whose device nodes are there, NVML answers with an unknown error or no permission,
    and CUDA finds no device. Under control groups of version 1, their list of rules shows that none lets the nodes be
    opened; that of version 2 cannot be read.
    What to do: start the container again; to keep it from happening, use CDI or the cgroupfs driver, or name the device
    nodes when it is started.
    """
    snapshot = ctx.snapshot
    nodes = snapshot.driver.device_nodes
    rules = snapshot.container_support.device_rules
    refused = snapshot.driver.nvml_init.value in (Nvml.UNKNOWN, Nvml.NO_PERMISSION)
    refused = refused or (rules.value is not None and not any("r" in rule.rpartition(" ")[2] for rule in rules.value))
    refused = refused or any(_open_to_all(node) and not node.accessible for node in nodes)
    if not is_contained(snapshot) or not driver_nodes(snapshot) or not refused or not _cuda_fails(snapshot):
        return
    if any(not _open_to_all(node) and not node.accessible for node in nodes):
        return  # their mode keeps this user out; nothing was lost
    yield Symptom(
        "This container has lost access to the GPU that it was started with",
        evidence_of(snapshot, "nvml", "libcuda")
        + (Evidence("driver.device_nodes", ", ".join(driver_nodes(snapshot)), "/dev"),)
        + (evidence_of(snapshot, "container_support.device_rules") if rules.known else ()),
        (
            Fix("Start the container again."),
            *((_WITHOUT_SELINUX,) if snapshot.host.container.value is Container.PODMAN else ()),
            Fix("To keep it from happening, name the device nodes when it is started, or use CDI."),
        ),
    )


def _open_to_all(node: DeviceNode) -> bool:
    """Whether every user may read and write by the mode; then its control group keeps a process out.

    access(2) asks both (Linux, fs/namei.c, inode_permission: devcgroup_inode_permission).
    """
    return node.mode[-3:-1] == "rw"


@check("CTR302", Cause.CONTAINER_DRIVER_CAPABILITIES, requires=("CTR301", "CTR305"))
def container_without_compute(ctx: CheckContext) -> Outcome:
    """The container has NVML but no libcuda: the compute capability was not asked for.

    What it means: the container engine mounts the driver's parts by NVIDIA_DRIVER_CAPABILITIES. With utility alone,
    nvidia-smi works and CUDA does not.
    How it is seen: in a container, NVML answers and the loader finds no libcuda.so.1.
    What to do: start the container, or the pod, with NVIDIA_DRIVER_CAPABILITIES=compute,utility.
    """
    snapshot = ctx.snapshot
    if (
        not is_contained(snapshot)
        or not libcuda_absent(snapshot)
        or unfound(snapshot)
        or snapshot.source("nvml").state is not SourceState.ANSWERED
    ):
        return
    yield Symptom(
        "This container was given the GPU without CUDA: libcuda is not mounted",
        evidence_of(snapshot, "environment.NVIDIA_DRIVER_CAPABILITIES", "libcuda", "nvml"),
        (with_compute(snapshot),),
    )


_KEPT_OUT = Fix(  # modprobe(8): --dry-run with --verbose shows what would be done
    "Where it stays missing, see what modprobe does for it: a line below /etc/modprobe.d may name /bin/false.",
    ("modprobe", "--dry-run", "--verbose", "nvidia-uvm"),
)


@check("CTR303", Cause.DEVICE_NODE_MISSING, requires=("CTR301",))
def device_node_missing(ctx: CheckContext) -> Outcome:
    """A device node that CUDA needs is missing.

    What it means: CUDA opens /dev/nvidiactl, /dev/nvidia-uvm and one node a GPU. Some are there, one is not, and CUDA
    cannot be initialised. nvidia-smi does not need nvidia-uvm, so it may work.
    Where there is none at all on a host whose module drives the GPU, nobody has made them since its start, or this
    process was given a /dev of its own, as services with PrivateDevices= and sandboxes are.
    How it is seen: the list of nodes, together with an initialisation that fails.
    What to do: on a host, nvidia-modprobe makes them; in a container, pass all of them (the container toolkit does); a
    service is allowed them in its unit.
    """
    snapshot = ctx.snapshot
    nodes = driver_nodes(snapshot)
    if not nodes and _hidden_from_it(snapshot):
        # systemd.exec(5), PrivateDevices= and DeviceAllow=, of services; nvidia-modprobe(1) makes the nodes of a host.
        yield Symptom(
            "The kernel's module drives the GPU, and /dev has none of its nodes here",
            (Evidence("driver.device_nodes", "none", "/dev"),)
            + evidence_of(snapshot, "driver.module", "gpu_count", "nvml", "libcuda"),
            (
                Fix(
                    "Where other programs of this machine see /dev/nvidia0, let this one see them too: a service of "
                    "systemd's with PrivateDevices=no in its unit, a sandbox with the nodes passed to it."
                ),
                Fix("Where nobody does, make the nodes.", ("sudo", "nvidia-modprobe", "-c", "0", "-u")),
            ),
        )
        return
    if not nodes or nodes == ("/dev/dxg",) or not _cuda_fails(snapshot):
        return
    lacking = [path for path in (CONTROL, _UVM) if path not in nodes]
    numbered = any(path.removeprefix("/dev/nvidia").isdigit() for path in nodes)
    if not numbered and (is_contained(snapshot) or driver_sees_gpu(snapshot)):
        lacking.append("/dev/nvidia0")  # on a host, a GPU that the driver does not take has no node
    if not lacking:
        return
    words = "Load the module nvidia-uvm and make the nodes." if _UVM in lacking else "Make the nodes."
    make = Fix(words, ("sudo", "nvidia-modprobe", "-c", "0", "-u"))
    yield Symptom(
        f"{' and '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} missing, and CUDA cannot start without",
        (Evidence("driver.device_nodes", ", ".join(nodes), "/dev"),) + evidence_of(snapshot, "driver.cuda_init"),
        with_every_node(snapshot) if is_contained(snapshot) else (make, *((_KEPT_OUT,) if _UVM in lacking else ())),
    )


def _hidden_from_it(snapshot: Snapshot) -> bool:
    """Whether the kernel's module drives a GPU on this very machine, and NVML or CUDA finds no driver."""
    bare = snapshot.host.container.value is Container.NONE and not snapshot.host.sandbox.known
    driven = module_loaded(snapshot) and snapshot.gpu_count.source == "/proc/driver/nvidia/gpus"
    refused = snapshot.driver.nvml_init.value == Nvml.DRIVER_NOT_LOADED
    return bare and driven and bool(snapshot.gpu_count.value) and (refused or _cuda_fails(snapshot))


@check("CTR304", Cause.DEVICE_NODE_PERMISSION, requires=("CTR301",))
def device_node_permission(ctx: CheckContext) -> Outcome:
    """The device nodes are there, but this user may not open them.

    What it means: reading and writing /dev/nvidia* is allowed to others than this user, so neither NVML nor CUDA work.
    How it is seen: the mode and owner of the nodes, together with an initialisation that fails.
    What to do: on a host, add the user to the group that owns the nodes, or mend the udev rule; in a container, run
    with the group (--group-add) or let the device's rules allow it. A job of Slurm's opens the GPUs alone that it has
    asked for.
    """
    snapshot = ctx.snapshot
    by_group = is_contained(snapshot)  # a control group's doing is the other check's
    nodes = snapshot.driver.device_nodes
    closed = [node for node in nodes if not node.accessible and not (by_group and _open_to_all(node))]
    if not closed or not (_cuda_fails(snapshot) or snapshot.driver.nvml_init.value):
        return
    unknown_grant = snapshot.grant.by.value == "slurm" and not snapshot.grant.gpus.known
    yield Symptom(
        f"This user may not open {', '.join(node.path for node in closed)}",
        tuple(Evidence(node.path, f"{node.mode} {node.owner}", "/dev") for node in closed),
        (*_opened(snapshot, closed), *((_WITH_A_GPU,) if unknown_grant else ())),
    )


def _opened(snapshot: Snapshot, closed: list[DeviceNode]) -> tuple[Fix, ...]:
    """How access to the nodes is given: through the scheduler, the mode, the group or the control group.

    NVreg_DeviceFileUID, NVreg_DeviceFileGID and NVreg_DeviceFileMode: open-gpu-kernel-modules, nv-reg.h; openSUSE's
    packages set them (modprobe.nvidia.install; both read 2026-11-22).
    """
    if snapshot.grant.by.value == "slurm" and snapshot.grant.gpus.value == 0:
        return (Fix("This job was granted no GPU: ask Slurm for one.", ("srun", "--gpus=1", "COMMAND")),)
    if all(_open_to_all(node) for node in closed):
        said = "Their mode lets everybody: let the control group or the security policy of this process do so too."
        return (Fix(said),)
    groups = {node.owner.partition(":")[2] for node in closed if node.mode[4:6] == "rw"} - {"", "0"}
    group = next(iter(sorted(groups)), None)
    words = "Add this user to the group that owns the nodes, and log in again; in a container use --group-add."
    if is_contained(snapshot):
        by_docker = snapshot.host.container.value is Container.DOCKER
        command = ("docker", "run", "--group-add", group, "--gpus", "all", "IMAGE") if group and by_docker else None
        return (Fix(words, command),)
    join = Fix(words, ("sudo", "usermod", "-a", "-G", group, "USER") if group else None)
    if is_tegra(snapshot):
        return (join,)  # its nodes are udev's, and no option of a module decides on them
    return (join, Fix("Or take NVreg_DeviceFileUID, -GID and -Mode out of /etc/modprobe.d, and load the module anew."))


def _cuda_fails(snapshot: Snapshot) -> bool:
    return bool(snapshot.driver.cuda_init.value)


_SNAP = Fix("Docker of a snap package cannot use it: install Docker's own packages in its place.")


@check("CTR307", Cause.CONTAINER_TOOLKIT_BROKEN, requires=("DRV100", "GPU201", "CTR301"))
def docker_without_toolkit(ctx: CheckContext) -> Outcome:
    """Docker on this host cannot hand GPUs to containers.

    What it means: programs on this host may use the GPU, but docker run --gpus ends with "could not select device
    driver": the NVIDIA container toolkit, which gives a container the nodes and the libraries, is not there.
    How it is seen: Docker's program is there; none of the toolkit's programs, no runtime of its own in Docker's
    configuration, and no file of the Container Device Interface.
    What to do: install the NVIDIA container toolkit, tell Docker of it, and restart Docker. Where no container needs a
    GPU, nothing.
    """
    snapshot = ctx.snapshot
    if is_contained(snapshot) or not driver_sees_gpu(snapshot) or not hands_over_nothing(snapshot):
        return
    of_snap = (snapshot.container_support.docker.value or "").startswith("/snap/")
    yield Symptom(
        "Docker is on this host, and cannot hand its GPUs to containers: there is no NVIDIA container toolkit",
        evidence_of(
            snapshot, "container_support.docker", "container_support.has_toolkit", "container_support.runtimes"
        ),
        (*container_toolkit(snapshot), *((_SNAP,) if of_snap else ())),
        Severity.NOTE,
    )
