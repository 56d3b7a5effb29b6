"""Run in the build, by the environment's own Python: makes of an installed environment the tree that is copied out.

    tidy.py ENVIRONMENT ROOT

* Leaves out what CuPy never loads, and takes it out of the RECORDs too, so that every file named there is there; each
  of them stands in left-out.txt, with its wheel. What stays is as it is in the wheel: not one byte is changed.
* Compiles every module, checked by nothing at run time, so that neither a time nor a write is needed.
* Makes the user that the image runs as, and its home with the folder of the kernel cache.
* Gives every file and folder the time SOURCE_DATE_EPOCH: each that the copy makes or touches is in the tree, so that
  builders that write down the time of a folder write down the same one each time.
"""

import compileall
import csv
import os
import py_compile
import re
import shutil
import sys

USER = 10001
# No file of CuPy 13.6.0 or 14.2.0 names any of these (searched byte by byte), and the proof does not miss them. The
# static library that CuPy hands to the linker for relocatable code, libcudadevrt.a, stays.
UNUSED = re.compile(
    r"nvidia/[^/]+(/[^/]+)*/lib/(libnvrtc(-builtins)?\.alt\.so[.0-9]*|libcusolverMg\.so[.0-9]*|libnvblas\.so[.0-9]*"
    r"|libcufftw\.so[.0-9]*|lib(?!cudadevrt)\w+\.a)$|numpy/(\w+/)*tests/.*|numpy/\w+/lib/\w+\.a$"
)


def trim(packages):
    """Removes what is not used from a site-packages folder and its RECORDs; answers a line for each file."""
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


def add_user(root):
    """The base's own users and groups, and one more."""
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


def set_times(folder, when):
    """The same time for every file, folder and link."""
    for where, folders, files in os.walk(folder):
        for name in folders + files:
            os.utime(os.path.join(where, name), (when, when), follow_symlinks=False)
    os.utime(folder, (when, when))


def main():
    """See above."""
    environment, root = sys.argv[1], sys.argv[2]
    packages = "lib/python%d.%d/site-packages" % sys.version_info[:2]
    shutil.rmtree(os.path.join(environment, packages, "__pycache__"), ignore_errors=True)
    removed = trim(os.path.join(environment, packages))
    with open(os.path.join(environment, "left-out.txt"), "w") as file:
        file.writelines(removed)
    compile_all(environment)
    bill = "/build/sbom.cdx.json"
    if os.path.exists(bill):
        shutil.copy(bill, os.path.join(environment, "sbom.cdx.json"))
    add_user(root)
    os.makedirs(os.path.join(root, os.path.dirname(environment).lstrip("/")))
    os.rename(environment, root + environment)
    set_times(root, int(os.environ["SOURCE_DATE_EPOCH"]))


if __name__ == "__main__":
    main()
