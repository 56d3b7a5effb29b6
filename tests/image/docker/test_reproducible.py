"""Two builds without a cache: the same layers on any engine, and the same digest where the engine can."""

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
from tests.image.docker.conftest import client_of
from tests.image.docker.dockerd import Dockerd, command_line, engines, missing
from tests.image.matrix import CREATED, choices, planned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# A stand-in for Python that tidies up as the real script does: the tree, its owner, its times.
_PYTHON = f"""#!/bin/sh
case "$*" in
*venv*) mkdir -p /opt/cupy/bin && cp /bin/python3 /opt/cupy/bin/python ;;
*tidy*) mkdir -p /rootfs/opt/cupy/lib /rootfs/etc /rootfs/home/cupy/.cupy/kernel_cache
    echo built >/rootfs/opt/cupy/lib/what; cat /etc/passwd >/rootfs/etc/passwd
    chown -R 10001:10001 /rootfs/home/cupy /rootfs/opt/cupy
    find /rootfs -exec touch -h -d @{CREATED} {{}} + ;;
esac
"""


@pytest.fixture(params=engines(), ids=lambda entry: entry[0])
def started(request: pytest.FixtureRequest) -> Iterator[tuple[Dockerd, str]]:
    reason = missing()
    if reason:
        pytest.skip(reason)
    _, folder, config = request.param
    first = f"{folder}/usr/sbin:{folder}/usr/bin" if folder else ""
    with Dockerd(config, first, network=False) as engine:
        client = client_of(engine)
        layer = bases.busybox_layer({"bin/python3": _PYTHON})
        client.images.load(bases.archive("stand-in:same", layer, {"PATH": "/bin"}))
        client.close()
        yield engine, folder


def files() -> dict[str, str]:
    choice = next(
        entry for key, entry in choices().items() if key[0] == ImageKind.WHEELS.value and not isinstance(entry, str)
    )
    text = planned(choice).dockerfile.replace(choice.base.reference, "stand-in:same")
    return {"Dockerfile": text, "requirements.txt": "", "tidy.py": "", "sbom.cdx.json": ""}


def test_with_buildkit(started: tuple[Dockerd, str], tmp_path: Path) -> None:
    engine, folder = started
    variables = command_line(engine, folder, tmp_path)
    program = f"{folder}/usr/bin/docker" if folder else "/usr/bin/docker"
    cli = find_cli([program], variables, engine.host)
    assert cli is not None, "this engine's command line has BuildKit"
    build = BuildkitOptions({}, {"SOURCE_DATE_EPOCH": str(CREATED)}, {}, None, fresh=True)
    found = []
    for _ in range(2):
        image = build_with(cli, build, files(), Progress(lambda _: None), time.monotonic() + 120)
        found.append((image, layers(engine, image)))
        time.sleep(1.1)  # so that a time of day would differ
    assert found[0][1] == found[1][1], "the same layers"
    if not cli.is_plugin:
        pytest.skip("the layers are the same; this BuildKit writes the time of day into the configuration")
    assert found[0][0] == found[1][0], "the same digest"


def test_with_the_classic_builder(started: tuple[Dockerd, str], tmp_path: Path) -> None:
    engine, folder = started
    shop = connect(command_line(engine, folder, tmp_path), 30)
    how = {"nocache": True, "buildargs": {"SOURCE_DATE_EPOCH": str(CREATED)}}
    found = []
    for _ in range(2):
        image = shop.build(pack(files(), CREATED), how, Progress(lambda _: None))
        found.append(layers(engine, image))
        time.sleep(1.1)
    shop.close()
    assert found[0] == found[1], "the same layers"


def has_check(cli: BuildkitCommand) -> bool:
    told = subprocess.run(
        [*cli.words, "--help"], env=dict(cli.environment), capture_output=True, text=True, check=False, timeout=60
    )
    return "--call" in told.stdout


def test_the_engines_own_check_finds_nothing(started: tuple[Dockerd, str], tmp_path: Path) -> None:
    """``docker build --check`` of a Dockerfile of each kind, without and with secrets."""
    engine, folder = started
    variables = command_line(engine, folder, tmp_path)
    cli = find_cli([f"{folder}/usr/bin/docker"], variables, engine.host) if folder else None
    if cli is None or not cli.is_plugin or not has_check(cli):
        pytest.skip("this engine's BuildKit has no check: make test-docker unpacks one that has")
    for kind in ImageKind:
        choice = next(entry for key, entry in choices().items() if key[0] == kind.value and not isinstance(entry, str))
        for how in (Rendering(CREATED), Rendering(CREATED, mounts=True, secrets=("pip", "ca", "netrc"))):
            text = planned(choice, how).dockerfile.replace(choice.base.reference, "stand-in:same")
            (tmp_path / "Dockerfile").write_text(text)
            command = [*cli.words, "--call=check,format=json", str(tmp_path)]
            done = subprocess.run(
                command, env=dict(cli.environment), capture_output=True, text=True, check=False, timeout=60
            )
            assert done.returncode == 0, done.stdout + done.stderr
            assert not json.loads(done.stdout).get("warnings"), done.stdout


def layers(engine: Dockerd, image: str) -> Any:  # noqa: ANN401 - JSON
    """The digests of an image's layers; its user owns its home and its environment."""
    client = client_of(engine)
    try:
        owner = client.containers.run(image, ["stat", "-c", "%u %n", "/home", "/home/cupy", "/opt/cupy"], remove=True)
        assert owner.decode().split("\n")[:3] == ["0 /home", "10001 /home/cupy", "10001 /opt/cupy"]
        return client.images.get(image).attrs["RootFS"]["Layers"]
    finally:
        client.close()
