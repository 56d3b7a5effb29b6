"""Can CUDA be initialised, and does this process then see the GPUs that it was granted?"""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.doctor.evidence import evidence_of, holders, lines_with, packages_as_evidence, troubles
from gpuenv.doctor.fixes.distributions import FABRIC_MANAGER, FIRMWARE, driver_fixes, install_command, restart
from gpuenv.doctor.predicates import holders_of, is_passed_on, probed, unfound_in_wsl
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.matrix.needs import compat_in_use
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import driver_nodes, driver_sees_gpu, is_contained, nvidia_on_bus
from gpuenv.model.nvidia import Cuda
from gpuenv.model.snapshot import Container, DriverLibrary, LibraryOrigin, PciGpu, Snapshot, Virtualization
from gpuenv.model.strings import pattern

_OF_JETPACK = (LibraryOrigin.TEGRA, LibraryOrigin.MOUNTED, LibraryOrigin.COMPAT)
_SERVER_WHEEL = pattern(r"nvidia-[a-z-]+-cu1[12]")


@check("TEG901", Cause.JETSON_TEGRA, requires=("DRV100", "DRV101", "CTR301"))
def another_libcuda(ctx: CheckContext) -> Outcome:
    """On a Tegra board, libcuda is not the one of its own platform.

    What it means: the GPU of a Jetson is driven by the driver that JetPack brings. A driver package for servers with
    Arm processors installs another libcuda, which finds no GPU there.
    How it is seen: the board's mark, a libcuda outside of the folders of Tegra, and an initialisation that fails.
    What to do: remove the packages of the other driver, and install those of JetPack again.
    """
    snapshot = ctx.snapshot
    driver = snapshot.driver
    if not ctx.needs.tegra or not driver.cuda_init.value or driver.cuda_origin.value in (None, *_OF_JETPACK):
        return
    yield Symptom(
        "On this Tegra board, another libcuda than JetPack's is loaded",
        evidence_of(snapshot, "host.tegra", "driver.cuda_library", "driver.cuda_origin", "libcuda"),
        (
            Fix("Remove the packages of the other driver.", ("sudo", "apt-get", "remove", "libcuda1", "nvidia-driver")),
            Fix("Install JetPack's own again, then restart.", ("sudo", "apt-get", "install", "nvidia-l4t-cuda")),
        ),
    )


@check("TEG902", Cause.JETSON_TEGRA, requires=("ENV401", "TEG901"))
def wheels_for_servers(ctx: CheckContext) -> Outcome:
    """On a Tegra board, the CUDA libraries are those for servers.

    What it means: up to CUDA 12 NVIDIA's wheels for aarch64 are built for servers with Arm processors (SBSA), and hold
    no code for the GPU of a Jetson; JetPack has libraries of its own. From CUDA 13 on one build serves both.
    How it is seen: the board's mark, and CUDA wheels of CUDA 11 or 12 in the target.
    What to do: remove these wheels, and let CuPy find JetPack's toolkit in /usr/local/cuda.
    """
    snapshot = ctx.snapshot
    packages = snapshot.target.packages
    wheels = {name: release for name, release in packages.items() if _SERVER_WHEEL.fullmatch(name)}
    if not ctx.needs.tegra or not wheels:
        return
    yield Symptom(
        f"On this Tegra board, the target has CUDA wheels for servers: {', '.join(wheels)}",
        evidence_of(snapshot, "host.tegra") + packages_as_evidence(wheels),
        (
            Fix(
                "Remove them; JetPack's own toolkit in /usr/local/cuda serves CuPy"
                + (", once it is mounted into the container." if is_contained(snapshot) else ".")
            ),
        ),
        Severity.WARNING,
    )


