"""Reads facts from the kernel's files and the file system; no library of the driver is loaded.

Run by gpuenv's own interpreter: ``start.py kernel ROOT``. Prints one fact per line, see ``protocol.py``. It is a child
of its own because reading a file of a wedged driver can hang.

Paths are written as a process inside that root sees them, such as ``/proc/modules``. ``root`` is prepended when a file
is read, and links stay below it, as after chroot. Nothing here blocks: FIFOs are skipped.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from itertools import islice

from shared import emit, records

_WHOLE = 8_000_000  # bytes read of a long file
_TREE = "/lib/modules"


# Files below a root


_MOST_LINKS = 40  # the kernel's own limit


def resolve(root: str, path: str) -> str:
    """Resolves all links of a path; absolute links are relative to the root."""
    if not root:
        return os.path.realpath(path)
    done, rest, links = "", [part for part in reversed(path.split("/")) if part], 0
    while rest:
        part = rest.pop()
        if part in (".", ".."):
            done = done if part == "." else done.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{root}{done}/{part}")
        except OSError:
            done = f"{done}/{part}"
            continue
        links += 1
        if links > _MOST_LINKS:
            return path
        if target.startswith("/"):
            done, target = "", target.removeprefix(root)
        rest += [piece for piece in reversed(target.split("/")) if piece]
    return done or "/"


def host_path(root: str, path: str) -> str:
    """The path under which this process finds a path of the root."""
    return root + resolve(root, path) if root else path


def read_bytes(root: str, path: str, limit: int, *, tail: bool = False) -> bytes | None:
    """The first or last bytes of a regular file; None if it cannot be read."""
    try:
        with open(host_path(root, path), "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                return None
            if tail and status.st_size > limit:
                file.seek(-limit, os.SEEK_END)
            return file.read(limit)
    except OSError:
        return None


def read(root: str, path: str, limit: int = 65536) -> str | None:
    """The text of a file up to a number of bytes; None if it cannot be read."""
    content = read_bytes(root, path, limit)
    return None if content is None else content.decode("utf-8", "replace")


def read_value(root: str, path: str) -> str | None:
    """The stripped text of a small file; None if it is empty or cannot be read."""
    return (read(root, path) or "").strip() or None


def names(root: str, folder: str, *, begin: str = "", end: str = "") -> list[str]:
    """The sorted names in a folder; empty if it cannot be read."""
    try:
        listed = os.listdir(host_path(root, folder))
    except OSError:
        return []
    return sorted(name for name in listed if name.startswith(begin) and name.endswith(end))


def is_folder(root: str, path: str) -> bool:
    """Whether the path is a folder."""
    return os.path.isdir(host_path(root, path))


def exists(root: str, path: str) -> bool:
    """Whether the path exists."""
    return os.path.exists(host_path(root, path))


# The operating system


# The build of the kernel that gVisor pretends to be, in every release: gVisor, pkg/sentry/kernel/version, LinuxVersion.
_GVISOR = "#1 SMP Sun Jan 10 15:06:54 PST 2016"
_GVISOR_RELEASE = "-gvisor"  # gVisor, same folder, LinuxRelease, from 2026 on
# UEFI Specification 2.10, section 3.3 (Globally Defined Variables); Linux, Documentation/filesystems/efivarfs.rst.
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_ATTRIBUTES = 4  # bytes that efivarfs puts before a variable's value


def distribution(root: str) -> str | None:
    """The distribution by os-release, such as ``debian 12``."""
    text = read(root, "/etc/os-release") or read(root, "/usr/lib/os-release") or ""
    entries = dict(re.findall(r"^(\w+)=[\"']?([^\"'\r\n]*)", text, re.MULTILINE))
    return " ".join(filter(None, (entries.get("ID"), entries.get("VERSION_ID")))) or None


def is_wsl(root: str) -> bool:
    """Whether this kernel is the one of the Windows Subsystem for Linux."""
    return "microsoft" in os.uname().release.lower() or exists(root, "/dev/dxg")


def tegra(root: str) -> dict[str, str] | None:
    """The release line of a Jetson's root file system, or the name of a Tegra board, or its kernel; and the source."""
    file, tree = "/etc/nv_tegra_release", "/proc/device-tree/compatible"
    release = read_value(root, file)
    if release:
        return {"name": release.splitlines()[0].lstrip("# "), "source": file}
    board = next((name for name in (read(root, tree) or "").split("\0") if name.startswith("nvidia,tegra")), None)
    if board:
        return {"name": board, "source": tree}
    kernel = os.uname().release
    return {"name": f"kernel {kernel}", "source": "uname"} if kernel.endswith("-tegra") else None


def sandbox(root: str) -> str | None:
    """``gvisor`` on gVisor's kernel, else None."""
    text = read(root, "/proc/version") or ""
    version = "" if root else os.uname().version
    if _GVISOR in text or version == _GVISOR or os.uname().release.endswith(_GVISOR_RELEASE):
        return "gvisor"
    return None


def secure_boot(root: str) -> bool | None:
    """Whether the firmware started this kernel with Secure Boot; None if its variables are not visible."""
    value = read_bytes(root, _SECURE_BOOT, 64)
    if value is None or len(value) != _ATTRIBUTES + 1:
        return None
    return value[_ATTRIBUTES] == 1


