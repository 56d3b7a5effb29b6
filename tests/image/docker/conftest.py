"""Fixtures that start engines and a registry and build base images; a test skips if this machine lacks a program."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import docker
import pytest

from tests.image.docker import bases
from tests.image.docker.dockerd import Dockerd, answers, engine_skip_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

# What the stand-in for Python runs instead of pip, by the tag of its image.
BEHAVIOURS = {
    "fine": "true",
    "failing": "echo something is wrong >&2; exit 3",
    "slow": "sleep 617",
    "secret": "grep -q hunter2 /etc/pip.conf && echo the secret was there; exit 1",
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
class ExistingEngine:
    """An engine that runs before the tests start."""

    host: str


@pytest.fixture(scope="session")
def engine() -> Iterator[Dockerd | ExistingEngine]:
    """An engine with the stand-in images: that of DOCKER_HOST if it answers, else a new one."""
    host = os.environ.get("DOCKER_HOST", "")
    if host.startswith("unix://") and answers(host.removeprefix("unix://")):
        load_stand_in_images(ExistingEngine(host))
        yield ExistingEngine(host)
        return
    reason = engine_skip_reason()
    if reason:
        pytest.skip(reason)
    with Dockerd() as daemon:
        load_stand_in_images(daemon)
        yield daemon


def load_stand_in_images(engine: Dockerd | ExistingEngine) -> None:
    """Loads ``stand-in:NAME`` for every behaviour, and ``stand-in:bare`` without a Python."""
    client = docker_client(engine)
    for name, behaviour in BEHAVIOURS.items():
        layer = bases.busybox_layer({"bin/python3": _PYTHON.format(behaviour=behaviour)})
        client.images.load(bases.image_archive(f"stand-in:{name}", layer, {"PATH": "/bin"}))
    client.images.load(bases.image_archive("stand-in:bare", bases.busybox_layer({}), {"PATH": "/bin"}))
    client.close()


def docker_client(engine: Dockerd | ExistingEngine) -> Any:  # noqa: ANN401 - the SDK has no types
    return docker.DockerClient(base_url=engine.host, timeout=120)


def list_tags(client: Any) -> set[str]:  # noqa: ANN401
    return {tag for image in client.images.list(all=True) for tag in image.tags}


@pytest.fixture(scope="session")
def client(engine: Dockerd | ExistingEngine) -> Iterator[Any]:
    """A client of Docker's SDK, which inspects the results."""
    client = docker_client(engine)
    yield client
    client.close()


@pytest.fixture(scope="session")
def cuda_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the parts of the Debian bases."""
    return tmp_path_factory.mktemp("bases")


@pytest.fixture(scope="session")
def cuda_bases(engine: Dockerd | ExistingEngine, client: Any, cuda_folder: Path) -> dict[str, str]:  # noqa: ANN401
    """The base of each kind: Debian with Python, and the same with CUDA and the variables of NVIDIA's images."""
    del engine
    reason = bases.debian_skip_reason()
    if reason:
        pytest.skip(reason)
    return bases.make_bases(client, cuda_folder)


@pytest.fixture
def registry_config(tmp_path: Path) -> Path:
    """The configuration file of a registry on loopback, which a test starts in the namespaces of an engine."""
    program = Path("/usr/bin/docker-registry")
    if not program.exists():
        pytest.skip("docker-registry is missing: apt-get install docker-registry")
    subprocess.run([program, "--version"], check=True, capture_output=True)
    file = tmp_path / "registry.yml"
    file.write_text(
        f"version: 0.1\nlog: {{level: warn}}\nhttp: {{addr: '{REGISTRY}'}}\n"
        f"storage: {{filesystem: {{rootdirectory: {tmp_path / 'registry'}}}}}\n"
    )
    return file
