"""Which engine is meant: DOCKER_HOST, a context, or the usual sockets; as Docker's own command line has it."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.engine.docker_contexts import ContextError, docker_environment, engine_address
from tests.cli.program import gpuenv
from tests.image.docker.program import build
from tests.image.docker.tagged import of

if TYPE_CHECKING:
    from pathlib import Path

FACTS = ("--no-probe", "--assume", "arch=x86_64", "--assume", "driver=580", "--assume", "gpu=H100")


def context(home: Path, name: str, host: object) -> Path:
    """Docker's own files of a context."""
    folder = home / ".docker/contexts/meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    meta = {"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host, "SkipTLSVerify": False}}}
    (folder / "meta.json").write_text(json.dumps(meta))
    return folder / "meta.json"


def current(home: Path, name: object) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker/config.json").write_text(json.dumps({"currentContext": name}))


def test_the_variable_goes_before_the_context_and_that_before_the_current_one(tmp_path: Path) -> None:
    context(tmp_path, "named", "unix:///named.sock")
    context(tmp_path, "current", "unix:///current.sock")
    current(tmp_path, "current")
    home = {"HOME": str(tmp_path)}
    assert engine_address({**home, "DOCKER_CONTEXT": "named", "DOCKER_HOST": " tcp://h:1 "}) == "tcp://h:1"
    assert engine_address({**home, "DOCKER_CONTEXT": "named"}) == "unix:///named.sock"
    assert engine_address(home) == "unix:///current.sock"
    assert engine_address({**home, "DOCKER_CONTEXT": "default"}) is None
    assert engine_address({"DOCKER_CONFIG": str(tmp_path / ".docker"), "HOME": "/nowhere"}) == "unix:///current.sock"


@pytest.mark.parametrize("name", ["default", "", 7, None, ["x"]])
def test_no_context_means_the_usual_sockets(tmp_path: Path, name: object) -> None:
    current(tmp_path, name)
    assert engine_address({"HOME": str(tmp_path)}) is None
    assert engine_address({"HOME": str(tmp_path / "nobody")}) is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "cannot be read"),
        ("{}", "cannot be read"),
        ('{"Endpoints": {"docker": {"Host": ""}}}', "no address"),
        ('{"Endpoints": {"docker": {"Host": 7}}}', "no address"),
        (None, "there is no Docker context"),
    ],
)
def test_a_context_that_cannot_be_used_is_said(tmp_path: Path, content: str | None, said: str) -> None:
    file = context(tmp_path, "mine", "unix:///x")
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    with pytest.raises(ContextError, match=said):
        engine_address({"HOME": str(tmp_path), "DOCKER_CONTEXT": "mine"})


@pytest.mark.parametrize("unverified", [False, True])
def test_the_certificates_of_a_context_are_its_own(tmp_path: Path, unverified: bool) -> None:  # noqa: FBT001 - both ways
    meta = context(tmp_path, "mine", "tcp://h:1")
    told = json.loads(meta.read_text())
    told["Endpoints"]["docker"]["SkipTLSVerify"] = unverified
    meta.write_text(json.dumps(told))
    variables = {"HOME": str(tmp_path), "DOCKER_CONTEXT": "mine", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": "/mine"}
    assert docker_environment(variables) == {"HOME": str(tmp_path), "DOCKER_HOST": "tcp://h:1"}
    certificates = tmp_path / ".docker/contexts/tls" / meta.parent.name / "docker"
    certificates.mkdir(parents=True)
    found = docker_environment(variables)
    assert found["DOCKER_CERT_PATH"] == str(certificates)
    assert found["DOCKER_TLS_VERIFY"] == ("" if unverified else "1")
    assert docker_environment({**variables, "DOCKER_HOST": "tcp://i:1"})["DOCKER_CERT_PATH"] == "/mine"
    assert docker_environment({**variables, "DOCKER_CONTEXT": "default"})["DOCKER_CERT_PATH"] == "/mine"


def test_both_commands_use_the_certificates_of_the_context(tmp_path: Path) -> None:
    meta = context(tmp_path, "mine", "tcp://127.0.0.1:1")
    (tmp_path / ".docker/contexts/tls" / meta.parent.name / "docker").mkdir(parents=True)
    where = {"HOME": str(tmp_path), "DOCKER_CONTEXT": "mine"}
    looked = gpuenv("check-image", "a:1", *FACTS, "--from", "engine", environment=where)
    built = build("", *of("stand-in:fine"), **where)
    assert (looked.returncode, built.returncode) == (8, 4)
    assert "certificate" in looked.stderr
    assert "certificate" in built.stderr


def test_both_commands_ask_the_engine_of_the_context(tmp_path: Path) -> None:
    context(tmp_path, "mine", f"unix://{tmp_path}/mine.sock")
    current(tmp_path, "mine")
    looked = gpuenv("check-image", "a:1", *FACTS, "--from", "engine", environment={"HOME": str(tmp_path)})
    assert looked.returncode == 8
    assert f"a:1: the engine at unix://{tmp_path}/mine.sock: no engine runs there" in " ".join(looked.stderr.split())
    assert "Start Docker or Podman" in looked.stderr
    built = build("", *of("stand-in:fine"), HOME=str(tmp_path))
    assert built.returncode == 4
    assert f"the engine at unix://{tmp_path}/mine.sock" in " ".join(built.stderr.split())


def test_both_commands_say_that_a_context_is_gone(tmp_path: Path) -> None:
    where = {"HOME": str(tmp_path), "DOCKER_CONTEXT": "gone"}
    looked = gpuenv("check-image", "a:1", *FACTS, "--from", "engine", environment=where)
    built = build("", *of("stand-in:fine"), **where)
    for done, code in ((looked, 8), (built, 4)):
        assert done.returncode == code
        assert "there is no Docker context 'gone'" in done.stderr
        assert "docker context ls" in done.stderr


@pytest.mark.parametrize(
    ("host", "said"),
    [("/run/docker.sock", "Write it as unix:///PATH"), ("ssh://nobody@127.0.0.1", "Forward its socket")],
)
def test_an_address_of_another_form_says_what_to_write(tmp_path: Path, host: str, said: str) -> None:
    looked = gpuenv(
        *("check-image", "a:1", *FACTS, "--from", "engine"), environment={"DOCKER_HOST": host, "HOME": str(tmp_path)}
    )
    built = build(host, *of("stand-in:fine"))
    assert said in " ".join(looked.stderr.split())
    assert said in " ".join(built.stderr.split())


def test_both_commands_ask_behind_tls_with_the_same_certificates(tmp_path: Path) -> None:
    where = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tmp_path), "HOME": str(tmp_path)}
    looked = gpuenv(
        *("check-image", "a:1", *FACTS, "--from", "engine"), environment={**where, "DOCKER_HOST": "tcp://127.0.0.1:1"}
    )
    built = build("tcp://127.0.0.1:1", *of("stand-in:fine"), **where)
    assert (looked.returncode, built.returncode) == (8, 4)
    assert "certificate" in looked.stderr
    assert "certificate" in built.stderr