def lockdown(root: str) -> str | None:
    """The kernel's lockdown mode, marked by brackets among the possible ones (kernel_lockdown(7))."""
    match = re.search(r"\[(none|integrity|confidentiality)\]", read(root, "/sys/kernel/security/lockdown") or "")
    return match[1] if match else None


def module_signatures(root: str) -> bool | None:
    """Whether the kernel refuses modules without a valid signature (kernel parameter module.sig_enforce)."""
    return {"Y": True, "N": False}.get(read_value(root, "/sys/module/module/parameters/sig_enforce") or "")


def suspends(root: str) -> int | None:
    """The number of suspends since the start of this machine (Linux, Documentation/ABI/testing/sysfs-power)."""
    count = read_value(root, "/sys/power/suspend_stats/success") or ""
    return int(count) if re.fullmatch("[0-9]{1,9}", count) else None


def overcommit(root: str) -> int | None:
    """vm.overcommit_memory (Linux, Documentation/mm/overcommit-accounting)."""
    value = read_value(root, "/proc/sys/vm/overcommit_memory") or ""
    return int(value) if value in ("0", "1", "2") else None


def address_limit() -> int | None:
    """The bytes of addresses that this process may reserve (getrlimit(2), RLIMIT_AS); None without a limit."""
    import resource  # noqa: PLC0415 - missing on Windows

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


# Containers


# Enroot, src/runtime.sh: binds its lock file read-only. Its processes are in no PID namespace of their own, so that
# process 1 is the host's.
_ENROOT_LOCK = "/.lock"
_CONTAINER_ROOTS = ("overlay", "fuse-overlayfs", "9p")  # gVisor's root is 9p
_MOST_CDI, _MOST_DEVICES, _MOST_RULES = 32, 256, 64
# Linux, Documentation/admin-guide/devices.txt; the other majors are assigned when the driver is loaded.
_NVIDIA_MAJOR = "195"
_DOCKER = ("/usr/bin/docker", "/usr/local/bin/docker", "/snap/bin/docker")
# nvidia-container-toolkit, packaging: the first since 1.9, the others before.
_TOOLKIT_PROGRAMS = ("nvidia-ctk", "nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-cli")
_TOOLKIT_PACKAGE = "nvidia-container-toolkit"


def container(root: str) -> str:
    """The kind of container that this process is in, by each engine's marks."""
    control_groups = read(root, "/proc/1/cgroup") or ""
    root_type, mounted, points = mounts(root)
    named = os.environ.get("container") or read_value(root, "/run/systemd/container") or ""  # noqa: SIM112 - systemd's spelling
    named = "" if named == "wsl" else named  # systemd's name for WSL
    in_pod = "kubepods" in control_groups or "/kubelet/pods/" in mounted
    # A diskless or live host has an overlay as root too, but runs an init system.
    is_booted = read_value(root, "/proc/1/comm") in ("systemd", "init")
    signs = (
        ("kubernetes", "KUBERNETES_SERVICE_HOST" in os.environ or in_pod),
        ("apptainer", "APPTAINER_CONTAINER" in os.environ or "SINGULARITY_CONTAINER" in os.environ),
        ("podman", exists(root, "/run/.containerenv") or named == "podman" or "/containers/storage/" in mounted),
        ("docker", exists(root, "/.dockerenv") or "/docker" in control_groups or "/docker/containers/" in mounted),
        ("lxc", named == "lxc" or "/lxc" in control_groups),
        ("systemd-nspawn", named == "systemd-nspawn"),
        ("other", exists(root, "/.flatpak-info") or _ENROOT_LOCK in (points or ())),
        ("other", bool(named) or "/containerd/" in mounted or (root_type in _CONTAINER_ROOTS and not is_booted)),
    )
    return next((name for name, is_present in signs if is_present), "none")


@lru_cache(1)
def mounts(root: str) -> tuple[str, str, frozenset[str] | None]:
    """The type of the root file system, the origins of the files that engines mount, and all mount points.

    The origins of other mounts say nothing about this process: a host that runs containers has theirs too.
    """
    text = read(root, "/proc/self/mountinfo", _WHOLE)
    root_type, origins, points = "", [], set()
    for line in (text or "").splitlines():
        fields, _, rest = line.partition(" - ")
        columns = fields.split(" ")
        if len(columns) <= 4:  # noqa: PLR2004 - the mount point is the fifth field: proc_pid_mountinfo(5)
            continue
        points.add(columns[4])
        if columns[4] == "/":
            root_type = rest.split(" ")[0]
        elif columns[4] in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"):
            origins.append(columns[3])
    return root_type, " ".join(origins), frozenset(points) if points else None


