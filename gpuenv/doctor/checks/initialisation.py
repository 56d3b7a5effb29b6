"""Checks whether CUDA can be initialized, and whether this process sees the GPUs that it was granted."""

from __future__ import annotations

from gpuenv.doctor.evidence import evidence_of, kernel_drivers, matching_log_lines, packages_as_evidence
from gpuenv.doctor.fixes.containers import CREATE_NODES
from gpuenv.doctor.fixes.distributions import driver_fixes, restart_fix, system_steps
from gpuenv.doctor.fixes.gpus import is_slot_board
from gpuenv.doctor.fixes.kernel_module import excluded_gpu_fixes, reload_uvm_fixes, unbind_fixes
from gpuenv.doctor.fixes.variables import (
    granted_devices,
    origin_fixes,
    step_fix,
    variable_fixes,
    with_folder_fix,
    without_folder_of_fixes,
    without_folders_fixes,
)
from gpuenv.doctor.predicates import is_driver_probed, is_passed_through, kernel_driver_names, unfound_wsl_libcuda
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.matrix.needs import compat_in_use
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import driver_nodes, driver_sees_gpu, is_contained, nvidia_on_bus
from gpuenv.model.nvidia import Cuda
from gpuenv.model.snapshot import Container, DriverLibrary, LibraryOrigin, Snapshot, Virtualization
from gpuenv.model.strings import pattern

_JETPACK_ORIGINS = (LibraryOrigin.TEGRA, LibraryOrigin.MOUNTED, LibraryOrigin.COMPAT)
_SERVER_WHEEL = pattern(r"nvidia-[a-z-]+-cu1[12]")


@check("TEG901", Cause.JETSON_TEGRA, requires=("DRV100", "DRV101", "CTR301"))
def another_libcuda(ctx: CheckContext) -> Outcome:
    """On a Tegra board, the loaded libcuda is not JetPack's.

    What it means: the driver of JetPack drives the GPU of a Jetson. A driver package for Arm servers installs another
    libcuda, which finds no GPU there.
    How it is seen: the board's identification, a libcuda outside of Tegra's folders, and an initialization that fails.
    What to do: remove the packages of the other driver, and reinstall those of JetPack.
    """
    snapshot = ctx.snapshot
    driver = snapshot.driver
    if not ctx.needs.tegra or not driver.cuda_init.value or driver.cuda_origin.value in (None, *_JETPACK_ORIGINS):
        return
    yield Symptom(
        "On this Tegra board, the loaded libcuda is not JetPack's",
        evidence_of(snapshot, "host.tegra", "driver.cuda_library", "driver.cuda_origin", "libcuda"),
        (
            Fix("Remove the packages of the other driver.", ("sudo", "apt-get", "remove", "libcuda1", "nvidia-driver")),
            Fix("Reinstall JetPack's driver, then restart.", ("sudo", "apt-get", "install", "nvidia-l4t-cuda")),
        ),
    )


