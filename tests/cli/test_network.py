"""No command uses the network, neither in the program nor in its child processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuenv.cli.app import COMMANDS
from gpuenv.simulate.stub_driver import FLAGS
from tests.cli.commands import NETWORK_COMMANDS, Call, calls
from tests.cli.program import MINIMAL

SOURCE = Path(__file__).parents[1] / "native/nosocket.c"
TRIAL = """import socket
for call in (socket.socket, lambda: socket.getaddrinfo('localhost', 80)):
    try: call()
    except OSError: pass
"""


@pytest.fixture(scope="module")
def blocked_network(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, str], Path, tuple[Call, ...]]:
    """The environment in which no process gets a socket, the log of attempts, and the calls."""
    folder = tmp_path_factory.mktemp("network")
    library, log = folder / "nosocket.so", folder / "sockets.txt"
    subprocess.run(["cc", *FLAGS, "-o", str(library), str(SOURCE)], check=True)
    return {"LD_PRELOAD": str(library), "NOSOCKET_LOG": str(log), "HOME": str(folder)}, log, calls(folder)


def test_every_command_is_called_or_uses_the_network() -> None:
    folder = Path(__file__).parent
    commands = {
        line.split('"')[3] for line in (folder / "commands.py").read_text().splitlines() if "Call(" in line[:20]
    }
    assert {*COMMANDS} - commands == NETWORK_COMMANDS & {*COMMANDS}


def test_a_socket_in_a_grandchild_is_logged(blocked_network: tuple[dict[str, str], Path, tuple[Call, ...]]) -> None:
    """The log covers children of children."""
    environment, log, _ = blocked_network
    nested = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {TRIAL!r}], check=True)"
    subprocess.run([sys.executable, "-c", nested], env={**MINIMAL, **environment}, check=True)
    functions = [line.split()[1] for line in log.read_text(encoding="utf-8").splitlines()]
    assert functions == ["socket", "getaddrinfo"]
    log.unlink()


def test_no_command_opens_a_socket(blocked_network: tuple[dict[str, str], Path, tuple[Call, ...]]) -> None:
    environment, log, all_calls = blocked_network
    for call in all_calls:
        command = [sys.executable, "-m", "gpuenv", *call.arguments]
        variables = {**MINIMAL, **environment}
        result = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=120)
        assert result.returncode == call.code, f"{call.name}: {result.stderr}"
        assert not log.exists(), f"{call.name}: {log.read_text(encoding='utf-8')}"


def test_every_command_works_without_a_network(blocked_network: tuple[dict[str, str], Path, tuple[Call, ...]]) -> None:
    """The network namespace is empty and has no loopback device."""
    _, _, all_calls = blocked_network
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no network namespace can be created here")
    for call in all_calls:
        command = ["unshare", "-n", sys.executable, "-m", "gpuenv", *call.arguments]
        result = subprocess.run(command, env=MINIMAL, capture_output=True, text=True, check=False, timeout=120)
        assert result.returncode == call.code, f"{call.name}: {result.stderr}"
