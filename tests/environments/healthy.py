"""Unusual but healthy environments."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.environments.builders import (
    CUPY_AND_NUMPY,
    NUMPY,
    RELEASE,
    build_wheel,
    compile_cupy,
    install,
    install_by_conda,
    install_editable,
    make_conda_prefix,
    make_system_python,
    run_uv,
    site_packages,
    venv_of_python,
    write,
)
from tests.environments.cases import BuiltEnvironment, EnvironmentCase
from tests.install.wheels import Package, cupy, numpy
from tests.probe.pythons import python
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox


def relocatable_venv(sandbox: Sandbox) -> BuiltEnvironment:
    folder = sandbox.folder / "Größe und Maß 日本"
    run_uv(sandbox, "venv", "--quiet", "--relocatable", "--python", python("3.12"), folder)
    install(sandbox, folder / "bin/python", *CUPY_AND_NUMPY)
    return BuiltEnvironment(folder)


def project_venv(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("in-project", *CUPY_AND_NUMPY)
    project = install_editable(sandbox, target, "gpu-app", "cupy-cuda12x>=13")
    moved = project / ".venv"
    shutil.move(target, moved)
    return BuiltEnvironment(moved, folder=project)


def renamed_venv(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("before", *CUPY_AND_NUMPY)
    install(sandbox, target / "bin/python", "user-of-numpy==1.0")
    return BuiltEnvironment(target.rename(sandbox.folder / "after"))


def venv_with_shared_packages(sandbox: Sandbox) -> BuiltEnvironment:
    shared = sandbox.target("modules", *CUPY_AND_NUMPY)
    target = sandbox.target("mine")
    write(site_packages(target) / "cluster.pth", f"{site_packages(shared)}\n")
    return BuiltEnvironment(target, other_folders=(shared,))


def folders_of_data(sandbox: Sandbox) -> BuiltEnvironment:
    """A package without __init__.py does not shadow one with it, nor does CuPy.py shadow cupy."""
    work = sandbox.folder / "work"
    write(work / "cupy/results.csv", "1\n")
    write(work / "numpy/notes.txt", "1\n")
    write(work / "cuda/kernel.cu", "\n")
    write(work / "CuPy.py", "raise SystemExit(1)\n")
    return BuiltEnvironment(sandbox.target("beside-data", *CUPY_AND_NUMPY), folder=work)


def module_next_to_package(sandbox: Sandbox) -> BuiltEnvironment:
    """In one folder, a package takes precedence over a module."""
    target = sandbox.target("module", *CUPY_AND_NUMPY)
    write(site_packages(target) / "cupy.py", "raise SystemExit(1)\n")
    return BuiltEnvironment(target)


def script_under_safe_path(sandbox: Sandbox) -> BuiltEnvironment:
    """PYTHONSAFEPATH excludes the working folder from sys.path."""
    work = sandbox.folder / "safe"
    write(work / "cupy.py", "raise SystemExit(1)\n")
    return BuiltEnvironment(sandbox.target("guarded", *CUPY_AND_NUMPY), folder=work, variables={"PYTHONSAFEPATH": "1"})


def other_line_in_user_site(sandbox: Sandbox) -> BuiltEnvironment:
    other = sandbox.target("other", "cupy-cuda11x==13.6.0")
    user_site = sandbox.folder / ".local/lib" / RELEASE / "site-packages"
    user_site.parent.mkdir(parents=True)
    shutil.copytree(site_packages(other), user_site)
    return BuiltEnvironment(sandbox.target("apart", *CUPY_AND_NUMPY), other_folders=(user_site,))


def conda_forge_environment(sandbox: Sandbox) -> BuiltEnvironment:
    prefix = make_conda_prefix(sandbox, "forge", NUMPY, "cuda-toolkit==12.9.2")
    files = {"cupy/__init__.py": "__version__ = '14.1.1'\n", "cupyx/__init__.py": "", "cupy_backends/__init__.py": ""}
    install_by_conda(
        sandbox, prefix, build_wheel(sandbox, Package("cupy", "14.1.1", ("numpy",), files=files)), "cupy-core"
    )
    write(prefix / "conda-meta/cuda-version-12.9-h4f385c5_3.json", '{"name": "cuda-version", "version": "12.9"}')
    return BuiltEnvironment(prefix)


def pypackages(sandbox: Sandbox) -> BuiltEnvironment:
    work = sandbox.folder / "pep582"
    library = work / "__pypackages__" / RELEASE.removeprefix("python") / "lib"
    target = sandbox.target("nothing-in-it")
    for package in CUPY_AND_NUMPY:
        options = ("--quiet", "--no-deps", "--python", target / "bin/python", "--target", library)
        run_uv(sandbox, "pip", "install", *options, package)
    return BuiltEnvironment(target, folder=work, variables={"PYTHONPATH": str(library)}, other_folders=(work,))


def noisy_startup(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("noisy", *CUPY_AND_NUMPY)
    write(site_packages(target) / "a.pth", f"import nothing_of_that_name\n/mnt/gone/python\n{site_packages(target)}\n")
    run_at_start(site_packages(target), 'print("hello\\n{}")\nraise ImportError("ignored")\n')
    variables = {
        "PYTHONWARNINGS": "error",
        "PYTHONOPTIMIZE": "2",
        "PYTHONIOENCODING": "cp1252",
        "PYTHONPATH": "/mnt/gone::",
    }
    return BuiltEnvironment(target, variables=variables)


def linked_site_packages(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("linked", "cupy-cuda12x==13.6.0", NUMPY)
    disk = sandbox.folder / "disk"
    shutil.move(site_packages(target), disk)
    (target / "lib" / RELEASE / "site-packages").symlink_to(disk)
    return BuiltEnvironment(target, other_folders=(disk,))


def packages_in_user_site(sandbox: Sandbox) -> BuiltEnvironment:
    system = make_system_python(sandbox.folder / "system", managed=True)
    user_site = sandbox.folder / ".local/lib" / RELEASE / "site-packages"
    other = sandbox.target("other", *CUPY_AND_NUMPY)
    user_site.parent.mkdir(parents=True)
    shutil.copytree(site_packages(other), user_site)
    return BuiltEnvironment(system, python=system / "bin/python3", other_folders=(user_site,))


def setup_py_develop(sandbox: Sandbox) -> BuiltEnvironment:
    """``setup.py develop``: a link for setuptools, a line in easy-install.pth, metadata in the source tree."""
    target = sandbox.target("developed", NUMPY)
    source = sandbox.folder / "cupy-src"
    for name in ("cupy", "cupyx", "cupy_backends"):
        write(source / name / "__init__.py")
    compile_cupy(sandbox, source, "libcublas.so.12")
    text = "Metadata-Version: 2.1\nName: cupy\nVersion: 14.2.0\nRequires-Dist: numpy<2.6,>=2.0\n"
    write(source / "cupy.egg-info/PKG-INFO", text)
    write(site_packages(target) / "cupy.egg-link", f"{source}\n.")
    write(site_packages(target) / "easy-install.pth", f"{source}\n")
    return BuiltEnvironment(target, other_folders=(source,))


def python_38(sandbox: Sandbox) -> BuiltEnvironment:
    wheels = (cupy("cupy-cuda12x", "12.3.0"), numpy("1.24.4"))
    return BuiltEnvironment(venv_of_python(sandbox, "3.8", "eight", *(build_wheel(sandbox, wheel) for wheel in wheels)))


def missing_record(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("unrecorded", "cupy-cuda12x==13.6.0", NUMPY)
    (site_packages(target) / "cupy_cuda12x-13.6.0.dist-info/RECORD").unlink()
    return BuiltEnvironment(target)


def dangling_links(sandbox: Sandbox) -> BuiltEnvironment:
    target = sandbox.target("dangling", *CUPY_AND_NUMPY)
    (site_packages(target) / "cupy_cuda11x-13.6.0.dist-info").symlink_to("/nix/store/gone")
    (site_packages(target) / "loop").symlink_to("loop")
    (site_packages(target) / "nvidia_loop-1.0.dist-info").symlink_to("nvidia_loop-1.0.dist-info")
    (site_packages(target) / "~orch-2.6.0.dist-info").mkdir()
    return BuiltEnvironment(target)


def linked_environment(sandbox: Sandbox) -> BuiltEnvironment:
    """A link to an environment's folder, as a version manager's "current" is."""
    target = sandbox.target("v2", *CUPY_AND_NUMPY)
    link = sandbox.folder / "current"
    link.symlink_to(target)
    return BuiltEnvironment(target, python=link, variables={"VIRTUAL_ENV": str(link)})


def wrapper_script(sandbox: Sandbox) -> BuiltEnvironment:
    """A script that sets variables and starts the Python, as in environment modules of clusters."""
    target = sandbox.target("wrapped", *CUPY_AND_NUMPY)
    wrapper = write(
        sandbox.folder / "bin/python", f'#!/bin/sh\nexport OMP_NUM_THREADS=4\nexec {target}/bin/python "$@"\n'
    )
    wrapper.chmod(0o755)
    return BuiltEnvironment(target, python=wrapper)


def venv_over_active_conda(sandbox: Sandbox) -> BuiltEnvironment:
    base = make_conda_prefix(sandbox, "base")
    target = sandbox.target("inner", *CUPY_AND_NUMPY)
    return BuiltEnvironment(
        target, python="", variables={"VIRTUAL_ENV": str(target), "CONDA_PREFIX": str(base)}, other_folders=(base,)
    )


HEALTHY = (
    EnvironmentCase(
        "uv's relocatable environment, in a folder with spaces and non-ASCII characters",
        relocatable_venv,
        install_exit_code=0,
    ),
    EnvironmentCase("a project's own .venv, moved there, with an editable project", project_venv, install_exit_code=0),
    EnvironmentCase("a renamed venv", renamed_venv, install_exit_code=0),
    EnvironmentCase("all packages in a shared folder named in a path file", venv_with_shared_packages),
    EnvironmentCase("folders of data named cupy, numpy and cuda in the working folder", folders_of_data),
    EnvironmentCase("a module cupy.py next to the package", module_next_to_package),
    EnvironmentCase("a script cupy.py under PYTHONSAFEPATH", script_under_safe_path),
    EnvironmentCase(
        "another line in the user's own folder, which a venv does not see",
        other_line_in_user_site,
        install_exit_code=0,
    ),
    EnvironmentCase("conda's own CuPy", conda_forge_environment),
    EnvironmentCase("packages by PEP 582 and PYTHONPATH", pypackages),
    EnvironmentCase(
        "path files with faults, a failing startup hook, warnings as errors", noisy_startup, install_exit_code=0
    ),
    EnvironmentCase("site-packages on another disk", linked_site_packages, install_exit_code=7),
    EnvironmentCase(
        "everything in the user's own folder of a managed Python", packages_in_user_site, install_exit_code=7
    ),
    EnvironmentCase("CuPy's source tree by setup.py develop", setup_py_develop),
    EnvironmentCase("Python 3.8 with the last CuPy for it", python_38),
    EnvironmentCase("a CuPy without RECORD", missing_record, install_exit_code=7),
    EnvironmentCase("dangling links and link loops", dangling_links, install_exit_code=0),
    EnvironmentCase("an environment selected by a link to its folder", linked_environment, install_exit_code=0),
    EnvironmentCase("a wrapper around a venv's Python", wrapper_script, install_exit_code=0),
    EnvironmentCase("a venv over an active conda environment", venv_over_active_conda, install_exit_code=0),
)
