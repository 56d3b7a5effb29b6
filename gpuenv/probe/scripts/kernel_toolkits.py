"""The CUDA toolkits on the host, by what their own files say."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping

from telling import exists, is_folder, names, place, read, real

_VARIABLES = ("CUDA_PATH", "CUDA_HOME")
_PARTS = ("", "/targets/x86_64-linux", "/targets/sbsa-linux")
# Debian's own toolkit is in /usr, with libnvrtc.so.11.2 in the second of these (package libnvrtc11.2 of Debian 12).
_LIBRARIES = ("/lib64", "/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", *(f"{part}/lib" for part in _PARTS))
_MOST_TOOLKITS = 32
_LARGEST = 131_072  # bytes; the version stands near the beginning of a header of a million bytes


def toolkits(root: str, environment: Mapping[str, str]) -> list[dict[str, object]]:
    """Every CUDA toolkit in the default folders, on PATH and in the variables."""
    found: dict[str, dict[str, object]] = {}
    for via, path in _places(root, environment):
        folder = real(root, path)
        if folder not in found and is_folder(root, folder):
            found[folder] = {"path": folder, "found_via": via, **_toolkit(root, folder)}
    # A compiler without anything to compile with is a wrapper of somebody's.
    told = [entry for entry in found.values() if entry["toolkit"] or (entry["nvcc"] and entry["has_headers"])]
    return told[:_MOST_TOOLKITS]


def _places(root: str, environment: Mapping[str, str]) -> list[tuple[str, str]]:
    places = [(name, environment[name]) for name in _VARIABLES if environment.get(name)]
    compilers = [f"{folder}/nvcc" for folder in environment.get("PATH", "").split(os.pathsep) if folder]
    there = [real(root, path) for path in compilers if os.access(place(root, path), os.X_OK)]
    places += [("PATH", os.path.dirname(os.path.dirname(path))) for path in there]
    places += [("folder", "/usr/local/cuda")]
    places += [("folder", f"/usr/local/{name}") for name in names(root, "/usr/local", begin="cuda-")]
    return places + [("folder", path) for path in ("/opt/cuda", "/usr/lib/cuda", "/usr/lib/nvidia-cuda-toolkit")]


def pointing_nowhere(root: str, environment: Mapping[str, str]) -> list[str]:
    """The variables that name a toolkit's folder where there is none."""
    return [name for name in _VARIABLES if environment.get(name) and not is_folder(root, environment[name])]


def _toolkit(root: str, path: str) -> dict[str, object]:
    """Version and parts of the toolkit in a folder; the first version is that of the most trusted file."""
    headers = [f"{path}{part}/include" for part in _PARTS]
    versions = _versions(root, path, headers)
    nvcc = place(root, f"{path}/bin/nvcc")
    return {
        "toolkit": versions[0][1] if versions else None,
        "source": versions[0][0] if versions else None,
        "others": dict(versions[1:]),
        "nvcc": os.path.isfile(nvcc) and os.access(nvcc, os.X_OK),
        "has_nvrtc": any(names(root, folder, begin="libnvrtc.so") for folder in (path + part for part in _LIBRARIES)),
        "has_headers": any(exists(root, folder + "/cuda_runtime.h") for folder in headers),
    }


def _versions(root: str, path: str, headers: list[str]) -> list[tuple[str, str]]:
    """What the toolkit's own version file, its header and its version text of old say, in this order of trust."""
    told = []
    try:
        content = json.loads(read(root, path + "/version.json", _LARGEST) or "{}")
    except (ValueError, RecursionError):
        content = None
    entry = content.get("cuda") if isinstance(content, dict) else None
    if isinstance(entry, dict) and isinstance(entry.get("version"), str):
        told.append(("version.json", entry["version"]))
    for folder in headers:
        match = re.search(
            r"^#define\s+CUDA_VERSION\s+(\d{4,6})\b", read(root, folder + "/cuda.h", _LARGEST) or "", re.MULTILINE
        )
        if match:
            told.append(("cuda.h", f"{int(match[1]) // 1000}.{int(match[1]) % 1000 // 10}"))
            break
    match = re.search(r"CUDA Version (\d+\.\d+)", read(root, path + "/version.txt") or "")
    return told + ([("version.txt", match[1])] if match else [])
