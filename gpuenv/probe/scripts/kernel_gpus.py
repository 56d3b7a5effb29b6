"""The GPUs that the kernel itself knows: on the PCI bus, in the driver's own list, and among AMD's KFD nodes."""

from __future__ import annotations

import os
import re

from telling import is_folder, names, place, read, word

_DISPLAY_CLASSES = ("0x03", "0x12")  # display controllers; processing accelerators
_TABLES = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
_WHOLE = 8_000_000  # bytes
_MOST_NODES = 256
# Linux, include/uapi/linux/kfd_sysfs.h: HSA_MEM_HEAP_TYPE_FB_PUBLIC and FB_PRIVATE, a GPU's own memory.
_OWN_MEMORY = ("1", "2")


def pci_gpus(root: str, *, contained: bool) -> list[dict[str, object]] | None:
    """Display and 3D controllers on the PCI bus; None where the bus is not to be seen.

    Args:
        root: of the file system.
        contained: whether this is a container, where a bus without any device at all is one that is masked.
    """
    folder = "/sys/bus/pci/devices"
    addresses = names(root, folder)
    if not is_folder(root, folder) or (contained and not addresses):
        return None
    found = []
    for address in addresses:
        device = f"{folder}/{address}"
        if not (word(root, f"{device}/class") or "").startswith(_DISPLAY_CLASSES):
            continue
        identity = [(word(root, f"{device}/{name}") or "").removeprefix("0x") for name in ("vendor", "device")]
        if not all(re.fullmatch(r"[0-9a-f]{4}", number) for number in identity):
            continue
        found.append(
            {
                "pci": address,
                "vendor": identity[0],
                "device": identity[1],
                "kernel_driver": _target(place(root, device) + "/driver"),
            }
        )
    return _named(root, found)


def _target(link: str) -> str | None:
    """The last word of where a link leads."""
    try:
        return os.path.basename(os.readlink(link))
    except OSError:
        return None


def _named(root: str, devices: list[dict[str, object]]) -> list[dict[str, object]]:
    """Adds product names from the machine's own PCI id table, where it has one."""
    text = next(filter(None, (read(root, table, _WHOLE) for table in _TABLES)), "") if devices else ""
    for device in devices:
        vendor = re.search(rf"^{device['vendor']}  .*\n((?:[\t#].*\n|\n)*)", text, re.MULTILINE)
        product = re.search(rf"^\t{device['device']}  (.*)$", vendor[1], re.MULTILINE) if vendor else None
        device["name"] = product[1] if product else None
    return devices


def driver_gpus(root: str) -> list[dict[str, object]]:
    """The GPUs that the kernel module itself lists."""
    folder, gpus = "/proc/driver/nvidia/gpus", []
    for name in names(root, folder):
        if not is_folder(root, f"{folder}/{name}"):
            continue
        text = read(root, f"{folder}/{name}/information") or ""
        entries = dict(re.findall(r"^([\w ]+):[ \t]*(.*?)\s*$", text, re.MULTILINE))
        uuid = entries.get("GPU UUID", "")
        gpus.append(
            {
                "name": entries.get("Model"),
                "uuid": uuid if re.fullmatch(r"GPU-[0-9a-f-]{36}", uuid) else None,
                "pci": entries.get("Bus Location") or name,
            }
        )
    return gpus


def amd_nodes(root: str) -> list[dict[str, object]]:
    """The nodes of AMD's compute driver; what they mean is told later."""
    folder, found = "/sys/class/kfd/kfd/topology/nodes", []
    for number in sorted((name for name in names(root, folder) if re.fullmatch("[0-9]{1,9}", name)), key=int)[
        :_MOST_NODES
    ]:
        text = read(root, f"{folder}/{number}/properties") or ""
        found.append(
            {
                "node": int(number),
                "name": word(root, f"{folder}/{number}/name"),
                "properties": {key: int(value) for key, value in re.findall(r"^(\w+) (\d{1,20})$", text, re.MULTILINE)},
                "memory": _memory(root, f"{folder}/{number}/mem_banks"),
            }
        )
    return found


def _memory(root: str, folder: str) -> int | None:
    sizes = []
    for bank in names(root, folder)[:_MOST_NODES]:
        text = read(root, f"{folder}/{bank}/properties") or ""
        entries = dict(re.findall(r"^(\w+) (\d{1,20})$", text, re.MULTILINE))
        if entries.get("heap_type") in _OWN_MEMORY and "size_in_bytes" in entries:
            sizes.append(int(entries["size_in_bytes"]))
    return sum(sizes) if sizes else None


def rocm(root: str) -> dict[str, str]:
    """ROCm's release by its own file and by its header."""
    told = {}
    release = re.match(r"\d+\.\d+(\.\d+)?", word(root, "/opt/rocm/.info/version") or "")
    if release:
        told["/opt/rocm/.info/version"] = release[0]
    header = read(root, "/opt/rocm/include/rocm-core/rocm_version.h") or ""
    parts = dict(re.findall(r"^#define ROCM_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)", header, re.MULTILINE))
    if len(parts) == 3:  # noqa: PLR2004 - all of them
        told["rocm_version.h"] = f"{parts['MAJOR']}.{parts['MINOR']}.{parts['PATCH']}"
    return told
