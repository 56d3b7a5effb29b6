"""What contains this process, and what gives containers their GPUs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache

from telling import exists, is_folder, names, read, word

_WHOLE = 8_000_000  # bytes
_CONTAINER_ROOTS = ("overlay", "fuse-overlayfs", "9p")  # gVisor's root is 9p
_MOST_CDI, _MOST_DEVICES, _MOST_RULES = 32, 256, 64
_NVIDIA_MAJOR = (
    "195"  # Linux, Documentation/admin-guide/devices.txt; the other majors are given when the driver is loaded
)
_DOCKER = ("/usr/bin/docker", "/usr/local/bin/docker", "/snap/bin/docker")
# nvidia-container-toolkit, packaging: the first since 1.9, the others before.
_TOOLKIT_PROGRAMS = ("nvidia-ctk", "nvidia-container-runtime-hook", "nvidia-container-toolkit", "nvidia-container-cli")
_TOOLKIT_PACKAGE = "nvidia-container-toolkit"


def container(root: str, environment: Mapping[str, str]) -> str:
    """The kind of container this process is in, by the marks that each engine leaves."""
    control_groups = read(root, "/proc/1/cgroup") or ""
    root_type, mounted, _ = mounts(root)
    named = environment.get("container") or word(root, "/run/systemd/container") or ""
    named = "" if named == "wsl" else named  # what systemd calls WSL
    signs = (
        (
            "kubernetes",
            "KUBERNETES_SERVICE_HOST" in environment or "kubepods" in control_groups or "/kubelet/pods/" in mounted,
        ),
        ("apptainer", "APPTAINER_CONTAINER" in environment or "SINGULARITY_CONTAINER" in environment),
        (
            "podman",
            exists(root, "/run/.containerenv") or named == "podman" or "/containers/storage/" in mounted,
        ),
        (
            "docker",
            exists(root, "/.dockerenv") or "/docker" in control_groups or "/docker/containers/" in mounted,
        ),
        ("lxc", named == "lxc" or "/lxc" in control_groups),
        ("systemd-nspawn", named == "systemd-nspawn"),
        ("other", exists(root, "/.flatpak-info")),
        ("other", bool(named) or "/containerd/" in mounted or (root_type in _CONTAINER_ROOTS and not is_booted(root))),
    )
    return next((name for name, seen in signs if seen), "none")


def is_booted(root: str) -> bool:
    """Whether an init system runs here, as on a diskless or live host, whose root is an overlay too."""
    return word(root, "/proc/1/comm") in ("systemd", "init")


@lru_cache(1)
def mounts(root: str) -> tuple[str, str, frozenset[str] | None]:
    """The type of the root file system, where the files come from that engines mount over an image's, and all points.

    The mount points of a host that runs containers are not looked at for its kind: they name them too.
    """
    text = read(root, "/proc/self/mountinfo", _WHOLE)
    root_type, origins, points = "", [], set()
    for line in (text or "").splitlines():
        fields, _, rest = line.partition(" - ")
        place = fields.split(" ")
        if len(place) <= 4:  # noqa: PLR2004 - the mount point is the fifth field: proc_pid_mountinfo(5)
            continue
        points.add(place[4])
        if place[4] == "/":
            root_type = rest.split(" ")[0]
        elif place[4] in ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf"):
            origins.append(place[3])
    return root_type, " ".join(origins), frozenset(points) if points else None


def device_rules(root: str, environment: Mapping[str, str]) -> dict[str, object]:
    """The rules of this process's control group for NVIDIA's devices, as version 1 shows them.

    Linux, Documentation/admin-guide/cgroup-v1/devices.rst; version 2 has none to read (cgroup-v2.rst, Device
    controller).
    """
    groups = read(root, "/proc/self/cgroup") or ""
    own = re.search(r"^\d+:(?:[\w=]+,)*devices(?:,[\w=]+)*:(/.*)$", groups, re.MULTILINE)
    folder = "/sys/fs/cgroup/devices"
    # Inside a container the path is often the host's, while the mount begins at the container's own group.
    places = [f"{folder}{own[1].rstrip('/')}/devices.list"] if own else []
    places += [f"{folder}/devices.list"] if container(root, environment) != "none" else []
    text = next((found for found in (read(root, path) for path in places) if found is not None), None)
    if text is not None:
        return {"rules": [line for line in text.splitlines() if _concerns(line, _majors(root))][:_MOST_RULES]}
    if exists(root, "/sys/fs/cgroup/cgroup.controllers") or re.search(r"^0::", groups, re.MULTILINE):
        return {"reason": "control groups of version 2 keep their rules in a BPF program, which cannot be read"}
    return {"reason": "no control group for devices is to be seen"}


def _majors(root: str) -> set[str]:
    """The numbers of the driver's kinds of devices."""
    listed = re.findall(r"^ *(\d+) nvidia", read(root, "/proc/devices") or "", re.MULTILINE)
    return {_NVIDIA_MAJOR, *listed}


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
    """The kind and the devices' names by their lines: to read all of YAML would take a library."""
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
    """Docker's program, and what its configuration says of runtimes (Docker, dockerd: daemon configuration file)."""
    content = _json(read(root, "/etc/docker/daemon.json", 1_000_000) or "")
    runtimes, default = content.get("runtimes"), content.get("default-runtime")
    return {
        "program": next((path for path in _DOCKER if exists(root, path)), None),
        "configured": exists(root, "/etc/docker/daemon.json"),
        "runtimes": sorted(runtimes) if isinstance(runtimes, dict) else None,
        "default_runtime": default if isinstance(default, str) else None,
    }


def container_toolkit(root: str) -> dict[str, object]:
    """The release of the NVIDIA container toolkit by Debian's list of packages, which is read only where it has one."""
    there = any(exists(root, f"/usr/bin/{name}") for name in _TOOLKIT_PROGRAMS)
    if exists(root, f"/var/lib/dpkg/info/{_TOOLKIT_PACKAGE}.list"):
        listed = read(root, "/var/lib/dpkg/status", 16_000_000) or ""
        entry = re.search(rf"^Package: {_TOOLKIT_PACKAGE}\n((?:\S.*\n| .*\n)*)", listed, re.MULTILINE)
        release = re.search(r"^Version: *(\S+)", entry[1], re.MULTILINE) if entry else None
        return {"there": there, "release": release[1] if release else None}
    return {"there": there, "release": None}


def mounted_requests(root: str) -> list[str]:
    """The devices that were asked for by mounts, which the NVIDIA container toolkit reads in place of a variable.

    NVIDIA Container Toolkit, configuration: accept-nvidia-visible-devices-as-volume-mounts.
    """
    return names(root, "/var/run/nvidia-container-devices")[:_MOST_DEVICES]


def mps_daemon(root: str, environment: Mapping[str, str]) -> dict[str, object]:
    """Whether a control daemon of MPS has left its pipe where clients look for it.

    NVIDIA, Multi-Process Service, CUDA_MPS_PIPE_DIRECTORY: the default is /tmp/nvidia-mps.
    """
    told = environment.get("CUDA_MPS_PIPE_DIRECTORY")
    folder = told or "/tmp/nvidia-mps"  # noqa: S108 - the documented place
    return {
        "folder": folder,
        "told": bool(told),
        "daemon": is_folder(root, folder) and exists(root, f"{folder}/control"),
    }
