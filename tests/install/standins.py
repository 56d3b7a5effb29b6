"""A small package set that stands in for CuPy's, behind a local index; and what a target holds, byte for byte.

The stand-ins have the names, versions, extras and needs of the real ones and a few small files each: what is tested
here is how they come and go. The real ones are in tests/install/test_real_packages.py.
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
    """A package index over HTTP; what it does wrong is what a test sets.

    Attributes:
        instead: what is given for a wheel, by its file name.
        asked: the paths that were asked for, in order.
    """

    def __init__(self, folder: Path, packages: Iterable[Package] = SET) -> None:
        self.folder = folder
        self.instead: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.authorization: list[str] = []
        (folder / "files").mkdir(parents=True)
        self.wheels = [make_wheel(folder / "files", package) for package in packages]
        names = {package.name for package in packages}
        for name in names:
            page = folder / "simple" / name / "index.html"
            page.parent.mkdir(parents=True)
            own = [wheel for wheel in self.wheels if wheel.name.startswith(f"{name.replace('-', '_')}-")]
            page.write_text("".join(map(self._link, own)), encoding="utf-8")
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
    """Serves a folder, and its faults."""

    def __init__(self, index: Index, *arguments: Any) -> None:  # noqa: ANN401 - the server's own
        self._index = index
        super().__init__(*arguments, directory=str(index.folder))

    def do_GET(self) -> None:
        name = self.path.rsplit("/", 1)[-1]
        self._index.asked.append(self.path)
        self._index.authorization.append(self.headers.get("Authorization", ""))
        content = self._index.instead.get(name)
        if content is None:
            super().do_GET()
            return
        whole = max(len(content), (self._index.folder / "files" / name).stat().st_size)
        self.send_response(200)
        self.send_header("Content-Length", str(whole if len(content) < whole // 2 + 1 else len(content)))
        self.end_headers()
        self.wfile.write(content)
        self.close_connection = True

    def log_message(self, *arguments: object) -> None:
        del arguments


@dataclass(frozen=True, slots=True)
class Ground:
    """Where installs are tried.

    Attributes:
        index: a package index.
        folder: of the test's own, with a cache in it.
        libraries: the libraries that a loader finds.
        python: the interpreter that runs gpuenv.
    """

    index: Index
    folder: Path
    libraries: Path
    python: str | Path = sys.executable

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of every call: nothing of the machine's own configuration."""
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
        """A new virtual environment that holds these packages, each installed for itself so that lines can meet."""
        folder = self.folder / name
        bundled = _bundled_pip() if pip else None
        options = [] if pip and bundled is None else ["--without-pip"]
        run([python, "-m", "venv", *options, str(folder)], self.environment())
        for package in (*packages, *([bundled] if bundled else [])):
            self.add(folder, package)
        return folder

    def home_of_gpuenv(self, *, pip: bool) -> Path:
        """An interpreter with gpuenv and all that it needs, and with a pip of its own or without one."""
        folder = self.folder / "gpuenv"
        run([sys.executable, "-m", "venv", "--without-pip", str(folder)], self.environment())
        (site,) = folder.glob("lib/python*/site-packages")
        for entry in Path(sysconfig.get_path("purelib")).iterdir():
            if entry.name != "pip" and not re.fullmatch(r"pip-[\d.]+\.dist-info", entry.name):
                (site / entry.name).symlink_to(entry)
        bundled = _bundled_pip() if pip else None
        if pip:
            assert bundled is not None
            self.add(folder, bundled)
        return folder / "bin/python"

    def add(self, target: Path, *packages: str) -> None:
        """Installs with bare uv."""
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-deps", "--python"]
        run([*command, str(target / "bin/python"), *packages], self.environment())

    def gpuenv(self, *arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """One call of the program; no traceback reaches the user."""
        done = run_gpuenv(arguments, self.environment(**more), LIMIT, python=self.python)
        assert done.returncode != 70, done.stderr
        return done

    def install(self, target: Path, *options: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
        """``gpuenv install --yes`` for a machine whose driver and GPU are told."""
        return self.gpuenv("install", "--python", target, "--yes", *MACHINE, *options, **more)


def _bundled_pip() -> str | None:
    """The wheel that Python itself brings: uv installs it in a moment, ensurepip takes seconds."""
    wheels = sorted((Path(ensurepip.__file__).parent / "_bundled").glob("pip-*.whl"))
    return str(wheels[-1]) if wheels else None


def run(command: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def contents(target: Path) -> dict[str, str]:
    """Every file, link and folder of an environment with its mode and digest.

    Compiled caches, the journal and uv's own lock file are left out: uv makes that one wherever it looks.
    """
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(target):
        folders[:] = [name for name in folders if name not in ("__pycache__", ".gpuenv")]
        for name in (*folders, *files):
            path = Path(folder, name)
            if path == target / ".lock":
                continue
            told = path.lstat()
            if stat.S_ISLNK(told.st_mode):
                what = f"-> {path.readlink()}"
            else:
                what = "" if stat.S_ISDIR(told.st_mode) else hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(target))] = f"{stat.filemode(told.st_mode)} {what}"
    return found


def versions(target: Path, *, quiet: bool = False) -> dict[str, str]:
    """What is installed, as the environment's own interpreter tells; ``quiet`` keeps its sitecustomize out."""
    code = "import importlib.metadata as m\nfor d in m.distributions(): print(d.metadata['Name'], d.version)"
    site = next(target.glob("lib/python*/site-packages"))
    code = f"import sys; sys.path.append({str(site)!r})\n{code}" if quiet else code
    lines = run([str(target / "bin/python"), *(["-S"] if quiet else []), "-B", "-c", code], {}).splitlines()
    there = dict(line.split() for line in lines)
    return {name: release for name, release in there.items() if name not in ("pip", "setuptools")}


def outcome(ground: Ground, target: Path, *options: str | Path, **more: str) -> tuple[int, Any]:
    """How an install ended, and what it told."""
    done = ground.install(target, "--format", "json", "--no-redact", *options, **more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)
