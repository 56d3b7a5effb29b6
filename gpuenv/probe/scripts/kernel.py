"""Facts that the kernel and the file system tell: no library of the driver is loaded.

Run as a program by gpuenv's own interpreter: ``kernel.py ROOT``. Prints one fact a line, see ``protocol.py``. It is a
child of its own because reading a file of a wedged driver can hang.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Mapping

_DISPLAY_CLASSES = ("0x03", "0x12")  # display controllers; processing accelerators
_DEVICE_NODES = ("/dev/nvidia[0-9]*", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset", "/dev/dxg")
_CONTAINER_ROOTS = ("overlay", "fuse-overlayfs", "9p")  # gVisor's root is 9p
_TOOLKIT_FOLDERS = (
    "/usr/local/cuda",
    "/usr/local/cuda-*",
    "/opt/cuda",
    "/usr/lib/cuda",
    "/usr/lib/nvidia-cuda-toolkit",
)


def tell(key: str, value: object) -> None:
    """Prints one fact at once, so that it survives whatever happens to this process next."""
    sys.stdout.write(f"gpuenv:{json.dumps({key: value})}\n")
    sys.stdout.flush()


def read(path: str) -> str | None:
    """A small text file, or None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536).strip()
    except OSError:
        return None


def uname() -> dict[str, object]:
    """The kernel's name, release and machine."""
    names = os.uname()
    return {"os": names.sysname.lower(), "kernel": names.release, "arch": names.machine}


def os_release(root: str) -> str | None:
    """``debian 12``, from os-release."""
    text = read(root + "/etc/os-release") or read(root + "/usr/lib/os-release") or ""
    entries = dict(re.findall(r"^(\w+)=[\"']?([^\"'\n]*)", text, re.MULTILINE))
    return " ".join(filter(None, (entries.get("ID"), entries.get("VERSION_ID")))) or None


def container(root: str, environment: Mapping[str, str]) -> str:
    """The kind of container this process is in, by the marks that each engine leaves."""
    control_groups = read(root + "/proc/1/cgroup") or ""
    root_type, mounted = mounts(root)
    named = environment.get("container") or (read(root + "/run/systemd/container") or "").strip()
    named = "" if named == "wsl" else named  # what systemd calls WSL
    signs = (
        (
            "kubernetes",
            "KUBERNETES_SERVICE_HOST" in environment or "kubepods" in control_groups or "/kubelet/pods/" in mounted,
        ),
        ("apptainer", "APPTAINER_CONTAINER" in environment or "SINGULARITY_CONTAINER" in environment),
        (
            "podman",
            os.path.exists(root + "/run/.containerenv") or named == "podman" or "/containers/storage/" in mounted,
        ),
        (
            "docker",
            os.path.exists(root + "/.dockerenv") or "/docker" in control_groups or "/docker/containers/" in mounted,
        ),
        ("lxc", named == "lxc" or "/lxc" in control_groups),
        ("systemd-nspawn", named == "systemd-nspawn"),
        ("other", bool(named) or "/containerd/" in mounted or (root_type in _CONTAINER_ROOTS and not is_booted(root))),
    )
    return next((name for name, seen in signs if seen), "none")


def is_booted(root: str) -> bool:
    """Whether an init system runs here, as on a diskless or live host, whose root is an overlay too."""
    return (read(root + "/proc/1/comm") or "") in ("systemd", "init")


def mounts(root: str) -> tuple[str, str]:
    """The type of the root file system, and where the files come from that engines mount over those of an image.

    The mount points of a host that runs containers are not looked at: they name them too.
    """
    root_type, origins = "", []
    for line in (read_whole(root + "/proc/self/mountinfo") or "").splitlines():
        fields, _, rest = line.partition(" - ")
        place = fields.split(" ")
        if len(place) > 4 and place[4] == "/":  # noqa: PLR2004 - the mount point
            root_type = rest.split(" ")[0]
        elif len(place) > 4 and place[4] in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"):  # noqa: PLR2004
            origins.append(place[3])
    return root_type, " ".join(origins)


def is_wsl(root: str) -> bool:
    """Whether this kernel is the one of the Windows Subsystem for Linux."""
    return "microsoft" in os.uname().release.lower() or os.path.exists(root + "/dev/dxg")


