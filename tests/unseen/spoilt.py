"""What is done to the files of these machines."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from gpuenv.simulate.stub_driver import compile_toolkit
from tests.scenarios.spoiling import SUFFIX, run, write
from tests.support.target import run_at_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.scenarios.ground import Ground, Spoil


def _metadata(name: str, release: str) -> str:
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n"


def _user_site(ground: Ground) -> str:
    """The user's own packages, which a venv with the system's packages sees behind its own."""
    configuration = ground.prefix / "pyvenv.cfg"
    text = configuration.read_text(encoding="utf-8")
    assert "include-system-site-packages = false" in text
    write(configuration, text.replace("packages = false", "packages = true"))
    return str(ground.folder / "home/.local/lib" / ground.site.parent.name / "site-packages")


def cupy_of_the_user(ground: Ground) -> Mapping[str, str]:
    folder = ground.folder / _user_site(ground)
    write(folder / "cupy_cuda11x-12.3.0.dist-info/METADATA", _metadata("cupy-cuda11x", "12.3.0"))
    write(folder / "cupy/__init__.py")
    write(ground.site / "cupy/__init__.py")
    return {}


def loader_without_wsl(ground: Ground) -> Mapping[str, str]:
    """As with ``[automount] ldconfig = false``: the folder is there, and the loader is not told of it."""
    folders = ground.machine.environment["LD_LIBRARY_PATH"].split(":")
    return {"LD_LIBRARY_PATH": ":".join(folder for folder in folders if "/wsl/" not in folder)}


def without_library(*names: str) -> Spoil:
    def spoil(ground: Ground) -> Mapping[str, str]:
        for name in names:
            for path in ground.machine.root.glob(f"usr/local/cuda-*/lib64/{name}"):
                path.unlink()
        return {}

    return spoil


def write_protected_home(ground: Ground) -> Mapping[str, str]:
    (ground.folder / "home").chmod(0o555)
    return {}


def _replaced_python(ground: Ground, text: str | bytes) -> None:
    for path in (ground.prefix / "bin").glob("python*"):
        path.unlink()
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o755)


def another_machines_python(ground: Ground) -> Mapping[str, str]:
    """An ELF file of another architecture: the kernel refuses it with ``Exec format error``."""
    _replaced_python(ground, b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\xf3\x00" + bytes(200))
    return {}


def libc_too_old(ground: Ground) -> Mapping[str, str]:
    """What the loader says of a program that was built on a newer system."""
    words = "/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by python)"
    _replaced_python(ground, f'#!/bin/sh\necho "$0: {words}" >&2\nexit 1\n'.replace("`", "\\`"))
    return {}


def exits_at_once(ground: Ground) -> Mapping[str, str]:
    run_at_start(ground.site, "import os\nos._exit(7)\n")
    return {}


def folder_left_behind(ground: Ground) -> Mapping[str, str]:
    """What pip leaves of a package in which something was made after its installation."""
    write(ground.site / "cupy/_core/__pycache__/core.cpython-312.pyc")
    write(ground.site / "cupy/.data/_depends.json", "{}")
    return {}


def left_by_pip(ground: Ground) -> Mapping[str, str]:
    """The former distribution under the name that pip gives what it is about to remove."""
    write(ground.site / "~upy_cuda12x-13.6.0.dist-info/METADATA", _metadata("cupy-cuda12x", "13.6.0"))
    write(ground.site / "~upy/__init__.py")
    write(ground.site / "cupy/__init__.py")
    return {}


def cache_that_is_not_there_yet(ground: Ground) -> Mapping[str, str]:
    return {"CUPY_CACHE_DIR": str(ground.folder / "scratch/job-7/cupy")}


def in_memory_on_a_read_only_home(ground: Ground) -> Mapping[str, str]:
    write_protected_home(ground)
    return {"CUPY_CACHE_IN_MEMORY": "1"}


def empty_entries(ground: Ground) -> Mapping[str, str]:
    before = ground.machine.environment["LD_LIBRARY_PATH"]
    os.makedirs(ground.folder / "empty", exist_ok=True)  # noqa: PTH103
    return {"LD_LIBRARY_PATH": f":{ground.folder / 'gone'}::{before}:{ground.folder / 'empty'}:"}


def another_release_of_libcuda(ground: Ground) -> Mapping[str, str]:
    """libcuda of R535 beside NVML and a kernel module of R550, as with a package that is held back."""
    (library,) = ground.machine.root.glob("usr/lib/*-linux-gnu/libcuda.so.550*")
    held = library.rename(library.with_name("libcuda.so.535.183.01"))
    link = library.with_name("libcuda.so.1")
    link.unlink()
    link.symlink_to(held.name)
    return {}


def arch_package(major: str) -> Spoil:
    """CuPy as a distribution builds it: its modules are linked with the libraries of one CUDA."""
    names = {"12": ("libcublas.so.12", "libcufft.so.11"), "13": ("libcublas.so.13", "libcufft.so.12")}[major]

    def spoil(ground: Ground) -> Mapping[str, str]:
        write(ground.site / "cupy/__init__.py")
        folder = ground.site / "cupy_backends/cuda/libs"
        folder.mkdir(parents=True)
        (kit,) = ground.machine.root.glob("usr/local/cuda-*/lib64")
        for module, name in zip(("cublas", "cufft"), names, strict=True):
            source = write(ground.folder / f"{module}.c", "")
            built = str(folder / f"{module}{SUFFIX}")
            run(["cc", "-shared", "-fPIC", "-Wl,--no-as-needed", str(source), str(kit / name), "-o", built])
        return {}

    return spoil


def wheels_of_cuda_that_nobody_finds(ground: Ground) -> Mapping[str, str]:
    write(ground.site / "cupy/__init__.py")
    write(ground.site / "nvidia/cuda_nvrtc/lib/libnvrtc.so.12")
    return {}


def metadata_lost(ground: Ground) -> Mapping[str, str]:
    (folder,) = ground.site.glob("cupy_cuda12x-*.dist-info")
    (folder / "METADATA").unlink()
    write(ground.site / "cupy/__init__.py")
    return {}


def nothing_to_preload(ground: Ground) -> Mapping[str, str]:
    before = ground.machine.environment.get("LD_PRELOAD", "")
    return {"LD_PRELOAD": f"{before} /opt/gone/libjemalloc.so.2".strip()}


def another_toolkit_first(release: str) -> Spoil:
    """The libraries of another release in a folder that LD_LIBRARY_PATH names first, as environment modules do."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        folder = ground.folder / f"sw/cuda/{release}/lib64"
        shutil.copytree(compile_toolkit(release, ground.folder / "compiled"), folder)
        return {"LD_LIBRARY_PATH": f"{folder}:{ground.machine.environment['LD_LIBRARY_PATH']}"}

    return spoil


def modules_gone(ground: Ground) -> Mapping[str, str]:
    """A package manager has put the modules of the next kernel in the place of the running one's."""
    shutil.rmtree(ground.machine.root / "lib/modules/6.18.1-arch1-1")
    return {}


def empty_module(ground: Ground) -> Mapping[str, str]:
    """A disk that was full while pip unpacked: the file is there and has nothing in it."""
    write(ground.site / "cupy/__init__.py")
    write(ground.site / f"cupy/_core/core{SUFFIX}")
    (record,) = ground.site.glob("cupy_cuda*.dist-info/RECORD")
    with record.open("a", encoding="utf-8") as file:
        file.write(f"cupy/_core/core{SUFFIX},sha256=Zm9vYmFyZm9vYmFyZm9vYmFyZm9vYmFyZm9vYmFyZm8,3948712\n")
    return {}


def loader_without(part: str) -> Spoil:
    """The loader is told of no folder with this part in its path."""

    def spoil(ground: Ground) -> Mapping[str, str]:
        folders = ground.machine.environment["LD_LIBRARY_PATH"].split(":")
        assert any(part in folder for folder in folders), folders
        return {"LD_LIBRARY_PATH": ":".join(folder for folder in folders if part not in folder)}

    return spoil
