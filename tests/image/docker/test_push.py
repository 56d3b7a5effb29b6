"""Pushes images to a registry on loopback, and builds on a base from it by its digest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.image.engine.build_output import Progress
from gpuenv.image.engine.container_engine import connect
from gpuenv.image.engine.errors import EngineError
from tests.image.docker.conftest import REGISTRY, docker_client, load_stand_in_images
from tests.image.docker.dockerd import Dockerd, engine_skip_reason
from tests.image.docker.program import BUILD_OPTIONS, build_report, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
REPOSITORY = f"{REGISTRY}/test/image"


@pytest.fixture
def engine_with_registry(registry_config: Path) -> Iterator[Dockerd]:
    """An engine with a registry on its loopback."""
    reason = engine_skip_reason()
    if reason:
        pytest.skip(reason)
    with Dockerd(setup=f"docker-registry serve {registry_config} >/dev/null 2>&1 &", network=False) as engine:
        load_stand_in_images(engine)
        yield engine


def push_image(engine: Dockerd) -> tuple[str | None, Any]:
    connection = connect(environment(engine.host), 30)
    connection.tag("stand-in:fine", f"{REPOSITORY}:1")
    digest = connection.push(f"{REPOSITORY}:1", Progress(lambda _: None))
    return digest, connection


def test_a_push_returns_the_digest_of_the_registry(engine_with_registry: Dockerd) -> None:
    digest, connection = push_image(engine_with_registry)
    client = docker_client(engine_with_registry)
    assert digest == client.images.get_registry_data(f"{REPOSITORY}:1").id
    assert connection.digest_of(f"{REPOSITORY}:1") == digest
    client.close()
    connection.close()


def test_a_base_is_pinned_to_its_digest_in_the_engine(engine_with_registry: Dockerd) -> None:
    digest, connection = push_image(engine_with_registry)
    connection.close()
    code, report, stderr = build_report(
        engine_with_registry.host, *BUILD_OPTIONS, "--base", f"{REPOSITORY}:1", "--dry-run"
    )
    assert code == 0, stderr
    plan = report["images"][0]
    assert f"FROM {REPOSITORY}:1@{digest}\n" in plan["dockerfile"] + "\n"
    assert plan["labels"]["org.opencontainers.image.base.digest"] == digest


def test_a_wrong_digest_is_reported(engine_with_registry: Dockerd) -> None:
    push_image(engine_with_registry)[1].close()
    base = f"{REPOSITORY}@sha256:{'0' * 64}"
    code, report, stderr = build_report(
        engine_with_registry.host, *BUILD_OPTIONS, "--base", base, "--tag", "build/test:1"
    )
    assert (code, report["status"]) == (4, "failed")
    assert "or that digest of it, does not exist" in stderr


def test_an_unreachable_registry_is_reported(engine_with_registry: Dockerd) -> None:
    connection = connect(environment(engine_with_registry.host), 30)
    connection.tag("stand-in:fine", "127.0.0.1:5999/test/image:1")
    with pytest.raises(EngineError, match="pushing"):
        connection.push("127.0.0.1:5999/test/image:1", Progress(lambda _: None))
    connection.close()