def tegra(root: str) -> str | None:
    """The release line of a Jetson's root file system, or the name of a Tegra board."""
    release = read(root + "/etc/nv_tegra_release")
    if release:
        return release.splitlines()[0].lstrip("# ")
    compatible = read(root + "/proc/device-tree/compatible") or ""
    board = next((name for name in compatible.split("\0") if name.startswith("nvidia,tegra")), None)
    return board or (f"kernel {os.uname().release}" if os.uname().release.endswith("-tegra") else None)


def modules(root: str) -> dict[str, object]:
    """Which kernel modules are loaded, and whether the nvidia one is built for this kernel."""
    listed = read_whole(root + "/proc/modules")
    loaded = {line.split(" ", 1)[0] for line in (listed or "").splitlines()}
    loaded |= {name for name in ("nvidia", "nouveau") if os.path.isdir(f"{root}/sys/module/{name}")}
    told = listed is not None or os.path.isdir(root + "/sys/module")
    return {
        "nvidia_loaded": "nvidia" in loaded if told else None,
        "nouveau_loaded": "nouveau" in loaded if told else None,
        "module_installed": module_installed(root),
    }


def read_whole(path: str) -> str | None:
    """A text file of the kernel's that may be larger than a page or two."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(8_000_000)
    except OSError:
        return None


def module_installed(root: str) -> bool | None:
    """Whether an nvidia module lies in the folder of the running kernel; None where that folder is not to be seen."""
    folder = f"{root}/lib/modules/{os.uname().release}"
    dependencies = read_whole(folder + "/modules.dep")
    if dependencies is not None and re.search(r"(^|/)nvidia(-current)?\.ko", dependencies, re.MULTILINE):
        return True
    if glob.glob(folder + "/updates/**/nvidia*.ko*", recursive=True) or glob.glob(
        folder + "/extra/**/nvidia*.ko*", recursive=True
    ):
        return True
    return False if os.path.isdir(folder) else None


def pci_gpus(root: str) -> list[dict[str, object]] | None:
    """Display and 3D controllers on the PCI bus; None where the bus is not to be seen."""
    folder = root + "/sys/bus/pci/devices"
    try:
        addresses = sorted(os.listdir(folder))
    except OSError:
        return None
    found = []
    for address in addresses:
        device = f"{folder}/{address}"
        identity = [(read(f"{device}/{name}") or "").removeprefix("0x") for name in ("vendor", "device")]
        if not (read(device + "/class") or "").startswith(_DISPLAY_CLASSES):
            continue
        if not all(re.fullmatch(r"[0-9a-f]{4}", number) for number in identity):
            continue
        link = device + "/driver"
        found.append(
            {
                "pci": address,
                "vendor": identity[0],
                "device": identity[1],
                "kernel_driver": os.path.basename(os.readlink(link)) if os.path.islink(link) else None,
            }
        )
    return name_pci_gpus(root, found)


def name_pci_gpus(root: str, devices: list[dict[str, object]]) -> list[dict[str, object]]:
    """Adds product names from the machine's own PCI id table, where it has one."""
    tables = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
    text = next(filter(None, (read_whole(root + table) for table in tables)), "") if devices else ""
    for device in devices:
        vendor = re.search(rf"^{device['vendor']}  .*\n((?:[\t#].*\n|\n)*)", text, re.MULTILINE)
        product = re.search(rf"^\t{device['device']}  (.*)$", vendor[1], re.MULTILINE) if vendor else None
        device["name"] = product[1] if product else None
    return devices


def device_nodes(root: str) -> list[dict[str, object]]:
    """The driver's device files; access is asked of the kernel, nothing is opened."""
    nodes = []
    for path in sorted(found for pattern in _DEVICE_NODES for found in glob.glob(root + pattern)):
        try:
            status = os.stat(path)
        except OSError:
            continue
        nodes.append(
            {
                "path": path[len(root) :],
                "accessible": os.access(path, os.R_OK | os.W_OK),
                "mode": stat.filemode(status.st_mode),
                "owner": f"{status.st_uid}:{status.st_gid}",
            }
        )
    return nodes


