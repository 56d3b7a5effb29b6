"""Every fact of a Snapshot with its sources, the most trusted first, and what is said when they differ.

The table is data: the reference page is made from it, and tests hold every reading of every machine against it.
A source may be a pattern, as of file names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

_NVML, _LIBCUDA, _SMI = "nvml", "libcuda", "nvidia-smi"
_PROC_VERSION, _SYS_VERSION = "/proc/driver/nvidia/version", "/sys/module/nvidia/version"
_KERNEL_GPUS = "/proc/driver/nvidia/gpus"
_TARGET = "the target's interpreter"
_LOADER = "the loader"


@dataclass(frozen=True, slots=True)
class Sources:
    """Who is asked for a fact.

    Attributes:
        trust: the sources, the most trusted first; patterns as of file names.
        differ: what is said when they differ; empty where there is only one.
    """

    trust: tuple[str, ...]
    differ: str = ""


def _one(*trust: str) -> Sources:
    return Sources(trust)


FACTS: Mapping[str, Sources] = {
    "host.os": _one("uname"),
    "host.distribution": _one("/etc/os-release"),
    "host.kernel": _one("uname"),
    "host.arch": Sources((_TARGET, "uname"), "nothing: wheels are chosen for the target, which may be emulated"),
    "host.libc": _one(_TARGET),
    "host.container": _one("the marks container engines leave"),
    "host.wsl": _one("kernel release and /dev/dxg"),
    "host.tegra": _one("/etc/nv_tegra_release"),
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
    "driver.nvml_init": _one(_NVML),
    "driver.cuda_init": _one(_LIBCUDA),
    "gpus[].index": Sources((_NVML, _SMI), "nothing: nvidia-smi is matched by UUID"),
    "gpus[].ordinal": _one(_LIBCUDA),
    "gpus[].uuid": Sources((_NVML, _LIBCUDA, _KERNEL_GPUS, _SMI), "nothing: GPUs are matched by UUID or PCI address"),
    "gpus[].pci": Sources((_NVML, _LIBCUDA, _KERNEL_GPUS, _SMI), "nothing: GPUs are matched by UUID or PCI address"),
    "gpus[].name": Sources((_NVML, _LIBCUDA, _KERNEL_GPUS, _SMI), "both are kept; NVML's is used"),
    "gpus[].compute_capability": Sources((_NVML, _LIBCUDA), "both are kept; NVML's is used"),
    "gpus[].memory_total": Sources(
        (_NVML, _LIBCUDA, _SMI), "both are kept: libcuda leaves out what the driver keeps for itself"
    ),
    "gpus[].memory_free": _one(_NVML),
    "gpus[].mig": _one(_NVML),
    "gpus[].fault": _one(_NVML),
    "gpus[].compute_mode": _one(_NVML),
    "gpus[].persistence": _one(_NVML),
    "gpus[].processes": _one(_NVML),
    "gpus[].virtualization": _one(_NVML),
    "gpus[].health.*": _one(_NVML),
    "gpus[].pcie.*": _one(_NVML),
    "gpu_count": Sources(
        (_NVML, _KERNEL_GPUS, _SMI),
        "DRV102 sources-disagree, unless the kernel alone lists more: a container or a job was given some of them",
    ),
    "visible_count": _one(_LIBCUDA),
    "target.executable": _one(_TARGET, "the caller"),
    "target.prefix": _one(_TARGET),
    "target.kind": _one(_TARGET),
    "target.python": _one(_TARGET),
    "target.implementation": _one(_TARGET),
    "target.platform": _one(_TARGET),
    "target.externally_managed": _one(_TARGET),
    "target.numpy": _one("its metadata"),
}


def sources_of(path: str) -> Sources | None:
    """The row of a fact; a row may stand for a family, ``gpus[].health.*``."""
    exact = FACTS.get(path)
    if exact is not None:
        return exact
    return next(
        (row for pattern, row in FACTS.items() if pattern.endswith(".*") and path.startswith(pattern[:-1])), None
    )


def rank(sources: Sources, name: str) -> int | None:
    """How far down the order of trust a source stands; None where the row does not know it."""
    return next((number for number, pattern in enumerate(sources.trust) if fnmatchcase(name, pattern)), None)
