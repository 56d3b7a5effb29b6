"""Two builds without a cache have the same layers, and the same digest if BuildKit supports it."""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.image.build.plan import ImageKind
from gpuenv.image.build.render import Rendering, pack
from gpuenv.image.engine.build_output import Progress
from gpuenv.image.engine.buildkit import BuildkitCommand, BuildkitOptions, build_with, find_cli
from gpuenv.image.engine.container_engine import connect
from tests.image.docker import bases
from tests.image.docker.conftest import docker_client
from tests.image.docker.dockerd import Dockerd, cli_environment, engine_skip_reason, engines
from tests.image.matrix import CREATED, choices, planned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A stand-in for Python that sets files, owners and times as the real script does.
_PYTHON = f"""#!/bin/sh
case "$*" in
*venv*) mkdir -p /opt/cupy/bin && cp /bin/python3 /opt/cupy/bin/python ;;
*tidy*) mkdir -p /rootfs/opt/cupy/lib /rootfs/etc /rootfs/home/cupy/.cupy/kernel_cache
    echo built >/rootfs/opt/cupy/lib/file; cat /etc/passwd >/rootfs/etc/passwd
    chown -R 10001:10001 /rootfs/home/cupy /rootfs/opt/cupy
    find /rootfs -exec touch -h -d @{CREATED} {{}} + ;;
esac
"""


@pytest.fixture(params=engines(), ids=lambda entry: entry[0])
def engine_and_folder(request: pytest.FixtureRequest) -> Iterator[tuple[Dockerd, str]]:
    reason = engine_skip_reason()
    if reason:
        pytest.skip(reason)
    _, folder, config = request.param
    path_prefix = f"{folder}/usr/sbin:{folder}/usr/bin" if folder else ""
    with Dockerd(config, path_prefix, network=False) as engine:
        client = docker_client(engine)
        layer = bases.busybox_layer({"bin/python3": _PYTHON})
        client.images.load(bases.image_archive("stand-in:reproducible", layer, {"PATH": "/bin"}))
        client.close()
        yield engine, folder


def build_files() -> dict[str, str]:
    choice = next(
        entry for key, entry in choices().items() if key[0] == ImageKind.WHEELS.value and not isinstance(entry, str)
    )
    dockerfile = planned(choice).dockerfile.replace(choice.base.reference, "stand-in:reproducible")
    return {"Dockerfile": dockerfile, "requirements.txt": "", "tidy.py": "", "sbom.cdx.json": ""}


def test_buildkit_builds_are_reproducible(engine_and_folder: tuple[Dockerd, str], tmp_path: Path) -> None:
    engine, folder = engine_and_folder
    variables = cli_environment(engine, folder, tmp_path)
    program = f"{folder}/usr/bin/docker" if folder else "/usr/bin/docker"
    cli = find_cli([program], variables, engine.host)
    assert cli is not None, "the command line of this engine has BuildKit"
    options = BuildkitOptions({}, {"SOURCE_DATE_EPOCH": str(CREATED)}, {}, None, fresh=True)
    builds = []
    for _ in range(2):
        image = build_with(cli, options, build_files(), Progress(lambda _: None), time.monotonic() + 120)
        builds.append((image, layers(engine, image)))
        time.sleep(1.1)  # so that timestamps would differ
    assert builds[0][1] == builds[1][1], "the same layers"
    if not cli.is_plugin:
        pytest.skip("the layers are the same; this BuildKit writes the current time into the configuration")
    assert builds[0][0] == builds[1][0], "the same digest"


def test_classic_builds_have_the_same_layers(engine_and_folder: tuple[Dockerd, str], tmp_path: Path) -> None:
    engine, folder = engine_and_folder
    connection = connect(cli_environment(engine, folder, tmp_path), 30)
    options = {"nocache": True, "buildargs": {"SOURCE_DATE_EPOCH": str(CREATED)}}
    builds = []
    for _ in range(2):
        image = connection.build(pack(build_files(), CREATED), options, Progress(lambda _: None))
        builds.append(layers(engine, image))
        time.sleep(1.1)
    connection.close()
    assert builds[0] == builds[1], "the same layers"


def has_check(cli: BuildkitCommand) -> bool:
    result = subprocess.run(
        [*cli.words, "--help"], env=dict(cli.environment), capture_output=True, text=True, check=False, timeout=60
    )
    return "--call" in result.stdout


def test_docker_build_check_finds_no_faults(engine_and_folder: tuple[Dockerd, str], tmp_path: Path) -> None:
    """For a Dockerfile of each kind, without and with secrets."""
    engine, folder = engine_and_folder
    variables = cli_environment(engine, folder, tmp_path)
    cli = find_cli([f"{folder}/usr/bin/docker"], variables, engine.host) if folder else None
    if cli is None or not cli.is_plugin or not has_check(cli):
        pytest.skip("this engine's BuildKit lacks --check: make test-docker unpacks one that has it")
    for kind in ImageKind:
        choice = next(entry for key, entry in choices().items() if key[0] == kind.value and not isinstance(entry, str))
        for rendering in (Rendering(CREATED), Rendering(CREATED, mounts=True, secrets=("pip", "ca", "netrc"))):
            text = planned(choice, rendering).dockerfile.replace(choice.base.reference, "stand-in:reproducible")
            (tmp_path / "Dockerfile").write_text(text)
            command = [*cli.words, "--call=check,format=json", str(tmp_path)]
            result = subprocess.run(
                command, env=dict(cli.environment), capture_output=True, text=True, check=False, timeout=60
            )
            assert result.returncode == 0, result.stdout + result.stderr
            assert not json.loads(result.stdout).get("warnings"), result.stdout


def layers(engine: Dockerd, image: str) -> Any:  # noqa: ANN401 - JSON
    """The digests of an image's layers; also checks that its user owns its home and its environment."""
    client = docker_client(engine)
    try:
        owner = client.containers.run(image, ["stat", "-c", "%u %n", "/home", "/home/cupy", "/opt/cupy"], remove=True)
        assert owner.decode().split("\n")[:3] == ["0 /home", "10001 /home/cupy", "10001 /opt/cupy"]
        return client.images.get(image).attrs["RootFS"]["Layers"]
    finally:
        client.close()
