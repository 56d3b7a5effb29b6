"""Whether the files of CuPy and of CUDA distributions are as they were installed, and the toolkits in the target.

Run in the target's interpreter: ``files.py DEEP``; with ``deep`` their digests are computed too. Standard library only,
old syntax; a child of its own, since it looks at some ten thousand files while the libraries are loaded. What RECORD
says is not believed: no path leads out of the environment, and nothing but a plain file of the size told is read.
"""

import base64
import csv
import hashlib
import json
import os
import re
import stat
import sys

OWNERS = re.compile(r"(cupy|numpy|nvidia|cuda|cutensor|cuquantum|custatevec)", re.I)
RECORD_LIMIT = 30000000
COLUMNS = 3  # path, digest, size
TOLD = 50
ORDER = ("missing", "wrong-size", "changed", "owned-twice")


def tell(key, value):
    """Prints one fact at once, so that it survives whatever happens to this process next."""
    sys.stdout.write("gpuenv:" + json.dumps({key: value}) + "\n")
    sys.stdout.flush()


def site_folders():
    """Every folder on the path, each once."""
    seen = []
    for entry in sys.path:
        folder = os.path.realpath(entry or ".")
        if folder not in seen and os.path.isdir(folder):
            seen.append(folder)
    return seen


def names_in(folder):
    """What is in a folder, in order; nothing where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except (IOError, OSError):
        return []


def records():
    """Name, folder, installer and RECORD of each distribution whose files are looked at."""
    for folder in site_folders():
        for name in names_in(folder):
            if name.endswith(".dist-info") and OWNERS.match(name):
                path = os.path.join(folder, name)
                if os.path.isfile(os.path.join(path, "RECORD")):
                    yield distribution_name(path), folder, first_line(os.path.join(path, "INSTALLER")), path


def distribution_name(path):
    """The canonical name, as the metadata spells it."""
    found = re.search(r"^Name: *(\S+)", text_of(os.path.join(path, "METADATA"), 100000), re.M)
    name = found.group(1) if found else os.path.basename(path).split("-")[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def text_of(path, limit):
    """The beginning of a plain file, or an empty text."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return ""
        with open(path, "rb") as file:
            return file.read(limit).decode("utf-8", "replace")
    except (IOError, OSError):
        return ""


def first_line(path):
    """The first line of a small file."""
    return (text_of(path, 200).split("\n") or [""])[0].strip()


def rows(path):
    """Path, digest and size of each file that a RECORD names with a size."""
    text = text_of(os.path.join(path, "RECORD"), RECORD_LIMIT)
    if sys.version_info[0] == 2:
        text = text.encode("utf-8")
    reader = csv.reader([line for line in text.splitlines() if "\0" not in line])
    try:
        for row in reader:
            if len(row) == COLUMNS and row[2].isdigit():
                yield row[0], row[1], int(row[2])
    except csv.Error:  # a field beyond all measure: what stood before it is told
        return


def within(path, folders):
    """Whether a path, as it is written, lies in one of the folders."""
    return any(path.startswith(folder.rstrip(os.sep) + os.sep) for folder in folders)


def gather():
    """Every file with those that own it: path to (distribution, digest, size, whether the size is to be believed)."""
    prefixes = [os.path.realpath(sys.prefix), os.path.realpath(sys.exec_prefix)]
    owned = {}
    for name, folder, installer, path in records():
        # conda writes its prefix into text files, which changes their size, and leaves RECORD as it was
        sized = installer != "conda"
        for entry, digest, size in rows(path):
            full = folder + os.sep + entry if ".." not in entry else os.path.normpath(os.path.join(folder, entry))
            if not os.path.isabs(entry) and within(full, prefixes + [folder]):
                owned.setdefault(full, []).append((name, digest, size, sized))
    return owned


