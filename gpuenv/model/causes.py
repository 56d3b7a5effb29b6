"""The closed list of root causes, one row each. Every finding has one; the slug names the bad state."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class Fix(NamedTuple):
    """A fix.

    Attributes:
        text: what to do.
        command: an argv list that does it.
        safe: whether gpuenv may run the command in the target.
        shell_line: instead of a command: a line for the user's own shell, such as ``unset CUDA_PATH``, which no program
            can run for it, or one with a pattern or a variable.
    """

    text: str
    command: tuple[str, ...] | None = None
    safe: bool = False
    shell_line: str | None = None


SHELL_FILES = "~/.bashrc ~/.bash_profile ~/.profile ~/.zshrc /etc/profile.d /etc/environment"
"""Files in which shells and logins set variables, for a line of a shell."""
OWN_FOLDER = 'sudo chown -R "$USER": {}'
_REMOVE = Fix(
    "Uninstall every CuPy package, then install the one that gpuenv resolve recommends.",
    ("python", "-m", "pip", "uninstall", "cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x"),
)
_RESOLVE = Fix("Find the wheel that fits the driver, the GPU and the Python version.", ("gpuenv", "resolve"))
RUN_DOCTOR = Fix("Diagnose the machine.", ("gpuenv", "doctor"))
_BLOCKING = Fix(
    "Run the program again with synchronous kernel launches: the traceback then ends at the kernel that fails.",
    ("env", "CUDA_LAUNCH_BLOCKING=1", "python", "PROGRAM"),
)
_SANITIZER = Fix(
    "Run the program under compute-sanitizer, the memory checker of the CUDA toolkit.",
    ("compute-sanitizer", "python", "PROGRAM"),
)
_REBOOT = Fix("Reboot the machine.", ("sudo", "reboot"))
# No distribution is named: one for another CUDA would be a second CuPy in the environment. CuPy 14 added the extra.
_CTK = Fix(
    "Install the CUDA libraries with the [ctk] extra of the installed CuPy package (CuPy 14 or later).",
    ("gpuenv", "resolve"),
)
_DRIVER = Fix("Install a newer driver from the distribution, or else from NVIDIA's repository, and reboot.")
_SMI = Fix("See which processes use the GPU and how much memory is free.", ("nvidia-smi",))
_GPUS_ALL = Fix("Start the container with access to the GPUs.", ("docker", "run", "--gpus", "all", "IMAGE"))


@dataclass(frozen=True, slots=True)
class _Row:
    slug: str
    sentence: str
    fix: tuple[Fix | str, ...]  # a string is a fix without a command
    other_host: str | None = None
    transient: bool = False


class Cause(str, Enum):
    """A root cause; its slug is the value.

    Attributes:
        sentence: what is wrong.
        fix: what to do about it if no snapshot is available for a more specific fix.
        other_host: why the same job may succeed on another host; None if the cause moves with the job, its image or
            its environment.
        transient: whether it may go away by itself, once other processes have left the GPU.
    """

    sentence: str
    fix: tuple[Fix, ...]
    other_host: str | None
    transient: bool

    def __new__(cls, row: _Row) -> Cause:  # noqa: PYI034 - Self needs Python 3.11
        """Sets the columns of the row as attributes."""
        cause = str.__new__(cls, row.slug)
        cause._value_ = row.slug
        cause.sentence = row.sentence
        cause.fix = tuple(Fix(entry) if isinstance(entry, str) else entry for entry in row.fix)
        cause.other_host = row.other_host
        cause.transient = row.transient
        return cause

    def __str__(self) -> str:
        return str(self.value)

    # driver
    NO_NVIDIA_GPU = _Row(
        "no-nvidia-gpu",
        "the machine has no NVIDIA GPU",
        fix=("Use a machine, an instance type or a job that has an NVIDIA GPU.",),
        other_host="another host may have a GPU",
    )
    NO_DRIVER = _Row(
        "no-driver",
        "no NVIDIA driver is installed (no kernel module, no libcuda)",
        fix=(
            "Install the driver from the distribution or NVIDIA's repository, and reboot; for WSL, do so in Windows.",
            "On Ubuntu: sudo ubuntu-drivers install. No CUDA wheel or conda package contains the driver.",
            RUN_DOCTOR,
        ),
        other_host="another host may have a driver",
    )
    DRIVER_MODULE_NOT_LOADED = _Row(
        "driver-module-not-loaded",
        "the driver is installed but its kernel module is not loaded",
        fix=(
            Fix("Load the kernel module; if that fails, read the kernel log.", ("sudo", "modprobe", "nvidia")),
            Fix("After a kernel update, rebuild the module for the running kernel.", ("sudo", "dkms", "autoinstall")),
        ),
        other_host="the host's administrator must load the module",
    )
    DRIVER_INSTALL_BROKEN = _Row(
        "driver-install-broken",
        "parts of the driver are missing or come from different packages",
        fix=("Remove every driver package, install all packages of one release from one source, and reboot.",),
        other_host="the host's driver must be reinstalled",
    )
    DRIVER_KERNEL_INCOMPATIBLE = _Row(
        "driver-kernel-incompatible",
        "the driver does not build or load on the running kernel, or Secure Boot refuses it",
        fix=(
            Fix("Install the headers of the running kernel and rebuild the module.", ("sudo", "dkms", "autoinstall")),
            "Under Secure Boot, enrol the key that signs the module (mokutil --import), or disable Secure Boot.",
            "If the kernel is newer than the driver supports, boot the previous kernel or install a newer driver.",
            "If a container installs the driver, install it on the host instead, and block nouveau (modeset=0) there.",
        ),
        other_host="the host's kernel and driver are incompatible",
    )
    NOUVEAU_LOADED = _Row(
        "nouveau-loaded",
        "the nouveau module holds the GPU",
        fix=("Install the NVIDIA driver, whose package blocks nouveau, and reboot. Under Secure Boot, enrol its key.",),
        other_host="the host must be set up for the NVIDIA driver",
    )
    DRIVER_LIBRARY_VERSION_MISMATCH = _Row(
        "driver-library-version-mismatch",
        "the kernel module and the user-space library have different versions; usually a reboot is pending",
        fix=(
            _REBOOT,
            "If the error persists, two drivers are installed: remove the older one. Recreate containers.",
        ),
        other_host="the host must be rebooted",
    )
    DRIVER_TOO_OLD_FOR_CUDA = _Row(
        "driver-too-old-for-cuda",
        "the driver is too old for the CUDA runtime, library or PTX in use",
        fix=(_DRIVER, "Or use a CUDA version and a wheel that this driver supports.", _RESOLVE),
    )
    FORWARD_COMPAT_UNSUPPORTED = _Row(
        "forward-compat-unsupported",
        "a cuda-compat libcuda is in use on a GPU or driver that does not support it",
        fix=(
            "Remove the cuda-compat folder from LD_LIBRARY_PATH or from the image: this GPU does not support it.",
            _DRIVER,
        ),
    )
    SUSPEND_RESUME_LOST_GPU = _Row(
        "suspend-resume-lost-gpu",
        "CUDA stopped working after suspend; the uvm module must be reloaded",
        fix=(
            Fix("Stop the programs that use the GPU and unload nvidia-uvm.", ("sudo", "rmmod", "nvidia_uvm")),
            Fix("Load it again.", ("sudo", "modprobe", "nvidia_uvm")),
            "To prevent it, set NVreg_PreserveVideoMemoryAllocations=1 and enable nvidia-suspend.service.",
        ),
        other_host="the host must reload a kernel module",
    )
    DRIVER_UNRESPONSIVE = _Row(
        "driver-unresponsive",
        "a call into the driver hangs or crashes",
        fix=("Look for NVRM and Xid lines in the kernel log, then reboot.", _REBOOT),
        other_host="the host's driver hangs or crashes",
    )
    CUDA_INITIALIZATION_FAILED = _Row(
        "cuda-initialization-failed",
        "NVML works, but CUDA cannot be initialized, and no more specific cause is known",
        fix=(RUN_DOCTOR,),
        other_host="CUDA cannot be initialized on the host",
    )
    SOURCES_DISAGREE = _Row("sources-disagree", "nvidia-smi, NVML, libcuda and the kernel disagree", fix=(RUN_DOCTOR,))
    # gpu
    GPU_REMOVED_FROM_DRIVER = _Row(
        "gpu-removed-from-driver",
        "this driver branch no longer supports the GPU; an older branch does",
        fix=(
            "Install the last branch for this GPU; for Maxwell, Pascal and Volta, 580 with its proprietary modules.",
            Fix("On Ubuntu, install this package.", ("sudo", "apt-get", "install", "nvidia-driver-580")),
            Fix(
                "Then keep the branch (apt-mark unhold undoes this).",
                ("sudo", "apt-mark", "hold", "nvidia-driver-580"),
            ),
            "From NVIDIA's repository: nvidia-driver-pinning-580, which keeps the branch, then cuda-drivers-580.",
        ),
        other_host="the host's driver does not support the host's GPU",
    )
    GPU_TOO_NEW_FOR_DRIVER = _Row(
        "gpu-too-new-for-driver",
        "the driver branch is older than the GPU",
        fix=(
            _DRIVER,
            "Blackwell and later need branch 570 or newer with its open kernel modules (nvidia-open).",
            RUN_DOCTOR,
        ),
        other_host="the host's driver does not support the host's GPU",
    )
    GPU_REMOVED_FROM_TOOLKIT = _Row(
        "gpu-removed-from-toolkit",
        "this CUDA major version no longer compiles for the GPU",
        fix=(
            "Install the wheel for an older CUDA major version, which still compiles for this GPU.",
            _RESOLVE,
        ),
    )
    GPU_TOO_NEW_FOR_TOOLKIT = _Row(
        "gpu-too-new-for-toolkit",
        "the GPU is newer than this CUDA toolkit (NVRTC, nvcc)",
        fix=("Install a wheel or a toolkit for a newer CUDA version that supports this GPU.", _RESOLVE),
    )
    GPU_TOO_OLD_FOR_ANY_DRIVER = _Row(
        "gpu-too-old-for-any-driver",
        "no maintained driver branch supports the GPU",
        fix=("No maintained driver supports this GPU: use another GPU.",),
        other_host="the host's GPU is out of support",
    )
    CUPY_TOO_OLD_FOR_GPU = _Row(
        "cupy-too-old-for-gpu",
        "the toolkit supports the GPU, but the CuPy release does not",
        fix=("Install a newer CuPy that supports this GPU.", _RESOLVE),
    )
    NO_KERNEL_IMAGE = _Row(
        "no-kernel-image",
        "a binary has no code for this GPU",
        fix=(
            "Install a build of that library for this GPU's compute capability, or compile it for that architecture.",
            "If the GPU is older than the library supports, use an older release of the library, or another GPU.",
        ),
    )
    BUILD_ARCH_LIST_UNSUPPORTED = _Row(
        "build-arch-list-unsupported",
        "a build targets an architecture that the compiler does not support",
        fix=(
            "Remove the architecture from the build's list (TORCH_CUDA_ARCH_LIST, CMAKE_CUDA_ARCHITECTURES).",
            "Or build with a CUDA toolkit that supports it.",
        ),
    )
    COMPUTE_MODE_EXCLUSIVE = _Row(
        "compute-mode-exclusive",
        "the GPU is in exclusive-process or prohibited mode and in use",
        fix=(
            Fix("See which process uses the GPU. Wait for it, or end it if it is yours.", ("nvidia-smi",)),
            "Or use another GPU.",
            Fix(
                "Or let several programs share the GPU, until the next restart; ask the administrator first.",
                ("sudo", "nvidia-smi", "-i", "GPU", "-c", "DEFAULT"),
            ),
        ),
        other_host="the host's GPU is in use",
        transient=True,
    )
    MIG_MISCONFIGURED = _Row(
        "mig-misconfigured",
        "MIG is enabled without usable instances, or the wrong instance is named",
        fix=(
            Fix("List the instances and set CUDA_VISIBLE_DEVICES to one of them.", ("nvidia-smi", "-L")),
            "If there is no instance, create one or disable MIG.",
        ),
        other_host="the host's GPU is partitioned without usable instances",
    )
    FABRIC_MANAGER_NOT_RUNNING = _Row(
        "fabric-manager-not-running",
        "the fabric manager of an NVSwitch machine is not running (system not yet initialized)",
        fix=(
            Fix("Start the fabric manager.", ("sudo", "systemctl", "enable", "--now", "nvidia-fabricmanager")),
            "If it fails, install it in exactly the driver's version, such as nvidia-fabricmanager-580=580.65.06-1.",
            RUN_DOCTOR,
        ),
        other_host="the host's fabric manager must be started",
    )
    FABRIC_MANAGER_NOT_NEEDED = _Row(
        "fabric-manager-not-needed",
        "the fabric manager failed on a machine without NVSwitch, which is harmless",
        fix=(
            Fix(
                "The GPUs are fine. Disable the service.",
                ("sudo", "systemctl", "disable", "--now", "nvidia-fabricmanager"),
            ),
        ),
    )
    GPU_THROTTLED = _Row(
        "gpu-throttled",
        "the GPU runs well below its clock or peak because of heat, power or a degraded link",
        fix=(Fix("See why the clock is reduced.", ("nvidia-smi", "-q", "-d", "PERFORMANCE")),),
        other_host="the host's GPU is slowed down by heat, power or its link",
    )
    GPU_BUSY = _Row(
        "gpu-busy",
        "other processes use the GPU or its memory; the GPU is not broken",
        fix=(_SMI,),
        other_host="other processes use the host's GPU",
        transient=True,
    )
    GPU_HARDWARE_FAULT = _Row(
        "gpu-hardware-fault",
        "the GPU has ECC errors, Xid events or remapped rows, or fell off the bus",
        fix=("Read the Xid events in the kernel log; reboot and test the GPU alone. If the error recurs, replace it.",),
        other_host="the host's GPU is broken",
    )
    GPU_TEST_FAILED = _Row(
        "gpu-test-failed",
        "computations on the GPU fail or give wrong results, and no more specific cause is known",
        fix=(
            Fix("Repeat the test alone with verbose output.", ("gpuenv", "smoke", "--only", "TEST", "-v")),
            RUN_DOCTOR,
            "If other hosts pass with the same environment, reboot this host and have its GPU checked.",
        ),
    )
    VISIBLE_DEVICES_HIDE_GPU = _Row(
        "visible-devices-hide-gpu",
        "CUDA_VISIBLE_DEVICES or NVIDIA_VISIBLE_DEVICES hides every GPU or names only missing ones",
        fix=(
            Fix(
                "Unset the variable; in a scheduler's job, request GPUs instead.",
                shell_line="unset CUDA_VISIBLE_DEVICES",
            ),
            Fix(
                "Then correct it where it is set: in a shell's startup file, which this command finds, in the job "
                "script or in the program. The driver does not have to be reinstalled.",
                shell_line=f"grep -rns CUDA_VISIBLE_DEVICES {SHELL_FILES}",
            ),
        ),
    )
    VISIBLE_DEVICES_SET_TOO_LATE = _Row(
        "visible-devices-set-too-late",
        "CUDA_VISIBLE_DEVICES is set after CUDA was initialized",
        fix=("Set CUDA_VISIBLE_DEVICES in the shell, or before the first import of a GPU library.",),
    )
    INVALID_DEVICE_ORDINAL = _Row(
        "invalid-device-ordinal",
        "the program uses a device number that does not exist",
        fix=("Use a number below the count of visible devices; CUDA_VISIBLE_DEVICES renumbers them from 0.",),
    )
    JETSON_TEGRA = _Row(
        "jetson-tegra",
        "a Tegra board needs the wheels and drivers of its platform",
        fix=(
            "In a container, use an l4t image of the board's JetPack release, started with --runtime nvidia.",
            "On Orin, use JetPack 6 or newer with its own CUDA; the CUDA 12 wheels for Arm servers cannot run here.",
            "Nano, TX1 and TX2 stay at JetPack 4, Xavier at 5: use packages for that release, or build from source.",
        ),
    )
    ROCM_MISMATCH = _Row(
        "rocm-mismatch",
        "the build is not for this AMD GPU or ROCm release, or a ROCm build meets an NVIDIA GPU",
        fix=(
            "Install the build for the installed ROCm release and GPU.",
            "If ROCm does not list your GPU as supported (rocminfo prints its gfx number), no build supports it.",
        ),
    )
    # wheel
    CUPY_NOT_INSTALLED = _Row(
        "cupy-not-installed",
        "CuPy is not in the target environment",
        fix=(
            Fix(
                "Create a virtual environment, unless the program has one: many systems let no program but their "
                "package manager change their own Python.",
                ("python3", "-m", "venv", "cupy-env"),
            ),
            Fix(
                "Install the CuPy wheel that fits in that environment, or in the program's own.",
                ("gpuenv", "install", "--python", "cupy-env"),
            ),
        ),
    )
    WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR = _Row(
        "wrong-cupy-wheel-for-cuda-major",
        "the installed CuPy wheel does not fit the driver or the CUDA libraries",
        fix=(_REMOVE, _RESOLVE),
    )
    MULTIPLE_CUPY_PACKAGES = _Row(
        "multiple-cupy-packages", "several CuPy packages are installed in one environment", fix=(_REMOVE,)
    )
    CUPY_SDIST_BUILD_FAILURE = _Row(
        "cupy-sdist-build-failure",
        "pip tried to build CuPy from source instead of installing a wheel, and failed",
        fix=(
            "Install a wheel such as cupy-cuda13x instead of cupy, which is built from source.",
            _RESOLVE,
        ),
    )
    CORRUPT_INSTALLATION = _Row(
        "corrupt-installation",
        "files of an installed package are missing or modified",
        fix=(_REMOVE, "If the error persists, recreate the environment."),
    )
    PYTHON_UNSUPPORTED = _Row(
        "python-unsupported",
        "this package has no wheel for the Python version",
        fix=("Use a Python version that the package has wheels for.", _RESOLVE),
    )
    PLATFORM_WHEEL_MISSING = _Row(
        "platform-wheel-missing",
        "this package has no wheel for the libc, platform or architecture",
        fix=(
            "Use a platform that has wheels: Linux with a recent glibc, or Windows. There are none for macOS and musl.",
            _RESOLVE,
        ),
    )
    NUMPY_INCOMPATIBLE = _Row(
        "numpy-incompatible",
        "the installed NumPy does not fit this CuPy",
        fix=(
            "Install a NumPy version that this CuPy supports (before CuPy 13.2: NumPy 1), or a newer CuPy.",
            RUN_DOCTOR,
        ),
    )
    CUPY_SHADOWED = _Row(
        "cupy-shadowed",
        "another file or folder named cupy or cuda is imported instead",
        fix=(
            "Rename the file or folder that Python finds first, and remove its __pycache__.",
            RUN_DOCTOR,
        ),
    )
    MIXED_PIP_CONDA = _Row(
        "mixed-pip-conda",
        "pip and conda both installed parts of CUDA or CuPy into one environment",
        fix=("Install CuPy and CUDA with either pip or conda, in a new environment.",),
    )
    TORCH_CUPY_CONFLICT = _Row(
        "torch-cupy-conflict",
        "another GPU framework pins CUDA libraries that this CuPy cannot use",
        fix=(
            "Install the CuPy wheel for the other framework's CUDA major version, such as cupy-cuda13x for CUDA 13.",
            RUN_DOCTOR,
        ),
    )
    UNTRUSTED_PACKAGE_NAME = _Row(
        "untrusted-package-name",
        "a package with a CuPy-like name is not published by CuPy",
        fix=("Uninstall it; the official CuPy wheels are cupy-cuda12x and cupy-cuda13x.", _RESOLVE),
    )
    CUPY_API_VERSION_INCOMPATIBLE = _Row(
        "cupy-api-version-incompatible",
        "a library that depends on CuPy needs another CuPy version",
        fix=(
            "Install the CuPy release that the library supports, or a newer release of the library.",
            "For your own code, CuPy's Upgrade Guide has replacements, such as cupy.RawModule for compile_with_cache.",
            "Import a module that CuPy does not load by its full name, such as import cupy.cuda.nccl (from CuPy 9 on).",
        ),
    )
    CPU_ONLY_FRAMEWORK = _Row(
        "cpu-only-framework",
        "the installed GPU framework is a CPU-only build",
        fix=("Install the framework's CUDA build for a CUDA version that the driver supports.",),
    )
    OPTIONAL_LIBRARY_MISSING = _Row(
        "optional-library-missing",
        "cuTENSOR, NCCL, cuSPARSELt or cuDNN is needed but not installed",
        fix=(
            "Install the library for CuPy's CUDA major version with pip (nvidia-nccl-cu12, cutensor-cu12) or conda.",
            "If it is installed, import its module by the full name, such as import cupy.cuda.nccl (from CuPy 9 on).",
        ),
    )
    OPTIONAL_LIBRARY_PROBE_MISREAD = _Row(
        "optional-library-probe-misread",
        "a warning about an optional library is mistaken for an error",
        fix=("Ignore the warning unless the program uses that library.",),
    )
    # library
    CUDA_LIBRARY_MISSING = _Row(
        "cuda-library-missing",
        "a CUDA library that CuPy loads at run time is not found",
        fix=(_CTK, "Or install a CUDA toolkit of the wheel's major version and set CUDA_PATH to it."),
    )
    CUDA_HEADERS_MISSING = _Row(
        "cuda-headers-missing",
        "CUDA headers needed for run-time compilation are not found",
        fix=(
            _CTK,
            "Or install the headers of NVRTC's CUDA minor version: nvidia-cuda-runtime, or with conda cuda-cudart-dev.",
            "In a container, use a devel image of that version.",
        ),
    )
    NVRTC_BUILTINS_MISMATCH = _Row(
        "nvrtc-builtins-mismatch",
        "NVRTC and its builtins library come from different CUDA versions",
        fix=(
            "Use NVRTC and its builtins from one CUDA release: unset LD_LIBRARY_PATH, or remove the other release.",
            RUN_DOCTOR,
        ),
    )
    NVRTC_OUTPUT_INVALID = _Row(
        "nvrtc-output-invalid",
        "NVRTC produced code that the driver's linker rejects",
        fix=(
            Fix(
                "Update the driver until its CUDA version, in the first line of nvidia-smi, is at least NVRTC's, or "
                "install an older CUDA.",
                ("nvidia-smi",),
            ),
            RUN_DOCTOR,
        ),
    )
    CUDA_PATH_WRONG = _Row(
        "cuda-path-wrong",
        "CUDA_PATH or CUDA_HOME points to a missing folder or to another version",
        fix=(
            Fix(
                "Set CUDA_PATH to the root of an installed toolkit. If there is none, install the CUDA toolkit first; "
                "in a container, use a devel image.",
                shell_line="export CUDA_PATH=/usr/local/cuda",
            ),
            Fix("Or unset it.", shell_line="unset CUDA_PATH"),
            Fix("Find where it is set.", shell_line=f"grep -rns CUDA_PATH {SHELL_FILES}"),
        ),
    )
    LIBRARY_PATH_CONFLICT = _Row(
        "library-path-conflict",
        "another version of a CUDA library is found first (LD_LIBRARY_PATH, ldconfig, stubs)",
        fix=(
            Fix(
                "Try without LD_LIBRARY_PATH; it must not name a folder called stubs or compat.",
                shell_line="unset LD_LIBRARY_PATH",
            ),
            Fix("If this helps, find where it is set.", shell_line=f"grep -rns LD_LIBRARY_PATH {SHELL_FILES}"),
            RUN_DOCTOR,
        ),
    )
    LIBSTDCXX_MISMATCH = _Row(
        "libstdcxx-mismatch",
        "the C++ runtime found first is too old",
        fix=(
            "Put the environment's libstdc++ first on the search path, or install a newer one (conda: libstdcxx-ng).",
        ),
    )
    WINDOWS_DLL_LOAD_FAILURE = _Row(
        "windows-dll-load-failure",
        "a DLL that CuPy depends on is not found",
        fix=("Install the CUDA toolkit of the wheel's major version, or its [ctk] extra, and set CUDA_PATH.",),
    )
    # environment
    TARGET_ENVIRONMENT_BROKEN = _Row(
        "target-environment-broken",
        "the target interpreter cannot start (its base is missing, it crashes, or it is not Python)",
        fix=(
            Fix(
                "Link the virtual environment, a folder with a pyvenv.cfg, to the Python release that created it; its "
                "packages stay.",
                shell_line="test -f ENVIRONMENT/pyvenv.cfg && rm ENVIRONMENT/bin/python* "
                "&& python3 -m venv --upgrade --without-pip ENVIRONMENT",
            ),
            "For another release of Python, create a new environment and install the packages again.",
        ),
    )
    INSTALL_INTERRUPTED = _Row(
        "install-interrupted",
        "an install or rollback of gpuenv was interrupted and left the environment half changed",
        fix=(
            Fix(
                "Restore the former files before you change any package: other changes make that impossible.",
                ("gpuenv", "rollback"),
            ),
        ),
    )
    CUPY_VARIABLE_INVALID = _Row(
        "cupy-variable-invalid",
        "a CUPY_ variable has a value that CuPy rejects",
        fix=(
            Fix("List CuPy's variables, and unset the one that CuPy rejects.", shell_line="env | grep ^CUPY_"),
            RUN_DOCTOR,
        ),
    )
    # container
    CONTAINER_WITHOUT_GPU = _Row(
        "container-without-gpu",
        "the container was started without GPU access",
        fix=(
            _GPUS_ALL,
            "Podman: --device nvidia.com/gpu=all; Kubernetes: a limit of nvidia.com/gpu; Apptainer: --nv.",
            "Docker on a Mac has no NVIDIA GPU: use Linux, or Windows with WSL 2.",
        ),
    )
    CONTAINER_TOOLKIT_BROKEN = _Row(
        "container-toolkit-broken",
        "the NVIDIA container toolkit is missing or not configured",
        fix=(
            "On the host, add the repository of NVIDIA's guide, Installing the NVIDIA Container Toolkit (not on Arch).",
            "Install nvidia-container-toolkit; gpuenv check-image prints every step for this system.",
            Fix("Configure the container engine.", ("sudo", "nvidia-ctk", "runtime", "configure", "--runtime=docker")),
            Fix("Restart the engine; this stops running containers.", ("sudo", "systemctl", "restart", "docker")),
        ),
        other_host="the host's container toolkit is missing or not configured",
    )
    CONTAINER_DRIVER_CAPABILITIES = _Row(
        "container-driver-capabilities",
        "the container lacks the compute or utility driver capability",
        fix=(
            Fix(
                "Start the container with the compute capability.",
                ("docker", "run", "--gpus", "all", "-e", "NVIDIA_DRIVER_CAPABILITIES=compute,utility", "IMAGE"),
            ),
        ),
    )
    CONTAINER_CGROUP_LOST_GPU = _Row(
        "container-cgroup-lost-gpu",
        "a running container lost access to its device nodes",
        fix=("Restart the container; to prevent it, use CDI or pass the device nodes explicitly.",),
        other_host="the container has lost its GPU on this host",
    )
    DEVICE_NODE_PERMISSION = _Row(
        "device-node-permission",
        "device nodes exist but this user cannot access them",
        fix=(
            Fix("See who may open the device nodes.", shell_line="id; ls -l /dev/nvidia*"),
            "If a group such as video owns them, add the user to it (usermod --append --groups), and log in again.",
            "If only root may open them, remove NVreg_DeviceFileMode from modprobe.d, or the udev rule, and restart.",
            "In a job, request a GPU from the scheduler, which then allows the job to open the nodes.",
        ),
        other_host="this user cannot access the host's device nodes",
    )
    DEVICE_NODE_MISSING = _Row(
        "device-node-missing",
        "a device node that CUDA needs (nvidia0, nvidiactl, nvidia-uvm) is missing",
        fix=(Fix("Create the device nodes.", ("sudo", "nvidia-modprobe", "-c", "0", "-u")),),
        other_host="the host lacks device nodes of its driver",
    )
    WSL_LIBCUDA = _Row(
        "wsl-libcuda",
        "under WSL, the libcuda of Windows is shadowed by a Linux one or not found, or the Windows driver is too old",
        fix=(
            "Remove every NVIDIA driver package inside WSL (apt-get purge): Windows provides the driver.",
            Fix("Then restart WSL from Windows.", ("wsl.exe", "--shutdown")),
            Fix(
                "Put the WSL driver folder on the library path.",
                shell_line="export LD_LIBRARY_PATH=/usr/lib/wsl/lib",
            ),
            "If Windows is too old, update it: WSL 2 has CUDA in Windows 11, and in Windows 10 from build 19044 on.",
            "If the Windows driver is too old, update it in Windows and restart WSL: wsl --shutdown.",
        ),
    )
    # cache
    KERNEL_CACHE_UNWRITABLE = _Row(
        "kernel-cache-unwritable",
        "CuPy cannot write its kernel cache",
        fix=(
            Fix("If root created the folder, change its owner.", shell_line=OWN_FOLDER.format("~/.cupy")),
            Fix("Or keep kernels in memory.", shell_line="export CUPY_CACHE_IN_MEMORY=1"),
        ),
    )
    KERNEL_CACHE_RACE = _Row(
        "kernel-cache-race",
        "several processes or users collide in one shared kernel cache",
        fix=(
            "Set a separate CUPY_CACHE_DIR for each user or process, in a folder that only that user can change.",
            Fix("Or keep kernels in memory.", shell_line="export CUPY_CACHE_IN_MEMORY=1"),
        ),
    )
    # program
    OUT_OF_MEMORY = _Row(
        "out-of-memory",
        "an allocation is larger than the free memory",
        fix=(
            Fix(
                "Process the data in smaller chunks, and delete arrays that you no longer need. See how much memory is "
                "free, and which other processes use the GPU.",
                ("nvidia-smi",),
            ),
            "The pool keeps the memory of deleted arrays: cupy.get_default_memory_pool().free_all_blocks() frees it.",
        ),
    )
    MEMORY_POOL_RETENTION = _Row(
        "memory-pool-retention",
        "the memory pool holds the memory; it is not leaked",
        fix=("Free the pool before the large allocation (mempool.free_all_blocks()), or raise its limit.",),
    )
    ASYNC_ERROR_SURFACED_LATE = _Row(
        "async-error-surfaced-late",
        "the reported line only synchronizes; an earlier kernel failed",
        fix=(_BLOCKING, _SANITIZER),
    )
    ILLEGAL_MEMORY_ACCESS = _Row(
        "illegal-memory-access",
        "a kernel read or wrote outside its arrays",
        fix=(_SANITIZER, _BLOCKING),
    )
    INVALID_KERNEL_LAUNCH = _Row(
        "invalid-kernel-launch",
        "grid, block or shared memory exceeds the device's limits",
        fix=(
            "Launch at most 1024 threads per block with less shared memory; request more than 48 KiB explicitly.",
            "If CuPy itself launches the kernel (the last frames are CuPy's), use smaller arrays, and update CuPy.",
        ),
    )
    STREAM_RACE = _Row(
        "stream-race",
        "work on two streams is not ordered by an event or a synchronization",
        fix=("Order the streams with an event (stream.wait_event(event)), or synchronize.",),
    )
    IMPLICIT_HOST_DEVICE_CONVERSION = _Row(
        "implicit-host-device-conversion",
        "host and device arrays are mixed without an explicit transfer",
        fix=("Convert explicitly: cupy.asarray(x) to the GPU, cupy.asnumpy(x) or x.get() to the host.",),
    )
    CROSS_DEVICE_ARRAY = _Row(
        "cross-device-array",
        "an array on one GPU is used on another",
        fix=("Use 'with cupy.cuda.Device(n)' for the array's device, or copy the array with cupy.asarray.",),
    )
    DTYPE_MISMATCH = _Row(
        "dtype-mismatch",
        "dtypes do not match, or precision is lost silently",
        fix=("Convert to one dtype with astype; pass scalars to kernels as numpy.float32(x).",),
    )
    NUMPY_SEMANTICS_DIFFERENCE = _Row(
        "numpy-semantics-difference",
        "CuPy does not support this NumPy behaviour or implements it differently",
        fix=(
            "Do this step with NumPy, on cupy.asnumpy(x), or with a function and a dtype that CuPy supports.",
            "See 'Differences between CuPy and NumPy' and the comparison table in CuPy's documentation.",
        ),
    )
    FORK_AFTER_CUDA_INIT = _Row(
        "fork-after-cuda-init",
        "a forked child process uses the CUDA context of its parent",
        fix=(
            "Start worker processes with spawn: multiprocessing.set_start_method('spawn').",
            "In a PyTorch DataLoader, set multiprocessing_context='spawn' or num_workers=0.",
        ),
    )
    LIBRARY_NOT_INITIALIZED = _Row(
        "library-not-initialized",
        "cuBLAS, cuSOLVER or another library could not create its handle",
        fix=(
            _SMI,
            "If enough memory is free, look for libraries of another CUDA release (LD_LIBRARY_PATH, pip list).",
            RUN_DOCTOR,
        ),
    )
    CUFFT_PLAN_FAILURE = _Row(
        "cufft-plan-failure",
        "a cuFFT plan could not be created",
        fix=("Use a smaller batch or a size with small prime factors, free memory, or clear the plan cache.",),
    )
    CUPY_BUG = _Row(
        "cupy-bug",
        "a bug in CuPy, fixed in a later release or still open",
        fix=(
            "Upgrade to the newest release; if the error persists, report it to CuPy.",
            "Until it is fixed, use the last release that worked, or avoid the call that fails.",
        ),
    )
    # image
    IMAGE_REQUIRES_OTHER_DRIVER = _Row(
        "image-requires-other-driver",
        "an image requires a driver, CUDA version, brand or architecture that this machine does not have",
        fix=(_DRIVER, "Or use an image with an older CUDA that this driver supports."),
    )
    DOCKERFILE_FAULT = _Row(
        "dockerfile-fault",
        "a Dockerfile or compose file builds an image or starts a container without a working GPU stack",
        fix=("Correct the file: use an existing tag, the current signing key, devices with capabilities: [gpu].",),
    )
    # requirement
    REQUIREMENT_NOT_MET = _Row(
        "requirement-not-met",
        "the machine works but does not meet the requirements",
        fix=("Use a machine that meets the requirement.",),
    )


_BY_SLUG = {cause.value: cause for cause in Cause}


def find_cause(slug: str) -> Cause:
    """The cause with a slug; KeyError if there is none."""
    return _BY_SLUG[slug]