def device_rules(root: str) -> dict[str, object]:
    """The device rules of this process's control group that concern NVIDIA, in version 1.

    Linux, Documentation/admin-guide/cgroup-v1/devices.rst; version 2 has none to read (cgroup-v2.rst, Device
    controller).
    """
    groups = read(root, "/proc/self/cgroup") or ""
    group = re.search(r"^\d+:(?:[\w=]+,)*devices(?:,[\w=]+)*:(/.*)$", groups, re.MULTILINE)
    folder = "/sys/fs/cgroup/devices"
    # Inside a container the path is often the host's, while the mount begins at the container's own group.
    paths = [f"{folder}{group[1].rstrip('/')}/devices.list"] if group else []
    paths += [f"{folder}/devices.list"] if container(root) != "none" else []
    text = next((found for found in (read(root, path) for path in paths) if found is not None), None)
    if text is not None:
        majors = {_NVIDIA_MAJOR, *re.findall(r"^ *(\d+) nvidia", read(root, "/proc/devices") or "", re.MULTILINE)}
        return {"rules": [line for line in text.splitlines() if _concerns(line, majors)][:_MOST_RULES]}
    if exists(root, "/sys/fs/cgroup/cgroup.controllers") or re.search(r"^0::", groups, re.MULTILINE):
        return {"reason": "control groups of version 2 keep their rules in a BPF program, which cannot be read"}
    return {"reason": "no control group for devices is visible"}


def _concerns(rule: str, majors: set[str]) -> bool:
    match = re.match(r"(?:(a)|c (\*|\d+):)", rule)
    return bool(match) and (bool(match[1]) or match[2] == "*" or match[2] in majors)


def cdi_files(root: str) -> list[dict[str, object]]:
    """The files of the Container Device Interface: its specification, section Configuration files (default folders)."""
    found = []
    for folder in ("/etc/cdi", "/var/run/cdi"):
        for name in names(root, folder):
            if name.endswith((".yaml", ".yml", ".json")):
                text = read(root, f"{folder}/{name}", 1_000_000) or ""
                kind, devices = _cdi_json(text) if name.endswith(".json") else _cdi_yaml(text)
                found.append({"path": f"{folder}/{name}", "kind": kind, "devices": devices[:_MOST_DEVICES]})
    return found[:_MOST_CDI]


def _cdi_yaml(text: str) -> tuple[str | None, list[str]]:
    """The kind and the devices' names, read line by line: there is no YAML library here."""
    kind = re.search(r"^kind: *[\"']?([\w./-]+)", text, re.MULTILINE)
    section = re.search(r"^devices:[^\n]*\n((?:[ -].*\n?|\n)*)", text, re.MULTILINE)
    devices = re.findall(r"^ {0,4}(?:- +)?name: *[\"']?([^\"'\s#]+)", section[1] if section else "", re.MULTILINE)
    return kind[1] if kind else None, devices


def _cdi_json(text: str) -> tuple[str | None, list[str]]:
    content = _json(text)
    kind, devices = content.get("kind"), content.get("devices")
    entries = [entry.get("name") for entry in devices if isinstance(entry, dict)] if isinstance(devices, list) else []
    return kind if isinstance(kind, str) else None, [name for name in entries if isinstance(name, str)]


def _json(text: str) -> Mapping[str, object]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def engine(root: str) -> dict[str, object]:
    """Docker's program, and the runtimes in its configuration (Docker, dockerd: daemon configuration file)."""
    content = _json(read(root, "/etc/docker/daemon.json", 1_000_000) or "")
    runtimes, default = content.get("runtimes"), content.get("default-runtime")
    return {
        "program": next((path for path in _DOCKER if exists(root, path)), None),
        "configured": exists(root, "/etc/docker/daemon.json"),
        "runtimes": sorted(runtimes) if isinstance(runtimes, dict) else None,
        "default_runtime": default if isinstance(default, str) else None,
    }


def container_toolkit(root: str) -> dict[str, object]:
    """The release of the NVIDIA container toolkit by Debian's list of packages, read only if it is packaged."""
    is_installed = any(exists(root, f"/usr/bin/{name}") for name in _TOOLKIT_PROGRAMS)
    packaged = exists(root, f"/var/lib/dpkg/info/{_TOOLKIT_PACKAGE}.list")
    listed = (read(root, "/var/lib/dpkg/status", 16_000_000) or "") if packaged else ""
    entry = re.search(rf"^Package: {_TOOLKIT_PACKAGE}\n((?:\S.*\n| .*\n)*)", listed, re.MULTILINE)
    release = re.search(r"^Version: *(\S+)", entry[1], re.MULTILINE) if entry else None
    return {"installed": is_installed, "release": release[1] if release else None}


def mounted_requests(root: str) -> list[str]:
    """The devices requested by mounts, which the NVIDIA container toolkit reads instead of a variable.

    NVIDIA Container Toolkit, configuration: accept-nvidia-visible-devices-as-volume-mounts.
    """
    return names(root, "/var/run/nvidia-container-devices")[:_MOST_DEVICES]


def mps_daemon(root: str) -> dict[str, object]:
    """Whether an MPS control daemon has created its pipe in the clients' folder.

    NVIDIA, Multi-Process Service, CUDA_MPS_PIPE_DIRECTORY: the default is /tmp/nvidia-mps.
    """
    configured = os.environ.get("CUDA_MPS_PIPE_DIRECTORY")
    folder = configured or "/tmp/nvidia-mps"  # noqa: S108 - the documented default
    return {
        "folder": folder,
        "configured": bool(configured),
        "daemon": is_folder(root, folder) and exists(root, f"{folder}/control"),
    }


# The driver's files


