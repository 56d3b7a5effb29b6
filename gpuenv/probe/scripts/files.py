"""Whether the files of CuPy and of CUDA distributions are as they were installed, and the toolkits in the target.

A child of its own, since it looks at some ten thousand files while the libraries are loaded. It is told one line of
JSON on standard input: ``path``, the folders that the target's interpreter imports from, ``prefixes``, those of its
environment, ``place``, device and number of the first as the target sees it, and ``deep``, whether the digests of the
files are wanted too. What RECORD says is not believed: no path leads out of the environment, and nothing but a plain
file of the size told is read.
"""

from __future__ import annotations

import csv
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence

from shared import tell

_OWNERS = re.compile(r"(cupy|numpy|nvidia|cuda|cutensor|cuquantum|custatevec)", re.IGNORECASE)
_RECORD_LIMIT, _HEADER_LIMIT = 30_000_000, 4_000_000  # bytes
_COLUMNS = 3  # path, digest, size
_TOLD = 50
_ORDER = ("missing", "unreadable", "wrong-size", "changed", "owned-twice")

_Owner = tuple[str, str, int, bool]  # distribution, digest, size, and whether the size is to be believed


def is_here(prefixes: Sequence[str], place: Sequence[int]) -> bool:
    """Whether the target's environment is what lies here under its name: a container has a file system of its own."""
    if not prefixes or not place:
        return True
    try:
        found = os.stat(prefixes[0])
    except OSError:
        return False
    return [found.st_dev, found.st_ino] == list(place)


def names_in(folder: str) -> list[str]:
    """What is in a folder, in order; nothing where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def records(folders: Sequence[str]) -> Iterator[tuple[str, str, str, str]]:
    """Name, folder, installer and metadata of each distribution whose files are looked at."""
    for folder in folders:
        for name in names_in(folder):
            if name.endswith(".dist-info") and _OWNERS.match(name):
                path = os.path.join(folder, name)
                if os.path.isfile(os.path.join(path, "RECORD")):
                    metadata = text_of(os.path.join(path, "METADATA"), 100000)
                    found = re.search(r"^Name: *(\S+)", metadata, re.MULTILINE)
                    canonical = re.sub(r"[-_.]+", "-", found.group(1) if found else name.split("-")[0]).lower()
                    installer = text_of(os.path.join(path, "INSTALLER"), 200).split("\n", 1)[0].strip()
                    yield canonical, folder, installer, path


def text_of(path: str, limit: int) -> str:
    """The beginning of a plain file, or an empty text."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except OSError:
        return ""


def rows(path: str) -> Iterator[tuple[str, str, int]]:
    """Path, digest and size of each file that a RECORD names with a size."""
    text = text_of(os.path.join(path, "RECORD"), _RECORD_LIMIT)
    try:
        for row in csv.reader(line for line in text.splitlines() if "\0" not in line):
            if len(row) == _COLUMNS and row[2].isdigit():
                yield row[0], row[1], int(row[2])
    except (csv.Error, ValueError):  # a field or a number beyond all measure: what stood before it is told
        return


def within(path: str, folders: Sequence[str]) -> bool:
    """Whether a path, as it is written, lies in one of the folders."""
    return any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def gather(folders: Sequence[str], prefixes: Sequence[str]) -> dict[str, list[_Owner]]:
    """Every file with those that own it."""
    owned: dict[str, list[_Owner]] = {}
    for name, folder, installer, path in records(folders):
        # conda writes its prefix into text files, which changes their size, and leaves RECORD as it was
        sized = installer != "conda"
        for entry, digest, size in rows(path):
            full = folder + os.sep + entry if ".." not in entry else os.path.normpath(os.path.join(folder, entry))
            if not os.path.isabs(entry) and within(full, [*prefixes, folder]):
                owned.setdefault(full, []).append((name, digest, size, sized))
    return owned


def state_of(path: str, owners: Sequence[_Owner]) -> str | None:
    """What is wrong with a file, or None; ``owned-twice`` where two own it and only one can have its own."""
    try:
        found = os.stat(path)
    except PermissionError:  # a folder above it may not be entered: nobody knows
        return "unreadable"
    except (OSError, ValueError):
        return "missing"
    if len(owners) > 1 and quarrel(owners):
        return "owned-twice"
    if owners[0][3] and stat.S_ISREG(found.st_mode) and all(found.st_size != size for _, _, size, _ in owners):
        return "wrong-size"
    return None


def quarrel(owners: Sequence[_Owner]) -> bool:
    """Whether distributions of different names claim a file: with other contents, or as two CuPys."""
    names = {name for name, _, _, _ in owners}
    differ = len({digest for _, digest, _, _ in owners}) > 1
    return len(names) > 1 and (differ or all(name.startswith("cupy") for name in names))


