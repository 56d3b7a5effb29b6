"""Compares the files of CuPy and CUDA distributions with RECORD, and finds the toolkits in the target.

A child of its own, since it checks some ten thousand files while the libraries are loaded. It reads one line of JSON
from standard input: ``path``, the folders that the target's interpreter imports from; ``prefixes``, those of its
environment; ``identity``, device and inode of the first as the target sees it; and ``deep``, whether to compute digests
too. RECORD is not trusted: no path leads out of the environment, and only regular files are read, up to their recorded
size.
"""

from __future__ import annotations

import csv
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence

from shared import emit
from target_shared import names_in, read

_OWNERS = re.compile(r"(cupy|numpy|nvidia|cuda|cutensor|cuquantum|custatevec)", re.IGNORECASE)
_RECORD_LIMIT, _HEADER_LIMIT = 30_000_000, 4_000_000  # bytes
_COLUMNS = 3  # path, digest, size
_MOST_FAULTS = 50
_ORDER = ("missing", "unreadable", "wrong-size", "changed", "owned-twice")

_Owner = tuple[str, str, int, bool]  # distribution, digest, size, whether the size is reliable


def is_same_folder(prefixes: Sequence[str], identity: Sequence[int]) -> bool:
    """Whether this process sees the target's environment under the same path: the target may be in a container."""
    if not prefixes or not identity:
        return True
    try:
        found = os.stat(prefixes[0])
    except OSError:
        return False
    return [found.st_dev, found.st_ino] == list(identity)


