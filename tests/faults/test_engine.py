"""A container engine's socket spoilt in each way: whoever builds or asks for an image says so, in time."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.image.build_records import Base
from gpuenv.image.container_engine import connect
from gpuenv.image.context_tar import pack
from gpuenv.image.errors import EngineError
from gpuenv.image.progress import Progress
from tests.cli.program import PROGRAM
from tests.faults.cells import cell, cells
from tests.faults.ground import idle
from tests.faults.servers import Ended, serving, spoilt
from tests.faults.spoiling import AS_NOBODY_SPECIAL
from tests.install.conftest import sandbox

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.install.sandbox import Sandbox

__all__ = ["sandbox"]
pytestmark = pytest.mark.slow
TIMEOUT, OVER = 4.0, 12.0  # seconds: for the engine to answer, and for starting, printing and a busy host
MACHINE = ("--no-probe", "--assume", "driver=580.95.05", "--assume", "gpu=H100", "--timeout", str(TIMEOUT))
BUILD = (*("--builder", "classic", "--cuda", "12.9", "--python", "3.11", "--base", "stand-in:1", "--tag", "own/it:1"),)
COMMANDS: dict[str, tuple[str, ...]] = {
    "build-image": ("build-image", *MACHINE, *BUILD),
    "check-image": ("check-image", "own/it:1", "--from", "engine", *MACHINE),
}
FAULTS = (
    *("absent", "absent: a dead socket", "unreadable", "unreadable: refused", "empty: says nothing"),
    *("empty: nothing is there", "empty: an empty page", "rubbish", "rubbish: as a page", "huge"),
    *("slow", "hung", "hung: in the middle", "dying"),
)
# A socket that may not be used is a sound engine's.
_HOW = {"unreadable": "sound", "unreadable: refused": "unreadable"}
EVERY = [(name, fault) for name in COMMANDS for fault in FAULTS]


def engine(answers: Mapping[str, Any]) -> Callable[[bytes], bytes]:
    """An engine that answers by the end of a path; all else is not there."""

    def answer(request: bytes) -> bytes:
        path = request.split(b" ", 2)[1].decode().partition("?")[0]
        found = next((told for end, told in answers.items() if path.endswith(end)), None)
        body = json.dumps({"message": "no such image"} if found is None else found).encode()
        status = "404 Not Found" if found is None else "200 OK"
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + body

    return answer


VERSION = {"ApiVersion": "1.44", "MinAPIVersion": "1.24", "Version": "25.0.0", "Components": [{"Name": "Engine"}]}
INFO = {"Architecture": "x86_64", "Runtimes": {}}
SOUND = {"/version": VERSION, "/info": INFO}
# Right in its form as HTTP and JSON, and wrong in what it says.
LIES: dict[str, dict[str, Any]] = {
    "no object": {"/version": [1, 2], "/info": "all is well", "/json": 7, "/build": []},
    "no numbers": {"/version": {**VERSION, "ApiVersion": "one.two"}, "/info": INFO},
    "no list of parts": {"/version": {**VERSION, "Components": 5}, "/info": INFO},
    "parts of another kind": {"/version": {**VERSION, "Components": ["a", None]}, "/info": INFO},
    "no text for a number": {"/version": {**VERSION, "ApiVersion": 1.44}, "/info": INFO},
    "no facts of itself": {"/version": VERSION, "/info": [None]},
    "devices of another kind": {"/version": VERSION, "/info": {"DiscoveredDevices": [1], "Runtimes": 3}},
    "an image that is a list": {**SOUND, "/json": [1], "/history": {}},
    "an image of nulls": {**SOUND, "/json": dict.fromkeys(("Id", "Size", "Config", "RootFS")), "/history": None},
    "an image of the wrong kinds": {
        **SOUND,
        "/json": {"Id": 3, "Size": "big", "Config": [], "RootFS": 1, "RepoDigests": 9},
        "/history": [4],
    },
    "a config of the wrong kinds": {
        **SOUND,
        "/json": {"Id": "x", "Config": {"Labels": [1], "Env": {"a": 1}, "User": 4}, "RepoDigests": [None]},
        "/history": [{"CreatedBy": 4}],
    },
    "an image that was built and is not there": {**SOUND, "/build": {"stream": "Successfully built deadbeef"}},
    "an image without a name": {**SOUND, "/build": {"aux": {"ID": 5}}},
    "a stream of no objects": {**SOUND, "/build": [1]},
}


@contextmanager
def spoilt_socket(folder: Path, fault: str) -> Iterator[Path]:
    """The socket of an engine of which something is wrong."""
    path = folder / "engine.sock"
    ended = Ended()
    answer = engine(SOUND)
    if fault == "absent":
        yield path
    elif fault == "absent: a dead socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
        yield path
    else:
        with serving(spoilt(_HOW.get(fault, fault), ended, answer), ended, path):
            if fault == "unreadable":
                path.chmod(0)
            yield path


def held(index: Sandbox, path: Path, name: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess[str]:
    """One call, and what is always true of its end; its wheels come from an index of the tests' own."""
    before = idle(index.environment())
    started = time.monotonic()
    done = subprocess.run(
        [*prefix, *PROGRAM, *COMMANDS[name]],
        env={**index.environment(), "DOCKER_HOST": f"unix://{path}"},
        cwd=path.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    took = time.monotonic() - started
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in ((4,) if name == "build-image" else (0, 1, 2, 8)), done.stderr
    assert done.returncode in (0, 1) or done.stderr.strip()
    busy = 5 * max(before, idle(index.environment()))
    assert took < TIMEOUT + OVER + busy, f"took {took:.1f} s: {done.stderr}"
    return done


@pytest.mark.parametrize(("name", "fault"), EVERY, ids=[f"{name} of {cell('engine', fault)}" for name, fault in EVERY])
def test_an_engine(
    sandbox: Sandbox, tmp_path: Path, name: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    prefix = AS_NOBODY_SPECIAL if fault == "unreadable" and os.geteuid() == 0 else ()
    with spoilt_socket(tmp_path, fault) as path:
        done = held(sandbox, path, name, prefix)
    # A slow one is waited for, and has no such image.
    assert ("nothing was built" if name == "build-image" and fault == "slow" else "engine") in done.stderr, done.stderr
    record_property("told", ["engine", f"{fault}, of {name}", f"exit code {done.returncode}"])


@cells("engine", [f"lying: {lie}" for lie in LIES])
def test_an_engine_that_lies(
    sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    answers = LIES[fault.removeprefix("lying: ")]
    ended = Ended()
    with serving(spoilt("sound", ended, engine(answers)), ended, tmp_path / "engine.sock"):
        ends = [f"{name} {held(sandbox, tmp_path / 'engine.sock', name).returncode}" for name in COMMANDS]
    record_property("told", ["engine", fault, ", ".join(ends)])


@pytest.mark.parametrize("lie", LIES)
def test_whatever_an_engine_says_its_answers_are_read_or_refused(tmp_path: Path, lie: str) -> None:
    """By every question that is asked of one, also those that come after a build."""
    ended = Ended()
    refused = 0
    with serving(spoilt("sound", ended, engine(LIES[lie])), ended, tmp_path / "engine.sock") as path:
        try:
            asked = connect({"DOCKER_HOST": f"unix://{path}"}, TIMEOUT)
        except EngineError:
            return  # refused at once
        questions: tuple[Callable[[], object], ...] = (
            lambda: asked.inspect("own/it:1"),
            lambda: asked.pinned(Base("own/it:1")),
            lambda: asked.build(pack({}, 0), {}, Progress(lambda _: None)),
            lambda: asked.push("own/it:1", Progress(lambda _: None)),
            lambda: asked.run("own/it:1", ["true"], pack({}, 0), None, TIMEOUT),
        )
        for question in questions:
            try:
                question()
            except EngineError:
                refused += 1
        asked.close()
    assert refused


def test_the_python_here_has_the_engine_s_sdk() -> None:
    """Else every answer above would be that of a missing extra."""
    done = subprocess.run([sys.executable, "-c", "import docker"], check=False)
    assert done.returncode == 0
