"""What goes wrong with an engine: a clear message, the right exit code, no name on half an image, no secret left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import tarfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.image.context import pack
from gpuenv.image.engine import connect
from gpuenv.image.errors import EngineError
from tests.image.docker import bases
from tests.image.docker.conftest import client_of, load_stand_ins
from tests.image.docker.dockerd import Dockerd, missing
from tests.image.docker.program import PROGRAM, SMALL, build, environment, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.docker
TAG = "half/built:1"
SECRET = "hunter2-never-to-be-kept"  # noqa: S105 - to be searched for


def tags(client: Any) -> set[str]:  # noqa: ANN401 - the SDK has no types
    return {tag for image in client.images.list(all=True) for tag in image.tags}


def of(base: str) -> tuple[str, ...]:
    return (*SMALL, "--base", base, "--tag", TAG)


def test_no_engine(tmp_path: Path) -> None:
    done = build(f"unix://{tmp_path}/none.sock", *of("stand-in:fine"))
    assert (done.returncode, done.stdout) == (4, "")
    assert "there is no engine" in done.stderr
    assert "Start Docker or Podman" in done.stderr


def test_a_socket_that_nobody_listens_on(tmp_path: Path) -> None:
    path = tmp_path / "dead.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    done = build(f"unix://{path}", *of("stand-in:fine"))
    assert done.returncode == 4
    assert "no engine answers" in done.stderr


def test_an_engine_that_hangs(tmp_path: Path) -> None:
    path = tmp_path / "hung.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        done = build(f"unix://{path}", *of("stand-in:fine"), "--timeout", "2")
    assert done.returncode == 4
    assert "does not answer in time" in done.stderr


def test_an_address_that_is_none() -> None:
    done = build("bogus://x", *of("stand-in:fine"))
    assert done.returncode == 4
    assert "bogus://x" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="giving up root's rights needs root")
def test_no_permission_on_the_socket(tmp_path: Path) -> None:
    """Root without its capabilities, before a socket of somebody else's: who can still read the program."""
    path = tmp_path / "closed.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        path.chmod(0o600)
        os.chown(path, 65534, 65534)
        command = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", *PROGRAM, *of("stand-in:fine")]
        done = subprocess.run(
            command, env=environment(f"unix://{path}"), capture_output=True, text=True, check=False, timeout=60
        )
    assert done.returncode == 4, done.stderr
    assert "may not use the engine's socket" in done.stderr


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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--label", "a=x\nUSER root"), "cannot hold a line break"),
        (("--label", "a\nUSER root=x"), "no name of a label"),
        (("--label", "x"), "expected KEY=VALUE"),
        (("--label", "io.gpuenv.proof=passed"), "gpuenv writes these itself"),
        (("--tag", "a:b\nc"), "no name of an image"),
        (("--tag", "a:$(id)"), "no name of an image"),
        (("--base", "x\nRUN id"), "no name of an image"),
        (("--base", 'x" AS y'), "no name of an image"),
        (("--python", "3.11; id"), "no Python version"),
        (("--cuda", "12.9\nRUN id"), "12.9"),
        (("--arch", "$(id)"), "expected x86_64 or aarch64"),
        (("--compute-capability", "9.0 && id"), "9.0 && id"),
    ],
)
def test_hostile_words_are_refused(words: tuple[str, ...], message: str) -> None:
    done = build("unix:///nowhere", *words, "--print")
    assert (done.returncode, done.stdout) == (2, ""), done
    assert message in done.stderr


def test_nothing_of_this_machine_is_left_in_any_layer(engine: Dockerd, client: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """A proxy with a password, a label full of quotes, and what is in the caller's environment."""
    hostile = 'it\'s "$(touch /hacked)" `id` ${HOME} \\'
    code, told, said = outcome(
        engine.host,
        *of("stand-in:fine"),
        "--label",
        f"own.words={hostile}",
        HTTP_PROXY=f"http://user:{SECRET}@proxy.invalid:3128",
        NO_PROXY="127.0.0.1",
        AWS_SECRET_ACCESS_KEY=SECRET,
    )
    assert code == 4, told  # the stand-in has no Python to prove anything with
    assert SECRET not in said
    newest = client.images.list(all=True)
    for image in newest:
        assert SECRET not in str(client.api.history(image.id)) + str(image.attrs)
        labels = image.attrs["Config"]["Labels"] or {}
        assert labels.get("own.words", hostile) == hostile
    file = tmp_path / "saved.tar"
    with file.open("wb") as out:
        for chunk in newest[0].save():
            out.write(chunk)
    assert SECRET.encode() not in file.read_bytes()
    with tarfile.open(file) as tar:
        assert tar.getnames()
    assert os.path.lexists("/hacked") is False


def test_a_secret_is_shown_to_the_installer_and_left_nowhere(engine: Dockerd, client: Any, tmp_path: Path) -> None:  # noqa: ANN401
    """The stand-in says whether it saw it; the classic builder refuses to be given it."""
    (tmp_path / "pip.conf").write_text(f"[global]\nindex-url = https://user:{SECRET}@index.invalid/simple\n")
    words = (*of("stand-in:seeing"), "--pip-config", str(tmp_path / "pip.conf"))
    code, told, said = outcome(engine.host, *words, "--builder", "buildkit")
    assert (code, told["status"]) == (4, "failed")
    assert "the secret was there" in told["images"][0]["message"]
    assert SECRET not in said + str(told)
    kept = [path for path in roots(engine) for file in path.rglob("*") if file.is_file() and holds(file)]
    assert kept == []
    refused = build(engine.host, *words, "--builder", "classic")
    assert refused.returncode == 4
    assert "the classic builder would leave the secrets (pip) in the image" in refused.stderr
    assert TAG not in tags(client)


def test_an_index_of_this_machines_own_is_a_secret_too(engine: Dockerd) -> None:
    words = {"PIP_INDEX_URL": f"https://user:{SECRET}@index.invalid/simple"}
    done = build(engine.host, *of("stand-in:fine"), "--builder", "classic", "--dry-run", **words)
    assert "would leave the secrets" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def roots(engine: Any) -> list[Path]:  # noqa: ANN401
    """Where the engine keeps all that it has, where it is one of the tests' own."""
    folder = getattr(engine, "folder", None)
    return [folder / "root"] if folder else []


def holds(file: Path) -> bool:
    with file.open("rb") as opened:
        return SECRET.encode() in opened.read()