def records(folders: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """Yields name, folder, installer and metadata folder of each distribution to check."""
    for folder in folders:
        for name in names_in(folder):
            if name.endswith(".dist-info") and _OWNERS.match(name):
                path = os.path.join(folder, name)
                if os.path.isfile(os.path.join(path, "RECORD")):
                    metadata = read(os.path.join(path, "METADATA"), 100000)
                    found = re.search(r"^Name: *(\S+)", metadata, re.MULTILINE)
                    canonical = re.sub(r"[-_.]+", "-", found.group(1) if found else name.split("-")[0]).lower()
                    installer = read(os.path.join(path, "INSTALLER"), 200).split("\n", 1)[0].strip()
                    yield canonical, folder, installer, path


def rows(path: str) -> Iterator[tuple[str, str, int]]:
    """Yields path, digest and size of each RECORD entry that has a size."""
    text = read(os.path.join(path, "RECORD"), _RECORD_LIMIT)
    try:
        for row in csv.reader(line for line in text.splitlines() if "\0" not in line):
            if len(row) == _COLUMNS and row[2].isdigit():
                yield row[0], row[1], int(row[2])
    except (csv.Error, ValueError):  # a field or a number that is too long: earlier entries are kept
        return


def within(path: str, folders: Sequence[str]) -> bool:
    """Whether a path lies in one of the folders, without following links."""
    return any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def gather(folders: Sequence[str], prefixes: Sequence[str]) -> dict[str, list[_Owner]]:
    """Maps every recorded file to its owners."""
    owned: dict[str, list[_Owner]] = {}
    for name, folder, installer, path in records(folders):
        # conda writes its prefix into text files, which changes their size, and does not update RECORD
        sized = installer != "conda"
        for entry, digest, size in rows(path):
            full = folder + os.sep + entry if ".." not in entry else os.path.normpath(os.path.join(folder, entry))
            if not os.path.isabs(entry) and within(full, [*prefixes, folder]):
                owned.setdefault(full, []).append((name, digest, size, sized))
    return owned


def state_of(path: str, owners: Sequence[_Owner]) -> str | None:
    """What is wrong with a file, or None; ``owned-twice`` if its owners conflict."""
    try:
        found = os.stat(path)
    except PermissionError:  # a parent folder may not be entered
        return "unreadable"
    except (OSError, ValueError):
        return None if is_namespace(path, owners) else "missing"
    if len(owners) > 1 and conflict(owners):
        return "owned-twice"
    if owners[0][3] and stat.S_ISREG(found.st_mode) and all(found.st_size != size for _, _, size, _ in owners):
        return "wrong-size"
    return None


def is_namespace(path: str, owners: Sequence[_Owner]) -> bool:
    """Whether it is an empty __init__.py that NVIDIA's wheels share.

    Uninstalling one of them removes it; Python then imports the folder as a namespace package.
    """
    parts = path.split(os.sep)
    return parts[-1] == "__init__.py" and "nvidia" in parts[-3:-1] and any(size == 0 for _, _, size, _ in owners)


def conflict(owners: Sequence[_Owner]) -> bool:
    """Whether distributions of different names own a file: with different contents, or as two CuPys."""
    names = {name for name, _, _, _ in owners}
    differ = len({digest for _, digest, _, _ in owners}) > 1
    return len(names) > 1 and (differ or all(name.startswith("cupy") for name in names))


def is_changed(path: str, owners: Sequence[_Owner], folders: Sequence[str]) -> bool:
    """Whether a file's digest differs from all recorded ones."""
    recorded = [digest[len("sha256=") :] for _, digest, _, sized in owners if sized and digest.startswith("sha256=")]
    try:
        if not recorded or not within(os.path.realpath(path), folders) or not stat.S_ISREG(os.stat(path).st_mode):
            return False
        digest = digest_of(path, max(size for _, _, size, _ in owners))
    except OSError:
        return False
    return digest not in recorded


def digest_of(path: str, size: int) -> str:
    """SHA-256 in RECORD's form, of the recorded number of bytes."""
    import base64
    import hashlib  # loads OpenSSL, which takes 5 ms

    digest = hashlib.sha256()
    left = size
    with open(path, "rb") as file:
        while left > 0:
            chunk = file.read(min(left, 1 << 20))
            if not chunk:
                break
            digest.update(chunk)
            left -= len(chunk)
    return base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode("ascii")


def emit_faults(states: Mapping[str, str], owned: Mapping[str, list[_Owner]]) -> None:
    """Prints at most fifty faults, the most severe first, and their number."""
    ordered = sorted(states, key=lambda path: (_ORDER.index(states[path]), path))
    faults = [
        {"path": path, "state": states[path], "distributions": sorted({name for name, _, _, _ in owned[path]})}
        for path in ordered[:_MOST_FAULTS]
    ]
    emit("file_faults", faults)
    emit("file_faults_count", len(states))


def check_files(folders: Sequence[str], prefixes: Sequence[str], *, deep: bool) -> None:
    """Checks the size of every file and, if ``deep``, its digest."""
    owned = gather(folders, prefixes)
    found = {path: state for path, owners in owned.items() if (state := state_of(path, owners))}
    emit_faults(found, owned)  # digests of gigabytes may exceed the deadline
    if deep:
        intact = [path for path in owned if path not in found]
        changed = [path for path in intact if is_changed(path, owned[path], [*prefixes, *folders])]
        emit_faults(found | dict.fromkeys(changed, "changed"), owned)


def toolkits(folders: Sequence[str], prefix: str | None) -> list[dict[str, object]]:
    """The CUDA toolkits installed in the target by conda or as wheels."""
    found = []
    for folder in folders:
        nvidia = os.path.join(folder, "nvidia")
        unified = [os.path.join(nvidia, name) for name in names_in(nvidia) if re.match(r"cu\d\d$", name)]
        found += [toolkit(path, "wheels", [path]) for path in unified]
        parts = [os.path.join(nvidia, name) for name in ("cuda_nvrtc", "cuda_runtime")]
        if any(os.path.isdir(part) for part in parts):
            found.append(toolkit(nvidia, "wheels", parts))
    if prefix is not None and os.path.isdir(os.path.join(prefix, "conda-meta")):
        targets = os.path.join(prefix, "targets")
        roots = [prefix] + [os.path.join(targets, name) for name in names_in(targets)]
        found.append(toolkit(prefix, "conda", roots))
    return [entry for entry in found if entry["has_nvrtc"] or entry["has_headers"]]


def toolkit(path: str, found_via: str, roots: Sequence[str]) -> dict[str, object]:
    """A toolkit by its headers and its NVRTC, which may lie below several folders."""
    headers = (os.path.join(root, "include", "cuda_runtime_api.h") for root in roots)
    header = next(filter(os.path.isfile, headers), None)
    defined = r"^\s*#\s*define\s+CUDART_VERSION\s+(\d{4,6})\b"
    number = re.search(defined, read(header, _HEADER_LIMIT), re.MULTILINE) if header else None
    libraries = [name for root in roots for name in names_in(os.path.join(root, "lib"))]
    return {
        "path": path,
        "found_via": found_via,
        "toolkit": "%d.%d" % divmod(int(number.group(1)) // 10, 100) if number else None,
        "source": header,
        "has_nvrtc": any(name.startswith("libnvrtc.so") for name in libraries),
        "has_headers": header is not None,
    }


def main() -> None:
    """Prints the toolkits, then the file faults."""
    line = sys.stdin.readline().strip()
    if not line:  # the target gave no folders
        return
    request = json.loads(line)
    if not is_same_folder(request["prefixes"], request["identity"]):
        sys.stderr.write("the target sees another file system: its folders are missing here, or differ\n")
        sys.exit(1)
    real = dict.fromkeys(os.path.realpath(entry or ".") for entry in request["path"])
    folders = [folder for folder in real if os.path.isdir(folder)]
    prefixes: list[str] = request["prefixes"]
    emit("toolkits", toolkits(folders, prefixes[0] if prefixes else None))
    check_files(folders, [os.path.realpath(entry) for entry in prefixes], deep=request["deep"])
    emit("done", True)
