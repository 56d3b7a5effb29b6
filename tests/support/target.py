"""Target environments: real virtual environments, in which uv has installed wheels that hold metadata alone.

The prober reads metadata and never imports CuPy, so nothing here pretends to be the module. The CUDA libraries are real
shared libraries with the sonames that CuPy needs, and empty.
"""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from gpuenv.simulate.profile import TargetSpec
from gpuenv.simulate.stub_driver import compile_toolkit

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTHING: Mapping[str, bytes] = MappingProxyType({})


def run_at_start(site_packages: Path, text: str) -> None:
    """Makes an interpreter run a text when it starts.

    A ``sitecustomize.py`` would not do: Debian's Python has its own in the standard library, which comes first.
    """
    (site_packages / "startup_hook.py").write_text(text, encoding="utf-8")
    (site_packages / "startup_hook.pth").write_text("import startup_hook\n", encoding="utf-8")


@dataclass(frozen=True, slots=True)
class Targets:
    """Makes target environments below a folder, each once."""

    folder: Path
    interpreters: dict[TargetSpec, Path] = field(default_factory=dict)

    def interpreter(self, target: TargetSpec) -> Path:
        """The interpreter of an environment with exactly these packages."""
        if target not in self.interpreters:
            self.interpreters[target] = self._make(target, self.folder / str(len(self.interpreters)))
        return self.interpreters[target]

    def _make(self, target: TargetSpec, folder: Path) -> Path:
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
        interpreter = folder / "venv/bin/python"
        _install(target.packages, folder, "--python", str(interpreter))
        _install(target.elsewhere, folder, "--python", str(interpreter), "--target", str(folder / "elsewhere"))
        paths = [str(folder / "elsewhere")] if target.elsewhere else []
        (site,) = (folder / "venv/lib").glob("python*/site-packages")
        if target.lib64:
            paths.append(str(folder / "venv/lib64" / site.relative_to(folder / "venv/lib")))
            if not (folder / "venv/lib64").exists():
                (folder / "venv/lib64").symlink_to("lib")
        if paths:
            (site / "further.pth").write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
        return interpreter


@dataclass(frozen=True, slots=True)
class CudaLibraries:
    """Compiles the CUDA libraries of pretend toolkits below a folder, each release once."""

    folder: Path

    def of(self, release: str) -> Path:
        """The folder with the libraries that CuPy loads of a CUDA release."""
        return compile_toolkit(release, self.folder)


def _install(packages: tuple[str, ...], folder: Path, *target: str) -> None:
    wheels = [str(metadata_wheel(folder, package)) for package in packages]
    if wheels:
        options = ["--no-config", "--no-cache", "--offline", "--no-index", "--no-deps"]
        _run([sys.executable, "-m", "uv", "pip", "install", *options, *target, *wheels])


def metadata_wheel(folder: Path, package: str, content: Mapping[str, bytes] = NOTHING) -> Path:
    """A wheel of a distribution that holds its name and version and no module, or the files given."""
    name, _, release = package.partition("==")
    if not release:
        raise ValueError(f"{package} names no version; expected name==version")
    stem = f"{name.replace('-', '_')}-{release}"
    wheel_text = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    files = {
        **content,
        f"{stem}.dist-info/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {release}\n".encode(),
        f"{stem}.dist-info/WHEEL": wheel_text.encode(),
    }
    record = f"{stem}.dist-info/RECORD"
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for entry, data in files.items():
            wheel.writestr(entry, data)
        lines = [f"{entry},{_digest(data)},{len(data)}\n" for entry, data in files.items()]
        wheel.writestr(record, "".join([*lines, f"{record},,\n"]))
    return path


def _digest(data: bytes) -> str:
    digest = hashlib.sha256(data).digest()
    return "sha256=" + base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed with exit code {result.returncode}:\n{result.stderr}")
