"""Setups of the unseen machines."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from gpuenv.simulate.stub_driver import compile_toolkit
from tests.scenarios.target_setups import SUFFIX, run, write
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.scenarios.scenario import Setup, Workspace


def _metadata(name: str, release: str) -> str:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n"


def _user_site(workspace: Workspace) -> str:
    """The user's site-packages, which a venv with system site-packages searches after its own."""
    configuration = workspace.prefix / "pyvenv.cfg"
    text = configuration.read_text(encoding="utf-8")
    assert "include-system-site-packages = false" in text
    write(configuration, text.replace("packages = false", "packages = true"))
    return str(workspace.folder / "home/.local/lib" / workspace.site.parent.name / "site-packages")


def user_cupy(workspace: Workspace) -> Mapping[str, str]:
    folder = workspace.folder / _user_site(workspace)
    write(folder / "cupy_cuda11x-12.3.0.dist-info/METADATA", _metadata("cupy-cuda11x", "12.3.0"))
    write(folder / "cupy/__init__.py")
    write(workspace.site / "cupy/__init__.py")
    return {}


def loader_path_without_wsl(workspace: Workspace) -> Mapping[str, str]:
    """As with ``[automount] ldconfig = false``: the loader does not search the directory."""
    folders = workspace.machine.environment["LD_LIBRARY_PATH"].split(":")
    return {"LD_LIBRARY_PATH": ":".join(folder for folder in folders if "/wsl/" not in folder)}


def without_library(*names: str) -> Setup:
    def setup(workspace: Workspace) -> Mapping[str, str]:
        for name in names:
            for path in workspace.machine.root.glob(f"usr/local/cuda-*/lib64/{name}"):
                path.unlink()
        return {}

    return setup


def read_only_home(workspace: Workspace) -> Mapping[str, str]:
    (workspace.folder / "home").chmod(0o555)
    return {}


def _replace_python(workspace: Workspace, text: str | bytes) -> None:
    for path in (workspace.prefix / "bin").glob("python*"):
        path.unlink()
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o755)