@check("TEG902", Cause.JETSON_TEGRA, requires=("ENV401", "TEG901"))
def wheels_for_servers(ctx: CheckContext) -> Outcome:
    """On a Tegra board, the CUDA libraries are those for Arm servers.

    What it means: up to CUDA 12 NVIDIA's wheels for aarch64 are built for Arm servers (SBSA), and have no code for the
    GPU of a Jetson; JetPack has libraries of its own. From CUDA 13 on one build supports both.
    How it is seen: the board's identification, and wheels of CUDA 11 or 12 in the target.
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
                "Remove them; CuPy uses JetPack's toolkit in /usr/local/cuda"
                + (", once it is mounted into the container." if is_contained(snapshot) else ".")
            ),
        ),
        Severity.WARNING,
    )


_EARLY_REQUIRES = (
    *("DRV100", "DRV101", "GPU201", "GPU202", "GPU203", "GPU204", "GPU209", "CTR301", "DRV105", "DRV106", "DRV107"),
)
# CUDA 13.2 Update 1, Release Notes, Known Issues, General CUDA: "CUDA initialization can fail on certain Linux kernels
# with KASLR enabled", with this message and this workaround (read 2026-11-22).
_NO_ADDRESS_RANGE = pattern(r"nvidia-uvm: .*request_free_mem_region\(\) err")
_TURN_OFF = "options nvidia_uvm uvm_disable_hmm=1"
# Linux, drivers/base/firmware_loader/main.c; open-gpu-kernel-modules, RmFetchGspRmImages.
_NO_FIRMWARE = pattern(r"firmware load for nvidia/\S+ failed with error|NVRM: .*No firmware image found")


@check("DRV118", Cause.DRIVER_KERNEL_INCOMPATIBLE, requires=_EARLY_REQUIRES)
def no_room_for_memory(ctx: CheckContext) -> Outcome:
    """The kernel has no free address range for CUDA's memory manager.

    What it means: some kernels that randomize their own location (KASLR) leave no free range for the GPU's memory where
    the driver requests one (HMM), so CUDA cannot be initialized, though nvidia-smi works.
    How it is seen: cuInit fails, and the kernel log has a line of nvidia-uvm with request_free_mem_region() err.
    What to do: turn HMM off in the module nvidia-uvm and reload it, or boot the kernel with nokaslr; newer kernels are
    fixed.
    """
    lines = matching_log_lines(ctx.snapshot, _NO_ADDRESS_RANGE)
    if not lines or not ctx.snapshot.driver.cuda_init.value:
        return
    yield Symptom(
        "The kernel has no free address range for CUDA's memory manager: HMM does not work with this kernel",
        lines + evidence_of(ctx.snapshot, "libcuda", "host.kernel"),
        (
            Fix(
                "Turn HMM off for the module nvidia-uvm.",
                ("sudo", "sh", "-c", f"echo '{_TURN_OFF}' > /etc/modprobe.d/nvidia-uvm-hmm.conf"),
            ),
            Fix("Unload the module, or restart.", ("sudo", "modprobe", "-r", "nvidia_uvm")),
            Fix("Then load it.", ("sudo", "modprobe", "nvidia_uvm")),
            Fix("Or boot the kernel with nokaslr, or another kernel."),
        ),
    )


@check("DRV119", Cause.DRIVER_INSTALL_BROKEN, requires=_EARLY_REQUIRES)
def no_firmware(ctx: CheckContext) -> Outcome:
    """The driver does not find its firmware for the GPU.

    What it means: the open kernel modules, and for newer GPUs the proprietary ones too, load firmware for the GPU's own
    processor from a file of exactly the driver's version. Without it the GPU is not started.
    How it is seen: no GPU is listed, and the kernel log reports that firmware in nvidia/ could not be loaded.
    What to do: install the firmware of exactly the driver's version, or reinstall the driver; if the module is loaded
    from an initramfs, rebuild it.
    """
    snapshot = ctx.snapshot
    lines = matching_log_lines(snapshot, _NO_FIRMWARE)
    if not lines or driver_sees_gpu(snapshot) or is_contained(snapshot) or not snapshot.driver.cuda_init.value:
        return
    yield Symptom(
        "The driver does not find its firmware, so the GPU is not started",
        lines + evidence_of(snapshot, "driver.module_version", "libcuda"),
        (
            *system_steps(snapshot, "firmware"),
            Fix("Unload the module, or restart.", ("sudo", "modprobe", "-r", "nvidia")),
            Fix("Then load it.", ("sudo", "modprobe", "nvidia")),
        ),
    )


_UNREGISTERED = {
    "not-started": "no GPU has begun its registration, so the fabric manager is not running",
    "in-progress": "the fabric manager has not completed the registration of the GPUs",
}
_FIRST_FOR_WSL = 495  # NVIDIA, CUDA on WSL User Guide, 2.1, its table (read 2026-11-21)
_INIT_REQUIRES = (
    *("DRV100", "DRV101", "GPU201", "GPU202", "GPU203", "GPU204", "GPU209"),
    *("CTR301", "CTR302", "CTR303", "CTR304", "CTR305", "CTR306"),
    *("DRV105", "DRV106", "DRV107", "DRV108", "DRV114", "DRV118", "DRV119", "DRV120", "DRV121", "DRV122"),
)


@check("DRV109", Cause.LIBRARY_PATH_CONFLICT, requires=_INIT_REQUIRES, of_process=True)
def stub_libcuda(ctx: CheckContext) -> Outcome:
    """The toolkit's stub of libcuda is loaded instead of the driver's library.

    What it means: the toolkit has an empty libcuda for linking. If its folder is on the loader's path, programs load it
    and fail.
    How it is seen: cuInit answers with error 34, which only the stub returns.
    What to do: remove the stubs folder from LD_LIBRARY_PATH and from the loader's configuration.
    """
    if ctx.snapshot.driver.cuda_init.value != Cuda.STUB_LIBRARY:
        return
    yield Symptom(
        "The toolkit's stub of libcuda is loaded instead of the driver's library",
        evidence_of(ctx.snapshot, "driver.cuda_library", "libcuda"),
        _remove_folder_fixes(ctx.snapshot, "stubs"),
    )


def _remove_folder_fixes(snapshot: Snapshot, folder: str) -> tuple[Fix, ...]:
    """How to remove a folder of this name, or that of the loaded libcuda, from the loader's path."""
    by_variable = without_folders_fixes(snapshot, lambda entry: f"/{folder}" in entry)
    return (
        by_variable
        or without_folder_of_fixes(snapshot, snapshot.driver.cuda_library.value or "")
        or (
            Fix(
                f"Find the line that adds the {folder} folder to the loader's path, and remove it.",
                ("grep", "-rns", folder, "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
            ),
            Fix("Then rebuild the loader's cache.", ("sudo", "ldconfig")),
        )
    )


@check("DRV110", Cause.FABRIC_MANAGER_NOT_RUNNING, requires=_INIT_REQUIRES)
def system_not_ready(ctx: CheckContext) -> Outcome:
    """The NVSwitch fabric is not up: its manager is not running.

    What it means: on machines whose GPUs are connected by NVSwitch, CUDA starts only after the fabric manager has set
    the fabric up, and the manager must be of exactly the driver's version.
    How it is seen: cuInit answers with error 802, system not yet initialized, and the GPUs are of a product that has
    NVSwitch. On Hopper and newer, NVML also reports the state of each GPU's registration in the fabric. If libcuda was
    not probed, as in a paste, the registrations decide alone: none is complete.
    What to do: install the fabric manager of the driver's version, and start it. A GPU of a confidential virtual
    machine gives the same error until it accepts work.
    """
    snapshot = ctx.snapshot
    every = [gpu.fabric.state.value for gpu in snapshot.gpus]
    states = [state for state in every if state is not None and state in _UNREGISTERED]
    waiting = bool(every) and not is_driver_probed(snapshot) and states == every  # a paste, without libcuda
    if snapshot.driver.cuda_init.value != Cuda.SYSTEM_NOT_READY and not waiting:
        return
    without_switch = [gpu.fabric.state.value == "not-supported" or is_slot_board(gpu) for gpu in snapshot.gpus]
    if without_switch and all(without_switch):
        return
    why = _UNREGISTERED[states[0]] if states else "the fabric manager is not running, or has another version"
    yield Symptom(
        f"The NVSwitch fabric is not up: {why}",
        evidence_of(snapshot, "libcuda", "driver.version")
        + evidence_of(
            snapshot,
            *(f"gpus[{index}].fabric.state" for index, gpu in enumerate(snapshot.gpus) if gpu.fabric.state.known),
        ),
        (
            Fix("Start the fabric manager.", ("sudo", "systemctl", "enable", "--now", "nvidia-fabricmanager")),
            *system_steps(snapshot, "fabric-manager"),
            *((_ACCEPT_WORK,) if any(gpu.fabric.state.value is None for gpu in snapshot.gpus) else ()),
        ),
    )


@check("DRV111", Cause.FORWARD_COMPAT_UNSUPPORTED, requires=_INIT_REQUIRES, of_process=True)
def forward_compatibility(ctx: CheckContext) -> Outcome:
    """A compatibility libcuda is in use that this GPU or driver does not allow.

    What it means: the cuda-compat package has a newer libcuda for an older driver, on data-centre GPUs only. On other
    GPUs, and with drivers that are too different from it, CUDA does not start.
    How it is seen: cuInit answers with error 804, or with 803 while libcuda comes from a compat folder.
    What to do: remove cuda-compat, or remove its folder from the loader's path; or update the driver.
    """
    code = ctx.snapshot.driver.cuda_init.value
    is_mismatch = code == Cuda.SYSTEM_DRIVER_MISMATCH and compat_in_use(ctx.snapshot, ctx.matrix)
    if code != Cuda.COMPAT_NOT_SUPPORTED_ON_DEVICE and not is_mismatch:
        return
    yield Symptom(
        "A forward-compatibility libcuda is in use that this GPU or driver does not allow",
        evidence_of(ctx.snapshot, "driver.cuda_library", "libcuda", "driver.version"),
        (
            *_remove_folder_fixes(ctx.snapshot, "compat"),
            Fix("Or update the driver, so that no compatibility package is needed."),
        ),
    )


@check("DRV112", Cause.WSL_LIBCUDA, requires=_INIT_REQUIRES, of_process=True)
def wsl_libcuda(ctx: CheckContext) -> Outcome:
    """Under WSL, the libcuda of Windows is hidden by a Linux one or not found, or the Windows driver is too old.

    What it means: in WSL the driver is that of Windows, and its libcuda is mounted in /usr/lib/wsl/lib. A Linux driver
    package installs another one, which cannot work; the loader may not search that folder; an old driver has none.
    How it is seen: CUDA cannot be initialized, and the libcuda in use is not in /usr/lib/wsl, or the driver is older
    than branch 495; or the loader finds no libcuda, and there is one in /usr/lib/wsl.
    What to do: remove the Linux driver's packages; add that folder to the loader's search path; update the Windows
    driver.
    """
    snapshot = ctx.snapshot
    unfound = unfound_wsl_libcuda(snapshot)
    if unfound is not None:
        yield _unsearched_folder(snapshot, unfound)
        return
    if not snapshot.host.wsl.value or not snapshot.driver.cuda_init.value:
        return
    driver = snapshot.driver.version.value
    if snapshot.driver.cuda_origin.value is not LibraryOrigin.WSL:
        yield Symptom(
            "A Linux libcuda hides the one of Windows",
            evidence_of(snapshot, "driver.cuda_library", "libcuda"),
            (*system_steps(snapshot, "remove-driver"), restart_fix(snapshot, "so that it mounts the Windows driver")),
        )
    elif driver is not None and driver.branch < _FIRST_FOR_WSL:
        yield Symptom(
            f"The driver in Windows, {driver}, is too old for CUDA in WSL",
            evidence_of(snapshot, "driver.version", "driver.cuda_library", "libcuda"),
            driver_fixes(ctx),
        )


def _unsearched_folder(snapshot: Snapshot, unfound: DriverLibrary) -> Symptom:
    """The folder exists, but the loader does not search it.

    WSL writes ld.wsl.conf itself, with the text: "To stop automatic generation of this file, add the following entry to
    /etc/wsl.conf: [automount] ldconfig = false" (a pull request of snapd's, on its interface opengl, quotes it).
    """
    folder = unfound.path.rpartition("/")[0]
    return Symptom(
        f"The loader does not find the libcuda of Windows, {unfound.path}",
        (Evidence("driver.libraries", unfound.path, "the folders that drivers use"),)
        + evidence_of(snapshot, "libcuda", "nvml", "environment.LD_LIBRARY_PATH"),
        (
            with_folder_fix(snapshot, folder, "Add the folder in this shell."),
            Fix(
                "For every program: add the folder to /etc/ld.so.conf.d, and rebuild the loader's cache.",
                ("sudo", "sh", "-c", f"echo {folder} > /etc/ld.so.conf.d/ld.wsl.conf && ldconfig"),
            ),
            Fix("WSL writes that file at every start, unless /etc/wsl.conf has ldconfig = false: remove that line."),
        ),
    )


@check("DRV117", Cause.SUSPEND_RESUME_LOST_GPU, requires=_INIT_REQUIRES)
def lost_after_suspend(ctx: CheckContext) -> Outcome:
    """CUDA stopped working after the machine was suspended.

    What it means: NVML still works, but the module of CUDA's memory manager lost its state while the machine was
    suspended, and every CUDA program fails until it is reloaded.
    How it is seen: cuInit answers with error 999 while NVML lists the GPU, and the kernel counts at least one suspend
    since boot.
    What to do: end the CUDA programs and reload nvidia-uvm, or restart. To prevent it, let the driver save the GPU's
    memory (its services nvidia-suspend and nvidia-resume; NVIDIA, driver README, Configuring Power Management Support).
    """
    snapshot = ctx.snapshot
    if snapshot.driver.cuda_init.value != Cuda.UNKNOWN or not snapshot.host.suspends.value:
        return
    if snapshot.driver.nvml_init.value != 0 or not driver_sees_gpu(snapshot):
        return
    yield Symptom(
        "CUDA stopped working after the machine was suspended",
        evidence_of(snapshot, "libcuda", "host.suspends", "nvml"),
        (
            *reload_uvm_fixes(),
            Fix(
                "To prevent it, let the driver save the GPU's memory.",
                ("sudo", "systemctl", "enable", "nvidia-suspend", "nvidia-hibernate", "nvidia-resume"),
            ),
        ),
    )


_DRIVER_ERROR = pattern(
    r"(?i)NVRM: .*(?:\bXid\b|fail|error|cannot|not supported|timed? ?out|no firmware)"
    r"|nvidia\S*:? .*(?:fail|error|\berr -?\d)"
)


@check(
    "DRV113",
    Cause.CUDA_INITIALIZATION_FAILED,
    Cause.MIG_MISCONFIGURED,
    requires=(*_INIT_REQUIRES, "DRV109", "DRV110", "DRV111", "DRV112", "DRV117", "TEG901"),
)
def initialisation_failed(ctx: CheckContext) -> Outcome:
    """CUDA cannot be initialized.

    What it means: the driver is installed and NVML may work, but cuInit fails, so no CUDA program can start.
    How it is seen: the return code of cuInit in a process of its own.
    What to do: load nvidia-uvm; read the kernel log; after suspend, reload nvidia-uvm; restart. With MIG on, create an
    instance. With MPS, check its daemon. If a system call is refused (304), check what confines the process; if memory
    cannot be reserved (2), check its limits.
    """
    snapshot = ctx.snapshot
    code = snapshot.driver.cuda_init.value
    no_instance = bool(snapshot.gpus) and all(gpu.mig.value and not gpu.mig_instances for gpu in snapshot.gpus)
    if code is None:
        if snapshot.source("libcuda").state.value == "failed":
            yield NotKnown(snapshot.source("libcuda").detail or "libcuda could not be probed")
        elif no_instance and snapshot.visible_count.value == 0:  # as nvidia-smi reports in a paste
            modes = (f"gpus[{index}].mig" for index in range(len(snapshot.gpus)))
            yield _without_instance(snapshot, evidence_of(snapshot, *modes, "visible_count"))
        return
    if code == 0 or any(gpu.fault.known for gpu in snapshot.gpus):
        return
    evidence = evidence_of(snapshot, "libcuda", "nvml", "gpu_count") + matching_log_lines(snapshot, _DRIVER_ERROR)
    if code in _MPS_ERRORS:
        yield _by_mps(snapshot, code, evidence + evidence_of(snapshot, "mps.pipe_directory"))
    elif code == Cuda.NO_DEVICE and no_instance:
        yield _without_instance(snapshot, evidence)
    elif driver_sees_gpu(snapshot) and code == Cuda.OUT_OF_MEMORY:
        evidence += evidence_of(snapshot, "host.overcommit", "host.address_limit")
        title = f"CUDA cannot be initialized: {_refused_addresses(snapshot)}"
        yield Symptom(title, evidence, _init_fixes(ctx, code))
    elif driver_sees_gpu(snapshot):
        title = "CUDA cannot be initialized, though the driver answers"
        yield Symptom(title, evidence, _vgpu_type_fixes(snapshot) or _init_fixes(ctx, code))
    else:
        yield _not_listed(ctx, code, evidence)


def _not_listed(ctx: CheckContext, code: int, evidence: tuple[Evidence, ...]) -> Symptom | NotKnown:
    """The driver lists no GPU; one that is on the bus may be held by another driver, or excluded by an option.

    The bus shows neither the GPU of WSL nor that of most Tegra boards.
    """
    snapshot = ctx.snapshot
    on_bus = nvidia_on_bus(snapshot) or ()
    if snapshot.host.wsl.value:
        return Symptom("Windows does not give WSL access to the GPU", evidence, _wsl_fixes(snapshot))
    if not on_bus:
        if code == Cuda.NO_DEVICE and not ctx.needs.tegra:
            return NotKnown("neither the driver nor the PCI bus shows an NVIDIA GPU")
        return Symptom("CUDA cannot be initialized", evidence, _init_fixes(ctx, code))
    excluded = excluded_gpu_fixes(snapshot)
    if excluded:
        evidence += evidence_of(snapshot, "driver.excluded_gpus", "driver.module_options")
    title = "The driver does not list the NVIDIA GPU that is on the PCI bus"
    held = [gpu for gpu in on_bus if is_passed_through(gpu)]
    if held:
        title += f": {kernel_driver_names(held)} holds it"
    elif excluded:
        title += ": an option of its kernel module leaves it out"
    fixes = (*unbind_fixes(snapshot, held), *excluded) if held or excluded else _START_GPU
    if fixes is _START_GPU and matching_log_lines(snapshot, _REFUSED):  # GPU204 reports a GPU of another branch
        title, fixes = f"{title}: it refuses this GPU", (_GUEST_DRIVER, *_START_GPU)
    return Symptom(title, evidence + kernel_drivers(on_bus), fixes)  # nvidia-uvm has no part in listing GPUs


_REFUSED = pattern(r"NVRM: .*not supported by the")  # open-gpu-kernel-modules, nv.c
# NVIDIA, Virtual GPU Software User Guide: the guest driver; Microsoft, GPU drivers on N-series VMs running
# Linux: NVadsA10 v5 need the GRID driver. A vGPU has its board's PCI id.
_GUEST_DRIVER = Fix(
    "In a virtual machine with a part of a GPU (vGPU, as Azure's NVadsA10 v5), install the guest driver of NVIDIA's "
    "vGPU software (GRID), from the cloud or the host's administrator; the ordinary driver refuses such a GPU."
)
# open-gpu-kernel-modules, nv.c and osinit.c: its messages of a GPU that it does not start.
_START_GPU = (
    Fix(
        "Read the driver's messages: not supported means another branch or kind of modules, RmInitAdapter a GPU that "
        "did not start.",
        shell_line="sudo dmesg | grep -i -e NVRM -e nvidia",
    ),
    Fix("Restart the machine; if that does not help, power it off and on.", ("sudo", "reboot")),
    Fix("If RmInitAdapter still fails: check the board's seating and power, update its firmware, or have it replaced."),
)


# Fixes if the driver works and CUDA does not start, by the code that cuInit returns.
# ``CUresult``: CUDA Driver API, Data types used by CUDA driver. Cases of 304: NVIDIA/OpenShell#1696 and
# abetlen/llama-cpp-python#645, both from a seccomp profile; a case of 2: NVIDIA/cuda-python#2458 (read November
# 2026).

_ACCEPT_WORK = Fix(
    "In a confidential virtual machine, let the GPU accept work.", ("sudo", "nvidia-smi", "conf-compute", "-srs", "1")
)
_READ_LOG = Fix("Look for messages of the driver in the kernel log, then restart the machine.", ("sudo", "dmesg"))
_LOAD = Fix("Load the module of CUDA's memory manager.", CREATE_NODES)
_LOAD_ON_HOST = Fix("On the host, load the module of CUDA's memory manager.", _LOAD.command)
_READ_HOST_LOG = Fix(
    "On the host, look for messages of the driver in the kernel log, then restart it.", _READ_LOG.command
)
_UVM = "/dev/nvidia-uvm"
# NVIDIA, Virtual GPU Software User Guide, Virtual GPU Types: Q-series are workstations, C-series compute; B-series are
# desktops and A-series applications, without CUDA (DualCoder/vgpu_unlock#51). The letter follows the memory: A10-4B.
_DESKTOP_TYPE = pattern(r"-\d+[AB]\b")
_CHECK_VGPU = Fix("Check whether this type of virtual GPU supports CUDA, in NVIDIA's Virtual GPU Software User Guide.")
# NVIDIA, MIG User Guide, Device Nodes and Capabilities: who may read an instance's nodes may use it.
_CHECK_MIG_NODES = Fix(
    "Check whether this user may read the nodes of the MIG instances: without them there is no device.",
    ("ls", "-l", "/dev/nvidia-caps"),
)
_LIMITS = Fix(
    "Let this process reserve more memory: check the limit of its virtual memory (ulimit -v), job or container.",
    ("sh", "-c", "ulimit -a"),
)
_RAISE_LIMIT = Fix(
    "Lift the limit in this shell, and where it is set: a shell file, /etc/security/limits.conf, the job's options.",
    shell_line="ulimit -v unlimited",
)
_STRICT = 2  # vm.overcommit_memory: the kernel counts every reserved address, and CUDA reserves very many
_OVERCOMMIT = (
    Fix(
        "vm.overcommit_memory=2 refuses the addresses that CUDA reserves: set the kernel's default, until the restart.",
        ("sudo", "sysctl", "vm.overcommit_memory=0"),
    ),
    Fix(
        "For good: change the line that sets it; ask the administrator first, since it protects other programs.",
        ("grep", "-rn", "overcommit_memory", "/etc/sysctl.conf", "/etc/sysctl.d", "/usr/lib/sysctl.d"),
    ),
)
_REFUSED_CALL = Fix(
    "Find out which system call is refused, by a seccomp profile, a security module or a limit.",
    ("strace", "-f", "-Z", "python3", "-c", 'import ctypes; ctypes.CDLL("libcuda.so.1").cuInit(0)'),
)
_DEFAULT_SECCOMP = Fix(
    "If the container is started with a seccomp profile of its own (--security-opt seccomp=FILE): start it without, "
    "because the engine's default profile allows CUDA."
)
_WITHOUT_SECCOMP = "As a test only, start it without any profile; if that helps, allow the refused call in the profile."
_UNCONFINED = {
    Container.DOCKER: ("docker", "run", "--gpus", "all", "--security-opt", "seccomp=unconfined", "IMAGE"),
    Container.PODMAN: (
        *("podman", "run", "--device", "nvidia.com/gpu=all"),
        *("--security-opt", "seccomp=unconfined", "IMAGE"),
    ),
}


def _init_fixes(ctx: CheckContext, code: int) -> tuple[Fix, ...]:
    """Possible fixes, the most likely first; neither WSL nor a Jetson has the module nvidia-uvm."""
    snapshot = ctx.snapshot
    look = _READ_HOST_LOG if is_contained(snapshot) else _READ_LOG
    if code == Cuda.OUT_OF_MEMORY:
        return (*_address_fixes(snapshot), look)
    if code == Cuda.OPERATING_SYSTEM:
        unconfined = _UNCONFINED.get(snapshot.host.container.value or Container.NONE)
        if is_contained(snapshot):
            return (_DEFAULT_SECCOMP, _REFUSED_CALL, Fix(_WITHOUT_SECCOMP, unconfined), look)
        return (_REFUSED_CALL, look)
    if snapshot.host.wsl.value:
        return _wsl_fixes(snapshot)
    virtual = any(gpu.virtualization.value is Virtualization.VGPU for gpu in snapshot.gpus)
    accept = (_ACCEPT_WORK,) if code == Cuda.SYSTEM_NOT_READY else ()
    sliced = code == Cuda.NO_DEVICE and any(gpu.mig.value and gpu.mig_instances for gpu in snapshot.gpus)
    load = _LOAD_ON_HOST if is_contained(snapshot) else _LOAD
    may_help = not ctx.needs.tegra and (_UVM not in driver_nodes(snapshot) or code in (Cuda.NO_DEVICE, Cuda.UNKNOWN))
    if code == Cuda.UNKNOWN and _UVM in driver_nodes(snapshot) and not is_contained(snapshot) and not ctx.needs.tegra:
        return (*accept, *reload_uvm_fixes(), look)
    special = (*accept, *((_CHECK_VGPU,) if virtual else ()), *((_CHECK_MIG_NODES,) if sliced else ()))
    return (*special, *((load,) if may_help else ()), look)


def _wsl_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    restart = restart_fix(snapshot, "so that it reconnects to the driver")
    return (restart, Fix("If it happens again, update the NVIDIA driver in Windows."))


def _refused_addresses(snapshot: Snapshot) -> str:
    """Why CUDA may get no addresses at start, before it uses any memory of a GPU."""
    limit = snapshot.host.address_limit.value
    if limit is not None:
        return f"this process may reserve only {limit >> 20} MiB of addresses (ulimit -v)"
    if snapshot.host.overcommit.value == _STRICT:
        return "the kernel reserves no addresses beyond its memory (vm.overcommit_memory=2)"
    return "it cannot reserve memory (error 2)"


def _address_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    strict = _OVERCOMMIT if snapshot.host.overcommit.value == _STRICT else ()
    return (_RAISE_LIMIT, _LIMITS, *strict) if snapshot.host.address_limit.known else (strict or (_LIMITS,))


def _vgpu_type_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """A fix if every GPU is a virtual one for desktops; else empty."""
    names = [gpu.name.value or "" for gpu in snapshot.gpus if gpu.virtualization.value is Virtualization.VGPU]
    if not names or len(names) != len(snapshot.gpus) or not all(map(_DESKTOP_TYPE.search, names)):
        return ()
    return (
        Fix(
            "Have the administrator of the host give this virtual machine a type whose name ends in Q or C: "
            f"{names[0]} is a type for desktops or applications, without CUDA."
        ),
    )


def _without_instance(snapshot: Snapshot, evidence: tuple[Evidence, ...]) -> Symptom:
    """MIG is on, but this process has no instance; a container may lack those of the host.

    An instance's nodes are in /dev/nvidia-caps (NVIDIA, MIG User Guide, Device Nodes and Capabilities).
    """
    inside = is_contained(snapshot)
    pass_instance = Fix(
        "If the host has an instance, give it to the container: by its UUID in NVIDIA_VISIBLE_DEVICES, or with its "
        "nodes in /dev/nvidia-caps in addition to the GPU's own."
    )
    where = "On the host, create" if inside else "Create"
    fixes = (
        *((pass_instance,) if inside else ()),
        Fix(f"{where} an instance of the whole GPU.", ("sudo", "nvidia-smi", "mig", "-cgi", "0", "-C")),
        Fix(f"Or turn MIG off{' on the host' if inside else ''}.", ("sudo", "nvidia-smi", "-mig", "0")),
    )
    title = "MIG is on, but no instance is visible in this container" if inside else "MIG is on, but no instance exists"
    return Symptom(title, evidence, fixes, cause=Cause.MIG_MISCONFIGURED)


_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_FEWER_CLIENTS = "End other clients of MPS, or wait for them."
_END_MPS = ("sh", "-c", "echo quit | nvidia-cuda-mps-control")
# CUDA Driver API, Data types used by CUDA driver, CUresult; NVIDIA, Multi-Process Service (read November 2026).
_MPS_ERRORS = {
    Cuda.MPS_CONNECTION_FAILED: (
        "its control daemon or its server cannot be reached",
        "Start MPS's control daemon as this user, and set CUDA_MPS_PIPE_DIRECTORY to its folder.",
    ),
    Cuda.MPS_RPC_FAILURE: ("a call to its server failed", "Restart MPS's control daemon."),
    Cuda.MPS_SERVER_NOT_READY: (
        "its server is temporarily not ready",
        "Wait a moment while MPS's server recovers from a client's fault.",
    ),
    Cuda.MPS_MAX_CLIENTS_REACHED: ("its server accepts no more clients", _FEWER_CLIENTS),
    Cuda.MPS_MAX_CONNECTIONS_REACHED: ("its server accepts no more connections", _FEWER_CLIENTS),
    Cuda.MPS_CLIENT_TERMINATED: (
        "its server terminated this client",
        "Restart the program; check whether another client of MPS failed.",
    ),
}


def _by_mps(snapshot: Snapshot, code: int, evidence: tuple[Evidence, ...]) -> Symptom:
    """MPS refuses this process or does not answer. Its daemon runs on the host; a container gets only its pipes."""
    title, first = _MPS_ERRORS[Cuda(code)]
    first_fixes: tuple[Fix, ...] = ()
    if code == Cuda.MPS_CONNECTION_FAILED and _PIPES in snapshot.environment:
        first_fixes = variable_fixes(snapshot, _PIPES, text="Use the GPU without MPS, if its daemon no longer runs.")
    elif code == Cuda.MPS_CONNECTION_FAILED and snapshot.mps.daemon.value and not is_contained(snapshot):
        first_fixes = _leftover_fixes(snapshot.mps.pipe_directory.value or "")
    where = " on the host" if is_contained(snapshot) else ""
    if where and "daemon" in first:
        first = f"On the host: {first[0].lower()}{first[1:]}"
    return Symptom(
        f"CUDA cannot be initialized through MPS: {title}",
        evidence,
        (
            *first_fixes,
            Fix(f"Or {first[0].lower()}{first[1:]}" if first_fixes else first),
            Fix(
                f"Or turn MPS off: end its daemon{where}, as the user who started it; this ends its clients.", _END_MPS
            ),
        ),
    )


def _leftover_fixes(folder: str) -> tuple[Fix, ...]:
    """Renames the folder that a killed daemon has left: no process answers its pipe, and without it CUDA needs no MPS.

    nvidia-cuda-mps-control(1): where no daemon accepts the connection, a program runs as without MPS.
    """
    return (
        Fix("See whether MPS's control daemon runs.", ("pgrep", "-a", "-f", "nvidia-cuda-mps-control")),
        Fix("If it does not, its folder is a leftover: rename it.", ("sudo", "mv", folder, f"{folder}.old")),
    )


@check(
    "GPU212",
    Cause.VISIBLE_DEVICES_HIDE_GPU,
    Cause.SOURCES_DISAGREE,
    requires=("DRV100", "GPU201", "GPU202", "GPU203", "CTR301", "CTR305"),
)
def other_than_granted(ctx: CheckContext) -> Outcome:
    """This process sees a different number of GPUs than it was granted.

    What it means: with fewer, a variable in a profile or a script hides GPUs of the job. With more, the job is not
    confined: it can compute on GPUs of other jobs.
    How it is seen: the variables of the scheduler or the container engine are compared with the number of devices that
    libcuda lists.
    What to do: name the granted GPUs in CUDA_VISIBLE_DEVICES, and remove it from profiles and scripts, since the
    scheduler sets it; with more GPUs, ask the administrator to turn on device control groups.
    """
    snapshot = ctx.snapshot
    granted, seen = snapshot.grant.gpus, snapshot.visible_count
    if not granted.value or not seen.value or snapshot.driver.cuda_init.value:
        return
    if granted.value == seen.value or any(gpu.mig.value for gpu in snapshot.gpus):
        return  # of a GPU in MIG mode a process sees one instance, whatever was granted
    fewer = seen.value < granted.value
    if fewer and snapshot.environment.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        return  # the tasks of a step share what the step was granted
    value = snapshot.environment.get("CUDA_VISIBLE_DEVICES")
    by = snapshot.grant.by.value or "the scheduler"
    right = granted_devices(snapshot)
    if fewer and value is None:
        again = Fix("Start the container or the job again, with all of them.")
        fixes: tuple[Fix, ...] = (step_fix(snapshot) if by == "slurm" else again,)
    elif right is None:
        keep = Fix("Do not change CUDA_VISIBLE_DEVICES: the scheduler sets it.")
        fixes = (keep, *origin_fixes(snapshot, "CUDA_VISIBLE_DEVICES"))
    else:
        fixes = variable_fixes(snapshot, "CUDA_VISIBLE_DEVICES", right, "Name the GPUs that were granted.")
    if not fewer:
        fixes += (Fix("Ask the administrator to confine jobs to their GPUs, by device control groups."),)
    yield Symptom(
        f"{granted.value} GPUs were granted by {by}, and this process sees {seen.value}",
        evidence_of(snapshot, "grant.gpus", "grant.devices", "visible_count")
        + (Evidence("environment.CUDA_VISIBLE_DEVICES", value if value is not None else "not set", "the environment"),),
        fixes,
        Severity.WARNING,
        cause=None if fewer and value is not None else Cause.SOURCES_DISAGREE,
    )
