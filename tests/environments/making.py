"""How such environments are made: by venv and uv, with real Pythons, wheels and records."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tests.install.standins import run
from tests.install.wheels import Package, make_wheel
from tests.probe.pythons import python
from tests.scenarios.target_setups import SUFFIX

if TYPE_CHECKING:
    from tests.install.standins import Ground

TWELVE, NUMPY = "cupy-cuda12x==14.2.0", "numpy==2.1.0"
SOUND = (TWELVE, NUMPY)
BOTH = ("cupy-cuda11x==13.6.0", TWELVE, NUMPY)
RELEASE = f"python{sys.version_info[0]}.{sys.version_info[1]}"


def site(prefix: Path) -> Path:
    (found,) = prefix.glob("lib/python*/site-packages")
    return found


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def bare_uv(ground: Ground, *words: str | Path, **variables: str) -> None:
    run([sys.executable, "-m", "uv", *map(str, words)], ground.environment(**variables))


def add(ground: Ground, interpreter: Path, *packages: str | Path, **variables: str) -> None:
    """Each for itself, so that lines can meet; into a Python that a system manages too."""
    for package in packages:
        options = ("--quiet", "--no-deps", "--break-system-packages", "--python", interpreter)
        bare_uv(ground, "pip", "install", *options, package, **variables)


def own_wheel(ground: Ground, package: Package) -> Path:
    """A wheel that is on no index."""
    folder = ground.folder / "own-wheels"
    folder.mkdir(exist_ok=True)
    return make_wheel(folder, package)


def of_python(ground: Ground, version: str, name: str, *packages: str | Path) -> Path:
    """A venv of another Python of this machine."""
    folder = ground.folder / name
    run([str(python(version)), "-m", "venv", "--without-pip", str(folder)], ground.environment())
    add(ground, folder / "bin/python", *packages)
    return folder


def system_python(folder: Path, *, managed: bool) -> Path:
    """A Python that is no virtual environment: a program of its own, and links to the modules of this one."""
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


def conda_prefix(ground: Ground, name: str, *packages: str) -> Path:
    """An environment as conda makes it: a Python of its own, records with every file, a history."""
    prefix = system_python(ground.folder / name, managed=False)
    conda_record(prefix, "python", "{}.{}.{}".format(*sys.version_info[:3]), [f"bin/{RELEASE}"])
    for package in packages:
        put_by_conda(ground, prefix, package)
    return prefix


def put_by_conda(ground: Ground, prefix: Path, package: str | Path, name: str | None = None) -> None:
    """A distribution that conda has put there, as its metadata and conda's record tell."""
    before = set(files_below(prefix))
    add(ground, prefix / "bin/python", package)
    came = sorted(set(files_below(prefix)) - before)
    (info,) = [Path(entry).parent for entry in came if entry.endswith(".dist-info/METADATA")]
    write(prefix / info / "INSTALLER", "conda\n")
    distribution, _, release = info.name.removesuffix(".dist-info").rpartition("-")
    conda_record(prefix, name or distribution.replace("_", "-"), release, came)


def files_below(prefix: Path) -> list[str]:
    return [str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file()]


def conda_record(prefix: Path, name: str, release: str, files: list[str]) -> None:
    """As conda 24 writes it."""
    build = "py311h0_0"
    file = f"{name}-{release}-{build}.conda"
    channel = "https://conda.anaconda.org/conda-forge/linux-64"
    told = {
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
    write(prefix / f"conda-meta/{name}-{release}-{build}.json", json.dumps(told, indent=2))
    with (prefix / "conda-meta/history").open("a", encoding="utf-8") as history:
        history.write(
            f"==> 2026-11-01 10:00:00 <==\n# cmd: conda install {name}\n+{channel}::{name}-{release}-{build}\n"
        )


def editable(ground: Ground, target: Path, name: str, *requires: str) -> Path:
    """A project that is installed as a link to its source, as PEP 660 has it; answers the project."""
    project = ground.folder / f"{name}-project"
    module = name.replace("-", "_")
    write(project / "src" / module / "__init__.py")
    write(project / "pyproject.toml", f'[project]\nname = "{name}"\nversion = "0.1"\n')
    package = Package(name, "0.1", requires, files={f"__editable__{module}.pth": f"{project}/src\n"})
    add(ground, target / "bin/python", own_wheel(ground, package))
    info = site(target) / f"{module}-0.1.dist-info"
    write(info / "direct_url.json", json.dumps({"url": f"file://{project}", "dir_info": {"editable": True}}))
    return project


def give_away(folder: Path, owner: int) -> None:
    for place, folders, files in os.walk(folder):
        for name in (".", *folders, *files):
            os.lchown(Path(place, name), owner, owner)


def compiled_with(ground: Ground, folder: Path, soname: str) -> None:
    """CuPy's modules below a folder: the central one, and the one of cuBLAS, really linked with a library of CUDA's."""
    work = ground.folder / "compiled"
    code = write(work / "cublas.c", "void cublas(void) {}\n")
    use = write(work / "core.c", "void core(void) {}\n")
    _compile(f"-Wl,-soname,{soname}", code, "-o", work / soname)
    for module in (f"cupy/_core/core{SUFFIX}", f"cupy_backends/cuda/libs/cublas{SUFFIX}"):
        (folder / module).parent.mkdir(parents=True, exist_ok=True)
        _compile("-Wl,--no-as-needed", use, work / soname, "-o", folder / module)


def _compile(*words: str | Path) -> None:
    subprocess.run(["cc", "-shared", "-fPIC", *map(str, words)], check=True, capture_output=True)
