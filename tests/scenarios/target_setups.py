"""Setups: changes to the files of a target, so that it has a fault."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.scenario import Setup, Workspace

OTHER_UID = 65534
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def cupy_module(workspace: Workspace) -> Path:
    """The package `cupy` of the metadata."""
    return write(workspace.site / "cupy/__init__.py")


def missing_file(path: str) -> Setup:
    """A file that RECORD lists and that does not exist."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        (record,) = workspace.site.glob("cupy_cuda*.dist-info/RECORD")
        with record.open("a", encoding="utf-8") as file:
            file.write(f"{path},sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")
        return {}

    return setup


def modules_for_another_python(workspace: Workspace) -> Mapping[str, str]:
    cupy_module(workspace)
    write(workspace.site / "cupy/_core/core.cpython-36m-x86_64-linux-gnu.so")
    return {}


def pythonpath_of_another_environment(workspace: Workspace) -> Mapping[str, str]:
    """PYTHONPATH names the packages of another Python."""
    other = workspace.folder / "other/lib/python3.6/site-packages"
    write(other / "cupy/__init__.py")
    write(other / "cupy/_core/core.cpython-36m-x86_64-linux-gnu.so")
    text = "Metadata-Version: 2.1\nName: cupy-cuda12x\nVersion: 12.0.0\n"
    write(other / "cupy_cuda12x-12.0.0.dist-info/METADATA", text)
    for entry in workspace.site.glob("cupy_cuda*"):
        entry.rename(workspace.folder / entry.name)
    return {"PYTHONPATH": str(other)}


def script_named_cupy(workspace: Workspace) -> Mapping[str, str]:
    cupy_module(workspace)
    write(workspace.machine.root / "cupy.py")
    return {}


def folder_named_cupy(workspace: Workspace) -> Mapping[str, str]:
    cupy_module(workspace)
    return {"PYTHONPATH": str(write(workspace.folder / "mine/cupy/__init__.py").parents[1])}


def script_named_numpy(workspace: Workspace) -> Mapping[str, str]:
    return {"PYTHONPATH": str(write(workspace.folder / "mine/numpy.py").parent)}


def script_named_cuda(workspace: Workspace) -> Mapping[str, str]:
    """The script shadows the package that contains cuda.pathfinder."""
    cupy_requirements("cuda-pathfinder==1.*,>=1.3.4")(workspace)
    return {"PYTHONPATH": str(write(workspace.folder / "mine/cuda.py").parent)}


def numpy_of_another_python(workspace: Workspace) -> Mapping[str, str]:
    """PYTHONPATH adds the packages of another Python, as environment modules of clusters do."""
    package = workspace.folder / "sw/python3.6/site-packages/numpy"
    write(package / "__init__.py")
    write(package / "_core/_multiarray_umath.cpython-36m-x86_64-linux-gnu.so")
    return {"PYTHONPATH": str(package.parent)}


def conda_package(*records: str) -> Setup:
    """Records of packages that conda installed."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        for record in records:
            write(workspace.prefix / f"conda-meta/{record}.json", "{}")
        return {}

    return setup


def cupy_requirements(*requirements: str) -> Setup:
    """Requirements in CuPy's metadata."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        (metadata,) = workspace.site.glob("cupy_cuda*.dist-info/METADATA")
        with metadata.open("a", encoding="utf-8") as file:
            file.writelines(f"Requires-Dist: {text}\n" for text in requirements)
        return {}

    return setup