def state_of(path, owners):
    """What is wrong with a file, or None; ``owned-twice`` where two own it and only one can have its own."""
    try:
        found = os.stat(path)
    except (IOError, OSError, ValueError):
        return "missing"
    if len(owners) > 1 and quarrel(owners):
        return "owned-twice"
    if owners[0][3] and stat.S_ISREG(found.st_mode) and all(found.st_size != size for _, _, size, _ in owners):
        return "wrong-size"
    return None


def quarrel(owners):
    """Whether distributions of different names claim a file: with other contents, or as two CuPys."""
    names = {name for name, _, _, _ in owners}
    differ = len({digest for _, digest, _, _ in owners}) > 1
    return len(names) > 1 and (differ or all(name.startswith("cupy") for name in names))


def changed(path, owners):
    """Whether a file's digest is none of those that its owners tell."""
    told = [digest[len("sha256=") :] for _, digest, _, sized in owners if sized and digest.startswith("sha256=")]
    folders = [os.path.realpath(sys.prefix)] + site_folders()
    try:
        if not told or not within(os.path.realpath(path), folders) or not stat.S_ISREG(os.stat(path).st_mode):
            return False
        digest = digest_of(path, max(size for _, _, size, _ in owners))
    except (IOError, OSError):
        return False
    return digest not in told


def digest_of(path, size):
    """SHA-256 as RECORD writes it, of as many bytes as the file shall have."""
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


def tell_faults(faults):
    """The gravest first, at most fifty, and how many there are."""
    ordered = sorted(faults, key=lambda fault: (ORDER.index(fault["state"]), fault["path"]))
    tell("file_faults", ordered[:TOLD])
    tell("file_faults_count", len(faults))


def fault(path, state, owners):
    """A fault as it is told."""
    return {"path": path, "state": state, "distributions": sorted({name for name, _, _, _ in owners})}


def look_at_files(deep):
    """Every file's size; and its digest, where that is asked for."""
    owned = gather()
    states = [(path, state_of(path, owners)) for path, owners in owned.items()]
    faults = [fault(path, state, owned[path]) for path, state in states if state]
    tell_faults(faults)  # the digests of some gigabytes may outlast the deadline
    if deep:
        whole = [path for path, state in states if state is None]
        faults += [fault(path, "changed", owned[path]) for path in whole if changed(path, owned[path])]
        tell_faults(faults)


def toolkits():
    """The CUDA toolkits that conda or wheels have put into the target."""
    found = []
    for folder in site_folders():
        nvidia = os.path.join(folder, "nvidia")
        unified = [os.path.join(nvidia, name) for name in names_in(nvidia) if re.match(r"cu\d\d$", name)]
        found += [toolkit(place, "wheels", [place]) for place in unified]
        parts = [os.path.join(nvidia, name) for name in ("cuda_nvrtc", "cuda_runtime")]
        if any(os.path.isdir(part) for part in parts):
            found.append(toolkit(nvidia, "wheels", parts))
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        targets = os.path.join(sys.prefix, "targets")
        places = [sys.prefix] + [os.path.join(targets, name) for name in names_in(targets)]
        found.append(toolkit(sys.prefix, "conda", places))
    return [entry for entry in found if entry["has_nvrtc"] or entry["has_headers"]]


def toolkit(path, found_via, places):
    """A toolkit by its headers and its NVRTC, which may lie in several places."""
    header = next(
        iter(filter(os.path.isfile, [os.path.join(p, "include", "cuda_runtime_api.h") for p in places])), None
    )
    number = re.search(r"^\s*#\s*define\s+CUDART_VERSION\s+(\d+)", text_of(header, 4000000), re.M) if header else None
    libraries = [name for place in places for name in names_in(os.path.join(place, "lib"))]
    return {
        "path": path,
        "found_via": found_via,
        "toolkit": "%d.%d" % divmod(int(number.group(1)) // 10, 100) if number else None,
        "source": header,
        "has_nvrtc": any(name.startswith("libnvrtc.so") for name in libraries),
        "has_headers": header is not None,
    }


def main():
    """Tells the toolkits, then the files."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
    tell("toolkits", toolkits())
    look_at_files(sys.argv[1:] == ["deep"])
    tell("done", True)