_MOST_BUILDS, _MOST_LIBRARIES = 64, 64
_DEVICES = r"nvidia(\d+|ctl|-uvm|-modeset)|dxg|nvmap"  # nvmap is of Tegra
_LIBRARY = r"lib(cuda|nvidia-ml)\.so(\.\d[\d.]*)?"
_MOST_OF_A_LOG = 1_000_000
# Messages of dash and bash; of the kernel's Makefile, target prepare; of GCC's driver.
_NOT_FOUND = r"\b(gcc-\d+): (?:command )?not found"
_BUILT_BY = r"The kernel was built by: \S*gcc\S* \([^)]*\) (\d+)\."
_UNKNOWN_OPTION = r"error: unrecognized (?:command[- ]line option|argument)"
_LOG = r"make\.log for \S+ for kernel (\S+)"


def dkms(root: str) -> list[dict[str, object]]:
    """The driver's modules in DKMS's tree, which the manual page of dkms describes under ACTIONS (add, build).

    An added release has a folder; one built for a kernel has that kernel's folder with the module in it. A successful
    build removes the build folder, so a log in it belongs to a failed one.
    """
    tree, found = "/var/lib/dkms", []
    for module in names(root, tree, begin="nvidia"):
        for release in names(root, f"{tree}/{module}"):
            folder = f"{tree}/{module}/{release}"
            if release.startswith(("kernel-", "original_module")) or not is_folder(root, folder):
                continue
            found += [{"module": module, "release": release, **state} for state in _builds(root, folder)]
    return found[:_MOST_BUILDS]


def _builds(root: str, folder: str) -> list[dict[str, object]]:
    """The states of one release: built for some kernels, failed for one, or only added."""
    built = [
        {"kernel": kernel, "state": "built"}
        for kernel in names(root, folder)
        if kernel[:1].isdigit()
        and any(names(root, f"{folder}/{kernel}/{a}/module") for a in names(root, f"{folder}/{kernel}"))
    ]
    text = read(root, folder + "/build/make.log", _MOST_OF_A_LOG) or ""
    log = re.search(_LOG, text[:4096])
    if log and log[1] not in {entry["kernel"] for entry in built}:
        built.append({"kernel": log[1], "state": "failed", "compiler": _wanted_compiler(text)})
    return built or [{"kernel": None, "state": "added"}]


def _wanted_compiler(log: str) -> str | None:
    """The kernel's compiler, if the log of a failed build shows that it is missing or another one was used.

    A different compiler alone only causes a warning; an option that it does not know fails the build.
    """
    missing = re.search(_NOT_FOUND, log)
    if missing:
        return missing[1]
    built_by = re.search(_BUILT_BY, log)
    return f"gcc-{built_by[1]}" if built_by and re.search(_UNKNOWN_OPTION, log) else None


def device_nodes(root: str) -> list[dict[str, object]]:
    """The driver's device nodes; access is checked without opening them."""
    nodes = []
    for name in names(root, "/dev"):
        if not re.fullmatch(_DEVICES, name):
            continue
        path = host_path(root, f"/dev/{name}")
        try:
            status = os.stat(path)
        except OSError:
            continue
        nodes.append(
            {
                "path": f"/dev/{name}",
                "accessible": os.access(path, os.R_OK | os.W_OK),
                "mode": stat.filemode(status.st_mode),
                "owner": f"{status.st_uid}:{status.st_gid}",
            }
        )
    return nodes


def libraries(root: str) -> list[dict[str, object]]:
    """Every file of libcuda and libnvidia-ml in the folders that drivers use, and whether it is mounted.

    A system folder may hold many thousands of files, so only their names are read.
    """
    points = mounts(root)[2]
    found: dict[str, dict[str, object]] = {}
    for folder in library_folders(root):
        for name in names(root, folder, begin="lib"):
            if not re.fullmatch(_LIBRARY, name):
                continue
            path = resolve(root, f"{folder}/{name}")
            if path not in found and os.path.isfile(host_path(root, path)):
                found[path] = {"path": path, "mounted": None if points is None else _is_mounted(path, points)}
    return list(found.values())[:_MOST_LIBRARIES]


def library_folders(root: str) -> list[str]:
    """The folders in which drivers, engines, clouds and toolkits put a libcuda.

    Debian's and Ubuntu's multiarch folders, /usr/lib64 (Fedora, openSUSE), /usr/lib (Arch); lib64-nvidia (Colab);
    /usr/local/nvidia (GKE); /var/lib/nvidia (Container-Optimized OS); /run/opengl-driver (NixOS); wsl (Windows); tegra
    and nvidia (Jetson); GL/nvidia-* (Flatpak); /.singularity.d/libs (Apptainer's --nv); /run/nvidia/driver (the driver
    container of NVIDIA's GPU Operator); /usr/local/lib, which the loader of Debian searches first; compat and stubs (a
    toolkit's).
    """
    archs = [f"/usr/lib/{arch}-linux-gnu" for arch in ("x86_64", "aarch64")]
    folders = [
        *archs,
        "/usr/lib64",
        "/usr/lib",
        "/usr/lib64-nvidia",
        "/usr/local/nvidia/lib64",
        "/usr/local/nvidia/lib",
        "/var/lib/nvidia/lib64",
        "/usr/local/lib",
    ]
    folders += ["/run/opengl-driver/lib", "/usr/lib/wsl/lib", "/.singularity.d/libs"]
    for arch in archs:
        folders += [f"{arch}/tegra", f"{arch}/nvidia", f"{arch}/nvidia/current"]
        folders += [f"{arch}/GL/{name}/lib" for name in names(root, f"{arch}/GL", begin="nvidia-")]
    folders += [f"/run/nvidia/driver{folder}" for folder in (*archs, "/usr/lib64")]
    for name in names(root, "/usr/local", begin="cuda"):
        folders += [f"/usr/local/{name}/{part}" for part in ("compat", "lib64/stubs")]
    return folders


