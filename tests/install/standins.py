"""A small package set that stands in for CuPy's, behind a local index; and what a target holds, byte for byte.

The stand-ins have the names, versions, extras and needs of the real ones and a few small files each: what is tested
here is how they come and go. The real ones are in tests/install/test_real_packages.py.
"""

from __future__ import annotations

import base64
import ensurepip
import hashlib
import os
import re
import stat
import subprocess
import sys
import sysconfig
import threading
import zipfile
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.cli.program import called

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MACHINE = ("--assume", "driver=580.95.05", "--assume", "gpu=V100")  # takes CUDA 12: a V100 is too old for 13
LIMIT = 120.0


@dataclass(frozen=True, slots=True)
class Package:
    """A wheel to be made.

    Attributes:
        name: of the distribution.
        release: its version.
        requires: its Requires-Dist lines.
        extras: its Provides-Extra lines.
        files: what it installs, beside its metadata.
        scripts: names of programs that it installs.
        lies: paths whose RECORD tells another digest.
    """

    name: str
    release: str
    requires: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    scripts: tuple[str, ...] = ()
    lies: tuple[str, ...] = ()

    @property
    def stem(self) -> str:
        return f"{self.name.replace('-', '_')}-{self.release}"


def cupy(line: str, release: str, *, ctk: str | None = None, numpy: str = "numpy>=1.22") -> Package:
    """One CuPy: every line has the same file names."""
    modules = {f"cupy/part{number}.py": f"# {line} {release} {number}\n" for number in range(64)}
    major = line.removeprefix("cupy-cuda").removesuffix("x")
    return Package(
        line,
        release,
        (numpy, *([f'cuda-toolkit[nvrtc]=={ctk}.*; extra == "ctk"'] if ctk else [])),
        ("ctk",) if ctk else (),
        {
            "cupy/__init__.py": f"__version__ = {release!r}\n__line__ = {line!r}\n",
            "cupyx/__init__.py": "",
            f"cupy/.data/only{major}.txt": line,
            "cupy_backends/__init__.py": f"# {line} {release}\n",
            **modules,
        },
    )


def numpy(release: str, *scripts: str) -> Package:
    """With the file by which it is told from a script of that name."""
    files = {"numpy/__init__.py": f"__version__ = {release!r}\n", "numpy/version.py": f"version = {release!r}\n"}
    return Package("numpy", release, files=files, scripts=scripts)


SET = (
    cupy("cupy-cuda11x", "13.6.0"),
    cupy("cupy-cuda12x", "13.6.0"),
    cupy("cupy-cuda12x", "14.2.0", ctk="12", numpy="numpy>=2.0"),
    cupy("cupy-cuda13x", "14.2.0", ctk="13", numpy="numpy>=2.0"),
    Package("cuda-toolkit", "12.9.2", ('nvidia-cuda-nvrtc-cu12==12.9.*; extra == "nvrtc"',), ("nvrtc",)),
    Package("cuda-toolkit", "13.5.0", ('nvidia-cuda-nvrtc==13.5.*; extra == "nvrtc"',), ("nvrtc",)),
    Package(
        "nvidia-cuda-nvrtc-cu12", "12.9.86", files={"nvidia/__init__.py": "", "nvidia/cuda_nvrtc/n12.py": "n=12\n"}
    ),
    Package("nvidia-cuda-nvrtc", "13.5.37", files={"nvidia/__init__.py": "", "nvidia/cu13/n13.py": "n=13\n"}),
    numpy("1.26.4", "f2py"),
    numpy("2.1.0", "f2py", "numpy-config"),
    Package("torch", "2.6.0", ("nvidia-cuda-nvrtc==13.5.37",), files={"torch/__init__.py": "__version__ = '2.6.0'\n"}),
    Package("old-science", "1.0", ("numpy<2",), files={"old_science.py": ""}),
    Package("user-of-numpy", "1.0", ("numpy",), files={"user_of_numpy.py": ""}),
)


def make_wheel(folder: Path, package: Package) -> Path:
    """Writes a wheel with a right RECORD, but for what the package lies about."""
    info = f"{package.stem}.dist-info"
    head = f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.release}\n"
    needs = [f"Requires-Dist: {text}\n" for text in package.requires]
    extras = [f"Provides-Extra: {text}\n" for text in package.extras]
    files = {
        **package.files,
        f"{info}/METADATA": "".join([head, *extras, *needs]),
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    if package.scripts:
        entries = "".join(f"{name} = {package.name}:main\n" for name in package.scripts)
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{entries}"
    lines = [
        f"{path},sha256={_digest(text + ('!' if path in package.lies else ''))},{len(text.encode())}\n"
        for path, text in files.items()
    ]
    path = folder / f"{package.stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for entry, text in {**files, f"{info}/RECORD": "".join([*lines, f"{info}/RECORD,,\n"])}.items():
            wheel.writestr(zipfile.ZipInfo(entry, (2026, 1, 1, 0, 0, 0)), text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


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
        done = called(arguments, self.environment(**more), LIMIT, python=self.python)
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