def python_of_another_architecture(workspace: Workspace) -> Mapping[str, str]:
    """An ELF file of another architecture: the kernel rejects it with ``Exec format error``."""
    _replace_python(workspace, b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf3\x00" + bytes(200))
    return {}


def python_for_a_newer_libc(workspace: Workspace) -> Mapping[str, str]:
    """The loader's message about a program built on a newer system."""
    message = "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by python)"
    _replace_python(workspace, f'#!/bin/sh\necho "$0: {message}" >&2\nexit 1\n'.replace("`", "\\`"))
    return {}


def python_that_exits(workspace: Workspace) -> Mapping[str, str]:
    run_at_start(workspace.site, "import os\nos._exit(7)\n")
    return {}


def python_without_ctypes(workspace: Workspace) -> Mapping[str, str]:
    """An import hook that refuses _ctypes with the interpreter's own error."""
    run_at_start(
        workspace.site,
        "import sys\n\n\nclass Finder:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name == '_ctypes':\n            raise ModuleNotFoundError(f'No module named {name!r}')\n"
        "\n\nsys.meta_path.insert(0, Finder())\n",
    )
    return {}


def leftover_directory(workspace: Workspace) -> Mapping[str, str]:
    """pip leaves directories of a package with files that it did not install."""
    write(workspace.site / "cupy/_core/__pycache__/core.cpython-312.pyc")
    write(workspace.site / "cupy/.data/_depends.json", "{}")
    return {}


def pip_leftovers(workspace: Workspace) -> Mapping[str, str]:
    """The former distribution under the name that pip gives to packages while removing them."""
    write(workspace.site / "~upy_cuda12x-13.6.0.dist-info/METADATA", _metadata("cupy-cuda12x", "13.6.0"))
    write(workspace.site / "~upy/__init__.py")
    write(workspace.site / "cupy/__init__.py")
    return {}


def missing_cache_directory(workspace: Workspace) -> Mapping[str, str]:
    return {"CUPY_CACHE_DIR": str(workspace.folder / "scratch/job-7/cupy")}


def cache_in_memory(workspace: Workspace) -> Mapping[str, str]:
    read_only_home(workspace)
    return {"CUPY_CACHE_IN_MEMORY": "1"}


def empty_path_entries(workspace: Workspace) -> Mapping[str, str]:
    before = workspace.machine.environment["LD_LIBRARY_PATH"]
    os.makedirs(workspace.folder / "empty", exist_ok=True)  # noqa: PTH103
    return {"LD_LIBRARY_PATH": f":{workspace.folder / 'gone'}::{before}:{workspace.folder / 'empty'}:"}


def libcuda_of_another_release(workspace: Workspace) -> Mapping[str, str]:
    """libcuda of R535 with NVML and a kernel module of R550, as with a held-back package."""
    (library,) = workspace.machine.root.glob("usr/lib/*-linux-gnu/libcuda.so.550*")
    renamed = library.rename(library.with_name("libcuda.so.535.183.01"))
    link = library.with_name("libcuda.so.1")
    link.unlink()
    link.symlink_to(renamed.name)
    return {}


def arch_package(major: str) -> Setup:
    """A CuPy of a Linux distribution, whose modules are linked with the libraries of one CUDA major."""
    names = {"12": ("libcublas.so.12", "libcufft.so.11"), "13": ("libcublas.so.13", "libcufft.so.12")}[major]

    def setup(workspace: Workspace) -> Mapping[str, str]:
        write(workspace.site / "cupy/__init__.py")
        folder = workspace.site / "cupy_backends/cuda/libs"
        folder.mkdir(parents=True)
        (kit,) = workspace.machine.root.glob("usr/local/cuda-*/lib64")
        for module, name in zip(("cublas", "cufft"), names, strict=True):
            source = write(workspace.folder / f"{module}.c", "")
            output = str(folder / f"{module}{SUFFIX}")
            run(["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", str(source), str(kit / name), "-o", output])
        return {}

    return setup


def cuda_wheels_without_pathfinder(workspace: Workspace) -> Mapping[str, str]:
    write(workspace.site / "cupy/__init__.py")
    write(workspace.site / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    return {}


def missing_metadata(workspace: Workspace) -> Mapping[str, str]:
    (folder,) = workspace.site.glob("cupy_cuda12x-*.dist-info")
    (folder / "METADATA").unlink()
    write(workspace.site / "cupy/__init__.py")
    return {}


def missing_preload(workspace: Workspace) -> Mapping[str, str]:
    before = workspace.machine.environment.get("LD_PRELOAD", "")
    return {"LD_PRELOAD": f"{before} /opt/gone/libjemalloc.so.2".strip()}


def toolkit_on_library_path(release: str) -> Setup:
    """LD_LIBRARY_PATH names the libraries of another release first, as environment modules do."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        folder = workspace.folder / f"sw/cuda/{release}/lib64"
        shutil.copytree(compile_toolkit(release, workspace.folder / "compiled"), folder)
        return {"LD_LIBRARY_PATH": f"{folder}:{workspace.machine.environment['LD_LIBRARY_PATH']}"}

    return setup


def conda_compat(workspace: Workspace) -> Mapping[str, str]:
    """The libcuda of conda-forge's package cuda-compat, in a folder of its name, first on the loader's path."""
    folder = workspace.prefix / "cuda-compat"
    folder.mkdir()
    (driver,) = workspace.machine.root.glob("usr/lib/*-linux-gnu/libcuda.so.[0-9]*.*")
    shutil.copy2(driver, folder / "libcuda.so.575.57.08")
    (folder / "libcuda.so.1").symlink_to("libcuda.so.575.57.08")
    return {"LD_LIBRARY_PATH": f"{folder}:{workspace.machine.environment['LD_LIBRARY_PATH']}"}


def removed_kernel_modules(workspace: Workspace) -> Mapping[str, str]:
    """A package manager replaced the modules of the running kernel with those of the next."""
    shutil.rmtree(workspace.machine.root / "lib/modules/6.18.1-arch1-1")
    return {}


def empty_module(workspace: Workspace) -> Mapping[str, str]:
    """The disk was full while pip unpacked the wheel: the file is empty."""
    write(workspace.site / "cupy/__init__.py")
    write(workspace.site / f"cupy/_core/core{SUFFIX}")
    (record,) = workspace.site.glob("cupy_cuda*.dist-info/RECORD")
    with record.open("a", encoding="utf-8") as file:
        file.write(f"cupy/_core/core{SUFFIX},sha256=Zm9vYmFyZm9vYmFyZm9vYmFyZm9vYmFyZm9vYmFyZm8,3948712\n")
    return {}


def loader_path_without(part: str) -> Setup:
    """LD_LIBRARY_PATH without the directories that contain this part."""

    def setup(workspace: Workspace) -> Mapping[str, str]:
        folders = workspace.machine.environment["LD_LIBRARY_PATH"].split(":")
        assert any(part in folder for folder in folders), folders
        return {"LD_LIBRARY_PATH": ":".join(folder for folder in folders if part not in folder)}

    return setup
