"""Facts that the kernel and the file system tell: no library of the driver is loaded.

Run as a program by gpuenv's own interpreter: ``kernel.py ROOT``. Prints one fact a line, see ``protocol.py``. It is a
child of its own because reading a file of a wedged driver can hang. One script a family lies beside this one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # an isolated interpreter leaves it out

import kernel_container as containers
import kernel_driver as driver
import kernel_gpus as gpus
import kernel_host as host
import kernel_log as log
import kernel_modules as modules
import kernel_toolkits as kits
from telling import tell

Ask = Callable[[str, Mapping[str, str]], object]

_MARKS = ("/proc/1/cgroup", "/proc/1/comm", "/proc/self/mountinfo", "/run/systemd/container")  # of a container
_NODE = "/sys/class/kfd/kfd/topology/nodes/*"

# Every fact: who tells it, and the files that are read for it, by their place below the root; * is one folder's name.
FACTS: dict[str, tuple[Ask, tuple[str, ...]]] = {
    "uname": (lambda _root, _environment: host.uname(), ()),
    "distribution": (lambda root, _: host.distribution(root), ("/etc/os-release", "/usr/lib/os-release")),
    "container": (containers.container, _MARKS),
    "sandbox": (lambda root, _: host.sandbox(root), ("/proc/version",)),
    "wsl": (lambda root, _: host.is_wsl(root), ()),
    "tegra": (lambda root, _: host.tegra(root), ("/etc/nv_tegra_release", "/proc/device-tree/compatible")),
    "secure_boot": (lambda root, _: host.secure_boot(root), ("/sys/firmware/efi/efivars/SecureBoot-*",)),
    "lockdown": (lambda root, _: host.lockdown(root), ("/sys/kernel/security/lockdown",)),
    "module_signatures": (
        lambda root, _: host.module_signatures(root),
        ("/sys/module/module/parameters/sig_enforce",),
    ),
    "image": (lambda root, _: host.image(root), ()),
    "suspends": (lambda root, _: host.suspends(root), ("/sys/power/suspend_stats/success",)),
    "device_nodes": (lambda root, _: driver.device_nodes(root), ()),
    "pci_gpus": (
        lambda root, given: gpus.pci_gpus(root, contained=containers.container(root, given) != "none"),
        (
            *_MARKS,
            *(f"/sys/bus/pci/devices/*/{name}" for name in ("class", "vendor", "device")),
            "/usr/share/misc/pci.ids",
            "/usr/share/hwdata/pci.ids",
        ),
    ),
    "toolkits": (
        kits.toolkits,
        tuple(
            f"{folder}/{name}"
            for folder in ("/usr/local/cuda*", "/opt/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit")
            for name in ("version.json", "version.txt", "include/cuda.h", "targets/*/include/cuda.h")
        ),
    ),
    "pointing_nowhere": (kits.pointing_nowhere, ()),
    "modules": (lambda root, _: modules.modules(root), ("/proc/modules", "/lib/modules/*/modules.dep")),
    "module_files": (lambda root, _: modules.module_files(root), ("/lib/modules/*/modules.dep",)),
    "module_blocks": (
        lambda root, _: modules.module_blocks(root),
        ("/proc/cmdline", "/etc/modprobe.d/*", "/usr/lib/modprobe.d/*"),
    ),
    "dkms": (lambda root, _: driver.dkms(root), ("/var/lib/dkms/*/*/build/make.log",)),
    "libraries": (lambda root, _: driver.libraries(root), ("/proc/self/mountinfo",)),
    "amd_nodes": (
        lambda root, _: gpus.amd_nodes(root),
        (f"{_NODE}/properties", f"{_NODE}/name", f"{_NODE}/mem_banks/*/properties"),
    ),
    "rocm": (
        lambda root, _: gpus.rocm(root),
        ("/opt/rocm/.info/version", "/opt/rocm/include/rocm-core/rocm_version.h"),
    ),
    "device_rules": (
        containers.device_rules,
        (*_MARKS, "/proc/self/cgroup", "/proc/devices", "/sys/fs/cgroup/devices/*devices.list"),
    ),
    "cdi_files": (lambda root, _: containers.cdi_files(root), ("/etc/cdi/*", "/var/run/cdi/*")),
    "engine": (lambda root, _: containers.engine(root), ("/etc/docker/daemon.json",)),
    "container_toolkit": (lambda root, _: containers.container_toolkit(root), ("/var/lib/dpkg/status",)),
    "mounted_requests": (lambda root, _: containers.mounted_requests(root), ()),
    "mps": (containers.mps_daemon, ()),
    "kernel_log": (
        lambda root, _: log.kernel_log(root),
        ("/dev/kmsg", "/var/log/kern.log", "/var/log/messages", "/var/log/dmesg"),
    ),
    # The driver's own files come last, since reading them can hang, and what was told before is kept.
    "sys_version": (lambda root, _: driver.module_version(root), ("/sys/module/nvidia/version",)),
    "proc_version": (lambda root, _: driver.module_banner(root), ("/proc/driver/nvidia/version",)),
    "driver_gpus": (lambda root, _: gpus.driver_gpus(root), ("/proc/driver/nvidia/gpus/*/information",)),
}


def main() -> None:
    """Tells every fact; one that cannot be had does not keep the next one back."""
    root = sys.argv[1].rstrip("/")
    for key, (ask, _) in FACTS.items():
        try:
            tell(key, ask(root, os.environ))
        except (OSError, ValueError, RecursionError) as error:
            tell("failed", {key: f"{type(error).__name__}: {error}"})
    tell("done", True)


if __name__ == "__main__":
    main()
