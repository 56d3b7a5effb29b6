"""A sandbox for conda: a local channel, a conda environment, and stand-ins for conda, mamba and micromamba."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rattler.index import index_fs

from tests.cli.program import run_gpuenv
from tests.install.sandbox import LIMIT, MACHINE, contents

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.support.target import CudaLibraries


FOLDER = Path(__file__).parent
FUTURE = "from __future__ import annotations\n"
# A command for /bin/sh and a string for Python, since "#!" allows no space in the interpreter's path.
PYTHON_SCRIPT = f"""#!/bin/sh
'''exec' "{sys.executable}" "$0" "$@"
' '''
from __future__ import annotations"""


SITE = f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"


FORMER = {"numpy": "2.1.0", "cuda-version": "13.0", "science": "1.0"}


def make_package(
    channel: Path, name: str, release: str, files: dict[str, str], *depends: str, build: str = "0"
) -> None:
    """Writes a .tar.bz2 with its index and paths, as conda-build does (CEP "Package layout")."""
    index = {
        "name": name,
        "version": release,
        "build": build,
        "build_number": 0,
        "depends": list(depends),
        "noarch": "generic",
        "subdir": "noarch",
        "timestamp": 1700000000000,
    }
    paths = [
        {
            "_path": path,
            "path_type": "hardlink",
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "size_in_bytes": len(text),
        }
        for path, text in files.items()
    ]
    members = {
        **files,
        "info/index.json": json.dumps(index),
        "info/paths.json": json.dumps({"paths": paths, "paths_version": 1}),
        "info/files": "".join(f"{path}\n" for path in files),
    }
    (channel / "noarch").mkdir(parents=True, exist_ok=True)
    with tarfile.open(channel / "noarch" / f"{name}-{release}-{build}.tar.bz2", "w:bz2") as tar:
        for path, text in members.items():
            info = tarfile.TarInfo(path)
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))


def distribution(name: str, release: str, **files: str) -> dict[str, str]:
    """Returns the files of a Python distribution in a conda package."""
    info = f"{SITE}/{name}-{release}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n"
    return {f"{info}/METADATA": head, f"{info}/INSTALLER": "conda\n", f"{info}/RECORD": "", **files}


def cupy(release: str, *, works: bool = True) -> dict[str, str]:
    text = f"__version__ = {release!r}\n" if works else "import nothing_of_that_name\n"
    return distribution("cupy", release, **{f"{SITE}/cupy/__init__.py": text, f"{SITE}/cupyx/__init__.py": ""})


@dataclass(frozen=True, slots=True)
class Conda:
    """A channel, an environment with a few packages, and the conda programs."""

    folder: Path
    prefix: Path
    libraries: Path

    def environment(self, program: str = "conda", **more: str) -> dict[str, str]:
        return {
            "PATH": f"{self.folder / program}:{os.defpath}",
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "LD_LIBRARY_PATH": str(self.libraries),
            "RATTLER_CACHE_DIR": str(self.folder / "cache"),
            "CONDA_CHANNEL_ALIAS": str(self.folder / "channels"),
            **more,
        }

    def gpuenv(self, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        return run_gpuenv(arguments, self.environment(**more), LIMIT)

    def install(self, *options: str, machine: tuple[str, ...] = MACHINE, **more: str) -> tuple[int, Any]:
        result = self.gpuenv(
            "install", "--python", self.prefix, "--yes", "--format", "json", "--no-redact", *machine, *options, **more
        )
        assert result.stdout, result.stderr
        return result.returncode, json.loads(result.stdout)

    def packages(self) -> dict[str, str]:
        records = (json.loads(path.read_text(encoding="utf-8")) for path in (self.prefix / "conda-meta").glob("*.json"))
        return {record["name"]: record["version"] for record in records}

    def files(self) -> Mapping[str, str]:
        """Returns the files except conda's records, which contain timestamps."""
        return {path: state for path, state in contents(self.prefix).items() if not path.startswith("conda-meta")}


@pytest.fixture
def conda(tmp_path: Path, cuda_libraries: CudaLibraries) -> Conda:
    channel = tmp_path / "channels/conda-forge"
    numpy = {
        release: distribution("numpy", release, **{f"{SITE}/numpy/__init__.py": "", f"{SITE}/numpy/version.py": ""})
        for release in ("1.26.4", "2.1.0")
    }
    for release, files in numpy.items():
        make_package(channel, "numpy", release, files)
    for release in ("12.9", "13.0"):
        make_package(channel, "cuda-version", release, {f"share/cuda-{release}": ""})
    make_package(channel, "_mutex", "0.1", {"share/mutex": ""})
    make_package(channel, "science", "1.0", {"share/science": "1"})
    make_package(channel, "cupy", "14.1.1", cupy("14.1.1"), "numpy >=2.0", "cuda-version >=12.2,<13", "_mutex")
    make_package(channel, "cupy", "13.6.0", cupy("13.6.0"), "numpy >=1.22", "cuda-version >=12.2,<13")
    asyncio.run(index_fs(channel))
    for name in ("conda", "mamba", "micromamba"):
        (tmp_path / name).mkdir()
        program = tmp_path / name / name
        text = (FOLDER / "fake_conda.py").read_text(encoding="utf-8")
        program.write_text(f"{PYTHON_SCRIPT}\n{text.partition(FUTURE)[2]}", encoding="utf-8")
        program.chmod(0o755)
    prefix = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(prefix)], check=True)
    sandbox = Conda(tmp_path, prefix, cuda_libraries.of("12.9"))
    (prefix / "conda-meta").mkdir()
    specs = [f"{name}={release}" for name, release in FORMER.items()]
    install = ["conda", "install", f"--prefix={prefix}", "--yes", "--json", "--channel=conda-forge", *specs]
    subprocess.run(
        install, env=sandbox.environment(), check=True, capture_output=True, executable=tmp_path / "conda/conda"
    )
    assert sandbox.packages() == FORMER
    return sandbox
