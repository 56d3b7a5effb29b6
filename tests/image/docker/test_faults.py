"""A failed build has a clear message and the right exit code, and tags no incomplete image."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.image.build.render import pack
from gpuenv.image.engine.container_engine import connect
from gpuenv.image.engine.errors import EngineError
from tests.image.docker import bases
from tests.image.docker.conftest import docker_client, list_tags, load_stand_in_images
from tests.image.docker.dockerd import Dockerd, cli_environment, engine_skip_reason, engines
from tests.image.docker.program import PROGRAM, TAG, build_arguments, build_report, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("stand-in:failing", "the build failed"),
        ("stand-in:offline", "the network cannot be reached"),
        ("stand-in/that-is:nowhere", "the build failed"),
        (f"stand-in@sha256:{'0' * 64}", "the build failed"),
    ],
)
@pytest.mark.parametrize("builder", ["classic", "buildkit"])
def test_a_failed_build_is_reported(engine: Dockerd, client: Any, base: str, message: str, builder: str) -> None:  # noqa: ANN401
    code, report, stderr = build_report(engine.host, *build_arguments(base), "--builder", builder)
    assert (code, report["status"], report["exit_code"]) == (4, "failed", 4)
    assert message in report["images"][0]["message"], report
    assert message in stderr
    assert TAG not in list_tags(client)
    assert client.containers.list(all=True) == []


# Without containerd's image stores, with which Docker 26.1 looks up a local base in the registry.
@pytest.fixture(scope="module", params=[entry for entry in engines() if not entry[2]], ids=lambda entry: entry[0])
def each_engine(request: pytest.FixtureRequest) -> Iterator[tuple[Dockerd, str]]:
    """The system's engine, and each engine of GPUENV_TEST_ENGINES with its folder."""
    reason = engine_skip_reason()
    if reason:
        pytest.skip(reason)
    _, folder, config = request.param
    with Dockerd(config, f"{folder}/usr/sbin:{folder}/usr/bin" if folder else "", network=False) as daemon:
        load_stand_in_images(daemon)
        yield daemon, folder


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("stand-in:failing", "the build failed: something is wrong"),
        ("stand-in:offline", "the build failed: the network cannot be reached"),
        ("stand-in:bare", "the build failed: the base image lacks what the build runs"),
    ],
)
@pytest.mark.parametrize("builder", ["classic", "buildkit"])
def test_the_message_names_the_cause_of_a_failed_command(
    each_engine: tuple[Dockerd, str], base: str, message: str, builder: str, tmp_path: Path
) -> None:
    engine, folder = each_engine
    variables = cli_environment(engine, folder, tmp_path)
    del variables["DOCKER_HOST"]
    code, report, _ = build_report(engine.host, *build_arguments(base), "--builder", builder, **variables)
    assert (code, report["images"][0]["message"].splitlines()[0]) == (4, message)


def test_an_image_that_fails_verification_is_not_tagged(engine: Dockerd, client: Any) -> None:  # noqa: ANN401
    """The stand-in image builds but has no Python, so its verification fails; the tag keeps its former image."""
    client.images.get("stand-in:fine").tag("build/test", "1")
    before = client.images.get(TAG).id
    code, report, _ = build_report(engine.host, *build_arguments("stand-in:fine"))
    assert (code, report["status"]) == (4, "failed")
    assert "running the verification" in report["images"][0]["message"]
    assert client.images.get(TAG).id == before
    client.images.remove(TAG)
    assert client.containers.list(all=True) == []


@pytest.mark.parametrize("builder", ["classic", "buildkit"])
def test_a_base_image_can_have_another_user(engine: Dockerd, client: Any, builder: str) -> None:  # noqa: ANN401
    """The build succeeds; the verification fails because the stand-in image has no Python."""
    lines = b"FROM stand-in:fine\nENV PIP_USER=1\nUSER 65534:65534\nCMD true\n"
    client.images.build(fileobj=io.BytesIO(lines), tag="stand-in:other-user", rm=True)
    code, report, _ = build_report(engine.host, *build_arguments("stand-in:other-user"), "--builder", builder)
    assert (code, report["status"]) == (4, "failed")
    assert "running the verification" in report["images"][0]["message"]
    client.images.remove("stand-in:other-user")


def test_a_container_runs_and_is_removed_and_an_unavailable_gpu_is_an_error(engine: Dockerd, client: Any) -> None:  # noqa: ANN401
    connection = connect(environment(engine.host), 30)
    files = pack({"data/text": "content"}, 0)
    command = ["/bin/sh", "-c", "cat /tmp/data/text; echo warning >&2; exit 7"]
    result = connection.run("stand-in:fine", command, files, None, 60)
    assert (result.exit_code, result.stdout, result.stderr) == (7, "content", "warning\n")
    assert connection.run("stand-in:fine", ["/bin/sleep", "60"], files, None, 1).exit_code is None
    if not connection.facts.gpu_ways:
        for way in ("gpus", "cdi"):
            with pytest.raises(EngineError, match="running the verification"):
                connection.run("stand-in:fine", command, files, way, 60)
    connection.close()
    assert client.containers.list(all=True) == []