_BEFORE_INITIALISATION = (
    "DRV100",
    "DRV101",
    "GPU201",
    "GPU202",
    "GPU203",
    "GPU204",
    "GPU209",
    "CTR301",
    "DRV105",
    "DRV106",
    "DRV107",
)
# CUDA 13.2 Update 1, Release Notes, Known Issues, General CUDA: "CUDA initialization can fail on certain Linux kernels
# with KASLR enabled", with this message and this way out (read 2026-11-22).
_NO_ROOM = pattern(r"nvidia-uvm: .*request_free_mem_region\(\) err")
_TURN_OFF = "options nvidia_uvm uvm_disable_hmm=1"
# Linux, drivers/base/firmware_loader/main.c; open-gpu-kernel-modules, RmFetchGspRmImages.
_NO_FIRMWARE = pattern(r"firmware load for nvidia/\S+ failed with error|NVRM: .*No firmware image found")


@check("DRV118", Cause.DRIVER_KERNEL_INCOMPATIBLE, requires=_BEFORE_INITIALISATION)
def no_room_for_memory(ctx: CheckContext) -> Outcome:
    """The kernel gives CUDA's memory manager no room in its address space.

    What it means: some kernels that place themselves at random (KASLR) leave no free range for the GPU's memory where
    the driver asks for one (HMM), so CUDA cannot be initialised, though nvidia-smi works.
    How it is seen: cuInit fails, and the kernel's log has a line of nvidia-uvm with request_free_mem_region() err.
    What to do: turn HMM off in the module nvidia-uvm and load it anew, or start the kernel with nokaslr; newer kernels
    have it mended.
    """
    lines = lines_with(ctx.snapshot, _NO_ROOM)
    if not lines or not ctx.snapshot.driver.cuda_init.value:
        return
    yield Symptom(
        "The kernel gives CUDA's memory manager no room: HMM and this kernel do not go together",
        lines + evidence_of(ctx.snapshot, "libcuda", "host.kernel"),
        (
            Fix(
                "Turn HMM off for the module nvidia-uvm.",
                ("sudo", "sh", "-c", f"echo '{_TURN_OFF}' > /etc/modprobe.d/nvidia-uvm-hmm.conf"),
            ),
            Fix("Load the module anew, or restart.", ("sudo", "modprobe", "-r", "nvidia_uvm")),
            Fix("Then load it.", ("sudo", "modprobe", "nvidia_uvm")),
            Fix("Or start the kernel with nokaslr, or another kernel."),
        ),
    )


@check("DRV119", Cause.DRIVER_INSTALL_BROKEN, requires=_BEFORE_INITIALISATION)
def no_firmware(ctx: CheckContext) -> Outcome:
    """The driver does not find its firmware for the GPU.

    What it means: the open kernel modules, and for newer GPUs the proprietary ones too, load firmware for the GPU's own
    processor from a file of exactly the driver's version. Without it the GPU is not started.
    How it is seen: no GPU is listed, and the kernel's log says that firmware below nvidia/ could not be loaded.
    What to do: install the firmware of exactly the driver's version, or the whole driver again; where the module is
    loaded from an initial RAM disk, make that anew.
    """
    snapshot = ctx.snapshot
    lines = lines_with(snapshot, _NO_FIRMWARE)
    if not lines or driver_sees_gpu(snapshot) or is_contained(snapshot) or not snapshot.driver.cuda_init.value:
        return
    yield Symptom(
        "The driver does not find its firmware, so the GPU is not started",
        lines + evidence_of(snapshot, "driver.module_version", "libcuda"),
        (
            Fix(
                "Install the firmware of exactly this driver, or the driver again.", install_command(snapshot, FIRMWARE)
            ),
            Fix("Unload the module, or restart.", ("sudo", "modprobe", "-r", "nvidia")),
            Fix("Then load it.", ("sudo", "modprobe", "nvidia")),
        ),
    )


