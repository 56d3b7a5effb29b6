"""Faulty container engines: commands that build or check an image report the fault in time."""

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

from gpuenv.image.build.render import pack
from gpuenv.image.engine.build_output import Progress
from gpuenv.image.engine.container_engine import connect
from gpuenv.image.engine.errors import EngineError
from tests.cli.program import PROGRAM
from tests.faults.fault_matrix import case_id, parametrize_faults
from tests.faults.faulty_servers import Stopped, faulty_answers, serving
from tests.faults.file_faults import WITHOUT_CAPABILITIES
from tests.faults.healthy_machine import startup_time
from tests.install.conftest import sandbox

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.install.sandbox import Sandbox

__all__ = ["sandbox"]
pytestmark = pytest.mark.slow
TIMEOUT, GRACE = 4.0, 12.0  # seconds: for the engine to answer, and for starting, printing and a busy host
MACHINE = ("--no-probe", "--assume", "driver=580.95.05", "--assume", "gpu=H100", "--timeout", str(TIMEOUT))
BUILD = (*("--builder", "classic", "--cuda", "12.9", "--python", "3.11", "--base", "stand-in:1", "--tag", "own/it:1"),)
COMMANDS: dict[str, tuple[str, ...]] = {
    "build-image": ("build-image", *MACHINE, *BUILD),
    "check-image": ("check-image", "own/it:1", "--from", "engine", *MACHINE),
}
FAULTS = (
    *("absent", "absent: a dead socket", "unreadable", "unreadable: refused", "empty: no answer"),
    *("empty: not found", "empty: an empty page", "rubbish", "rubbish: as a page", "huge"),
    *("slow", "hung", "hung: in the middle", "dying"),
)
# A socket without permission belongs to a healthy engine.
_SERVER_FAULTS = {"unreadable": "healthy", "unreadable: refused": "unreadable"}
CASES = [(name, fault) for name in COMMANDS for fault in FAULTS]


def engine_answers(answers: Mapping[str, Any]) -> Callable[[bytes], bytes]:
    """An engine with answers by the end of a path; other paths are not found."""

    def answer(request: bytes) -> bytes:
        path = request.split(b" ", 2)[1].decode().partition("?")[0]
        content = next((entry for end, entry in answers.items() if path.endswith(end)), None)
        body = json.dumps({"message": "no such image"} if content is None else content).encode()
        status = "404 Not Found" if content is None else "200 OK"
        head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return f"{head}Connection: close\r\n\r\n".encode() + body

    return answer


VERSION = {"ApiVersion": "1.44", "MinAPIVersion": "1.24", "Version": "25.0.0", "Components": [{"Name": "Engine"}]}
INFO = {"Architecture": "x86_64", "Runtimes": {}}
HEALTHY = {"/version": VERSION, "/info": INFO}
# Valid HTTP and JSON with the wrong content.
MALFORMED: dict[str, dict[str, Any]] = {
    "not an object": {"/version": [1, 2], "/info": "all is well", "/json": 7, "/build": []},
    "not a number": {"/version": {**VERSION, "ApiVersion": "one.two"}, "/info": INFO},
    "components that are not a list": {"/version": {**VERSION, "Components": 5}, "/info": INFO},
    "components of other types": {"/version": {**VERSION, "Components": ["a", None]}, "/info": INFO},
    "a number instead of text": {"/version": {**VERSION, "ApiVersion": 1.44}, "/info": INFO},
    "a list instead of facts": {"/version": VERSION, "/info": [None]},
    "devices of other types": {"/version": VERSION, "/info": {"DiscoveredDevices": [1], "Runtimes": 3}},
    "an image that is a list": {**HEALTHY, "/json": [1], "/history": {}},
    "an image of nulls": {**HEALTHY, "/json": dict.fromkeys(("Id", "Size", "Config", "RootFS")), "/history": None},
    "an image of other types": {
        **HEALTHY,
        "/json": {"Id": 3, "Size": "big", "Config": [], "RootFS": 1, "RepoDigests": 9},
        "/history": [4],
    },
    "a config of other types": {
        **HEALTHY,
        "/json": {"Id": "x", "Config": {"Labels": [1], "Env": {"a": 1}, "User": 4}, "RepoDigests": [None]},
        "/history": [{"CreatedBy": 4}],
    },
    "a built image that is not found": {**HEALTHY, "/build": {"stream": "Successfully built deadbeef"}},
    "an image without a name": {**HEALTHY, "/build": {"aux": {"ID": 5}}},
    "a stream without objects": {**HEALTHY, "/build": [1]},
}


