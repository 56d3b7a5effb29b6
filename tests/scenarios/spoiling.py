"""What is done to the files of a target, so that it shows a cause."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.scenarios.ground import Ground, Spoil

NOBODY = 65534
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def module_of_cupy(ground: Ground) -> Path:
    """The package that the metadata speaks of."""
    return write(ground.site / "cupy/__init__.py")


def listed_and_gone(path: str) -> Spoil:
    """A file that RECORD names and nobody finds."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        (record,) = ground.site.glob("cupy_cuda*.dist-info/RECORD")
        with record.open("a", encoding="utf-8") as file:
            file.write(f"{path},sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\n")
        return {}

    return spoil


def of_another_python(ground: Ground) -> Mapping[str, str]:
    module_of_cupy(ground)
    write(ground.site / "cupy/_core/core.cpython-36m-x86_64-linux-gnu.so")
    return {}


def from_another_environment(ground: Ground) -> Mapping[str, str]:
    """PYTHONPATH leads to the packages of another Python."""
    other = ground.folder / "other/lib/python3.6/site-packages"
    write(other / "cupy/__init__.py")
    write(other / "cupy/_core/core.cpython-36m-x86_64-linux-gnu.so")
    text = "Metadata-Version: 2.1\nName: cupy-cuda12x\nVersion: 12.0.0\n"
    write(other / "cupy_cuda12x-12.0.0.dist-info/METADATA", text)
    for entry in ground.site.glob("cupy_cuda*"):
        entry.rename(ground.folder / entry.name)
    return {"PYTHONPATH": str(other)}


def script_named_cupy(ground: Ground) -> Mapping[str, str]:
    module_of_cupy(ground)
    write(ground.machine.root / "cupy.py")
    return {}


def folder_named_cupy(ground: Ground) -> Mapping[str, str]:
    module_of_cupy(ground)
    return {"PYTHONPATH": str(write(ground.folder / "mine/cupy/__init__.py").parents[1])}


def script_named_numpy(ground: Ground) -> Mapping[str, str]:
    return {"PYTHONPATH": str(write(ground.folder / "mine/numpy.py").parent)}


def script_named_cuda(ground: Ground) -> Mapping[str, str]:
    """Beside a CuPy that asks for cuda.pathfinder."""
    requiring("cuda-pathfinder==1.*,>=1.3.4")(ground)
    return {"PYTHONPATH": str(write(ground.folder / "mine/cuda.py").parent)}


def numpy_of_another_python(ground: Ground) -> Mapping[str, str]:
    """PYTHONPATH brings the packages of another Python along, as environment modules of clusters do."""
    package = ground.folder / "sw/python3.6/site-packages/numpy"
    write(package / "__init__.py")
    write(package / "_core/_multiarray_umath.cpython-36m-x86_64-linux-gnu.so")
    return {"PYTHONPATH": str(package.parent)}


def conda_package(*records: str) -> Spoil:
    """What conda leaves of what it has installed."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        for record in records:
            write(ground.prefix / f"conda-meta/{record}.json", "{}")
        return {}

    return spoil


def requiring(*requirements: str) -> Spoil:
    """What CuPy's own metadata requires."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        (metadata,) = ground.site.glob("cupy_cuda*.dist-info/METADATA")
        with metadata.open("a", encoding="utf-8") as file:
            file.writelines(f"Requires-Dist: {text}\n" for text in requirements)
        return {}

    return spoil


def needing(name: str, release: str, requirement: str) -> Spoil:
    """A library above CuPy."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\nRequires-Dist: {requirement}\n"
        write(ground.site / f"{name.replace('-', '_')}-{release}.dist-info/METADATA", text)
        return {}

    return spoil


def without_base(ground: Ground) -> Mapping[str, str]:
    """The Python that the environment was made from has gone."""
    for name in ("python", "python3", *(path.name for path in (ground.prefix / "bin").glob("python3.*"))):
        link = ground.prefix / "bin" / name
        link.unlink(missing_ok=True)
        link.symlink_to("/opt/python-that-was/bin/python3")
    return {}


def no_python(ground: Ground) -> Mapping[str, str]:
    """A program of that name that is none."""
    for path in (ground.prefix / "bin").glob("python*"):
        path.unlink()
        write(path, "#!/bin/sh\necho 'this is no Python' >&2\nexit 3\n").chmod(0o755)
    return {}


def cache_below_a_file(ground: Ground) -> Mapping[str, str]:
    return {"CUPY_CACHE_DIR": str(write(ground.folder / "a-file") / "kernel_cache")}


def home_is_no_folder(ground: Ground) -> Mapping[str, str]:
    """As with HOME=/dev/null, which services set."""
    return {"HOME": str(write(ground.folder / "no-home"))}


def cache_of_another_user(ground: Ground) -> Mapping[str, str]:
    folder = ground.folder / "shared"
    folder.mkdir(mode=0o777)
    os.chown(folder, NOBODY, NOBODY)
    return {"CUPY_CACHE_DIR": str(folder)}


def cache_with_files_of_root(ground: Ground) -> Mapping[str, str]:
    """A file that somebody else has left in one's own folder."""
    left = write(ground.folder / "home/.cupy/kernel_cache/4b3c.cubin")
    os.chown(left, NOBODY, NOBODY)
    return {}


def cuda_path_of_another_major(ground: Ground) -> Mapping[str, str]:
    folder = ground.machine.root / "usr/local/cuda-11.8"
    write(folder / "version.json", '{"cuda": {"name": "CUDA SDK", "version": "11.8.0"}}\n')
    write(folder / "include/cuda.h", "#define CUDA_VERSION 11080\n")
    return {"CUDA_PATH": "/usr/local/cuda-11.8"}


def old_runtime(variable: str) -> Spoil:
    """CuPy's module needs a C++ runtime that is newer than the one which is found first.

    Both are really compiled: a libstdc++.so.6 with the version that the module asks for, to link with, and one with an
    older version alone.
    """

    def spoil(ground: Ground) -> Mapping[str, str]:
        folder = ground.folder / "runtime"
        source = write(folder / "runtime.c", "void cxx(void) {}\n")
        versions = {name: write(folder / name, f"GLIBCXX_{name} {{ global: cxx; }};\n") for name in ("3.4.99", "3.4.1")}
        module_of_cupy(ground)
        core = write(folder / "core.c", "void cxx(void);\nvoid use(void) { cxx(); }\n")
        (ground.site / "cupy/_core").mkdir()
        new, old = folder / "new/libstdc++.so.6", folder / "old/libstdc++.so.6"
        new.parent.mkdir()
        old.parent.mkdir()
        shared = ["cc", "-shared", "-fPIC", "-Wl,-soname,libstdc++.so.6", str(source)]
        run([*shared, f"-Wl,--version-script={versions['3.4.99']}", "-o", str(new)])
        run([*shared, f"-Wl,--version-script={versions['3.4.1']}", "-o", str(old)])
        run(["cc", "-shared", "-fPIC", str(core), str(new), "-o", str(ground.site / f"cupy/_core/core{SUFFIX}")])
        if variable == "LD_PRELOAD":
            before = ground.machine.environment.get("LD_PRELOAD", "")
            return {variable: f"{before} {old}".strip()}
        return {variable: f"{old.parent}:{ground.machine.environment['LD_LIBRARY_PATH']}"}

    return spoil


def run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
