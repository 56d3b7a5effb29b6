"""The operating system: its names, its firmware's and kernel's restrictions, and whose kernel it is."""

from __future__ import annotations

import os
import re

from telling import exists, read, read_bytes, word

# The kernel that gVisor pretends to be, whatever release it names: gVisor, pkg/sentry/kernel/version, LinuxVersion.
_GVISOR = "#1 SMP Sun Jan 10 15:06:54 PST 2016"
_GVISOR_RELEASE = "-gvisor"  # likewise, LinuxRelease, from 2026 on
# UEFI Specification 2.10, section 3.3 (Globally Defined Variables); Linux, Documentation/filesystems/efivarfs.rst.
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_ATTRIBUTES = 4  # bytes that efivarfs puts before a variable's value


def uname() -> dict[str, object]:
    """The kernel's name, release and machine."""
    told = os.uname()
    return {"os": told.sysname.lower(), "kernel": told.release, "arch": told.machine}


def distribution(root: str) -> str | None:
    """``debian 12``, from os-release."""
    text = read(root, "/etc/os-release") or read(root, "/usr/lib/os-release") or ""
    entries = dict(re.findall(r"^(\w+)=[\"']?([^\"'\r\n]*)", text, re.MULTILINE))
    return " ".join(filter(None, (entries.get("ID"), entries.get("VERSION_ID")))) or None


def is_wsl(root: str) -> bool:
    """Whether this kernel is the one of the Windows Subsystem for Linux."""
    return "microsoft" in os.uname().release.lower() or exists(root, "/dev/dxg")


def tegra(root: str) -> dict[str, str] | None:
    """The release line of a Jetson's root file system, or the name of a Tegra board, or its kernel; and who told it."""
    file, tree = "/etc/nv_tegra_release", "/proc/device-tree/compatible"
    release = word(root, file)
    if release:
        return {"told": release.splitlines()[0].lstrip("# "), "source": file}
    board = next((name for name in (read(root, tree) or "").split("\0") if name.startswith("nvidia,tegra")), None)
    if board:
        return {"told": board, "source": tree}
    kernel = os.uname().release
    return {"told": f"kernel {kernel}", "source": "uname"} if kernel.endswith("-tegra") else None


def sandbox(root: str) -> str | None:
    """``gvisor`` where that kernel stands in for Linux."""
    told = read(root, "/proc/version") or ""
    own = "" if root else os.uname().version
    if _GVISOR in told or own == _GVISOR or os.uname().release.endswith(_GVISOR_RELEASE):
        return "gvisor"
    return None


def secure_boot(root: str) -> bool | None:
    """Whether the firmware started this kernel with Secure Boot; None where its variables are not to be seen."""
    value = read_bytes(root, _SECURE_BOOT, 64)
    if value is None or len(value) != _ATTRIBUTES + 1:
        return None
    return value[_ATTRIBUTES] == 1


def lockdown(root: str) -> str | None:
    """The kernel's lockdown mode, which stands in brackets among those there are (kernel_lockdown(7))."""
    match = re.search(r"\[(none|integrity|confidentiality)\]", read(root, "/sys/kernel/security/lockdown") or "")
    return match[1] if match else None


def module_signatures(root: str) -> bool | None:
    """Whether the kernel refuses modules without a valid signature (kernel parameter module.sig_enforce)."""
    return {"Y": True, "N": False}.get(word(root, "/sys/module/module/parameters/sig_enforce") or "")


def suspends(root: str) -> int | None:
    """How often this machine has gone to sleep since its start (Linux, Documentation/ABI/testing/sysfs-power)."""
    told = word(root, "/sys/power/suspend_stats/success") or ""
    return int(told) if re.fullmatch("[0-9]{1,9}", told) else None


def image(root: str) -> str | None:
    """``ostree`` where this system was started from an image of that kind (ostree(1) and rpm-ostree look there too)."""
    return "ostree" if exists(root, "/run/ostree-booted") else None
