"""The engine that check-image and build-image use: that of DOCKER_HOST, of a context, or of the usual sockets."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.engine.container_engine import connect
from gpuenv.image.engine.docker_contexts import docker_environment
from gpuenv.image.engine.errors import EngineError
from gpuenv.image.inspect.fetch import FetchOptions, fetch
from gpuenv.image.inspect.image_facts import ImageError, ImagePlatform
from tests.image.docker.program import PROGRAM, build_arguments, build_image, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# Docker's SDK leaves a socket open if it cannot connect.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def context(home: Path, name: str, host: object) -> Path:
    """Writes the file of a context as Docker does."""
    folder = home / ".docker/contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    meta = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder / "meta.json"


def current(home: Path, name: object) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker/config.json").write_text(json.dumps({"currentContext": name}))


def address(variables: Mapping[str, str]) -> str:
    return docker_environment(variables)["DOCKER_HOST"]


def test_docker_host_takes_precedence_over_contexts(tmp_path: Path) -> None:
    context(tmp_path, "named", "unix:///named.sock")
    context(tmp_path, "current", "unix:///current.sock")
    current(tmp_path, "current")
    home = {"HOME": str(tmp_path)}
    assert address({**home, "DOCKER_CONTEXT": "named", "DOCKER_HOST": " tcp://h:1 "}) == "tcp://h:1"
    assert address({**home, "DOCKER_CONTEXT": "named"}) == "unix:///named.sock"
    assert address(home) == "unix:///current.sock"
    assert address({**home, "DOCKER_CONTEXT": "default"}) == ""
    assert address({"DOCKER_CONFIG": str(tmp_path / ".docker"), "HOME": "/nowhere"}) == "unix:///current.sock"


@pytest.mark.parametrize("name", ["default", "", 7, None, ["x"]])
def test_no_context_means_the_usual_sockets(tmp_path: Path, name: object) -> None:
    current(tmp_path, name)
    assert address({"HOME": str(tmp_path)}) == ""
    assert address({"HOME": str(tmp_path / "missing")}) == ""


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "cannot be read"),
        ('{"Endpoints": {"docker": {"Host": ""}}}', "no address"),
        ('{"Endpoints": {"docker": {"Host": 7}}}', "no address"),
        (None, "there is no Docker context"),
    ],
)
def test_an_unusable_context_is_reported(tmp_path: Path, content: str | None, message: str) -> None:
    file = context(tmp_path, "mine", "unix:///x")
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with pytest.raises(EngineError, match=message):
        address({"HOME": str(tmp_path), "DOCKER_CONTEXT": "mine"})


@pytest.mark.parametrize("unverified", [False, True])
def test_the_certificates_of_a_context_are_its_own(tmp_path: Path, unverified: bool) -> None:  # noqa: FBT001 - both ways
    meta = context(tmp_path, "mine", "tcp://h:1")
    content = json.loads(meta.read_text())
    content["Endpoints"]["docker"]["SkipTLSVerify"] = unverified
    meta.write_text(json.dumps(content))
    variables = {"HOME": str(tmp_path), "DOCKER_CONTEXT": "mine", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/mine"}
    assert docker_environment(variables) == {"HOME": str(tmp_path), "DOCKER_HOST": "tcp://h:1"}
    certificates = tmp_path / ".docker/contexts/tls" / meta.parent.name / "docker"
    certificates.mkdir(parents=True)
    found = docker_environment(variables)
    assert found["DOCKER_CERT_PATH"] == str(certificates)
    assert found["DOCKER_TLS_VERIFY"] == ("" if unverified else "1")
    assert docker_environment({**variables, "DOCKER_HOST": "tcp://i:1"})["DOCKER_CERT_PATH"] == "/mine"
    assert docker_environment({**variables, "DOCKER_CONTEXT": "default"})["DOCKER_CERT_PATH"] == "/mine"


def check_error(variables: Mapping[str, str]) -> tuple[str, str]:
    """Message and remedy of check-image without a usable engine."""
    options = FetchOptions(variables, 5.0, engine=True, registry=False, announce=lambda _: None)
    with pytest.raises(ImageError) as caught:
        fetch("a:1", ImagePlatform("linux", "amd64"), options)
    return str(caught.value), caught.value.remedy or ""


def build_error(variables: Mapping[str, str], seconds: float = 5.0) -> tuple[str, str]:
    """Message and remedy of build-image without a usable engine."""
    with pytest.raises(EngineError) as caught:
        connect(variables, seconds)
    return caught.value.message, caught.value.remedy or ""


def errors_of_both(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    return [check_error(variables), build_error(variables)]


@pytest.fixture(autouse=True)
def _collect_sockets() -> Iterator[None]:
    yield
    gc.collect()


def test_both_commands_use_the_certificates_of_the_context(tmp_path: Path) -> None:
    meta = context(tmp_path, "mine", "tcp://127.0.0.1:1")
    (tmp_path / ".docker/contexts/tls" / meta.parent.name / "docker").mkdir(parents=True)
    for message, _ in errors_of_both({"HOME": str(tmp_path), "DOCKER_CONTEXT": "mine"}):
        assert "certificate" in message


def test_both_commands_use_the_certificates_of_the_caller(tmp_path: Path) -> None:
    tls = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tmp_path), "HOME": str(tmp_path)}
    for message, _ in errors_of_both({**tls, "DOCKER_HOST": "tcp://127.0.0.1:1"}):
        assert "certificate" in message


def test_both_commands_use_the_engine_of_the_context(tmp_path: Path) -> None:
    context(tmp_path, "mine", f"unix://{tmp_path}/mine.sock")
    current(tmp_path, "mine")
    for message, remedy in errors_of_both({"HOME": str(tmp_path)}):
        assert f"the engine at unix://{tmp_path}/mine.sock: no engine runs there" in message
        assert "Start Docker or Podman" in remedy


def test_both_commands_report_a_missing_context(tmp_path: Path) -> None:
    for message, remedy in errors_of_both({"HOME": str(tmp_path), "DOCKER_CONTEXT": "gone"}):
        assert "there is no Docker context 'gone'" in message
        assert "docker context ls" in remedy


@pytest.mark.parametrize(
    ("host", "expected"),
    [("/run/docker.sock", "Write it as unix:///PATH"), ("ssh://user@127.0.0.1", "Forward its socket")],
)
def test_an_unsupported_address_is_reported_with_the_fix(tmp_path: Path, host: str, expected: str) -> None:
    for _, remedy in errors_of_both({"DOCKER_HOST": host, "HOME": str(tmp_path)}):
        assert expected in remedy


def test_no_engine(tmp_path: Path) -> None:
    done = build_image(f"unix://{tmp_path}/none.sock", *build_arguments("stand-in:fine"))
    assert (done.returncode, done.stdout) == (4, "")
    assert "no engine runs there" in done.stderr
    assert "Start Docker or Podman" in done.stderr


@pytest.mark.parametrize(
    ("listens", "message"), [(False, "no engine answers"), (True, "does not answer in time")], ids=["dead", "hangs"]
)
def test_a_socket_without_an_answer_is_reported(tmp_path: Path, listens: bool, message: str) -> None:  # noqa: FBT001 - both
    path = tmp_path / "engine.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        if listens:
            listener.listen()
        assert message in build_error({"DOCKER_HOST": f"unix://{path}"}, 1.0)[0]


def test_an_invalid_address_is_reported() -> None:
    assert "bogus://x" in build_error({"DOCKER_HOST": "bogus://x"})[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="giving up root's rights needs root")
def test_no_permission_on_the_socket(tmp_path: Path) -> None:
    """As root without capabilities, since another user may be unable to read the program."""
    path = tmp_path / "closed.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o600)
        os.chown(path, 65534, 65534)
        command = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", *PROGRAM, *build_arguments("stand-in:fine")]
        done = subprocess.run(
            command, env=environment(f"unix://{path}"), capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 4, done.stderr
    assert "may not use the engine's socket" in done.stderr