def test_long_output_of_a_container_is_truncated_at_the_end(engine: Dockerd) -> None:
    connection = connect(environment(engine.host), 30)
    command = ["/bin/sh", "-c", "echo first; dd if=/dev/zero bs=1048576 count=24 | tr '\\0' 'x'"]
    result = connection.run("stand-in:fine", command, pack({"data/text": ""}, 0), None, 60)
    connection.close()
    assert result.stdout.startswith("first\nxxx")
    assert len(result.stdout) == 16 << 20


@pytest.mark.parametrize("builder", ["classic", "buildkit"])
def test_ctrl_c_stops_the_build(engine: Dockerd, client: Any, builder: str) -> None:  # noqa: ANN401
    """The engine does not list BuildKit's containers, so the test looks for the sleeping process."""
    process = subprocess.Popen(
        [*PROGRAM, *build_arguments("stand-in:slow"), "--builder", builder],
        env=environment(engine.host),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert wait_for(is_sleeping), "the build runs"
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=30)
    assert (process.returncode, stdout) == (130, ""), stderr
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert wait_for(lambda: not is_sleeping()), "the engine stops the build"
    assert wait_for(lambda: not client.containers.list(all=True))
    assert TAG not in list_tags(client)


def is_sleeping() -> bool:
    """Whether a stand-in for Python sleeps; 617 seconds are unique to these tests."""
    return any(line == b"sleep\x00617\x00" for line in command_lines())


def command_lines() -> Iterator[bytes]:
    """The command lines of all processes, including those in containers."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


def wait_for(condition: Callable[[], object], seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.2)
    return False


@pytest.fixture
def separate_engine() -> Iterator[Dockerd]:
    """An engine that a test may kill."""
    reason = engine_skip_reason()
    if reason:
        pytest.skip(reason)
    with Dockerd(network=False) as daemon:
        load_stand_in_images(daemon)
        yield daemon


def kill_during_build(engine: Dockerd, client: Any) -> None:  # noqa: ANN401
    wait_for(client.containers.list)
    engine.kill()


def test_an_engine_that_dies_during_a_build_is_reported(separate_engine: Dockerd) -> None:
    client = docker_client(separate_engine)
    thread = threading.Thread(target=kill_during_build, args=(separate_engine, client))
    thread.start()
    code, report, stderr = build_report(separate_engine.host, *build_arguments("stand-in:slow"))
    thread.join()
    client.close()
    assert (code, report["status"]) == (4, "failed")
    assert "ended in the middle" in stderr
    separate_engine.start()
    client = docker_client(separate_engine)
    assert TAG not in list_tags(client)
    client.close()


def test_a_full_disk_is_reported(tmp_path: Path) -> None:
    reason = engine_skip_reason()
    if reason:
        pytest.skip(reason)
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(120 << 20)
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", "-m0", str(disk)], check=True)
    engine = Dockerd(network=False)
    engine.setup = f"mount -o loop {disk} {engine.folder}/root;"
    with engine:
        load_stand_in_images(engine)
        code, report, stderr = build_report(engine.host, *build_arguments("stand-in:filling"))
        client = docker_client(engine)
        remaining = list_tags(client)
        client.close()
    assert (code, report["status"]) == (4, "failed")
    assert "the disk is full" in stderr
    assert "Make room" in stderr
    assert TAG not in remaining


@pytest.mark.slow
def test_a_lost_network_during_the_download_of_wheels_is_reported(tmp_path: Path) -> None:
    """With the real pip, while it downloads."""
    reason = engine_skip_reason() or bases.debian_skip_reason()
    if reason:
        pytest.skip(reason)
    with Dockerd() as engine:
        client = docker_client(engine)
        bases.import_root(client, bases.make_debian(tmp_path), "stand-in/python:3.11", bases.certificate_variables())
        thread = threading.Thread(target=cut_network_during_install, args=(engine,))
        thread.start()
        code, report, stderr = build_report(engine.host, *build_arguments("stand-in/python:3.11"))
        thread.join()
        remaining = list_tags(client)
        client.close()
    assert (code, report["status"]) == (4, "failed"), stderr
    assert "the network cannot be reached" in stderr
    assert TAG not in remaining


def cut_network_during_install(engine: Dockerd) -> None:
    """Waits until pip runs in a container, and one second later disconnects the network."""
    wait_for(lambda: any(b"--require-hashes" in line and line.startswith(b"/opt/cupy") for line in command_lines()))
    time.sleep(1)
    engine.cut_network()
