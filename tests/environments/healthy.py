"""Environments that look odd and in which nothing is wrong."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.environments.making import (
    NUMPY,
    RELEASE,
    SOUND,
    add,
    bare_uv,
    compiled_with,
    conda_prefix,
    editable,
    of_python,
    own_wheel,
    put_by_conda,
    site,
    system_python,
    write,
)
from tests.environments.table import Odd, Place
from tests.install.wheels import Package, cupy, numpy
from tests.probe.pythons import python
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox


def relocatable(sandbox: Sandbox) -> Place:
    folder = sandbox.folder / "Größe und Maß 日本"
    bare_uv(sandbox, "venv", "--quiet", "--relocatable", "--python", python("3.12"), folder)
    add(sandbox, folder / "bin/python", *SOUND)
    return Place(folder)


def in_project(sandbox: Sandbox) -> Place:
    target = sandbox.target("in-project", *SOUND)
    project = editable(sandbox, target, "gpu-app", "cupy-cuda12x>=13")
    moved = project / ".venv"
    shutil.move(target, moved)
    return Place(moved, folder=project)


def renamed(sandbox: Sandbox) -> Place:
    target = sandbox.target("before", *SOUND)
    add(sandbox, target / "bin/python", "user-of-numpy==1.0")
    return Place(target.rename(sandbox.folder / "after"))


def shared_by_a_path_file(sandbox: Sandbox) -> Place:
    shared = sandbox.target("modules", *SOUND)
    target = sandbox.target("mine")
    write(site(target) / "cluster.pth", f"{site(shared)}\n")
    return Place(target, others=(shared,))


def folder_of_data(sandbox: Sandbox) -> Place:
    """No package without an __init__.py is taken before one that has it, and no CuPy.py for cupy."""
    work = sandbox.folder / "work"
    write(work / "cupy/results.csv", "1\n")
    write(work / "numpy/notes.txt", "1\n")
    write(work / "cuda/kernel.cu", "\n")
    write(work / "CuPy.py", "raise SystemExit(1)\n")
    return Place(sandbox.target("beside-data", *SOUND), folder=work)


def module_beside_package(sandbox: Sandbox) -> Place:
    """In one folder, a package is met before a module."""
    target = sandbox.target("module", *SOUND)
    write(site(target) / "cupy.py", "raise SystemExit(1)\n")
    return Place(target)


def safe_path(sandbox: Sandbox) -> Place:
    """Under PYTHONSAFEPATH the working folder is on no path."""
    work = sandbox.folder / "safe"
    write(work / "cupy.py", "raise SystemExit(1)\n")
    return Place(sandbox.target("guarded", *SOUND), folder=work, variables={"PYTHONSAFEPATH": "1"})


def another_line_of_the_user(sandbox: Sandbox) -> Place:
    other = sandbox.target("other", "cupy-cuda11x==13.6.0")
    own = sandbox.folder / ".local/lib" / RELEASE / "site-packages"
    own.parent.mkdir(parents=True)
    shutil.copytree(site(other), own)
    return Place(sandbox.target("apart", *SOUND), others=(own,))


def of_conda_forge(sandbox: Sandbox) -> Place:
    prefix = conda_prefix(sandbox, "forge", NUMPY, "cuda-toolkit==12.9.2")
    files = {"cupy/__init__.py": "__version__ = '14.1.1'\n", "cupyx/__init__.py": "", "cupy_backends/__init__.py": ""}
    put_by_conda(sandbox, prefix, own_wheel(sandbox, Package("cupy", "14.1.1", ("numpy",), files=files)), "cupy-core")
    write(prefix / "conda-meta/cuda-version-12.9-h4f385c5_3.json", '{"name": "cuda-version", "version": "12.9"}')
    return Place(prefix)


def pypackages(sandbox: Sandbox) -> Place:
    work = sandbox.folder / "pep582"
    library = work / "__pypackages__" / RELEASE.removeprefix("python") / "lib"
    target = sandbox.target("nothing-in-it")
    for package in SOUND:
        options = ("--quiet", "--no-deps", "--python", target / "bin/python", "--target", library)
        bare_uv(sandbox, "pip", "install", *options, package)
    return Place(target, folder=work, variables={"PYTHONPATH": str(library)}, others=(work,))


def noisy(sandbox: Sandbox) -> Place:
    target = sandbox.target("noisy", *SOUND)
    write(site(target) / "a.pth", f"import nothing_of_that_name\n/mnt/gone/python\n{site(target)}\n")
    run_at_start(site(target), 'print("hello\\n{}")\nraise ImportError("of no matter")\n')
    variables = {
        "PYTHONWARNINGS": "error",
        "PYTHONOPTIMIZE": "2",
        "PYTHONIOENCODING": "cp1252",
        "PYTHONPATH": "/mnt/gone::",
    }
    return Place(target, variables=variables)


def on_another_disk(sandbox: Sandbox) -> Place:
    target = sandbox.target("linked", "cupy-cuda12x==13.6.0", NUMPY)
    disk = sandbox.folder / "disk"
    shutil.move(site(target), disk)
    (target / "lib" / RELEASE / "site-packages").symlink_to(disk)
    return Place(target, others=(disk,))


def all_of_the_user(sandbox: Sandbox) -> Place:
    system = system_python(sandbox.folder / "system", managed=True)
    own = sandbox.folder / ".local/lib" / RELEASE / "site-packages"
    other = sandbox.target("other", *SOUND)
    own.parent.mkdir(parents=True)
    shutil.copytree(site(other), own)
    return Place(system, python=system / "bin/python3", others=(own,))


def developed(sandbox: Sandbox) -> Place:
    """``setup.py develop``: a link for setuptools, a line in easy-install.pth, metadata in the source tree."""
    target = sandbox.target("developed", NUMPY)
    source = sandbox.folder / "cupy-src"
    for name in ("cupy", "cupyx", "cupy_backends"):
        write(source / name / "__init__.py")
    compiled_with(sandbox, source, "libcublas.so.12")
    text = "Metadata-Version: 2.1\nName: cupy\nVersion: 14.2.0\nRequires-Dist: numpy<2.6,>=2.0\n"
    write(source / "cupy.egg-info/PKG-INFO", text)
    write(site(target) / "cupy.egg-link", f"{source}\n.")
    write(site(target) / "easy-install.pth", f"{source}\n")
    return Place(target, others=(source,))


def python_of_2019(sandbox: Sandbox) -> Place:
    wheels = (cupy("cupy-cuda12x", "12.3.0"), numpy("1.24.4"))
    return Place(of_python(sandbox, "3.8", "eight", *(own_wheel(sandbox, wheel) for wheel in wheels)))


def record_lost(sandbox: Sandbox) -> Place:
    target = sandbox.target("unrecorded", "cupy-cuda12x==13.6.0", NUMPY)
    (site(target) / "cupy_cuda12x-13.6.0.dist-info/RECORD").unlink()
    return Place(target)


def links_to_nowhere(sandbox: Sandbox) -> Place:
    target = sandbox.target("dangling", *SOUND)
    (site(target) / "cupy_cuda11x-13.6.0.dist-info").symlink_to("/nix/store/gone")
    (site(target) / "loop").symlink_to("loop")
    (site(target) / "nvidia_loop-1.0.dist-info").symlink_to("nvidia_loop-1.0.dist-info")
    (site(target) / "~orch-2.6.0.dist-info").mkdir()
    return Place(target)


def by_its_link(sandbox: Sandbox) -> Place:
    """A link to an environment's folder, as a version manager's "current" is."""
    target = sandbox.target("v2", *SOUND)
    link = sandbox.folder / "current"
    link.symlink_to(target)
    return Place(target, python=link, variables={"VIRTUAL_ENV": str(link)})


HEALTHY = (
    Odd("uv's relocatable environment, in a folder with spaces and no ASCII", relocatable, install=0),
    Odd("a project's own .venv, moved there, with the project as a link", in_project, install=0),
    Odd("a venv that was renamed", renamed, install=0),
    Odd("all packages in a shared folder that a path file names", shared_by_a_path_file),
    Odd("folders of data named cupy, numpy and cuda where one works", folder_of_data),
    Odd("a module cupy.py beside the package", module_beside_package),
    Odd("a script cupy.py under PYTHONSAFEPATH", safe_path),
    Odd("another line in the user's own folder, which a venv does not see", another_line_of_the_user, install=0),
    Odd("conda's own CuPy", of_conda_forge),
    Odd("packages by PEP 582 and PYTHONPATH", pypackages),
    Odd("path files with faults, a failing startup hook, warnings as errors", noisy, install=0),
    Odd("site-packages on another disk", on_another_disk, install=7),
    Odd("everything in the user's own folder of a managed Python", all_of_the_user, install=7),
    Odd("CuPy's source tree by setup.py develop", developed),
    Odd("Python 3.8 with the last CuPy for it", python_of_2019),
    Odd("a CuPy without RECORD", record_lost, install=7),
    Odd("links to nowhere, and to themselves", links_to_nowhere, install=0),
    Odd("an environment by a link to its folder", by_its_link, install=0),
)