_UNREGISTERED: dict[str | None, str] = {
    "not-started": "no GPU's registration has begun, so the fabric manager does not run",
    "in-progress": "the GPUs wait for their registration, which the fabric manager has not completed",
}
_FIRST_FOR_WSL = 495
_BEFORE = (
    *("DRV100", "DRV101", "GPU201", "GPU202", "GPU203", "GPU204", "GPU209"),
    *("CTR301", "CTR302", "CTR303", "CTR304", "CTR305", "CTR306"),
    *("DRV105", "DRV106", "DRV107", "DRV108", "DRV114", "DRV118", "DRV119", "DRV120", "DRV121", "DRV122"),
)
# Boards that no NVSwitch joins: those in a PCIe slot, and those joined by bridges alone.
_WITHOUT_SWITCH = pattern(r"\bPCI[Ee]\b|\bNVL\b|GeForce|RTX|Quadro|TITAN|\b(?:T4|L4|L40S?|A2|A10|A16|A30|A40)\b")


@check("DRV109", Cause.LIBRARY_PATH_CONFLICT, requires=_BEFORE, of_process=True)
def stub_libcuda(ctx: CheckContext) -> Outcome:
    """The toolkit's stub of libcuda is loaded in place of the driver's.

    What it means: the toolkit has an empty libcuda to link against. When its folder is on the loader's path, programs
    load it and fail.
    How it is seen: cuInit answers with error 34, which only the stub does.
    What to do: take the stubs folder out of LD_LIBRARY_PATH and of the loader's configuration.
    """
    if ctx.snapshot.driver.cuda_init.value != Cuda.STUB_LIBRARY:
        return
    yield Symptom(
        "The toolkit's stub of libcuda is loaded in place of the driver's library",
        evidence_of(ctx.snapshot, "driver.cuda_library", "libcuda"),
        (Fix("Take the stubs folder out of LD_LIBRARY_PATH and out of /etc/ld.so.conf.d."),),
    )


@check("DRV110", Cause.FABRIC_MANAGER_NOT_RUNNING, requires=_BEFORE)
def system_not_ready(ctx: CheckContext) -> Outcome:
    """The NVSwitch fabric is not up: its manager does not run.

    What it means: on machines whose GPUs are joined by NVSwitch, CUDA starts only after the fabric manager has set the
    fabric up, and the manager must be of exactly the driver's version.
    How it is seen: cuInit answers with error 802, system not yet initialised, and the GPUs are not of those that no
    NVSwitch joins; NVML tells how far each GPU's registration in the fabric has come, on Hopper and newer. Where nobody
    could ask libcuda, as in a paste, it is told by registrations alone, of which none is complete.
    What to do: install the fabric manager of the driver's version, and start it. A GPU of a confidential virtual
    machine gives the same error until it is told to take work.
    """
    snapshot = ctx.snapshot
    every = [gpu.fabric.state.value for gpu in snapshot.gpus]
    states = [state for state in every if state in _UNREGISTERED]
    waiting = bool(every) and not probed(snapshot) and states == every  # of a paste, in which libcuda was not asked
    if snapshot.driver.cuda_init.value != Cuda.SYSTEM_NOT_READY and not waiting:
        return
    without_switch = [
        gpu.fabric.state.value == "not-supported" or bool(_WITHOUT_SWITCH.search(gpu.name.value or ""))
        for gpu in snapshot.gpus
    ]
    if without_switch and all(without_switch):
        return
    why = (
        _UNREGISTERED[states[0]]
        if states and states[0]
        else "the fabric manager does not run, or is of another version"
    )
    yield Symptom(
        f"The NVSwitch fabric is not up: {why}",
        evidence_of(snapshot, "libcuda", "driver.version")
        + evidence_of(
            snapshot,
            *(f"gpus[{place}].fabric.state" for place, gpu in enumerate(snapshot.gpus) if gpu.fabric.state.known),
        ),
        (
            Fix("Start the fabric manager.", ("sudo", "systemctl", "enable", "--now", "nvidia-fabricmanager")),
            Fix(
                f"If it refuses, install the one of exactly the driver's version, {snapshot.driver.version.value}.",
                install_command(snapshot, FABRIC_MANAGER),
            ),
            *((ACCEPT_WORK,) if any(gpu.fabric.state.value is None for gpu in snapshot.gpus) else ()),
        ),
    )


