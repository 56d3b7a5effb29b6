"""What goes wrong with an engine: a clear message, the right exit code, no name on half an image."""

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
from tests.image.docker.conftest import client_of, load_stand_ins
from tests.image.docker.dockerd import Dockerd, command_line, engines, missing
from tests.image.docker.program import PROGRAM, environment, outcome
from tests.image.docker.tagged import TAG, of, tags

if TYPE_CHECKING:
    from collections.abc import Iterator


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
def test_a_build_that_fails(engine: Dockerd, client: Any, base: str, message: str, builder: str) -> None:  # noqa: ANN401
    code, told, said = outcome(engine.host, *of(base), "--builder", builder)
    assert (code, told["status"], told["exit_code"]) == (4, "failed", 4)
    assert message in told["images"][0]["message"], told
    assert message in said
    assert TAG not in tags(client)
    assert client.containers.list(all=True) == []


# Without the stores of containerd, with which Docker 26.1 asks the registry for a base that it has.
@pytest.fixture(scope="module", params=[entry for entry in engines() if not entry[2]], ids=lambda entry: entry[0])
def each_engine(request: pytest.FixtureRequest) -> Iterator[tuple[Dockerd, str]]:
    """The system's engine, and those that GPUENV_TEST_ENGINES names, with its folder."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    _, folder, config = request.param
    with Dockerd(config, f"{folder}/usr/sbin:{folder}/usr/bin" if folder else "", network=False) as started:
        load_stand_ins(started)
        yield started, folder


@pytest.mark.parametrize(
    ("base", "message"),
    [
        ("stand-in:failing", "the build failed: something is wrong"),
        ("stand-in:offline", "the build failed: the network cannot be reached"),
        ("stand-in:bare", "the build failed: the base image lacks what the build runs"),
    ],
)
@pytest.mark.parametrize("builder", ["classic", "buildkit"])
def test_the_failure_is_that_of_the_command(
    each_engine: tuple[Dockerd, str], base: str, message: str, builder: str, tmp_path: Path
) -> None:
    engine, folder = each_engine
    variables = command_line(engine, folder, tmp_path)
    del variables["DOCKER_HOST"]
    code, told, _ = outcome(engine.host, *of(base), "--builder", builder, **variables)
    assert (code, told["images"][0]["message"].splitlines()[0]) == (4, message)


def test_an_image_that_cannot_be_proven_gets_no_name(engine: Dockerd, client: Any) -> None:  # noqa: ANN401
    """The stand-in builds, and has no Python in it; the name stays with the image that had it."""
    client.images.get("stand-in:fine").tag("half/built", "1")
    before = client.images.get(TAG).id
    code, told, _ = outcome(engine.host, *of("stand-in:fine"))
    assert (code, told["status"]) == (4, "failed")
    assert "running the proof" in told["images"][0]["message"]
    assert client.images.get(TAG).id == before
    client.images.remove(TAG)
    assert client.containers.list(all=True) == []


@pytest.mark.parametrize("builder", ["classic", "buildkit"])
def test_a_base_that_runs_as_somebody_else_is_built_on(engine: Dockerd, client: Any, builder: str) -> None:  # noqa: ANN401
    """It comes as far as the proof, for which the stand-in has no Python."""
    lines = b"FROM stand-in:fine\nENV PIP_USER=1\nUSER 65534:65534\nCMD true\n"
    client.images.build(fileobj=io.BytesIO(lines), tag="stand-in:nobody", rm=True)
    code, told, _ = outcome(engine.host, *of("stand-in:nobody"), "--builder", builder)
    assert (code, told["status"]) == (4, "failed")
    assert "running the proof" in told["images"][0]["message"]
    client.images.remove("stand-in:nobody")


def test_a_container_is_run_and_removed_and_a_gpu_that_is_not_to_be_had_is_told(engine: Dockerd, client: Any) -> None:  # noqa: ANN401
    shop = connect(environment(engine.host), 30)
    files = pack({"given/word": "heard"}, 0)
    command = ["/bin/sh", "-c", "cat /tmp/given/word; echo beside >&2; exit 7"]
    end = shop.run("stand-in:fine", command, files, None, 60)
    assert (end.exit_code, end.stdout, end.stderr) == (7, "heard", "beside\n")
    assert shop.run("stand-in:fine", ["/bin/sleep", "60"], files, None, 1).exit_code is None
    if not shop.facts.gpu_ways:
        for way in ("gpus", "cdi"):
            with pytest.raises(EngineError, match="running the proof"):
                shop.run("stand-in:fine", command, files, way, 60)
    shop.close()
    assert client.containers.list(all=True) == []


def test_of_a_container_that_floods_its_output_the_beginning_is_kept(engine: Dockerd) -> None:
    shop = connect(environment(engine.host), 30)
    command = ["/bin/sh", "-c", "echo first; dd if=/dev/zero bs=1048576 count=24 | tr '\\0' 'x'"]
    end = shop.run("stand-in:fine", command, pack({"given/word": ""}, 0), None, 60)
    shop.close()
    assert end.stdout.startswith("first\nxxx")
    assert len(end.stdout) == 16 << 20


@pytest.mark.parametrize("builder", ["classic", "buildkit"])
def test_ctrl_c_stops_the_build(engine: Dockerd, client: Any, builder: str) -> None:  # noqa: ANN401
    """BuildKit's containers are not listed: whether it has ended is seen by the process that sleeps."""
    process = subprocess.Popen(
        [*PROGRAM, *of("stand-in:slow"), "--builder", builder],
        env=environment(engine.host),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert wait_for(sleeping), "the build runs"
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, ""), said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert wait_for(lambda: not sleeping()), "the engine has ended it too"
    assert wait_for(lambda: not client.containers.list(all=True))
    assert TAG not in tags(client)


