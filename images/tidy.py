"""Turns an installed environment into the tree that the image copies; the environment's Python runs it in the build.

    tidy.py ENVIRONMENT ROOT

* Removes what CuPy never loads, from the RECORDs too, so that every file in them exists; left-out.txt lists each
  removed file with its wheel. The other files stay as they are in the wheel, byte for byte.
* Compiles every module without a check at run time, so that neither a time nor a write is needed.
* Adds pip, Python, the packages of Debian or Ubuntu, and all licences to the bill of materials.
* Makes the user that the image runs as, and its home with the folder of the kernel cache, writable by every user.
* Gives the environment to that user and to group 0, so that pip in a later build, or in OpenShift, can extend it.
* Gives every file and folder the time SOURCE_DATE_EPOCH: each that the copy makes or touches is in the tree, so that
  builders that write down the time of a folder write down the same one each time.
"""

import compileall
import csv
import importlib.metadata
import json
import os
import platform
import py_compile
import re
import shutil
import stat
import sys
import urllib.parse
import uuid

USER = 10001
# No file of CuPy 13.6.0 or 14.2.0 names any of these (searched byte by byte), and the verification of an image passes
# without them. The static library that CuPy hands to the linker for relocatable code, libcudadevrt.a, stays.
UNUSED = re.compile(
    r"nvidia/[^/]+(/[^/]+)*/lib/(libnvrtc(-builtins)?\.alt\.so[.0-9]*|libcusolverMg\.so[.0-9]*|libnvblas\.so[.0-9]*"
    r"|libcufftw\.so[.0-9]*|lib(?!cudadevrt)\w+\.a)$|numpy/(\w+/)*tests/.*|numpy/\w+/lib/\w+\.a$"
)