@check("DRV111", Cause.FORWARD_COMPAT_UNSUPPORTED, requires=_BEFORE, of_process=True)
def forward_compatibility(ctx: CheckContext) -> Outcome:
    """A compatibility libcuda is in use where it is not allowed.

    What it means: the cuda-compat package brings a newer libcuda for an older driver, on data-centre GPUs only. On
    other GPUs, and on drivers too far away from it, CUDA refuses to start.
    How it is seen: cuInit answers with error 804, or with 803 while libcuda comes from a compat folder.
    What to do: remove cuda-compat, or take its folder off the loader's path; or update the driver.
    """
    code = ctx.snapshot.driver.cuda_init.value
    if code != Cuda.COMPAT_NOT_SUPPORTED_ON_DEVICE and not (
        code == Cuda.SYSTEM_DRIVER_MISMATCH and compat_in_use(ctx.snapshot, ctx.matrix)
    ):
        return
    yield Symptom(
        "A forward-compatibility libcuda is in use that this GPU or driver does not allow",
        evidence_of(ctx.snapshot, "driver.cuda_library", "libcuda", "driver.version"),
        (
            Fix("Take the compat folder out of LD_LIBRARY_PATH and /etc/ld.so.conf.d, or remove cuda-compat."),
            Fix("Or update the driver, so that no compatibility package is needed."),
        ),
    )


@check("DRV112", Cause.WSL_LIBCUDA, requires=_BEFORE, of_process=True)
def wsl_libcuda(ctx: CheckContext) -> Outcome:
    """Under WSL, the libcuda of Windows is shadowed by a Linux one or not found, or Windows' driver is too old.

    What it means: in WSL the driver lives in Windows, and its libcuda is mounted in /usr/lib/wsl/lib. A Linux driver
    package installs another one, which cannot work; the loader may not know that folder; an old driver has none.
    How it is seen: CUDA cannot be initialised, and the libcuda in use is not below /usr/lib/wsl, or the driver is of a
    branch before 495; or the loader finds no libcuda, and there is one below /usr/lib/wsl.
    What to do: remove the Linux driver's packages; tell the loader of that folder; keep Windows' driver up to date.
    """
    snapshot = ctx.snapshot
    unfound = unfound_in_wsl(snapshot)
    if unfound is not None:
        yield _not_found(snapshot, unfound)
        return
    if not snapshot.host.wsl.value or not snapshot.driver.cuda_init.value:
        return
    if snapshot.driver.cuda_origin.value is LibraryOrigin.WSL:
        yield from _old_windows_driver(ctx)
        return
    yield Symptom(
        "A Linux libcuda shadows the one that Windows brings",
        evidence_of(snapshot, "driver.cuda_library", "libcuda"),
        (Fix("Remove the Linux driver's packages from this WSL distribution."), *driver_fixes(ctx)),
    )


def _not_found(snapshot: Snapshot, unfound: DriverLibrary) -> Symptom:
    """The folder exists, and the loader does not search it.

    WSL writes ld.wsl.conf itself, and says in it: "To stop automatic generation of this file, add the following entry
    to /etc/wsl.conf: [automount] ldconfig = false" (a pull request of snapd's, on its interface opengl, quotes it).
    """
    folder = unfound.path.rpartition("/")[0]
    return Symptom(
        f"The loader does not find the libcuda that Windows brings, {unfound.path}",
        (Evidence("driver.libraries", unfound.path, "the folders that drivers use"),)
        + evidence_of(snapshot, "libcuda", "nvml", "environment.LD_LIBRARY_PATH"),
        (
            Fix("Let the loader look there for this program.", ("env", f"LD_LIBRARY_PATH={folder}", "python")),
            Fix(
                "For every program: name the folder in /etc/ld.so.conf.d, then let the loader's cache be made anew.",
                ("sudo", "sh", "-c", f"echo {folder} > /etc/ld.so.conf.d/ld.wsl.conf && ldconfig"),
            ),
            Fix("WSL writes that file at every start, unless /etc/wsl.conf has ldconfig = false: remove that line."),
        ),
    )