def dependent_package(name: str, release: str, requirement: str) -> Setup:
    """A package that depends on CuPy."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\nRequires-Dist: {requirement}\n"
        write(workspace.site / f"{name.replace('-', '_')}-{release}.dist-info/METADATA", text)
        return {}

    return setup


def without_base_python(workspace: Workspace) -> Mapping[str, str]:
    """The base Python of the environment does not exist any more."""
    for name in ("python", "python3", *(path.name for path in (workspace.prefix / "bin").glob("python3.*"))):
        link = workspace.prefix / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to("/opt/python-that-was/bin/python3")
    return {}


def fake_python(workspace: Workspace) -> Mapping[str, str]:
    """A program named python that is not a Python."""
    for path in (workspace.prefix / "bin").glob("python*"):
        path.unlink()
        write(path, "#!/bin/sh\necho 'this is not a Python' >&2\nexit 3\n").chmod(0o755)
    return {}


def interrupted(state: str | None) -> Setup:
    """A journal of gpuenv without a state, as an install leaves it that is killed, or with the state of a rollback."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        write(workspace.prefix / ".gpuenv/0001/journal.json", "{}")
        if state is not None:
            write(workspace.prefix / ".gpuenv/0001/state.json", f'{{"state": "{state}"}}')
        return {}

    return setup


def cache_below_a_file(workspace: Workspace) -> Mapping[str, str]:
    return {"CUPY_CACHE_DIR": str(write(workspace.folder / "a-file") / "kernel_cache")}


def home_is_a_file(workspace: Workspace) -> Mapping[str, str]:
    """Services, for example, set HOME=/dev/null."""
    return {"HOME": str(write(workspace.folder / "no-home"))}


def cache_of_another_user(workspace: Workspace) -> Mapping[str, str]:
    folder = workspace.folder / "shared"
    folder.mkdir(mode=0o777)
    os.chown(folder, OTHER_UID, OTHER_UID)
    return {"CUPY_CACHE_DIR": str(folder)}


def cache_with_files_of_root(workspace: Workspace) -> Mapping[str, str]:
    """A file of another user in the user's own directory."""
    path = write(workspace.folder / "home/.cupy/kernel_cache/4b3c.cubin")
    os.chown(path, OTHER_UID, OTHER_UID)
    return {}


def cuda_path_of_another_major(workspace: Workspace) -> Mapping[str, str]:
    folder = workspace.machine.root / "usr/local/cuda-11.8"
    write(folder / "version.json", '{"cuda": {"name": "CUDA SDK", "version": "11.8.0"}}\n')
    write(folder / "include/cuda.h", "#define CUDA_VERSION 11080\n")
    return {"CUDA_PATH": "/usr/local/cuda-11.8"}


def old_cxx_runtime(variable: str) -> Setup:
    """CuPy's module needs a newer C++ runtime than the one that the loader finds first.

    Both are compiled: a libstdc++.so.6 with the required symbol version, to link with, and one with an older
    version only.
    """

    def setup(workspace: Workspace) -> Mapping[str, str]:
        folder = workspace.folder / "runtime"
        source = write(folder / "runtime.c", "void cxx(void) {}\n")
        versions = {name: write(folder / name, f"GLIBCXX_{name} {{ global: cxx; }};\n") for name in ("3.4.99", "3.4.1")}
        cupy_module(workspace)
        core = write(folder / "core.c", "void cxx(void);\nvoid use(void) { cxx(); }\n")
        (workspace.site / "cupy/_core").mkdir()
        new, old = folder / "new/libstdc++.so.6", folder / "old/libstdc++.so.6"
        new.parent.mkdir()
        old.parent.mkdir()
        shared = ["cc", "-shared", "-fPIC", "-Wl,-soname,libstdc++.so.6", str(source)]
        run([*shared, f"-Wl,--version-script={versions['3.4.99']}", "-o", str(new)])
        run([*shared, f"-Wl,--version-script={versions['3.4.1']}", "-o", str(old)])
        run(["cc", "-shared", "-fPIC", str(core), str(new), "-o", str(workspace.site / f"cupy/_core/core{SUFFIX}")])
        if variable == "LD_PRELOAD":
            before = workspace.machine.environment.get("LD_PRELOAD", "")
            return {variable: f"{before} {old}".strip()}
        return {variable: f"{old.parent}:{workspace.machine.environment['LD_LIBRARY_PATH']}"}

    return setup


def run(command: list[str]) -> None:
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert process.returncode == 0, process.stderr
