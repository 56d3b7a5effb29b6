"""Every fact of a Snapshot with its sources, the most trusted first, and what follows if they differ.

The table is the source of the reference page; tests compare every reading of every machine with it. A source may be a
pattern, as for file names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_NVML, _LIBCUDA, _SMI = "nvml", "libcuda", "nvidia-smi"
_PROC_VERSION, _SYS_VERSION = "/proc/driver/nvidia/version", "/sys/module/nvidia/version"
_KERNEL_GPUS = "/proc/driver/nvidia/gpus"
_TARGET = "the target's interpreter"
_LOADER = "the loader"


@dataclass(frozen=True, slots=True)
class Sources:
    """The sources of a fact.

    Attributes:
        trust: names or patterns of the sources, the most trusted first.
        differ: the finding or the rule if they differ; empty for a single source.
    """

    trust: tuple[str, ...]
    differ: str = ""


def _one(*trust: str) -> Sources:
    return Sources(trust)


_KEPT = "both are kept; the first is used"
_BY_IDENTITY = "nothing: GPUs are matched by UUID or PCI address"
_METADATA, _RECORD, _CUPY = "its metadata", "RECORD", "CuPy's own code"
_CACHE = "CUPY_CACHE_DIR and the home folder"
_DAEMON_JSON, _DPKG = "/etc/docker/daemon.json", "/var/lib/dpkg/status"
_SLURM = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE")
_ALLOCATORS = ("_CONDOR_AssignedGPUs", "/var/run/nvidia-container-devices", "NVIDIA_VISIBLE_DEVICES")
_HOST: Mapping[str, Sources] = {
    "host.os": _one("uname"),
    "host.distribution": _one("/etc/os-release"),
    "host.kernel": _one("uname"),
    "host.arch": Sources((_TARGET, "uname"), "nothing: wheels are chosen for the target, which may be emulated"),
    "host.libc": _one(_TARGET),
    "host.container": _one("the marks container engines leave"),
    "host.sandbox": _one("/proc/version and uname"),
    "host.wsl": _one("kernel release and /dev/dxg"),
    "host.tegra": _one("/etc/nv_tegra_release", "/proc/device-tree/compatible", "uname"),
    "host.secure_boot": _one("the firmware's variable SecureBoot"),
    "host.lockdown": _one("/sys/kernel/security/lockdown"),
    "host.module_signatures": _one("module.sig_enforce"),
    "host.suspends": _one("/sys/power/suspend_stats/success"),
    "host.overcommit": _one("/proc/sys/vm/overcommit_memory"),
    "host.address_limit": _one("RLIMIT_AS"),
    "host.image": _one("/run/ostree-booted"),
    "kernel_log": _one("/dev/kmsg", "/var/log/*"),
    "pci_gpus[]": _one("/sys/bus/pci/devices"),
    "amd_gpus[]": _one("/sys/class/kfd/kfd/topology/nodes"),
    "rocm": Sources(("/opt/rocm/.info/version", "rocm_version.h"), _KEPT),
    "container_support.device_rules": _one("devices.list"),
    "container_support.docker": _one("the folders of programs"),
    "container_support.has_toolkit": _one("the folders of programs"),
    "container_support.toolkit": _one(_DPKG),
    "container_support.runtimes": _one(_DAEMON_JSON),
    "container_support.default_runtime": _one(_DAEMON_JSON),
    "container_support.cdi_files[]": _one("/etc/cdi", "/var/run/cdi"),
    "grant.by": _one(*_SLURM, "SLURM_JOB_ID", *_ALLOCATORS),
    "grant.gpus": _one(*_SLURM, *_ALLOCATORS),
    "grant.devices": _one(*_SLURM, *_ALLOCATORS),
    "mps.pipe_directory": _one("CUDA_MPS_PIPE_DIRECTORY", "CUDA's default"),
    "mps.daemon": _one("*/control"),
    "environment": _one("the environment"),
}
_DRIVER: Mapping[str, Sources] = {
    "driver.version": Sources(
        (_PROC_VERSION, _SYS_VERSION, _NVML, _SMI, "the name of *"),
        "DRV102 sources-disagree; where NVML itself complains, driver-library-version-mismatch",
    ),
    "driver.cuda": Sources(
        (_LIBCUDA, _NVML, _SMI), "nothing: a libcuda of a compatibility package has a level of its own"
    ),
    "driver.branch": _one(_PROC_VERSION, _SYS_VERSION, _NVML, _SMI, "the name of *"),
    "driver.module": _one(_PROC_VERSION, "/proc/modules and /sys/module", "/lib/modules"),
    "driver.module_version": Sources((_PROC_VERSION, _SYS_VERSION), "DRV102 sources-disagree"),
    "driver.library_version": Sources(
        ("the name of libnvidia-ml*", "the name of libcuda*"),
        "nothing by itself: a compatibility package brings a libcuda of another version",
    ),
    "driver.flavor": _one(_PROC_VERSION),
    "driver.nouveau": _one("/proc/modules"),
    "driver.nvml_library": _one(_LOADER),
    "driver.cuda_library": _one(_LOADER),
    "driver.cuda_origin": _one("its path and the mounts", "its path"),
    "driver.libraries[]": _one("the folders that drivers use"),
    "driver.dkms[]": _one("/var/lib/dkms"),
    "driver.module_kernels": _one("/lib/modules"),
    "driver.module_files": _one("/lib/modules"),
    "driver.module_blocks": _one("modprobe.d and /proc/cmdline"),
    "driver.module_options": _one("modprobe.d, /proc/cmdline and /proc/driver/nvidia/params"),
    "driver.excluded_gpus": _one(_KERNEL_GPUS),
    "driver.uninstaller": _one("/usr/bin"),
    "driver.nvml_init": _one(_NVML),
    "driver.cuda_init": _one(_LIBCUDA),
    "driver.device_nodes[]": _one("/dev"),
}
_GPUS: Mapping[str, Sources] = {
    "gpus[]": _one(_NVML, _LIBCUDA, _KERNEL_GPUS, _SMI),
    "gpus[].index": Sources((_NVML, _SMI), _BY_IDENTITY),
    "gpus[].ordinal": _one(_LIBCUDA),
    "gpus[].hidden_by": _one(_NVML, "/dev", _LIBCUDA, "CUDA_VISIBLE_DEVICES"),
    "gpus[].uuid": Sources((_NVML, _LIBCUDA, _KERNEL_GPUS, _SMI), _BY_IDENTITY),
    "gpus[].pci": Sources((_NVML, _LIBCUDA, _KERNEL_GPUS, _SMI), _BY_IDENTITY),
    "gpus[].name": Sources((_NVML, _LIBCUDA, _KERNEL_GPUS, _SMI), _KEPT),
    "gpus[].compute_capability": Sources((_NVML, _LIBCUDA, _SMI), "DRV102 sources-disagree"),
    "gpus[].architecture": Sources((_NVML, "libcuda's compute capability", "nvml's compute capability"), _KEPT),
    "gpus[].memory_total": Sources(
        (_NVML, _LIBCUDA, _SMI), "both are kept: libcuda leaves out what the driver keeps for itself"
    ),
    "gpus[].mig_instances[]": _one(_NVML),
    "gpus[].users[]": _one(_NVML),
    "gpus[].nvlinks[]": _one(_NVML),
    "gpus[].peers[]": _one(_NVML),
    "gpus[].*": _one(_NVML),
    "gpu_count": Sources(
        (_NVML, _KERNEL_GPUS, _SMI),
        "DRV102 sources-disagree, unless the kernel alone lists more: a container or a job was given some of them",
    ),
    "visible_count": _one(_LIBCUDA),
}
_OF_TARGET: Mapping[str, Sources] = {
    "toolkits[]": _one("CUDA_PATH and CUDA_HOME", "PATH", "default folders", "conda's prefix", "wheels in the target"),
    "toolkits[].toolkit": Sources(("version.json", "*cuda.h", "version.txt", "*cuda_runtime_api.h", "nvcc"), _KEPT),
    "target.executable": _one(_TARGET, "the caller"),
    "target.examined_as": _one("the owner of its files"),
    "target.open_transaction": _one("the journals in its folder .gpuenv"),
    "target.made_by": _one("pyvenv.cfg or conda-meta"),
    "target.writable": _one("the permissions of its folder of packages"),
    "target.cupy[]": _one(_METADATA),
    "target.cupy_module": _one("the target's import system"),
    "target.numpy": _one(_METADATA),
    "target.numpy_module": _one("the target's import system"),
    "target.numpy_fault": _one("the target's import system"),
    "target.pathfinder_hidden_by": _one("the target's import system"),
    "target.unstartable": _one("the folders and links that lead to it"),
    "target.venv_python": _one("pyvenv.cfg"),
    "target.starts_without": _one("the target's interpreter, started again"),
    "target.packages": _one(_METADATA, "conda-meta"),
    "target.conda_packages": _one("conda-meta"),
    "target.conda_needs[]": _one("conda-meta"),
    "target.libraries[]": _one("cuda-pathfinder", _LOADER),
    "target.cuda_path": _one(_CUPY),
    "target.headers": _one(_CUPY),
    "target.headers_cuda": Sources(("*/cuda_runtime_api.h", "*/cuda.h"), "both are kept; the first is compiled with"),
    "target.preload": _one("CuPy's _wheel.json"),
    "target.file_faults[]": _one(_RECORD),
    "target.file_faults_count": _one(_RECORD),
    "target.kernels[]": _one("kernel.json"),
    "target.needs_of_cupy[]": _one(_METADATA),
    "target.cuda_dependents[]": _one(_METADATA),
    "target.extension": _one("the target's loader"),
    "target.kernel_cache": _one(_CACHE),
    "target.kernel_cache_fault": _one(_CACHE),
    "target.kernel_cache_owners": _one(_CACHE),
    "target.*": _one(_TARGET),
}
FACTS: Mapping[str, Sources] = {**_HOST, **_DRIVER, **_GPUS, **_OF_TARGET}


def sources_of(path: str) -> Sources | None:
    """The row of a fact, or of its family, such as ``gpus[].health.*``."""
    exact = FACTS.get(path)
    if exact is not None:
        return exact
    return next(
        (row for pattern, row in FACTS.items() if pattern.endswith(".*") and path.startswith(pattern[:-1])), None
    )
