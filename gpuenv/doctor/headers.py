"""The package with the headers of a kernel: distributions have kernels of several kinds, and a package for each. Pure.

Read off public scripts and spec files that install them, and distributions' advisories: Proxmox VE has Debian's system
with kernels of its own (pve-headers, and proxmox-headers since 6.5). Oracle Linux has Red Hat's kernels and UEK
(kernel-uek-devel). Red Hat's own for pages of 64 KiB and for real time bear a plus and their kind at the end
(kernel-64k, kernel-rt). Amazon Linux 2023 has 6.1 as "kernel" and each newer one with its number (kernel6.12-devel).
SUSE's bear theirs at the end (kernel-default, kernel-azure, kernel-rt, kernel-64kb, kernel-longterm).
"""

from __future__ import annotations

from gpuenv.model.pattern import pattern

_NUMBERS = pattern(r"(?P<major>\d+)\.(?P<minor>\d+)\.")
_OF_PROXMOX = pattern(r"\d[\d.-]*-pve")
_WITH_KIND = pattern(r"(?P<plain>[^+]+)\+(?P<kind>64k|rt)")
_OF_SUSE = pattern(r".*-(?P<kind>default|azure|rt|64kb|longterm)")
_FIRST_OF_PROXMOX = (6, 5)


def headers_package(family: str, distribution: str, kernel: str) -> str | None:
    """Its name, with its release where more than one may be installed; None where it is not known.

    Args:
        family: as ``remedies.family`` names it.
        distribution: ``amzn 2023``, or as people see it.
        kernel: what ``uname -r`` says.
    """
    if family == "debian" and _OF_PROXMOX.fullmatch(kernel):
        return f"{'proxmox' if _numbers(kernel) >= _FIRST_OF_PROXMOX else 'pve'}-headers-{kernel}"
    if family in ("ubuntu", "debian"):
        return f"linux-headers-{kernel}"
    if family in ("fedora", "rhel"):
        return _of_red_hat(distribution, kernel)
    if family == "suse":
        own = _OF_SUSE.fullmatch(kernel)
        return f"kernel-{own['kind'] if own else 'default'}-devel"
    return "linux-headers" if family == "arch" and "-arch" in kernel else None  # its other kernels have their own


def _of_red_hat(distribution: str, kernel: str) -> str:
    if own := _WITH_KIND.fullmatch(kernel):
        return f"kernel-{own['kind']}-devel-{own['plain']}"
    if "uek" in kernel:
        return f"kernel-uek-devel-{kernel}"
    major, minor = _numbers(kernel)
    if distribution.startswith(("amzn 2023", "Amazon Linux 2023")) and (major, minor) > (6, 1):
        return f"kernel{major}.{minor}-devel-{kernel}"
    return f"kernel-devel-{kernel}"


def _numbers(kernel: str) -> tuple[int, int]:
    found = _NUMBERS.match(kernel)
    return (int(found["major"]), int(found["minor"])) if found else (0, 0)
