"""Push to a registry on loopback, and what the registry has then; the same from a base with its digest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.image.engine.build_output import Progress
from gpuenv.image.engine.container_engine import connect
from gpuenv.image.engine.errors import EngineError
from tests.image.docker.conftest import REGISTRY, client_of, load_stand_ins
from tests.image.docker.dockerd import Dockerd, missing
from tests.image.docker.program import SMALL, environment, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
PLACE = f"{REGISTRY}/own/image"


@pytest.fixture
def beside_registry(registry: Path) -> Iterator[Dockerd]:
    """An engine that has the registry on its own loopback."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with Dockerd(setup=f"docker-registry serve {registry} >/dev/null 2>&1 &", network=False) as engine:
        load_stand_ins(engine)
        yield engine


def pushed(engine: Dockerd) -> tuple[str | None, Any]:
    shop = connect(environment(engine.host), 30)
    shop.tag("stand-in:fine", f"{PLACE}:1")
    digest = shop.push(f"{PLACE}:1", Progress(lambda _: None))
    return digest, shop


def test_the_digest_is_the_registrys(beside_registry: Dockerd) -> None:
    digest, shop = pushed(beside_registry)
    client = client_of(beside_registry)
    assert digest == client.images.get_registry_data(f"{PLACE}:1").id
    assert shop.digest_of(f"{PLACE}:1") == digest
    client.close()
    shop.close()


def test_a_base_is_pinned_to_the_digest_that_the_engine_has(beside_registry: Dockerd) -> None:
    digest, shop = pushed(beside_registry)
    shop.close()
    code, told, said = outcome(beside_registry.host, *SMALL, "--base", f"{PLACE}:1", "--dry-run")
    assert code == 0, said
    plan = told["images"][0]
    assert f"FROM {PLACE}:1@{digest}\n" in plan["dockerfile"] + "\n"
    assert plan["labels"]["org.opencontainers.image.base.digest"] == digest


def test_a_wrong_digest_is_told(beside_registry: Dockerd) -> None:
    pushed(beside_registry)[1].close()
    wrong = f"{PLACE}@sha256:{'0' * 64}"
    code, told, said = outcome(beside_registry.host, *SMALL, "--base", wrong, "--tag", "never/named:1")
    assert (code, told["status"]) == (4, "failed")
    assert "or that digest of it, does not exist" in said


def test_a_registry_that_is_not_there_is_told(beside_registry: Dockerd) -> None:
    shop = connect(environment(beside_registry.host), 30)
    shop.tag("stand-in:fine", "127.0.0.1:5999/own/image:1")
    with pytest.raises(EngineError, match="pushing"):
        shop.push("127.0.0.1:5999/own/image:1", Progress(lambda _: None))
    shop.close()
