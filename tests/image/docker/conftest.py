"""Engines, bases and a registry of the tests' own; what cannot be had here is skipped, with the reason."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import pytest

from tests.image.docker import bases
from tests.image.docker.dockerd import Dockerd, answers, missing

if TYPE_CHECKING:
    from collections.abc import Iterator

# How the stand-in for Python behaves where wheels would be installed, by the tag of its image.
BEHAVIOURS = {
    "fine": "true",
    "failing": "echo something is wrong >&2; exit 3",
    "slow": "sleep 617",
    "seeing": "grep -q hunter2 /etc/pip.conf && echo the secret was there; exit 1",
    "filling": "dd if=/dev/zero of=/opt/big bs=1M",
    "offline": "wget -T 5 http://packages.invalid/ || { echo Temporary failure in name resolution; exit 1; }",
}
_PYTHON = """#!/bin/sh
case "$*" in
*venv*) mkdir -p /opt/cupy/bin && cp /bin/python3 /opt/cupy/bin/python ;;
*pip*) {behaviour} ;;
*tidy*) mkdir -p /rootfs/opt /home/cupy && echo tidied >/rootfs/opt/tidied ;;
*) exit 9 ;;
esac
"""


REGISTRY = "127.0.0.1:5055"


@dataclass(frozen=True, slots=True)
class Given:
    """An engine that was there before the tests."""

    host: str


@pytest.fixture(scope="session")
def engine() -> Iterator[Dockerd | Given]:
    """An engine with the stand-in bases: the one that DOCKER_HOST names where it answers, else one of its own."""
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith("unix://") and answers(host.removeprefix("unix://")):
        load_stand_ins(Given(host))
        yield Given(host)
        return
    reason = missing()
    if reason:
        pytest.skip(reason)
    with Dockerd() as started:
        load_stand_ins(started)
        yield started


def load_stand_ins(started: Dockerd | Given) -> None:
    """``stand-in:NAME`` for every behaviour; ``stand-in:bare`` has no Python."""
    client = client_of(started)
    for name, behaviour in BEHAVIOURS.items():
        layer = bases.busybox_layer({"bin/python3": _PYTHON.format(behaviour=behaviour)})
        client.images.load(bases.archive(f"stand-in:{name}", layer, {"PATH": "/bin"}))
    client.images.load(bases.archive("stand-in:bare", bases.busybox_layer({}), {"PATH": "/bin"}))
    client.close()


def client_of(started: Dockerd | Given) -> Any:  # noqa: ANN401 - the SDK has no types
    return docker.DockerClient(base_url=started.host, timeout=120)


@pytest.fixture(scope="session")
def client(engine: Dockerd | Given) -> Iterator[Any]:
    """The engine through its SDK, for looking at what was made."""
    made = client_of(engine)
    yield made
    made.close()


@pytest.fixture(scope="session")
def cuda_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the parts of the Debian bases are."""
    return tmp_path_factory.mktemp("bases")


@pytest.fixture(scope="session")
def cuda_bases(engine: Dockerd | Given, client: Any, cuda_folder: Path) -> dict[str, str]:  # noqa: ANN401
    """The base of each kind: a slim Python, and the same with CUDA and the variables of NVIDIA's images."""
    del engine
    reason = bases.lacking()
    if reason:
        pytest.skip(reason)
    return bases.all_bases(client, cuda_folder)


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    """The configuration of a registry on loopback, to be started inside an engine's namespaces."""
    program = Path("/usr/bin/docker-registry")
    if not program.exists():
        pytest.skip("no docker-registry here: apt-get install docker-registry")
    subprocess.run([program, "--version"], check=True, capture_output=True)
    file = tmp_path / "registry.yml"
    file.write_text(
        f"version: 0.1\nlog: {{level: warn}}\nhttp: {{addr: '{REGISTRY}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path / 'registry'}}}}}\n"
    )
    return file