def _is_mounted(path: str, points: frozenset[str]) -> bool:
    """Whether the file or a folder above it, other than the root, is a mount point."""
    parts = path.split("/")
    return any("/".join(parts[:length]) in points for length in range(2, len(parts) + 1))


# Kernel modules


_DEEP = 4  # levels below updates/ and extra/ searched for modules
_MOST_KERNELS, _MOST_BLOCKS = 16, 8
_MOST_FILES = 8  # of one kernel: Ubuntu has one per branch
# Debian's packages name the module after themselves, so that several releases of the driver can be installed:
# nvidia-current, nvidia-current-open, nvidia-tesla-470, nvidia-legacy-390xx; their companions end in -drm and so on.
_NAME = r"nvidia(?:-current|-tesla(?:-\d{3})?|-legacy-\d{3}xx)?(?:-open)?"
_MODULE_FILE = rf"{_NAME}\.ko(\.\w+)?"
_LISTED = rf"(?m)(?:^|[\s:])((?:\S*/)?{_NAME}\.ko[.\w]*)"
# modprobe.d(5): of files with one name, that of the first folder counts. These commands keep a module out: blacklist,
# alias to off, and an install command that fails or does nothing.
_FOLDERS = tuple(f"{folder}/modprobe.d" for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib"))
_BLOCKING = (
    rf"\s*(blacklist\s+{_NAME}|alias\s+nvidia\s+off"
    rf"|install\s+{_NAME}\s+(/usr)?/bin/(false|true))\s*$"
)
# NVIDIA, driver README, and open-gpu-kernel-modules, nv-reg.h: which GPUs the module leaves out, and its nodes.
_OPTION = r"NVreg_(?:ExcludedGpus|AssignGpus|DeviceFile(?:UID|GID|Mode))="
# The kernel's own parameter, modprobe's (modprobe(8)), and dracut's (dracut.cmdline(7)).
_PARAMETER = r"(?:module_blacklist|modprobe\.blacklist|rd\.driver\.blacklist)=(?:\S*,)?nvidia(?:,\S*)?$"


def modules(root: str) -> dict[str, object]:
    """Which kernel modules are loaded, and whether the nvidia one is built for this kernel."""
    listed = read(root, "/proc/modules", _WHOLE)
    loaded = {line.split(" ", 1)[0] for line in (listed or "").splitlines()}
    loaded |= {name for name in ("nvidia", "nouveau") if is_folder(root, f"/sys/module/{name}")}
    is_visible = listed is not None or is_folder(root, "/sys/module")
    return {
        "nvidia_loaded": "nvidia" in loaded if is_visible else None,
        "nouveau_loaded": "nouveau" in loaded if is_visible else None,
        "module_installed": module_installed(root),
    }


def module_installed(root: str) -> bool | None:
    """Whether the running kernel's folder has an nvidia module; None if that folder is not visible."""
    kernel = os.uname().release
    return bool(_of_kernel(root, kernel)) or (False if is_folder(root, f"{_TREE}/{kernel}") else None)


def _of_kernel(root: str, kernel: str) -> list[str]:
    """The module's files in a kernel's folder, by modules.dep or else by a search."""
    listed = re.findall(_LISTED, read(root, f"{_TREE}/{kernel}/modules.dep", _WHOLE) or "")
    if listed:
        return sorted({path.rpartition(f"/{kernel}/")[2] for path in listed})
    found = [path for part in ("updates", "extra") for path in _below(root, f"{_TREE}/{kernel}/{part}", _DEEP)]
    return [path[len(f"{_TREE}/{kernel}/") :] for path in found]


def _below(root: str, folder: str, deep: int) -> list[str]:
    found = names(root, folder)
    files = [f"{folder}/{name}" for name in found if re.fullmatch(_MODULE_FILE, name)]
    if files or not deep:
        return files
    below = [f"{folder}/{name}" for name in found if ".ko" not in name]
    return next((files for path in below if is_folder(root, path) and (files := _below(root, path, deep - 1))), [])


def module_files(root: str) -> list[str]:
    """The nvidia modules of other kernels, below their kernels' names; empty if the running kernel has one.

    A file's folder shows which tool installed it.
    """
    if module_installed(root):
        return []
    others = [kernel for kernel in names(root, _TREE) if kernel != os.uname().release]
    having = islice(((kernel, files) for kernel in others if (files := _of_kernel(root, kernel))), _MOST_KERNELS)
    return [f"{kernel}/{path}" for kernel, files in having for path in files[:_MOST_FILES]]


# nvidia-installer, install-from-cwd.c and uninstall.c: installed and removed with the driver of NVIDIA's .run file.
# No distribution's package has it.
_UNINSTALLER = "/usr/bin/nvidia-uninstall"


def module_blocks(root: str) -> list[str]:
    """The lines of modprobe.d files and the kernel parameters that prevent the loading of the nvidia module."""
    return _settings(root, _BLOCKING, _PARAMETER)


def module_options(root: str) -> list[str]:
    """Options of the module that exclude GPUs or restrict its device nodes."""
    return _settings(root, rf"\s*options\s+{_NAME}\s.*{_OPTION}", rf"nvidia\.{_OPTION}")


def _settings(root: str, line_form: str, parameter_form: str) -> list[str]:
    """The lines of modprobe.d files and the kernel parameters of these forms, with the file of each."""
    seen: set[str] = set()
    found = []
    for folder in _FOLDERS:
        for name in names(root, folder, end=".conf"):
            if name in seen:
                continue
            seen.add(name)
            lines = (read(root, f"{folder}/{name}") or "").splitlines()
            found += [f"{folder}/{name}: {line.strip()}" for line in lines if re.match(line_form, line)]
    parameters = (read(root, "/proc/cmdline") or "").split()
    found += [f"/proc/cmdline: {text}" for text in parameters if re.match(parameter_form, text)]
    return found[:_MOST_BLOCKS]


# GPUs


_DISPLAY_CLASSES = ("0x03", "0x12")  # display controllers; processing accelerators
_TABLES = ("/usr/share/misc/pci.ids", "/usr/share/hwdata/pci.ids")
_MOST_NODES = 256
# Linux, include/uapi/linux/kfd_sysfs.h: HSA_MEM_HEAP_TYPE_FB_PUBLIC and FB_PRIVATE, a GPU's own memory.
_OWN_MEMORY = (1, 2)


def pci_gpus(root: str) -> list[dict[str, object]] | None:
    """Display and 3D controllers on the PCI bus; None if it is not visible, or empty inside a container."""
    folder = "/sys/bus/pci/devices"
    addresses = names(root, folder)
    if not is_folder(root, folder) or (not addresses and container(root) != "none"):
        return None
    found = []
    for address in addresses:
        device = f"{folder}/{address}"
        if not (read_value(root, f"{device}/class") or "").startswith(_DISPLAY_CLASSES):
            continue
        identity = [(read_value(root, f"{device}/{name}") or "").removeprefix("0x") for name in ("vendor", "device")]
        if not all(re.fullmatch(r"[0-9a-f]{4}", number) for number in identity):
            continue
        found.append(
            {
                "pci": address,
                "vendor": identity[0],
                "device": identity[1],
                "kernel_driver": link_name(host_path(root, device) + "/driver"),
            }
        )
    return _with_names(root, found)


def link_name(link: str) -> str | None:
    """The last component of a link's target; None if it cannot be read."""
    try:
        return os.path.basename(os.readlink(link))
    except OSError:
        return None


def _with_names(root: str, devices: list[dict[str, object]]) -> list[dict[str, object]]:
    """Adds product names from the machine's PCI id table, if it has one."""
    text = next(filter(None, (read(root, table, _WHOLE) for table in _TABLES)), "") if devices else ""
    for device in devices:
        vendor = re.search(rf"^{device['vendor']}  .*\n((?:[\t#].*\n|\n)*)", text, re.MULTILINE)
        product = re.search(rf"^\t{device['device']}  (.*)$", vendor[1], re.MULTILINE) if vendor else None
        device["name"] = product[1] if product else None
    return devices


def driver_params(root: str) -> str | None:
    """The GPUs that an option excludes from the loaded module (open-gpu-kernel-modules, nv-procfs.c)."""
    match = re.search(r'^ExcludedGpus: "(.+)"$', read(root, "/proc/driver/nvidia/params") or "", re.MULTILINE)
    return match[1] if match else None


def driver_gpus(root: str) -> list[dict[str, object]]:
    """The GPUs that the kernel module lists (open-gpu-kernel-modules, nv-procfs.c)."""
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
                "excluded": {"Yes": True, "No": False}.get(entries.get("GPU Excluded", "")),
            }
        )
    return gpus


