"""check-image inspects an image of a real engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.program import answer, gpuenv
from tests.image.admission import rows
from tests.image.docker import bases
from tests.image.docker.conftest import docker_client
from tests.image.test_contexts import context, current

if TYPE_CHECKING:
    from pathlib import Path

    from tests.image.docker.dockerd import Dockerd
REQUIRED = next(row.text for row in rows() if row.image == "12.9.1")
HOST = ("--no-probe", "--assume", "arch=x86_64", "--assume", "gpu=H100")
IMAGE = "check-local:1"


def test_an_image_in_the_engine_is_checked(engine: Dockerd, tmp_path: Path) -> None:
    variables = {"CUDA_VERSION": "12.9.1", "NVIDIA_REQUIRE_CUDA": REQUIRED, "NVIDIA_VISIBLE_DEVICES": "all"}
    client = docker_client(engine)
    client.images.load(bases.image_archive(IMAGE, bases.busybox_layer({"x": "y"}), variables))
    environment = {"DOCKER_HOST": engine.host, "HOME": str(tmp_path)}
    code, report = answer("check-image", IMAGE, *HOST, "--assume", "driver=580", environment=environment)
    assert code == 0, report
    (image,) = report["images"]
    assert (image["source"], image["platform"], image["history"]) == ("engine", "linux/amd64", ["stand-in"])
    refused = gpuenv("check-image", IMAGE, *HOST, "--assume", "driver=545", environment=environment)
    assert refused.returncode == 1
    absent = gpuenv("check-image", "check-local:2", *HOST, "--from", "engine", environment=environment)
    assert absent.returncode == 8
    assert "no engine here has it" in absent.stderr
    saved = tmp_path / "saved.tar"
    saved.write_bytes(b"".join(client.images.get(IMAGE).save()))
    code, report = answer("check-image", saved, *HOST, "--assume", "driver=580")
    assert (code, report["images"][0]["environment"]["CUDA_VERSION"]) == (0, "12.9.1")
    client.close()


def test_the_engine_of_the_current_docker_context_is_used(engine: Dockerd, tmp_path: Path) -> None:
    """Like ``docker images``, without DOCKER_HOST."""
    context(tmp_path, "own", engine.host)
    current(tmp_path, "own")
    arguments = ("check-image", "stand-in:fine", *HOST, "--assume", "driver=580", "--from", "engine")
    code, report = answer(*arguments, environment={"HOME": str(tmp_path)})
    assert (code, report["images"][0]["source"]) == (0, "engine")