def sleeping() -> bool:
    """Whether the stand-in for Python sleeps anywhere; no other test sleeps for so long."""
    return any(line == b"sleep\x00617\x00" for line in running())


def running() -> Iterator[bytes]:
    """The command lines of every process here, in containers too."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield path.read_bytes()


def wait_for(true: Any, seconds: float = 60.0) -> bool:  # noqa: ANN401 - a question
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.2)
    return False


@pytest.fixture
def own_engine() -> Iterator[Dockerd]:
    """An engine that a test may harm."""
    reason = missing()
    if reason:
        pytest.skip(reason)
    with Dockerd(network=False) as started:
        load_stand_ins(started)
        yield started


def kill_in_the_middle(engine: Dockerd, client: Any) -> None:  # noqa: ANN401
    wait_for(client.containers.list)
    engine.kill()


def test_an_engine_that_dies_in_the_middle(own_engine: Dockerd) -> None:
    client = client_of(own_engine)
    killer = threading.Thread(target=kill_in_the_middle, args=(own_engine, client))
    killer.start()
    code, told, said = outcome(own_engine.host, *of("stand-in:slow"))
    killer.join()
    client.close()
    assert (code, told["status"]) == (4, "failed")
    assert "ended in the middle" in said
    own_engine.start()
    again = client_of(own_engine)
    assert TAG not in tags(again)
    again.close()


def test_a_full_disk(tmp_path: Path) -> None:
    reason = missing()
    if reason:
        pytest.skip(reason)
    disk = tmp_path / "disk"
    with disk.open("wb") as file:
        file.truncate(120 << 20)
    subprocess.run(["/usr/sbin/mkfs.ext4", "-q", "-m0", str(disk)], check=True)
    small = Dockerd(network=False)
    small.setup = f"mount -o loop {disk} {small.folder}/root;"
    with small:
        load_stand_ins(small)
        code, told, said = outcome(small.host, *of("stand-in:filling"))
        client = client_of(small)
        found = tags(client)
        client.close()
    assert (code, told["status"]) == (4, "failed")
    assert "the disk is full" in said
    assert "Make room" in said
    assert TAG not in found


@pytest.mark.slow
def test_the_network_is_cut_while_wheels_are_fetched(tmp_path: Path) -> None:
    """The real pip, in the middle of its work."""
    reason = missing() or bases.lacking()
    if reason:
        pytest.skip(reason)
    with Dockerd() as engine:
        client = client_of(engine)
        bases.load_root(client, bases.debian(tmp_path), "stand-in/python:3.11", bases.certificates())
        cutter = threading.Thread(target=cut_in_the_middle, args=(engine,))
        cutter.start()
        code, told, said = outcome(engine.host, *of("stand-in/python:3.11"))
        cutter.join()
        found = tags(client)
        client.close()
    assert (code, told["status"]) == (4, "failed"), said
    assert "the network cannot be reached" in said
    assert TAG not in found


def cut_in_the_middle(engine: Dockerd) -> None:
    """Waits for pip in a container, gives it a moment, and takes the network away."""
    wait_for(lambda: any(b"--require-hashes" in line and line.startswith(b"/opt/cupy") for line in running()))
    time.sleep(1)
    engine.cut_network()