def driver_gpus(root: str) -> list[dict[str, object]]:
    """The GPUs that the kernel module itself lists."""
    gpus = []
    for path in sorted(glob.glob(root + "/proc/driver/nvidia/gpus/*/information")):
        entries = dict(re.findall(r"^([\w ]+):[ \t]*(.*?)\s*$", read(path) or "", re.MULTILINE))
        uuid = entries.get("GPU UUID", "")
        gpus.append(
            {
                "name": entries.get("Model"),
                "uuid": uuid if re.fullmatch(r"GPU-[0-9a-f-]{36}", uuid) else None,
                "pci": entries.get("Bus Location") or os.path.basename(os.path.dirname(path)),
            }
        )
    return gpus


def toolkits(root: str, environment: Mapping[str, str]) -> list[dict[str, object]]:
    """Every CUDA toolkit in the default folders, on PATH and in the variables."""
    places = [(name, root + environment[name]) for name in ("CUDA_PATH", "CUDA_HOME") if environment.get(name)]
    on_path = [f"{root}{folder}/nvcc" for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    places += [
        ("PATH", os.path.dirname(os.path.dirname(os.path.realpath(p)))) for p in on_path if os.access(p, os.X_OK)
    ]
    places += [("folder", path) for pattern in _TOOLKIT_FOLDERS for path in sorted(glob.glob(root + pattern))]
    found: dict[str, dict[str, object]] = {}
    for via, path in places:
        real = below(root, path)
        if real not in found and os.path.isdir(real):
            found[real] = {
                "path": real.removeprefix(root),
                "found_via": via,
                **toolkit(real),
            }
    return [entry for entry in found.values() if entry["toolkit"]]


def below(root: str, path: str) -> str:
    """The folder behind a link; an absolute one below a driver root means a place below that root."""
    real = os.path.realpath(path)
    if not root or real.startswith(os.path.realpath(root) + os.sep):
        return real
    return os.path.realpath(f"{root}{os.readlink(path)}") if os.path.islink(path) else real


def toolkit(path: str) -> dict[str, object]:
    """Version and parts of the toolkit in a folder."""
    libraries = [f"{path}/{part}" for part in ("lib64", "lib", "targets/x86_64-linux/lib", "targets/sbsa-linux/lib")]
    headers = [f"{path}/include", f"{path}/targets/x86_64-linux/include", f"{path}/targets/sbsa-linux/include"]
    number, source = toolkit_version(path, headers)
    return {
        "toolkit": number,
        "source": source,
        "has_nvrtc": any(glob.glob(folder + "/libnvrtc.so*") for folder in libraries),
        "has_headers": any(os.path.exists(folder + "/cuda_runtime.h") for folder in headers),
    }


def toolkit_version(path: str, headers: list[str]) -> tuple[str | None, str | None]:
    """The version by the toolkit's own version file, else by its header, else by its version text of old."""
    try:
        entry = json.loads(read_whole(path + "/version.json") or "{}").get("cuda", {})
        if isinstance(entry, dict) and isinstance(entry.get("version"), str):
            return entry["version"], "version.json"
    except (ValueError, AttributeError):
        pass
    for folder in headers:
        match = re.search(r"^#define\s+CUDA_VERSION\s+(\d+)", read_whole(folder + "/cuda.h") or "", re.MULTILINE)
        if match:
            return f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}", "cuda.h"
    match = re.search(r"CUDA Version (\d+\.\d+)", read(path + "/version.txt") or "")
    return (match[1], "version.txt") if match else (None, None)


def main() -> None:
    """Tells every fact; one that cannot be had does not keep the next one back."""
    root = sys.argv[1].rstrip("/")
    environment = os.environ
    facts: dict[str, Callable[[], object]] = {
        "uname": uname,
        "distribution": lambda: os_release(root),
        "container": lambda: container(root, environment),
        "wsl": lambda: is_wsl(root),
        "tegra": lambda: tegra(root),
        "device_nodes": lambda: device_nodes(root),
        "pci_gpus": lambda: pci_gpus(root),
        "toolkits": lambda: toolkits(root, environment),
        "modules": lambda: modules(root),
        "sys_version": lambda: read(root + "/sys/module/nvidia/version"),
        "proc_version": lambda: read(root + "/proc/driver/nvidia/version"),
        "driver_gpus": lambda: driver_gpus(root),
    }
    for key, ask in facts.items():
        try:
            tell(key, ask())
        except OSError as error:
            tell("failed", {key: str(error)})
    tell("done", True)


if __name__ == "__main__":
    main()