def trim(packages):
    """Removes what is not used from a site-packages folder and its RECORDs; returns a line for each file."""
    removed = []
    for name in sorted(os.listdir(packages)):
        record = os.path.join(packages, name, "RECORD")
        if not name.endswith(".dist-info") or not os.path.exists(record):
            continue
        with open(record, newline="") as file:
            rows = list(csv.reader(file))
        kept = [row for row in rows if not UNUSED.match(row[0])]
        for row in rows:
            if row not in kept and os.path.exists(os.path.join(packages, row[0])):
                os.remove(os.path.join(packages, row[0]))
                removed.append("%s %s\n" % (name[: -len(".dist-info")], row[0]))
        if len(kept) < len(rows):
            with open(record, "w", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows(kept)
    for folder, _, _ in os.walk(packages, topdown=False):
        if not os.listdir(folder):
            os.rmdir(folder)
    return removed


def compile_all(environment):
    """Every module, by the folder that it will be imported from."""
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(environment, quiet=2, force=True, invalidation_mode=mode)


def complete(bill, packages, root):
    """Adds to a bill of materials what the lock does not name: pip, Python, the system's packages, and licences."""
    known = {part["bom-ref"]: part for part in bill.get("components", [])}
    found = [*python_parts(packages), *debian_parts(root)]
    for part in found:
        if part["bom-ref"] in known:
            known[part["bom-ref"]].update(part)
        else:
            known[part["bom-ref"]] = part
    bill["components"] = [known[ref] for ref in sorted(known)]
    of_image = {"ref": bill["metadata"]["component"]["bom-ref"], "dependsOn": sorted(known)}
    bill["dependencies"] = [of_image, *({"ref": ref} for ref in sorted(known))]
    bill["serialNumber"] = "urn:uuid:%s" % uuid.uuid5(
        uuid.UUID(bill["serialNumber"]), json.dumps(known, sort_keys=True)
    )
    return bill


def part(purl, name, version, licences):
    """A component; ``licences`` are names, the only one of a single element may be an expression of SPDX."""
    made = {"bom-ref": purl, "name": name, "purl": purl, "type": "library", "version": version}
    if licences:
        made["licenses"] = licences
    return made


def named(names):
    """Licences by their names."""
    return [{"license": {"name": name}} for name in names]


def python_parts(packages):
    """Python itself, and each distribution of a site-packages folder."""
    release = platform.python_version()
    yield part("pkg:generic/python@" + release, "python", release, [])
    for distribution in importlib.metadata.distributions(path=[packages]):
        fields = distribution.metadata
        name, text, expression = fields["Name"], fields.get("License"), fields.get("License-Expression")
        if expression:
            licences = [{"expression": expression}]
        elif text and "\n" not in text and text != "UNKNOWN":
            licences = named([text])
        else:
            classifiers = fields.get_all("Classifier") or []
            licences = named(sorted({row.split(" :: ")[-1] for row in classifiers if row.startswith("License :: ")}))
        purl = "pkg:pypi/%s@%s" % (re.sub("[-_.]+", "-", name).lower(), quoted(distribution.version))
        yield part(purl, re.sub("[-_.]+", "-", name).lower(), distribution.version, licences)


def debian_parts(root):
    """Each installed package of dpkg; nothing where the system has another package manager."""
    try:
        with open(os.path.join(root, "var/lib/dpkg/status"), encoding="utf-8") as file:
            stanzas = file.read().split("\n\n")
        with open(os.path.join(root, "etc/os-release"), encoding="utf-8") as file:
            system = dict(re.findall('^(ID|VERSION_ID)="?([^"\n]*)', file.read(), re.MULTILINE))
    except OSError:
        return
    for stanza in stanzas:
        fields = dict(re.findall(r"^([\w-]+): (.*)", stanza, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        name, version, distribution = fields["Package"], fields["Version"], system.get("ID", "debian")
        purl = "pkg:deb/%s/%s@%s?arch=%s" % (distribution, quoted(name), quoted(version), fields["Architecture"])
        if "VERSION_ID" in system:
            purl += "&distro=%s-%s" % (distribution, system["VERSION_ID"])
        yield part(purl, name, version, named(debian_licences(os.path.join(root, "usr/share/doc", name, "copyright"))))


def debian_licences(path):
    """The licences that a copyright file in Debian's machine-readable format names."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return []
    return sorted(set(re.findall(r"^License: *(\S.*?) *$", text, re.MULTILINE))) if text.startswith("Format:") else []


def quoted(text):
    """A name or a version as a package URL has it."""
    return urllib.parse.quote(text, safe=":")


def add_user(root):
    """The base's own users and groups, and one more; in its home, any other user can write too."""
    os.makedirs(os.path.join(root, "etc"))
    lines = {"passwd": "cupy:x:%d:%d::/home/cupy:/bin/sh\n" % (USER, USER), "group": "cupy:x:%d:\n" % USER}
    for name, line in lines.items():
        with open("/etc/" + name) as file:
            text = file.read()
        with open(os.path.join(root, "etc", name), "w") as file:
            file.write(text if "\ncupy:" in "\n" + text else text + line)
    home = os.path.join(root, "home/cupy")
    for folder in (home, os.path.join(home, ".cupy"), os.path.join(home, ".cupy/kernel_cache")):
        os.makedirs(folder)
        os.chown(folder, USER, USER)
        os.chmod(folder, 0o1777)  # noqa: S103 - as /tmp: for docker run --user, and for OpenShift


def entries(folder):
    """Every file, folder and link below a folder, and the folder itself."""
    for where, folders, files in os.walk(folder):
        for name in folders + files:
            yield os.path.join(where, name)
    yield folder


def open_to_pip(environment):
    """The environment belongs to the user of the image and to group 0, which may write what its owner may."""
    for path in entries(environment):
        os.chown(path, USER, 0, follow_symlinks=False)
        if not os.path.islink(path):
            mode = os.stat(path).st_mode
            os.chmod(path, mode | (mode & stat.S_IRWXU) >> 3)


def main():
    """Does the steps of the module's docstring."""
    environment, root = sys.argv[1], sys.argv[2]
    packages = "lib/python%d.%d/site-packages" % sys.version_info[:2]
    shutil.rmtree(os.path.join(environment, packages, "__pycache__"), ignore_errors=True)
    removed = trim(os.path.join(environment, packages))
    with open(os.path.join(environment, "left-out.txt"), "w") as file:
        file.writelines(removed)
    compile_all(environment)
    bill = "/build/sbom.cdx.json"
    if os.path.exists(bill):
        with open(bill, encoding="utf-8") as file:
            completed = complete(json.load(file), os.path.join(environment, packages), "/")
        with open(os.path.join(environment, "sbom.cdx.json"), "w", encoding="utf-8") as file:
            file.write(json.dumps(completed, indent=2) + "\n")
    open_to_pip(environment)
    add_user(root)
    os.makedirs(os.path.join(root, os.path.dirname(environment).lstrip("/")))
    os.rename(environment, root + environment)
    when = int(os.environ["SOURCE_DATE_EPOCH"])
    for path in entries(root):
        os.utime(path, (when, when), follow_symlinks=False)


if __name__ == "__main__":
    main()