def is_changed(path: str, owners: Sequence[_Owner], folders: Sequence[str]) -> bool:
    """Whether a file's digest is none of those that its owners tell."""
    told = [digest[len("sha256=") :] for _, digest, _, sized in owners if sized and digest.startswith("sha256=")]
    try:
        if not told or not within(os.path.realpath(path), folders) or not stat.S_ISREG(os.stat(path).st_mode):
            return False
        digest = digest_of(path, max(size for _, _, size, _ in owners))
    except OSError:
        return False
    return digest not in told


def digest_of(path: str, size: int) -> str:
    """SHA-256 as RECORD writes it, of as many bytes as the file shall have."""
    import base64
    import hashlib  # its library of cryptography takes 5 ms to load

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


def tell_faults(states: Mapping[str, str], owned: Mapping[str, list[_Owner]]) -> None:
    """The gravest first, at most fifty, and how many there are."""
    ordered = sorted(states, key=lambda path: (_ORDER.index(states[path]), path))
    faults = [
        {"path": path, "state": states[path], "distributions": sorted({name for name, _, _, _ in owned[path]})}
        for path in ordered[:_TOLD]
    ]
    tell("file_faults", faults)
    tell("file_faults_count", len(states))


def look_at_files(folders: Sequence[str], prefixes: Sequence[str], *, deep: bool) -> None:
    """Every file's size; and its digest, where that is asked for."""
    owned = gather(folders, prefixes)
    found = {path: state for path, owners in owned.items() if (state := state_of(path, owners))}
    tell_faults(found, owned)  # the digests of some gigabytes may outlast the deadline
    if deep:
        whole = [path for path in owned if path not in found]
        changed = [path for path in whole if is_changed(path, owned[path], [*prefixes, *folders])]
        tell_faults(found | dict.fromkeys(changed, "changed"), owned)


def toolkits(folders: Sequence[str], prefix: str | None) -> list[dict[str, object]]:
    """The CUDA toolkits that conda or wheels have put into the target."""
    found = []
    for folder in folders:
        nvidia = os.path.join(folder, "nvidia")
        unified = [os.path.join(nvidia, name) for name in names_in(nvidia) if re.match(r"cu\d\d$", name)]
        found += [toolkit(place, "wheels", [place]) for place in unified]
        parts = [os.path.join(nvidia, name) for name in ("cuda_nvrtc", "cuda_runtime")]
        if any(os.path.isdir(part) for part in parts):
            found.append(toolkit(nvidia, "wheels", parts))
    if prefix is not None and os.path.isdir(os.path.join(prefix, "conda-meta")):
        targets = os.path.join(prefix, "targets")
        places = [prefix] + [os.path.join(targets, name) for name in names_in(targets)]
        found.append(toolkit(prefix, "conda", places))
    return [entry for entry in found if entry["has_nvrtc"] or entry["has_headers"]]


def toolkit(path: str, found_via: str, places: Sequence[str]) -> dict[str, object]:
    """A toolkit by its headers and its NVRTC, which may lie in several places."""
    headers = (os.path.join(place, "include", "cuda_runtime_api.h") for place in places)
    header = next(filter(os.path.isfile, headers), None)
    defined = r"^\s*#\s*define\s+CUDART_VERSION\s+(\d{4,6})\b"
    number = re.search(defined, text_of(header, _HEADER_LIMIT), re.MULTILINE) if header else None
    libraries = [name for place in places for name in names_in(os.path.join(place, "lib"))]
    return {
        "path": path,
        "found_via": found_via,
        "toolkit": "%d.%d" % divmod(int(number.group(1)) // 10, 100) if number else None,
        "source": header,
        "has_nvrtc": any(name.startswith("libnvrtc.so") for name in libraries),
        "has_headers": header is not None,
    }


def main() -> None:
    """Tells the toolkits, then the files."""
    line = sys.stdin.readline().strip()
    if not line:  # nobody wants to know
        return
    asked = json.loads(line)
    if not is_here(asked["prefixes"], asked["place"]):
        sys.stderr.write("the target sees another file system: its folders are not here, or are others\n")
        sys.exit(1)
    real = dict.fromkeys(os.path.realpath(entry or ".") for entry in asked["path"])
    folders = [folder for folder in real if os.path.isdir(folder)]
    given: list[str] = asked["prefixes"]
    tell("toolkits", toolkits(folders, given[0] if given else None))
    look_at_files(folders, [os.path.realpath(entry) for entry in given], deep=asked["deep"])
    tell("done", True)
