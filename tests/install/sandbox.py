"""A sandbox for installs: a local package index, a cache and virtual environments, compared file by file.

The index serves small stand-ins with the names, versions, extras and requirements of the real packages, which
tests/install/test_real_packages.py installs.
"""

from __future__ import annotations

import ensurepip
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import sysconfig
import threading
import time
from dataclasses import dataclass
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.program import run_gpuenv
from tests.install.wheels import SET, Package, make_wheel

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MACHINE = ("--assume", "driver=580.95.05", "--assume", "gpu=V100")  # takes CUDA 12: a V100 is too old for 13
LIMIT = 120.0


class Index:
    """A package index over HTTP, with faults that a test sets.

    Attributes:
        replacements: the content served for a wheel, by its file name.
        requests: the requested paths, in order.
    """

    def __init__(self, folder: Path, packages: Iterable[Package] = SET) -> None:
        self.folder = folder
        self.replacements: dict[str, bytes] = {}
        self.statuses: dict[str, int] = {}
        self.delays: dict[str, float] = {}
        self.requests: list[str] = []
        self.authorization: list[str] = []
        (folder / "files").mkdir(parents=True)
        self.wheels = [make_wheel(folder / "files", package) for package in packages]
        names = {package.name for package in packages}
        for name in names:
            page = folder / "simple" / name / "index.html"
            page.parent.mkdir(parents=True)
            matching = [wheel for wheel in self.wheels if wheel.name.startswith(f"{name.replace('-', '_')}-")]
            page.write_text("".join(map(self._link, matching)), encoding="utf-8")
        handler = partial(_Handler, self)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @staticmethod
    def _link(wheel: Path) -> str:
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        return f'<a href="../../files/{wheel.name}#sha256={digest}">{wheel.name}</a>\n'

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.server_address[1]}/simple"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Handler(SimpleHTTPRequestHandler):
    """Serves a folder, with the index's faults."""

    def __init__(self, index: Index, *arguments: Any) -> None:  # noqa: ANN401 - as the server passes them
        self._index = index
        super().__init__(*arguments, directory=str(index.folder))

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        self._index.requests.append(self.path)
        self._index.authorization.append(self.headers.get("Authorization", ""))
        time.sleep(max((seconds for path, seconds in self._index.delays.items() if path in self.path), default=0))
        status = next((status for path, status in self._index.statuses.items() if path in self.path), None)
        if status is not None:
            self.send_error(status)
            return
        content = self._index.replacements.get(name)
        if content is None:
            super().do_GET()
            return
        full_size = max(len(content), (self._index.folder / "files" / name).stat().st_size)
        self.send_response(200)
        self.send_header("Content-Length", str(full_size if len(content) < full_size // 2 + 1 else len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        del arguments


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A package index, a cache and libraries for installs into new environments.

    Attributes:
        index: the package index.
        folder: the folder of the environments and the cache.
        libraries: the libraries that the loader finds.
        python: the interpreter that runs gpuenv.
    """

    index: Index
    folder: Path
    libraries: Path
    python: str | Path = sys.executable

    def environment(self, **more: str) -> dict[str, str]:
        """Returns the variables of every call, without the machine's own configuration."""
        return {
            "PATH": os.defpath,
            "LC_ALL": "C.UTF-8",
            "HOME": str(self.folder),
            "LD_LIBRARY_PATH": str(self.libraries),
            "UV_DEFAULT_INDEX": f"http://{self.index.address}",
            "UV_CACHE_DIR": str(self.folder / "uv-cache"),
            "UV_NO_CONFIG": "1",
            "UV_HTTP_RETRIES": "0",
            "PIP_INDEX_URL": f"http://{self.index.address}",
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_NO_CACHE_DIR": "1",
            "PIP_RETRIES": "0",
            **more,
        }

    def target(self, name: str, *packages: str, python: str = sys.executable, pip: bool = False) -> Path:
        """Creates a virtual environment with these packages, each installed alone so that CuPy lines can coexist."""
        folder = self.folder / name
        bundled = bundled_pip() if pip else None
        options = [] if pip and bundled is None else ["--without-pip"]
        run([python, "-m", "venv", *options, str(folder)], self.environment())
        for package in (*packages, *([bundled] if bundled else [])):
            self.add(folder, package)
        return folder

    def gpuenv_interpreter(self, *, pip: bool) -> Path:
        """Creates an environment with gpuenv and its dependencies, with or without pip, and returns its interpreter."""
        folder = self.folder / "gpuenv"
        run([sys.executable, "-m", "venv", "--without-pip", str(folder)], self.environment())
        (site,) = folder.glob("lib/python*/site-packages")
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if entry.name != "pip" and not re.fullmatch(r"pip-[\d.]+\.dist-info", entry.name):
                (site / entry.name).symlink_to(entry)
        bundled = bundled_pip() if pip else None
        if pip:
            assert bundled is not None
            self.add(folder, bundled)
        return folder / "bin/python"

    def add(self, target: Path, *packages: str) -> None:
        """Installs packages with bare uv."""
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--python"]
        run([*command, str(target / "bin/python"), *packages], self.environment())

    def gpuenv(self, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs gpuenv, which must not crash."""
        result = run_gpuenv(arguments, self.environment(**more), LIMIT, python=self.python)
        assert result.returncode != 70, result.stderr
        return result

    def install(self, target: Path, *options: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """Runs ``gpuenv install --yes`` for an assumed driver and GPU."""
        return self.gpuenv("install", "--python", target, "--yes", *MACHINE, *options, **more)


def bundled_pip() -> str | None:
    """Returns the pip wheel shipped with Python, which uv installs faster than ensurepip does."""
    wheels = sorted((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    return str(wheels[-1]) if wheels else None


def run(command: list[str], environment: Mapping[str, str]) -> str:
    result = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False, timeout=LIMIT)
    assert result.returncode == 0, result.stderr
    return result.stdout


def contents(target: Path) -> dict[str, str]:
    """Returns every file, link and folder of an environment with its mode and digest.

    Excludes compiled caches, the journal and uv's lock file, which uv creates wherever it looks.
    """
    entries: dict[str, str] = {}
    for folder, folders, files in os.walk(target):
        folders[:] = [name for name in folders if name not in ("__pycache__", ".gpuenv")]
        for name in (*folders, *files):
            path = Path(folder, name)
            if path == target / ".lock":
                continue
            status = path.lstat()
            if stat.S_ISLNK(status.st_mode):
                content = f"-> {path.readlink()}"
            else:
                content = "" if stat.S_ISDIR(status.st_mode) else hashlib.sha256(path.read_bytes()).hexdigest()
            entries[str(path.relative_to(target))] = f"{stat.filemode(status.st_mode)} {content}"
    return entries


def versions(target: Path, *, quiet: bool = False) -> dict[str, str]:
    """Returns the installed releases as the environment's interpreter reports them; ``quiet`` skips sitecustomize."""
    code = "import importlib.metadata as m\nfor d in m.distributions(): print(d.metadata['Name'], d.version)"
    site = next(target.glob("lib/python*/site-packages"))
    code = f"import sys; sys.path.append({str(site)!r})\n{code}" if quiet else code
    lines = run([str(target / "bin/python"), *(["-S"] if quiet else []), "-B", "-c", code], {}).splitlines()
    installed = dict(line.split() for line in lines)
    return {name: release for name, release in installed.items() if name not in ("pip", "setuptools")}


def install_outcome(sandbox: Sandbox, target: Path, *options: str | Path, **more: str) -> tuple[int, Any]:
    """Installs, and returns the exit code and the outcome."""
    result = sandbox.install(target, "--format", "json", "--no-redact", *options, **more)
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)