def _old_windows_driver(ctx: CheckContext) -> Outcome:
    """CUDA in WSL 2 needs R495 or newer (NVIDIA, CUDA on WSL User Guide, 2.1, its table, read 2026-11-21)."""
    snapshot = ctx.snapshot
    driver = snapshot.driver.version.value
    if driver is None or driver.branch >= _FIRST_FOR_WSL:
        return
    yield Symptom(
        f"The driver in Windows, {driver}, is too old for CUDA in WSL",
        evidence_of(snapshot, "driver.version", "driver.cuda_library", "libcuda"),
        driver_fixes(ctx),
    )


@check("DRV117", Cause.SUSPEND_RESUME_LOST_GPU, requires=_BEFORE)
def lost_over_suspend(ctx: CheckContext) -> Outcome:
    """CUDA has stopped working after the machine was asleep.

    What it means: NVML still answers, but the module of CUDA's memory manager has lost its state while the machine was
    suspended, and every CUDA program fails until it is loaded anew.
    How it is seen: cuInit answers with error 999 while NVML lists the GPU, and the kernel counts at least one sleep
    since the machine was started.
    What to do: end the CUDA programs and load nvidia-uvm anew, or restart. To keep it from happening, let the driver
    save the GPU's memory (its services nvidia-suspend and nvidia-resume; NVIDIA, driver README, Configuring Power
    Management Support).
    """
    snapshot = ctx.snapshot
    if snapshot.driver.cuda_init.value != Cuda.UNKNOWN or not snapshot.host.suspends.value:
        return
    if snapshot.driver.nvml_init.value != 0 or not driver_sees_gpu(snapshot):
        return
    yield Symptom(
        "CUDA has stopped working after the machine was asleep",
        evidence_of(snapshot, "libcuda", "host.suspends", "nvml"),
        (
            Fix("End every CUDA program, and unload the module of CUDA's memory.", ("sudo", "rmmod", "nvidia_uvm")),
            Fix("Load it again; where it cannot be unloaded, restart.", ("sudo", "modprobe", "nvidia_uvm")),
            Fix(
                "Let the driver save the GPU's memory from now on.",
                ("sudo", "systemctl", "enable", "nvidia-suspend", "nvidia-hibernate", "nvidia-resume"),
            ),
        ),
    )


@check(
    "DRV113",
    Cause.CUDA_INITIALIZATION_FAILED,
    Cause.MIG_MISCONFIGURED,
    requires=(*_BEFORE, "DRV109", "DRV110", "DRV111", "DRV112", "DRV117", "TEG901"),
)
def initialisation_failed(ctx: CheckContext) -> Outcome:
    """CUDA cannot be initialised.

    What it means: the driver is there and NVML may answer, but cuInit fails, so no CUDA program can start.
    How it is seen: the return code of cuInit in a process of its own.
    What to do: load nvidia-uvm; look at the kernel's log; after suspend, reload nvidia-uvm; restart. With MIG on, make
    an instance. Where MPS is in between, see to its daemon. Where a call of the system is refused (304), see to what
    confines the process; where memory cannot be reserved (2), to its limits.
    """
    snapshot = ctx.snapshot
    code = snapshot.driver.cuda_init.value
    no_instance = bool(snapshot.gpus) and all(gpu.mig.value and not gpu.mig_instances for gpu in snapshot.gpus)
    if code is None:
        if snapshot.source("libcuda").state.value == "failed":
            yield NotKnown(snapshot.source("libcuda").detail or "libcuda could not be asked")
        elif no_instance and snapshot.visible_count.value == 0:  # as nvidia-smi tells in a paste
            modes = (f"gpus[{place}].mig" for place in range(len(snapshot.gpus)))
            yield _without_instance(snapshot, evidence_of(snapshot, *modes, "visible_count"))
        return
    if code == 0 or any(gpu.fault.known for gpu in snapshot.gpus):
        return
    evidence = evidence_of(snapshot, "libcuda", "nvml", "gpu_count")
    evidence += troubles(snapshot)
    if code in MPS_TROUBLES:
        yield _by_mps(snapshot, code, evidence + evidence_of(snapshot, "mps.pipe_directory"))
    elif code == Cuda.NO_DEVICE and no_instance:
        yield _without_instance(snapshot, evidence)
    elif driver_sees_gpu(snapshot):
        yield Symptom("CUDA cannot be initialised, though the driver answers", evidence, _fixes_of(ctx, code))
    elif code == Cuda.NO_DEVICE and not nvidia_on_bus(snapshot):
        yield NotKnown("the driver shows no GPU, and the PCI bus none of NVIDIA's")
    else:
        yield _not_listed(nvidia_on_bus(snapshot) or (), evidence)


