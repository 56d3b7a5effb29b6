"""``build-image --push`` pushes an image with CuPy to a registry, and ``check-image`` checks it there."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.image import labels
from tests.image.docker.conftest import REGISTRY, ExistingEngine
from tests.image.docker.program import build_report, environment

if TYPE_CHECKING:
    from pathlib import Path

    from tests.image.docker.dockerd import Dockerd

pytestmark = pytest.mark.slow
TAG = f"{REGISTRY}/test/cupy:1"
CAPABILITY = "9.0"


@pytest.fixture
def engine_with_registry(engine: Dockerd | ExistingEngine, registry_config: Path, client: Any) -> Dockerd:  # noqa: ANN401
    """The engine with a registry on its loopback."""
    if isinstance(engine, ExistingEngine):
        pytest.skip("a registry on loopback needs an engine that the tests start")
    engine.start_registry(registry_config)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        result = subprocess.run(
            engine.in_network("busybox", "wget", "-q", "-O", "-", f"http://{REGISTRY}/v2/"),
            capture_output=True,
            check=False,
        )
        if result.returncode == 0:
            break
        time.sleep(0.1)
    del client
    return engine


def check(engine: Dockerd, home: Path, *arguments: str) -> tuple[int, Any]:
    """Runs check-image in the engine's network, with the registry as the only source."""
    command = (sys.executable, "-m", "gpuenv", "check-image", *arguments, "--from", "registry", "--format", "json")
    result = subprocess.run(
        engine.in_network(*command),
        env=environment(engine.host, HOME=str(home)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def test_a_pushed_image_can_be_checked_in_the_registry(
    engine_with_registry: Dockerd,
    client: Any,  # noqa: ANN401
    cuda_bases: dict[str, str],
    tmp_path: Path,
) -> None:
    options = ("--kind", "devel", "--cuda", "12.9", "--python", "3.11", "--base", cuda_bases["devel"])
    arguments = (*options, "--compute-capability", CAPABILITY, "--builder", "classic", "--tag", TAG, "--push")
    code, report, stderr = build_report(engine_with_registry.host, *arguments)
    assert code == 0, stderr
    built = report["images"][0]
    assert built["digest"] == client.images.get_registry_data(TAG).id
    assert [phase["name"] for phase in built["phases"]] == ["build", "prove", "label", "push"]
    assert f"pushing {TAG}" in stderr
    client.images.remove(TAG, force=True)

    pushed = f"{TAG.rpartition(':')[0]}@{built['digest']}"
    machine = ("--no-probe", "--assume", "arch=x86_64", "--assume", "gpu=H100")
    code, report = check(engine_with_registry, tmp_path, pushed, *machine, "--assume", "driver=580")
    (image,) = report["images"]
    assert (code, report["status"], image["source"]) == (0, "fit", "registry"), report
    assert (image["digest"], image["labels"]) == (built["digest"], built["labels"])
    assert image["labels"][labels.PROOF].startswith("passed: ")
    assert list(report["cuda"].values()) == ["12.9"]
    # The image keeps the driver branches of its base for data-centre GPUs (bases.NVIDIA_VARIABLES), without 570.
    code, report = check(engine_with_registry, tmp_path, TAG, *machine, "--assume", "driver=570")
    assert (code, report["findings"][0]["code"]) == (1, "IMG902"), report
