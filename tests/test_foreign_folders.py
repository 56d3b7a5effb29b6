"""Root, in the working folder, the home and the environment of another user: nothing there is executed or changed.

Each command runs under strace. Every file of the other user that could be code is a trap: a Python module or a program
that writes its name to a log, or a library whose constructor does.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from gpuenv.cli.app import COMMANDS
from gpuenv.simulate.stub_driver import FLAGS
from tests.cli.snapshots import FIT, UNFIT, write_snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("strace") or not shutil.which("cc"),
        reason="needs Linux, root, strace and a C compiler",
    ),
]
OTHER = 12345
SYSTEM = "/usr/bin/python3" if os.access("/usr/bin/python3", os.X_OK) else sys.executable
PROGRAM = str(Path(sysconfig.get_path("scripts")) / "gpuenv")
LIMIT = 240.0
MODULES = (
    *("sitecustomize", "usercustomize", "re", "json", "typing", "subprocess", "ctypes", "platform", "sysconfig"),
    *("pip/__init__", "pip/__main__", "uv/__init__", "uv/__main__", "gpuenv/__init__", "packaging/__init__"),
    *("numpy", "cupy", "cuda", "pynvml", "yaml", "typer", "rich", "telling", "venv", "ensurepip", "conda"),
)
PROGRAMS = ("uv", "pip", "python", "python3", "nvidia-smi", "nvcc", "git", "cc", "gcc", "docker", "conda", "ldconfig")
LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1", "libc.so.6", "libcudart.so.12", "libnvrtc.so.12")
CONFIGURATIONS = {
    "gpuenv.toml": "unknown = 1\n",
    "pyproject.toml": '[tool.gpuenv]\nunknown = 1\n[tool.uv]\nindex-url = "INDEX"\n',
    "uv.toml": 'index-url = "INDEX"\n',
    "pip.conf": "[global]\nindex-url = INDEX\n",
    ".env": "PIP_INDEX=INDEX\nPYTHONPATH=.\n",
    "setup.cfg": "[install]\nprefix = .\n",
    "matrix.yaml": "not: a matrix\n",
    ".python-version": "./venv/bin/python\n",
}
MACHINE = ("--assume", "driver=580.95.05", "--assume", "gpu=H100")


class Stranger(NamedTuple):
    """The folders of the other user, and what is root's: input files, a target and the log of the traps.

    The other user's configurations name an index: a socket that counts connections and answers none.
    """

    folder: Path
    own: Path
    server: socket.socket

    @property
    def work(self) -> Path:
        return self.folder / "work"

    @property
    def log(self) -> Path:
        return self.own / "log"

    def environment(self, *, with_uv: bool) -> dict[str, str]:
        home = self.folder / "home"
        programs = [Path(PROGRAM).parent] if with_uv else []
        return {
            "PATH": os.pathsep.join([*map(str, programs), os.defpath]),
            "LC_ALL": "C.UTF-8",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / ".cache"),
            "XDG_DATA_HOME": str(home / ".local/share"),
            "XDG_CONFIG_HOME": str(home / ".config"),
            "XDG_STATE_HOME": str(home / ".local/state"),
            "XDG_RUNTIME_DIR": str(home / ".run"),
            "VIRTUAL_ENV": str(self.folder / "venv"),
            "USER": "other",
            "PIP_RETRIES": "0",
            "PIP_DEFAULT_TIMEOUT": "2",
            "UV_HTTP_RETRIES": "0",
            "UV_HTTP_TIMEOUT": "2",
        }

    def connections(self) -> int:
        """The number of connections to the index since the last call."""
        number = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                self.server.accept()[0].close()
                number += 1
        return number

    def state(self) -> dict[str, tuple[object, ...]]:
        """What is known of every file and folder, but when it was read."""
        paths = [self.folder, *self.folder.rglob("*")]
        found = {str(path): path.lstat() for path in paths}
        return {path: (s.st_ino, s.st_mode, s.st_uid, s.st_size, s.st_mtime_ns) for path, s in found.items()}


def set_trap_modules(folder: Path, log: Path) -> None:
    for name in MODULES:
        path = folder / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        code = f"import os\nif os.geteuid() == 0: open({str(log)!r}, 'a').write({str(path)!r} + '\\n')\n"
        path.write_text(code, encoding="utf-8")


def set_trap_programs(folder: Path, log: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        if not (folder / name).exists():
            text = f"#!/bin/sh\n[ $(id -u) = 0 ] && echo {folder / name} >> {log}\nexit 1\n"
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o755)


def make_trap_library(folder: Path, log: Path) -> Path:
    """A library that writes to the log when root loads it."""
    source, library = folder / "trap.c", folder / "trap.so"
    source.write_text(
        f"""#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void trap(void) {{
    FILE *log = geteuid() ? NULL : fopen("{log}", "a");
    if (log) {{ fputs("a library\\n", log); fclose(log); }}
}}
"""
    )
    subprocess.run(["cc", *FLAGS, "-o", str(library), str(source)], check=True)
    return library


def make_environments(stranger: Stranger) -> None:
    """A target of root, one of the other user, and the caches of the other user, as the program itself makes them."""
    # The other user must be able to execute the base interpreter.
    for folder, python in ((stranger.own, sys.executable), (stranger.folder, SYSTEM)):
        subprocess.run([python, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    variables = {**stranger.environment(with_uv=False), "VIRTUAL_ENV": ""}
    command = [PROGRAM, "simulate", "h200-580", "--", "true"]
    subprocess.run(command, env=variables, cwd="/", check=True, timeout=LIMIT)


def set_traps(stranger: Stranger) -> None:
    home, log = stranger.folder / "home", stranger.log
    library = make_trap_library(stranger.own, log)
    cached = [path for path in home.rglob("*.so*") if path.is_file() and not path.is_symlink()]
    assert cached, "the libraries of simulate"
    for path in (*cached, *(stranger.work / name for name in LIBRARIES)):
        shutil.copyfile(library, path)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    (packages_of_venv,) = stranger.folder.glob("venv/lib/python*/site-packages")
    packages = (packages_of_venv, home / f".local/lib/{version}/site-packages")
    for folder in (stranger.work, *packages):
        set_trap_modules(folder, log)
    for folder in packages:
        line = f"import os; os.geteuid() or open({str(log)!r}, 'a').write({str(folder / 'trap.pth')!r} + '\\n')\n"
        (folder / "trap.pth").write_text(line, encoding="utf-8")
    for folder in (stranger.work, stranger.folder / "venv/bin", home / "bin", home / ".local/bin"):
        set_trap_programs(folder, log)


def write_configurations(stranger: Stranger) -> None:
    home = stranger.folder / "home"
    files = {
        **{stranger.work / name: text for name, text in CONFIGURATIONS.items()},
        stranger.work / "Dockerfile": "FROM python:3.12\nRUN pip install cupy-cuda12x\n",
        home / ".pip/pip.conf": CONFIGURATIONS["pip.conf"],
        home / ".config/pip/pip.conf": CONFIGURATIONS["pip.conf"],
        home / ".config/uv/uv.toml": CONFIGURATIONS["uv.toml"],
        home / ".local/share/gpuenv/matrix.yaml": CONFIGURATIONS["matrix.yaml"],
        stranger.own / "log.txt": "RuntimeError: CUDA error: no kernel image is available for execution\n",
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        index = f"http://127.0.0.1:{stranger.server.getsockname()[1]}/simple"
        path.write_text(text.replace("INDEX", index), encoding="utf-8")


@pytest.fixture(scope="module")
def stranger() -> Iterator[Stranger]:
    """Below a folder that everyone can enter, since the other user's interpreter may be started as that user."""
    with (
        tempfile.TemporaryDirectory(prefix="foreign-folders-") as base,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        Path(base).chmod(0o755)
        server.setblocking(False)
        made = Stranger(Path(base) / "other", Path(base) / "own", server)
        for folder in (made.work, made.folder / "home/.run", made.own):
            folder.mkdir(parents=True)
        make_environments(made)
        set_traps(made)
        write_configurations(made)
        write_snapshot(FIT, made.own / "fit.json")
        write_snapshot(UNFIT, made.own / "unfit.json")
        for path in [made.folder, *made.folder.rglob("*")]:
            os.chown(path, OTHER, OTHER, follow_symlinks=False)
        yield made


# In the arguments, OWN is root's folder and OTHER that of the other user.
CALLS = (
    "doctor",
    "doctor --deep --smoke",
    "doctor --python OTHER/venv",
    "doctor --python OWN/venv --deep",
    "doctor --snapshot OWN/unfit.json",
    "preflight",
    "preflight --python OWN/venv --smoke --require gpu>=1",
    "resolve -v",
    "resolve --no-probe --assume driver=580.95.05 --assume gpu=H100",
    "install --dry-run MACHINE",
    "install --dry-run --python OWN/venv MACHINE",
    "install --dry-run --python OWN/venv --installer pip MACHINE",
    "install --dry-run --python OWN/venv --installer conda MACHINE",
    "rollback --list",
    "rollback --list --python OWN/venv",
    "lock --snapshot OWN/fit.json",
    "lock --snapshot OWN/fit.json --installer pip",
    "lock MACHINE",
    "bundle --snapshot OWN/fit.json -o OWN/bundle",
    "bundle --snapshot OWN/fit.json -o OWN/bundle --installer pip",
    "probe",
    "probe --deep --python OWN/venv",
    "smoke",
    "smoke --python OWN/venv",
    "explain OWN/log.txt",
    "explain OWN/log.txt --probe",
    "fleet node -o OWN/nodes",
    "fleet node --python OWN/venv -o OWN/nodes",
    "fleet report OWN/fit.json",
    "help doctor",
    "diff OWN/fit.json OWN/unfit.json",
    "run -- true",
    "run -- false",
    "schema report",
    "simulate --list",
    "simulate h200-580 -- PROGRAM doctor --python OWN/venv",
    "simulate h200-580 -- PROGRAM doctor",
    "matrix show",
    "matrix check",
    "matrix refresh --dry-run",
    "matrix refresh --dry-run --index pip",
    "check-image --dockerfile OTHER/work/Dockerfile MACHINE",
    "check-image --from engine --offline --no-probe python:3.12",
    "build-image --dry-run --no-probe MACHINE",
    "build-image --dry-run --no-probe --installer pip MACHINE",
)


class Trace(NamedTuple):
    """What processes of root did with files below a folder: (process, system call, path)."""

    executed: tuple[str, ...]
    result: subprocess.CompletedProcess[str]


_DROPS = re.compile(rf"(?:setuid|setreuid|setresuid)\({OTHER}\b")
_CREATES = re.compile(r"(?:(?:clone3?|v?fork)\(.*|resumed>.*)\)\s+= (\d+)$")
_MAPS = re.compile(r"mmap\([^<]*PROT_EXEC[^<]*<(?P<path>[^>]*)>")
_EXECUTES = re.compile(r'execve\("(?P<path>[^"]*)"')


def trace(command: list[str], stranger: Stranger, *, with_uv: bool) -> Trace:
    """Runs a command in the stranger's working folder; a process that becomes the stranger may do as it likes."""
    output = stranger.own / "trace"
    calls = "execve,mmap,clone,clone3,fork,vfork,setuid,setreuid,setresuid"
    result = subprocess.run(
        [
            "strace",
            "-f",
            "-y",
            "-qq",
            "-s",
            "4096",
            "-e",
            "signal=none",
            "-e",
            f"trace={calls}",
            "-o",
            output,
            *command,
        ],
        cwd=stranger.work,
        env=stranger.environment(with_uv=with_uv),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT,
    )
    events = [line.partition(" ")[::2] for line in output.read_text(errors="replace").splitlines()]
    parents = {match[1]: process for process, event in events if (match := _CREATES.search(event))}
    dropped = {process for process, event in events if _DROPS.search(event)}

    def is_root(process: str | None) -> bool:
        while process is not None:
            if process in dropped:
                return False
            process = parents.get(process)
        return True

    executed = []
    for process, event in events:
        match = _MAPS.search(event) or _EXECUTES.search(event)
        if match and not event.endswith("(No such file or directory)") and is_root(process):
            path = os.path.normpath(stranger.work / match["path"])
            if Path(path).is_relative_to(stranger.folder):
                executed.append(path)
    return Trace(tuple(dict.fromkeys(executed)), result)


def traps(stranger: Stranger) -> list[str]:
    """The traps that were run, and empties their log."""
    lines = stranger.log.read_text(encoding="utf-8").splitlines() if stranger.log.exists() else []
    stranger.log.unlink(missing_ok=True)
    return list(dict.fromkeys(lines))


def test_every_command_has_a_call() -> None:
    assert {call.split()[0] for call in CALLS} == set(COMMANDS)


@pytest.mark.parametrize(
    ("code", "executed", "trap"),
    [
        ("import ctypes; ctypes.CDLL('OTHER/work/libcuda.so.1')", ["work/libcuda.so.1"], "a library"),
        ("import subprocess; subprocess.run(['./nvidia-smi'])", ["work/nvidia-smi"], "OTHER/work/nvidia-smi"),
        ("import sys; sys.path.insert(0, ''); import numpy", [], "OTHER/work/numpy.py"),
        ("import subprocess; subprocess.run(['OTHER/venv/bin/python', '-c', ''])", ["venv/bin/python"], "trap.pth"),
        ("import subprocess; subprocess.run(['./nvidia-smi'], user=12345)", [], None),
    ],
)
def test_the_traps_and_the_trace_find_what_root_executes(
    stranger: Stranger, code: str, executed: list[str], trap: str | None
) -> None:
    traps(stranger)
    command = [sys.executable, "-B", "-I", "-c", code.replace("OTHER", str(stranger.folder))]
    found = trace(command, stranger, with_uv=False)
    for folder in stranger.folder.rglob("__pycache__"):
        shutil.rmtree(folder)
    assert [str(Path(path).relative_to(stranger.folder)) for path in found.executed] == executed
    logged = " ".join(traps(stranger))
    assert trap.replace("OTHER", str(stranger.folder)) in logged if trap else not logged


@pytest.mark.parametrize("with_uv", [False, True], ids=["pip", "uv"])
@pytest.mark.parametrize("call", CALLS)
def test_no_file_of_the_other_user_is_executed_and_nothing_is_left(
    stranger: Stranger, call: str, *, with_uv: bool
) -> None:
    replaced = {"MACHINE": MACHINE, "PROGRAM": (PROGRAM,)}
    words = [part for word in call.split() for part in replaced.get(word, (word,))]
    arguments = [word.replace("OWN", str(stranger.own)).replace("OTHER", str(stranger.folder)) for word in words]
    traps(stranger)
    before = stranger.state()
    traced = trace([PROGRAM, *arguments], stranger, with_uv=with_uv)
    after = stranger.state()
    assert "Traceback" not in traced.result.stderr, traced.result.stderr
    assert "No such option" not in traced.result.stderr, traced.result.stderr
    problems = {
        "executed": list(traced.executed),
        "run": traps(stranger),
        "left": sorted(path for path in after if path not in before),
        "changed": sorted(path for path in before if path in after and before[path] != after[path]),
        "removed": sorted(path for path in before if path not in after),
        "obeyed": [line for line in traced.result.stderr.splitlines() if "unknown key" in line],
    }
    # What was left must not be found again by the next call.
    for path in map(Path, reversed(problems["left"])):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    assert {name: paths for name, paths in problems.items() if paths} == {}, traced.result.stderr


@pytest.mark.parametrize("with_uv", [False, True], ids=["pip", "uv"])
@pytest.mark.parametrize(
    "call", [call for call in CALLS if re.match("install .*OWN|lock --s|bundle|matrix r|build", call)]
)
def test_no_index_of_the_other_user_is_used(stranger: Stranger, call: str, *, with_uv: bool) -> None:
    """What is installed comes from the index of pip.conf or uv.toml: that of the other user gives root other code."""
    words = [part for word in call.split() for part in (MACHINE if word == "MACHINE" else (word,))]
    arguments = [word.replace("OWN", str(stranger.own)) for word in words]
    stranger.connections()
    result = subprocess.run(
        [PROGRAM, *arguments],
        cwd=stranger.work, env=stranger.environment(with_uv=with_uv), stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=False, timeout=LIMIT,
    )  # fmt: skip
    traps(stranger)
    assert stranger.connections() == 0, result.stderr