def _not_listed(on_bus: Sequence[PciGpu], evidence: tuple[Evidence, ...]) -> Symptom:
    """A GPU is on the bus, as far as that is known, and the driver has none: another driver may hold it."""
    title = "The driver does not list the NVIDIA GPU that is on the PCI bus"
    kept = holders_of(gpu for gpu in on_bus if is_passed_on(gpu))
    passed_on: tuple[Fix, ...] = ()
    if kept:
        title += f": {kept} holds it"
        passed_on = (Fix(f"{kept} keeps the GPU for a virtual machine: use it there, or bind it to nvidia."),)
    return Symptom(title, evidence + holders(on_bus), (*passed_on, LOOK))  # nvidia-uvm has no part in listing GPUs


# What to do where the driver answers and CUDA does not start, by the code that cuInit gives.
# ``CUresult``: CUDA Driver API, Data types used by CUDA driver. What 304 has meant: NVIDIA/OpenShell#1696 and
# abetlen/llama-cpp-python#645, both of a seccomp profile; what 2 may mean: NVIDIA/cuda-python#2458 (read November
# 2026).

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


def _fixes_of(ctx: CheckContext, code: int) -> tuple[Fix, ...]:
    """What may help, the most likely first; neither WSL nor a Jetson has the module nvidia-uvm."""
    snapshot = ctx.snapshot
    look = _LOOK_OUTSIDE if is_contained(snapshot) else LOOK
    if code == Cuda.OUT_OF_MEMORY:
        return (_LIMITS, look)
    if code == Cuda.OPERATING_SYSTEM:
        unconfined = _UNCONFINED.get(snapshot.host.container.value or Container.NONE)
        seccomp = (Fix(_WITHOUT_SECCOMP, unconfined),) if is_contained(snapshot) else ()
        return (*seccomp, _REFUSED_CALL, look)
    if snapshot.host.wsl.value:
        again = restart(snapshot, "so that its connection to the driver is made anew")
        return (again, Fix("Where it comes back, update the NVIDIA driver in Windows."))
    virtual = any(gpu.virtualization.value is Virtualization.VGPU for gpu in snapshot.gpus)
    accept = (ACCEPT_WORK,) if code == Cuda.SYSTEM_NOT_READY else ()
    sliced = code == Cuda.NO_DEVICE and any(gpu.mig.value and gpu.mig_instances for gpu in snapshot.gpus)
    load = _LOAD_OUTSIDE if is_contained(snapshot) else _LOAD
    may_help = not ctx.needs.tegra and (_UVM not in driver_nodes(snapshot) or code in (Cuda.NO_DEVICE, Cuda.UNKNOWN))
    special = (*accept, *((_OF_VGPU,) if virtual else ()), *((_OF_INSTANCES,) if sliced else ()))
    return (*special, *((load,) if may_help else ()), look)


def _without_instance(snapshot: Snapshot, evidence: tuple[Evidence, ...]) -> Symptom:
    """MIG is on, and this process has no instance; a container may have been given none of those that there are.

    An instance's nodes lie below /dev/nvidia-caps (NVIDIA, MIG User Guide, Device Nodes and Capabilities).
    """
    inside = is_contained(snapshot)
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


