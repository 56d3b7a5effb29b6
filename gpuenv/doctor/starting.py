"""What to do where the driver answers and CUDA does not start, by the code that cuInit gives. Pure.

``CUresult``: CUDA Driver API, Data types used by CUDA driver. What 304 has meant: NVIDIA/OpenShell#1696 and
abetlen/llama-cpp-python#645, both of a seccomp profile; what 2 may mean: NVIDIA/cuda-python#2458 (read November 2026).
"""

from __future__ import annotations

from gpuenv.doctor.registry import Facts, Symptom
from gpuenv.doctor.remedies import restart
from gpuenv.model.causes import Cause
from gpuenv.model.codes import Cuda
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.gpu import Virtualization
from gpuenv.model.host import Container
from gpuenv.model.presence import contained, driver_nodes
from gpuenv.model.snapshot import Snapshot

ACCEPT_WORK = Fix(
    "In a confidential virtual machine, let the GPU take work.", ("sudo", "nvidia-smi", "conf-compute", "-srs", "1")
)
LOOK = Fix("Look for messages of the driver in the kernel's log, then restart the machine.", ("sudo", "dmesg"))
_LOAD = Fix("Load the module of CUDA's memory manager.", ("sudo", "nvidia-modprobe", "-c", "0", "-u"))
_LOAD_OUTSIDE = Fix("On the host, load the module of CUDA's memory manager.", _LOAD.command)
_LOOK_OUTSIDE = Fix("On the host, look for messages of the driver in the kernel's log, then restart it.", LOOK.command)
_UVM = "/dev/nvidia-uvm"
# NVIDIA, Virtual GPU Software User Guide, on CUDA: it lists the types that run it (DualCoder/vgpu_unlock#51 names it).
_OF_VGPU = Fix("See whether this type of virtual GPU runs CUDA: NVIDIA's Virtual GPU Software User Guide lists those.")
# NVIDIA, MIG User Guide, Device Nodes and Capabilities: who may read an instance's nodes may use it.
_OF_INSTANCES = Fix(
    "See whether this user may read the nodes of the MIG instances: without them there is no device.",
    ("ls", "-l", "/dev/nvidia-caps"),
)
_LIMITS = Fix(
    "Let this process reserve more memory: see its limit of virtual memory (ulimit -v), and that of the job or the "
    "container.",
    ("sh", "-c", "ulimit -a"),
)
_REFUSED_CALL = Fix(
    "See which call of the system is refused; a seccomp profile, a security module or a limit may be in the way.",
    ("strace", "-f", "-Z", "python3", "-c", 'import ctypes; ctypes.CDLL("libcuda.so.1").cuInit(0)'),
)
_WITHOUT_SECCOMP = "Try it once without the engine's seccomp profile; where that helps, give the container a wider one."
_UNCONFINED = {
    Container.DOCKER: ("docker", "run", "--gpus", "all", "--security-opt", "seccomp=unconfined", "IMAGE"),
    Container.PODMAN: (
        *("podman", "run", "--device", "nvidia.com/gpu=all"),
        *("--security-opt", "seccomp=unconfined", "IMAGE"),
    ),
}


def fixes_of(facts: Facts, code: int) -> tuple[Fix, ...]:
    """What may help, the most likely first; neither WSL nor a Jetson has the module nvidia-uvm."""
    snapshot = facts.snapshot
    look = _LOOK_OUTSIDE if contained(snapshot) else LOOK
    if code == Cuda.OUT_OF_MEMORY:
        return (_LIMITS, look)
    if code == Cuda.OPERATING_SYSTEM:
        unconfined = _UNCONFINED.get(snapshot.host.container.value or Container.NONE)
        seccomp = (Fix(_WITHOUT_SECCOMP, unconfined),) if contained(snapshot) else ()
        return (*seccomp, _REFUSED_CALL, look)
    if snapshot.host.wsl.value:
        again = restart(snapshot, "so that its connection to the driver is made anew")
        return (again, Fix("Where it comes back, update the NVIDIA driver in Windows."))
    virtual = any(gpu.virtualization.value is Virtualization.VGPU for gpu in snapshot.gpus)
    accept = (ACCEPT_WORK,) if code == Cuda.SYSTEM_NOT_READY else ()
    sliced = code == Cuda.NO_DEVICE and any(gpu.mig.value and gpu.mig_instances for gpu in snapshot.gpus)
    load = _LOAD_OUTSIDE if contained(snapshot) else _LOAD
    may_help = not facts.needs.tegra and _may_lack_uvm(snapshot, code)
    special = (*accept, *((_OF_VGPU,) if virtual else ()), *((_OF_INSTANCES,) if sliced else ()))
    return (*special, *((load,) if may_help else ()), look)


def _may_lack_uvm(snapshot: Snapshot, code: int) -> bool:
    """Whether the module may not be at work: its node is not there, or CUDA does not say what it lacks."""
    return _UVM not in driver_nodes(snapshot) or code in (Cuda.NO_DEVICE, Cuda.UNKNOWN)


def without_instance(snapshot: Snapshot, evidence: tuple[Evidence, ...]) -> Symptom:
    """MIG is on, and this process has no instance; a container may have been given none of those that there are.

    An instance's nodes lie below /dev/nvidia-caps (NVIDIA, MIG User Guide, Device Nodes and Capabilities).
    """
    inside = contained(snapshot)
    handed = Fix(
        "Where the host has an instance, give it to the container: by its UUID in NVIDIA_VISIBLE_DEVICES, or with its "
        "nodes below /dev/nvidia-caps beside the GPU's own."
    )
    where = "On the host, make" if inside else "Make"
    fixes = (
        *((handed,) if inside else ()),
        Fix(f"{where} an instance of the whole GPU.", ("sudo", "nvidia-smi", "mig", "-cgi", "0", "-C")),
        Fix(f"Or turn MIG off{' there' if inside else ''}.", ("sudo", "nvidia-smi", "-mig", "0")),
    )
    title = (
        "MIG is on, and no instance is to be seen from this container"
        if inside
        else "MIG is on, but no instance exists"
    )
    return Symptom(title, evidence, fixes, cause=Cause.MIG_MISCONFIGURED)