def amd_nodes(root: str) -> list[dict[str, object]]:
    """The nodes of AMD's compute driver, uninterpreted."""
    folder = "/sys/class/kfd/kfd/topology/nodes"
    numbers = sorted((name for name in names(root, folder) if re.fullmatch("[0-9]{1,9}", name)), key=int)
    return [
        {
            "node": int(number),
            "name": read_value(root, f"{folder}/{number}/name"),
            "properties": _numbers(root, f"{folder}/{number}/properties"),
            "memory": _memory(root, f"{folder}/{number}/mem_banks"),
        }
        for number in numbers[:_MOST_NODES]
    ]


def _memory(root: str, folder: str) -> int | None:
    sizes = []
    for bank in names(root, folder)[:_MOST_NODES]:
        entries = _numbers(root, f"{folder}/{bank}/properties")
        if entries.get("heap_type") in _OWN_MEMORY and "size_in_bytes" in entries:
            sizes.append(entries["size_in_bytes"])
    return sum(sizes) if sizes else None


def _numbers(root: str, path: str) -> dict[str, int]:
    """The numeric properties of a node or of its memory."""
    return {key: int(value) for key, value in re.findall(r"^(\w+) (\d{1,20})$", read(root, path) or "", re.MULTILINE)}


def rocm(root: str) -> dict[str, str]:
    """ROCm's release by its own file and by its header."""
    releases = {}
    release = re.match(r"\d+\.\d+(\.\d+)?", read_value(root, "/opt/rocm/.info/version") or "")
    if release:
        releases["/opt/rocm/.info/version"] = release[0]
    header = read(root, "/opt/rocm/include/rocm-core/rocm_version.h") or ""
    parts = dict(re.findall(r"^#define ROCM_VERSION_(MAJOR|MINOR|PATCH)\s+(\d+)", header, re.MULTILINE))
    if len(parts) == 3:  # noqa: PLR2004 - all three
        releases["rocm_version.h"] = f"{parts['MAJOR']}.{parts['MINOR']}.{parts['PATCH']}"
    return releases


