"""The distributions of a target, each name once a folder, and the metadata that were left there; nothing is imported.

Standard library only, and only syntax that old Pythons parse: ``interpreter.py`` imports it from beside itself.
"""

import os
import re

from interpreter_packages import metadata_folders, read, required
from interpreter_places import of_the_files, places


def distributions():
    """Name, version, place and installer of every distribution that has to do with GPUs."""
    place = places()
    found = []
    for entries in by_name():
        kept = of_the_files(entries)[0] if len(entries) > 1 else entries[0]
        if kept["release"] is None:
            continue
        folder, head = kept["path"], kept["head"]
        location = os.path.dirname(folder)
        found.append(
            {
                "name": kept["name"],
                "release": kept["release"],
                "location": location,
                "installer": read(os.path.join(folder, "INSTALLER")).strip() or None,
                "tags": re.findall(r"^Tag: *(\S+)", read(os.path.join(folder, "WHEEL")), re.M),
                "requires": required(head) if kept["name"].startswith("cupy") else [],
                "place": place(location, kept["name"]) if kept["name"].startswith("cupy") else None,
            }
        )
    return found


def left_metadata():
    """The metadata that are of no files there: a second one of a name in one folder, or one that tells no name."""
    found = []
    for entries in by_name():
        kept = of_the_files(entries)[0] if len(entries) > 1 else entries[0]
        found.extend(entry for entry in entries if entry is not kept or entry["release"] is None)
    return [
        {"path": entry["path"], "name": entry["name"], "release": entry["release"], "has_files": has_files(entry)}
        for entry in found
    ]


def has_files(entry):
    """Whether a package lies beside metadata of CuPy's, be it links to nowhere."""
    module = os.path.join(os.path.dirname(entry["path"]), "cupy", "__init__.py")
    return entry["name"].startswith("cupy") and os.path.lexists(module)


def by_name():
    """The metadata of each name in each folder, in the order in which imports would meet them."""
    groups = []
    known = {}
    for folder in metadata_folders():
        head = read(os.path.join(folder, "METADATA")) or read(os.path.join(folder, "PKG-INFO")) or read(folder)
        head = head.split("\n\n", 1)[0]
        name = re.search(r"^Name: *(\S+)", head, re.M)
        release = re.search(r"^Version: *(\S+)", head, re.M)
        whole = bool(name and release)
        spelt = name.group(1) if whole else os.path.basename(folder).split("-")[0]
        entry = {
            "path": folder,
            "name": re.sub(r"[-_.]+", "-", spelt).lower(),
            "release": release.group(1) if whole else None,
            "head": head,
        }
        key = (os.path.dirname(folder), entry["name"])
        if key not in known:
            known[key] = []
            groups.append(known[key])
        known[key].append(entry)
    return groups