@contextmanager
def faulty_socket(folder: Path, fault: str) -> Iterator[Path]:
    """The socket of a faulty engine."""
    path = folder / "engine.sock"
    stopped = Stopped()
    answer = engine_answers(HEALTHY)
    if fault == "absent":
        yield path
    elif fault == "absent: a dead socket":
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
        yield path
    else:
        with serving(faulty_answers(_SERVER_FAULTS.get(fault, fault), stopped, answer), stopped, path):
            if fault == "unreadable":
                path.chmod(0)
            yield path


def run_command(
    index: Sandbox, path: Path, name: str, prefix: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    """Run one command and check the invariants of its result; its wheels come from a local index."""
    before = startup_time(index.environment())
    started = time.monotonic()
    process = subprocess.run(
        [*prefix, *PROGRAM, *COMMANDS[name]],
        env={**index.environment(), "DOCKER_HOST": f"unix://{path}"},
        cwd=path.parent, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    duration = time.monotonic() - started
    assert "Traceback" not in process.stderr, process.stderr
    assert process.returncode in ((4,) if name == "build-image" else (0, 1, 2, 8)), process.stderr
    assert process.returncode in (0, 1) or process.stderr.strip()
    load = 5 * max(before, startup_time(index.environment()))
    assert duration < TIMEOUT + GRACE + load, f"took {duration:.1f} s: {process.stderr}"
    return process


@pytest.mark.parametrize(
    ("name", "fault"), CASES, ids=[f"{name} of {case_id('engine', fault)}" for name, fault in CASES]
)
def test_a_command_with_a_faulty_engine_ends_in_time(
    sandbox: Sandbox, tmp_path: Path, name: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    prefix = WITHOUT_CAPABILITIES if fault == "unreadable" and os.geteuid() == 0 else ()
    with faulty_socket(tmp_path, fault) as path:
        process = run_command(sandbox, path, name, prefix)
    # A slow engine is awaited, and has no such image.
    assert ("nothing was built" if name == "build-image" and fault == "slow" else "engine") in process.stderr, (
        process.stderr
    )
    record_property("outcome", ["engine", f"{fault}, of {name}", f"exit code {process.returncode}"])


@parametrize_faults("engine", [f"lying: {malformed}" for malformed in MALFORMED])
def test_a_command_with_malformed_engine_answers_ends_in_time(
    sandbox: Sandbox, tmp_path: Path, fault: str, record_property: Callable[[str, object], None]
) -> None:
    answers = MALFORMED[fault.removeprefix("lying: ")]
    stopped = Stopped()
    with serving(faulty_answers("healthy", stopped, engine_answers(answers)), stopped, tmp_path / "engine.sock"):
        outcomes = [f"{name} {run_command(sandbox, tmp_path / 'engine.sock', name).returncode}" for name in COMMANDS]
    record_property("outcome", ["engine", fault, ", ".join(outcomes)])


@pytest.mark.parametrize("malformed", MALFORMED)
def test_malformed_answers_of_an_engine_are_rejected(tmp_path: Path, malformed: str) -> None:
    """Covers every request, also those after a build."""
    stopped = Stopped()
    rejected = 0
    with serving(
        faulty_answers("healthy", stopped, engine_answers(MALFORMED[malformed])), stopped, tmp_path / "engine.sock"
    ) as path:
        try:
            client = connect({"DOCKER_HOST": f"unix://{path}"}, TIMEOUT)
        except EngineError:
            return  # rejected at once
        requests: tuple[Callable[[], object], ...] = (
            lambda: client.inspect("own/it:1"),
            lambda: client.digest_of("own/it:1"),
            lambda: client.build(pack({}, 0), {}, Progress(lambda _: None)),
            lambda: client.push("own/it:1", Progress(lambda _: None)),
            lambda: client.run("own/it:1", ["true"], pack({}, 0), None, TIMEOUT),
        )
        for request in requests:
            try:
                request()
            except EngineError:
                rejected += 1
        client.close()
    assert rejected


def test_the_sdk_of_the_engine_is_installed() -> None:
    """Without it every result above would be that of a missing extra."""
    process = subprocess.run([sys.executable, "-c", "import docker"], check=False)
    assert process.returncode == 0
