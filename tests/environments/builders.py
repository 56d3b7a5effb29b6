"""Builders of environments with venv and uv, from real Pythons, wheels and records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.install.sandbox import run
from tests.install.wheels import Package, make_wheel
from tests.probe.pythons import python
from tests.scenarios.target_setups import SUFFIX

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox

CUPY, NUMPY = "cupy-cuda12x==14.2.0", "numpy==2.1.0"
CUPY_AND_NUMPY = (CUPY, NUMPY)
TWO_CUPYS = ("cupy-cuda11x==13.6.0", CUPY, NUMPY)
RELEASE = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def site_packages(prefix: Path) -> Path:
    (folder,) = prefix.glob("lib/python*/site-packages")
    return folder


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def run_uv(sandbox: Sandbox, *words: str | Path, **variables: str) -> None:
    run([sys.executable, "-m", "uv", *map(str, words)], sandbox.environment(**variables))


def install(sandbox: Sandbox, interpreter: Path, *packages: str | Path, **variables: str) -> None:
    """Installs packages one by one, so that wheel lines can conflict; also into an externally managed Python."""
    for package in packages:
        options = ("--quiet", "--no-deps", "--break-system-packages", "--python", interpreter)
        run_uv(sandbox, "pip", "install", *options, package, **variables)


def build_wheel(sandbox: Sandbox, package: Package) -> Path:
    """Builds a wheel outside of the index."""
    folder = sandbox.folder / "own-wheels"
    folder.mkdir(exist_ok=True)
    return make_wheel(folder, package)


def venv_of_python(sandbox: Sandbox, version: str, name: str, *packages: str | Path) -> Path:
    """A venv of another installed Python."""
    folder = sandbox.folder / name
    run([str(python(version)), "-m", "venv", "--without-pip", str(folder)], sandbox.environment())
    install(sandbox, folder / "bin/python", *packages)
    return folder


def make_system_python(folder: Path, *, managed: bool) -> Path:
    """A Python that is not a virtual environment: a copied program, and links to the modules of this Python."""
    base = Path(sys.base_prefix)
    program = Path(sys.base_prefix, "bin", RELEASE).resolve()
    (folder / "bin").mkdir(parents=True)
    shutil.copy2(program, folder / "bin" / RELEASE)
    for name in ("python3", "python"):
        (folder / "bin" / name).symlink_to(RELEASE)
    library = folder / "lib" / RELEASE
    (library / "site-packages").mkdir(parents=True)
    for entry in (base / "lib" / RELEASE).iterdir():
        if entry.name not in ("site-packages", "dist-packages", "EXTERNALLY-MANAGED", "__pycache__"):
            (library / entry.name).symlink_to(entry)
    if managed:
        write(library / "EXTERNALLY-MANAGED", "[externally-managed]\nError=To install Python packages, use apt.\n")
    return folder


def make_conda_prefix(sandbox: Sandbox, name: str, *packages: str) -> Path:
    """A conda environment: a Python, records with every file, and a history."""
    prefix = make_system_python(sandbox.folder / name, managed=False)
    write_conda_record(prefix, "python", "{}.{}.{}".format(*sys.version_info[:3]), [f"bin/{RELEASE}"])
    for package in packages:
        install_by_conda(sandbox, prefix, package)
    return prefix


def install_by_conda(sandbox: Sandbox, prefix: Path, package: str | Path, name: str | None = None) -> None:
    """Installs a distribution with the INSTALLER file and the record of conda."""
    before = set(list_files(prefix))
    install(sandbox, prefix / "bin/python", package)
    files = sorted(set(list_files(prefix)) - before)
    (info,) = [Path(entry).parent for entry in files if entry.endswith(".dist-info/METADATA")]
    write(prefix / info / "INSTALLER", "conda\n")
    distribution, _, release = info.name.removesuffix(".dist-info").rpartition("-")
    write_conda_record(prefix, name or distribution.replace("_", "-"), release, files)


def list_files(prefix: Path) -> list[str]:
    return [str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()]


def write_conda_record(prefix: Path, name: str, release: str, files: list[str]) -> None:
    """Writes a record in the form of conda 24."""
    build = "py311h0_0"
    file = f"{name}-{release}-{build}.conda"
    channel = "https://conda.anaconda.org/conda-forge/linux-64"
    record = {
        "arch": "x86_64",
        "build": build,
        "build_number": 0,
        "channel": channel,
        "constrains": [],
        "depends": ["python >=3.11,<3.12.0a0"],
        "extracted_package_dir": f"/opt/conda/pkgs/{file.removesuffix('.conda')}",
        "files": files,
        "fn": file,
        "link": {"source": f"/opt/conda/pkgs/{file.removesuffix('.conda')}", "type": 1},
        "md5": "0" * 32,
        "name": name,
        "paths_data": {"paths": [{"_path": path, "path_type": "hardlink"} for path in files], "paths_version": 1},
        "requested_spec": name,
        "subdir": "linux-64",
        "url": f"{channel}/{file}",
        "version": release,
    }
    write(prefix / f"conda-meta/{name}-{release}-{build}.json", json.dumps(record, indent=2))
    with (prefix / "conda-meta/history").open("a", encoding="utf-8") as history:
        history.write(
            f"==> 2026-11-01 10:00:00 <==\n# cmd: conda install {name}\n+{channel}::{name}-{release}-{build}\n"
        )


def install_editable(sandbox: Sandbox, target: Path, name: str, *requires: str) -> Path:
    """Installs a new project in editable mode (PEP 660), and returns its folder."""
    project = sandbox.folder / f"{name}-project"
    module = name.replace("-", "_")
    write(project / "src" / module / "__init__.py")
    write(project / "pyproject.toml", f'[project]\nname = "{name}"\nversion = "0.1"\n')
    package = Package(name, "0.1", requires, files={f"__editable__{module}.pth": f"{project}/src\n"})
    install(sandbox, target / "bin/python", build_wheel(sandbox, package))
    info = site_packages(target) / f"{module}-0.1.dist-info"
    write(info / "direct_url.json", json.dumps({"url": f"file://{project}", "dir_info": {"editable": True}}))
    return project


def change_owner(folder: Path, owner: int) -> None:
    for parent, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.lchown(Path(parent, name), owner, owner)


def compile_cupy(sandbox: Sandbox, folder: Path, soname: str) -> None:
    """Compiles CuPy's core module and its cuBLAS module below a folder, linked with a library of that soname."""
    work = sandbox.folder / "compiled"
    library = write(work / "cublas.c", "void cublas(void) {}\n")
    extension = write(work / "core.c", "void core(void) {}\n")
    _compile(f"-Wl,-soname,{soname}", library, "-o", work / soname)
    for module in (f"cupy/_core/core{SUFFIX}", f"cupy_backends/cuda/libs/cublas{SUFFIX}"):
        (folder / module).parent.mkdir(parents=True, exist_ok=True)
        _compile("-Wl,--no-as-needed", extension, work / soname, "-o", folder / module)


def _compile(*words: str | Path) -> None:
    subprocess.run(["cc", "-shared", "-fPIC", *map(str, words)], check=True, capture_output=True)
