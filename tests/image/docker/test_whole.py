"""``build-image --push`` and ``check-image`` as users run them, a registry between the two: CuPy is really in it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.image import labels
from tests.image.docker.conftest import REGISTRY, Given
from tests.image.docker.program import environment, outcome

if TYPE_CHECKING:
    from pathlib import Path

    from tests.image.docker.dockerd import Dockerd

pytestmark = pytest.mark.slow
TAG = f"{REGISTRY}/own/cupy:1"
CAPABILITY = "9.0"


@pytest.fixture
def beside(engine: Dockerd | Given, registry: Path, client: Any) -> Dockerd:  # noqa: ANN401
    """The engine, with a registry on its loopback."""
    if isinstance(engine, Given):
        pytest.skip("a registry on loopback goes with an engine of the tests' own")
    engine.serve(registry)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        looked = subprocess.run(
            engine.beside("busybox", "wget", "-q", "-O", "-", f"http://{REGISTRY}/v2/"),
            capture_output=True,
            check=False,
        )
        if looked.returncode == 0:
            break
        time.sleep(0.1)
    del client
    return engine


def check(engine: Dockerd, home: Path, *arguments: str) -> tuple[int, Any]:
    """check-image on the engine's network; its own registry alone is asked."""
    program = (sys.executable, "-m", "gpuenv", "check-image", *arguments, "--from", "registry", "--format", "json")
    done = subprocess.run(
        engine.beside(*program),
        env=environment(engine.host, HOME=str(home)),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_it_is_pushed_by_one_command_and_judged_by_another(
    beside: Dockerd,
    client: Any,  # noqa: ANN401
    cuda_bases: dict[str, str],
    tmp_path: Path,
) -> None:
    asked = ("--kind", "devel", "--cuda", "12.9", "--python", "3.11", "--base", cuda_bases["devel"])
    words = (*asked, "--compute-capability", CAPABILITY, "--builder", "classic", "--tag", TAG, "--push")
    code, told, said = outcome(beside.host, *words)
    assert code == 0, said
    made = told["images"][0]
    assert made["digest"] == client.images.get_registry_data(TAG).id
    assert [phase["name"] for phase in made["phases"]] == ["build", "prove", "label", "push"]
    assert f"pushing {TAG}" in said
    client.images.remove(TAG, force=True)

    pushed = f"{TAG.rpartition(':')[0]}@{made['digest']}"
    machine = ("--no-probe", "--assume", "arch=x86_64", "--assume", "gpu=H100")
    code, report = check(beside, tmp_path, pushed, *machine, "--assume", "driver=580")
    (image,) = report["images"]
    assert (code, report["status"], image["source"]) == (0, "fit", "registry"), report
    assert (image["digest"], image["labels"]) == (made["digest"], made["labels"])
    assert image["labels"][labels.PROOF].startswith("passed: ")
    assert list(report["cuda"].values()) == ["12.9"]
    # What the base demands of a data-centre GPU's driver (bases.NVIDIA) is handed on, and 570 is not in it.
    code, report = check(beside, tmp_path, TAG, *machine, "--assume", "driver=570")
    assert (code, report["findings"][0]["code"]) == (1, "IMG902"), report
