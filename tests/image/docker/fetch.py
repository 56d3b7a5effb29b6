"""Unpacks a newer engine for ``GPUENV_TEST_ENGINES`` from another Debian suite, without installing it.

``python -m tests.image.docker.fetch SUITE FOLDER``. Of Debian's suites, only sid has a BuildKit that
knows ``docker build --check`` (docker.io 28.5.2, docker-buildx 0.29.1); trixie's 26.1.5 and 0.13.1 refuse --call.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
_PACKAGES = ("docker.io", "docker-cli", "docker-buildx", "containerd")


def apt_options(suite: str, folder: Path) -> list[str]:
    """Options with which apt keeps its lists and its cache in a folder, instead of the system's."""
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    first = _SOURCES.read_text(encoding="utf-8").split("\n\n")[0]
    (folder / "suite.sources").write_text(
        re.sub(r"(?m)^Suites:.*$", f"Suites: {suite}", first) + "\n", encoding="utf-8"
    )
    settings = {
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::sourcelist": str(folder / "suite.sources"),
        "Dir::State::lists": str(folder / "lists"),
        "Dir::Cache": str(folder / "cache"),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "root",
    }
    return [argument for name, value in settings.items() for argument in ("-o", f"{name}={value}")]


def fetch(suite: str, target: Path) -> None:
    """Downloads the engine's packages of a suite and unpacks them."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apt = ["apt-get", "-qq", *apt_options(suite, folder)]
        subprocess.run([*apt, "update"], check=True, timeout=300)
        packages = [f"{package}/{suite}" for package in _PACKAGES]
        subprocess.run([*apt, "download", *packages], check=True, timeout=600, cwd=folder)
        for package in sorted(folder.glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(package), str(target)], check=True, timeout=120)


if __name__ == "__main__":
    fetch(sys.argv[1], Path(sys.argv[2]))
