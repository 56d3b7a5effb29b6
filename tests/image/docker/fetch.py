"""A newer engine for ``GPUENV_TEST_ENGINES``, unpacked from another suite of Debian: nothing is installed or started.

``python -m tests.image.docker.fetch SUITE FOLDER``. ``docker build --check`` needs a BuildKit that knows it, which of
Debian's suites sid alone has (docker.io 28.5.2, docker-buildx 0.29.1; trixie's 26.1.5 and 0.13.1 refuse --call).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
_PACKAGES = ("docker.io", "docker-cli", "docker-buildx", "containerd")


def options(suite: str, folder: Path) -> list[str]:
    """apt's own, so that this machine's lists and cache stay as they are."""
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "cache/archives/partial").mkdir(parents=True)
    first = _SOURCES.read_text(encoding="utf-8").split("\n\n")[0]
    (folder / "own.sources").write_text(re.sub(r"(?m)^Suites:.*$", f"Suites: {suite}", first) + "\n", encoding="utf-8")
    settings = {
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::sourcelist": str(folder / "own.sources"),
        "Dir::State::lists": str(folder / "lists"),
        "Dir::Cache": str(folder / "cache"),
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "root",
    }
    return [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]


def fetch(suite: str, target: Path) -> None:
    """Unpacks the engine of a suite."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        apt = ["apt-get", "-qq", *options(suite, folder)]
        subprocess.run([*apt, "update"], check=True, timeout=300)
        wanted = [f"{package}/{suite}" for package in _PACKAGES]
        subprocess.run([*apt, "download", *wanted], check=True, timeout=600, cwd=folder)
        for package in sorted(folder.glob("*.deb")):
            subprocess.run(["dpkg", "-x", str(package), str(target)], check=True, timeout=120)


if __name__ == "__main__":
    fetch(sys.argv[1], Path(sys.argv[2]))