_FEWER_CLIENTS = "End other clients of MPS, or wait for them."
_END_MPS = ("sh", "-c", "echo quit | nvidia-cuda-mps-control")
# CUDA Driver API, Data types used by CUDA driver, CUresult; NVIDIA, Multi-Process Service (read November 2026).
MPS_TROUBLES = {
    Cuda.MPS_CONNECTION_FAILED: (
        "its control daemon or its server cannot be reached",
        "Start MPS's control daemon as this user, and let CUDA_MPS_PIPE_DIRECTORY name its folder.",
    ),
    Cuda.MPS_RPC_FAILURE: ("a call to its server has failed", "Start MPS's control daemon anew."),
    Cuda.MPS_SERVER_NOT_READY: (
        "its server is not ready, which may pass",
        "Wait a moment; MPS's server recovers from a fault of a client.",
    ),
    Cuda.MPS_MAX_CLIENTS_REACHED: ("its server takes no more clients", _FEWER_CLIENTS),
    Cuda.MPS_MAX_CONNECTIONS_REACHED: ("its server takes no more connections", _FEWER_CLIENTS),
    Cuda.MPS_CLIENT_TERMINATED: (
        "its server has ended this client",
        "Start the program again; see what another client of MPS did.",
    ),
}


def _by_mps(snapshot: Snapshot, code: int, evidence: tuple[Evidence, ...]) -> Symptom:
    """MPS refuses this process or does not answer. Its daemon runs on the host; a container gets only its pipes."""
    title, first = MPS_TROUBLES[Cuda(code)]
    where = " on the host" if is_contained(snapshot) else ""
    if where and "daemon" in first:
        first = f"On the host: {first[0].lower()}{first[1:]}"
    return Symptom(
        f"CUDA cannot be initialised through MPS: {title}",
        evidence,
        (
            Fix(first),
            Fix(f"Or leave MPS: end its daemon{where}, as the user who has started it.", _END_MPS),
        ),
    )


@check(
    "GPU212",
    Cause.VISIBLE_DEVICES_HIDE_GPU,
    Cause.SOURCES_DISAGREE,
    requires=("DRV100", "GPU201", "GPU202", "GPU203", "CTR301", "CTR305"),
)
def other_than_granted(ctx: CheckContext) -> Outcome:
    """This process sees another number of GPUs than it was granted.

    What it means: with fewer, a variable that was set in a profile or a script hides a part of what the job waited and
    pays for. With more, nothing keeps the job to its own: it computes on GPUs that were granted to others.
    How it is seen: the scheduler's or the container engine's own word (its variables) against the number of devices
    that libcuda shows.
    What to do: take CUDA_VISIBLE_DEVICES out of profiles and scripts, since the scheduler sets it; with more, ask for
    its device control groups to be turned on.
    """
    snapshot = ctx.snapshot
    granted, seen = snapshot.grant.gpus, snapshot.visible_count
    if not granted.value or seen.value is None or not seen.value or snapshot.driver.cuda_init.value:
        return
    if granted.value == seen.value or any(gpu.mig.value for gpu in snapshot.gpus):
        return  # of a GPU in MIG mode a process sees one instance, whatever was granted
    fewer = seen.value < granted.value
    if fewer and snapshot.environment.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        return  # the tasks of a step share what the step was granted
    told = snapshot.environment.get("CUDA_VISIBLE_DEVICES")
    by = snapshot.grant.by.value or "the scheduler"
    fix = Fix("Let CUDA_VISIBLE_DEVICES name those that were granted; ask for device control groups.")
    if fewer and told is not None:
        fix = Fix("Leave CUDA_VISIBLE_DEVICES as the scheduler has set it.")
    elif fewer:
        fix = Fix("Ask for all of them in the job's step as well, as with srun --gpus.")
    yield Symptom(
        f"{granted.value} GPUs were granted by {by}, and this process sees {seen.value}",
        evidence_of(snapshot, "grant.gpus", "grant.devices", "visible_count")
        + (Evidence("environment.CUDA_VISIBLE_DEVICES", told if told is not None else "not set", "the environment"),),
        (fix,),
        Severity.WARNING,
        cause=None if fewer and told is not None else Cause.SOURCES_DISAGREE,
    )
