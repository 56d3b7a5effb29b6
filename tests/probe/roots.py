"""Driver roots: folders with the files of a kernel and a file system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def make_root(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Writes files below a root, by path."""
    root.mkdir(exist_ok=True)
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def pci_device(address: str, device_class: str, vendor: str, device: str) -> dict[str, str]:
    folder = f"sys/bus/pci/devices/{address}"
    return {
        f"{folder}/class": f"{device_class}\n",
        f"{folder}/vendor": f"0x{vendor}\n",
        f"{folder}/device": f"0x{device}\n",
    }


def bind_driver(root: Path, address: str, driver: str) -> None:
    (root / "sys/bus/pci/drivers" / driver).mkdir(parents=True, exist_ok=True)
    (root / f"sys/bus/pci/devices/{address}/driver").symlink_to(f"../../drivers/{driver}")