# CUDA toolkits


_VARIABLES = ("CUDA_PATH", "CUDA_HOME")
_PARTS = ("", "/targets/x86_64-linux", "/targets/sbsa-linux")
# Debian's own toolkit is in /usr, with libnvrtc.so.11.2 in the second of these (package libnvrtc11.2 of Debian 12).
_LIBRARIES = ("/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", *(f"{part}/lib" for part in _PARTS))
_MOST_TOOLKITS = 32
_LARGEST = 131_072  # bytes; a header has a million, with the version near its beginning


def toolkits(root: str) -> list[dict[str, object]]:
    """Every CUDA toolkit in the default folders, on PATH and in the variables."""
    found: dict[str, dict[str, object]] = {}
    for via, path in _candidates(root):
        folder = resolve(root, path)
        if folder not in found and is_folder(root, folder):
            found[folder] = {"path": folder, "found_via": via, **_toolkit(root, folder)}
    # An nvcc without headers is a wrapper script.
    kits = [entry for entry in found.values() if entry["toolkit"] or (entry["nvcc"] and entry["has_headers"])]
    return kits[:_MOST_TOOLKITS]


def _candidates(root: str) -> list[tuple[str, str]]:
    paths = [(name, os.environ[name]) for name in _VARIABLES if os.environ.get(name)]
    compilers = [f"{folder}/nvcc" for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    executables = [resolve(root, path) for path in compilers if os.access(host_path(root, path), os.X_OK)]
    paths += [("PATH", os.path.dirname(os.path.dirname(path))) for path in executables]
    paths += [("folder", "/usr/local/cuda")]
    paths += [("folder", f"/usr/local/{name}") for name in names(root, "/usr/local", begin="cuda-")]
    return paths + [("folder", path) for path in ("/opt/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit")]


def pointing_nowhere(root: str) -> list[str]:
    """The variables that name a toolkit's folder which does not exist."""
    return [name for name in _VARIABLES if os.environ.get(name) and not is_folder(root, os.environ[name])]


def _toolkit(root: str, path: str) -> dict[str, object]:
    """Version and parts of the toolkit in a folder; the most trusted file's version comes first."""
    headers = [f"{path}{part}/include" for part in _PARTS]
    versions = _versions(root, path, headers)
    nvcc = host_path(root, f"{path}/bin/nvcc")
    return {
        "toolkit": versions[0][1] if versions else None,
        "source": versions[0][0] if versions else None,
        "others": dict(versions[1:]),
        "nvcc": os.path.isfile(nvcc) and os.access(nvcc, os.X_OK),
        "has_nvrtc": any(names(root, folder, begin="libnvrtc.so") for folder in (path + part for part in _LIBRARIES)),
        "has_headers": any(exists(root, folder + "/cuda_runtime.h") for folder in headers),
    }


def _versions(root: str, path: str, headers: list[str]) -> list[tuple[str, str]]:
    """The versions by version.json, cuda.h and the older version.txt, in this order of trust."""
    versions = []
    try:
        content = json.loads(read(root, path + "/version.json", _LARGEST) or "{}")
    except (ValueError, RecursionError):
        content = None
    entry = content.get("cuda") if isinstance(content, dict) else None
    if isinstance(entry, dict) and isinstance(entry.get("version"), str):
        versions.append(("version.json", entry["version"]))
    for folder in headers:
        match = re.search(
            r"^#define\s+CUDA_VERSION\s+(\d{4,6})\b", read(root, folder + "/cuda.h", _LARGEST) or "", re.MULTILINE
        )
        if match:
            versions.append(("cuda.h", f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}"))
            break
    match = re.search(r"CUDA Version (\d+\.\d+)", read(root, path + "/version.txt") or "")
    return versions + ([("version.txt", match[1])] if match else [])


# The kernel log


_FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/dmesg")
_TAIL = 1_000_000  # bytes read from the end of a file
_MOST, _MOST_DECISIVE = 50, 30
_LONGEST = 4000  # characters of a line; it is shortened once its secrets are recognized
# Case-insensitive; a search for each is far cheaper than one pattern for all.
_RELEVANT = (
    *("nvrm", "nvidia", "nouveau", "xid", "module verification failed", "unsigned module", "is rejected"),
    *("key was rejected", "lockdown: ", "pkcs#7"),
)
_IDENTIFYING = ("serial", "segfault at")  # a board's serial number; the name of a crashed program
# Possible causes of a fault, which repeated later lines must not displace.
_DECISIVE = (
    r"NVRM: Xid|is rejected|unsigned module|Key was rejected|fallen off the bus|power cables|NVIDIA device is invalid"
)
_BOOT = r"^Linux version \d"
_PREFIX = r"^.*? kernel: "  # date and host of a line of syslog
_STAMP = r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?"


def kernel_log(root: str) -> dict[str, object]:
    """The lines with their source, the newest last, or the reason why the log cannot be read."""
    entries, complaint = _buffer(root)
    if entries is not None:
        return {"source": "/dev/kmsg", "lines": select_lines(filter(None, map(_buffer_text, entries)))}
    for path in _FILES:
        content = read_bytes(root, path, _TAIL, tail=True)
        if content is not None:
            lines = [_file_text(line, path) for line in content.decode("utf-8", "replace").splitlines()]
            return {"source": path, "lines": select_lines(_since_boot([line for line in lines if line]))}
    return {"reason": f"/dev/kmsg: {complaint}; and no syslog file can be read"}


def _buffer(root: str) -> tuple[list[str] | None, str]:
    """The records of the kernel's buffer, or of a regular file in its place; else None and the reason."""
    try:
        descriptor = os.open(host_path(root, "/dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        return None, error.strerror or str(error)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return os.read(descriptor, _TAIL).decode("utf-8", "replace").splitlines(), ""
        # Some containers have a terminal in its place; reading would steal its input.
        if not stat.S_ISCHR(mode) or os.isatty(descriptor):
            return None, "it is not a log"
        return [record.split(b"\n", 1)[0].decode("utf-8", "replace") for record in records(descriptor)], ""
    except OSError as error:
        return None, error.strerror or str(error)
    finally:
        os.close(descriptor)


def _buffer_text(record: str) -> str | None:
    """The text of ``6,339,5140900,-;text``; None for an annotation, which begins with a blank."""
    numbers, separator, text = record.partition(";")
    return text if separator and numbers[:1].isdigit() else None


def _file_text(line: str, path: str) -> str | None:
    """The text without date, host and time stamp; None for other programs' lines in a syslog file."""
    text, count = re.subn(_PREFIX, "", line, count=1)
    if not count and path != "/var/log/dmesg":
        return None
    return re.sub(_STAMP, "", text)


def _since_boot(lines: list[str]) -> list[str]:
    """The lines since the last boot."""
    starts = [number for number, line in enumerate(lines) if re.match(_BOOT, line)]
    return lines[starts[-1] :] if starts else lines


def select_lines(lines: Iterable[str]) -> list[str]:
    """The newest distinct lines that concern the driver; decisive ones are not displaced by others."""
    kept: dict[str, None] = {}
    for line in lines:
        small = line.lower()
        if any(mark in small for mark in _RELEVANT) and not any(mark in small for mark in _IDENTIFYING):
            text = line[:_LONGEST]
            kept.pop(text, None)
            kept[text] = None
    found = list(kept)
    decisive = [line for line in found if re.search(_DECISIVE, line)][-_MOST_DECISIVE:]
    others = [line for line in found if line not in decisive]
    room = _MOST - len(decisive)
    selected = {*decisive, *others[-room:]}
    return [line for line in found if line in selected]


def uname(_: str) -> dict[str, object]:
    """The kernel's name, release and machine."""
    system = os.uname()
    return {"os": system.sysname.lower(), "kernel": system.release, "arch": system.machine}


FACTS: dict[str, Callable[[str], object]] = {
    "uname": uname,
    "distribution": distribution,
    "container": container,
    "sandbox": sandbox,
    "wsl": is_wsl,
    "tegra": tegra,
    "secure_boot": secure_boot,
    "lockdown": lockdown,
    "module_signatures": module_signatures,
    # ostree(1) and rpm-ostree look there too.
    "image": lambda root: "ostree" if exists(root, "/run/ostree-booted") else None,
    "suspends": suspends,
    "overcommit": overcommit,
    "address_limit": lambda _: address_limit(),
    "device_nodes": device_nodes,
    "pci_gpus": pci_gpus,
    "toolkits": toolkits,
    "pointing_nowhere": pointing_nowhere,
    "modules": modules,
    "module_files": module_files,
    "module_blocks": module_blocks,
    "module_options": module_options,
    "uninstaller": lambda root: _UNINSTALLER if exists(root, _UNINSTALLER) else None,
    "dkms": dkms,
    "libraries": libraries,
    "amd_nodes": amd_nodes,
    "rocm": rocm,
    "device_rules": device_rules,
    "cdi_files": cdi_files,
    "engine": engine,
    "container_toolkit": container_toolkit,
    "mounted_requests": mounted_requests,
    "mps": mps_daemon,
    "kernel_log": kernel_log,
    # The driver's own files come last, since reading them can hang; earlier facts are kept.
    "sys_version": lambda root: read_value(root, "/sys/module/nvidia/version"),
    "proc_version": lambda root: read_value(root, "/proc/driver/nvidia/version"),
    "driver_params": driver_params,
    "driver_gpus": driver_gpus,
}


def main() -> None:
    """Prints every fact; an error in one does not affect the others."""
    root = sys.argv[1].rstrip("/")
    for key, read_fact in FACTS.items():
        try:
            emit(key, read_fact(root))
        except (OSError, ValueError, RecursionError) as error:
            emit("failed", {key: f"{type(error).__name__}: {error}"})
    emit("done", True)
