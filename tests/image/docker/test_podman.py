"""Podman's socket, which speaks Docker's language: the same program, the same messages."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.image import labels
from gpuenv.image.build.render import pack
from gpuenv.image.engine.container_engine import connect
from tests.image.docker import bases
from tests.image.docker.conftest import Given, client_of, load_stand_ins
from tests.image.docker.dockerd import SYSTEM_PATH, answers
from tests.image.docker.program import SMALL, environment, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
# Limits that may be raised by nobody in a small virtual machine, and the runtime that knows its control groups.
_SETTINGS = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
TAG = "localhost/half/built:1"


def outbound(pid: int) -> subprocess.Popen[bytes] | None:
    """A way out of a process's network, where slirp4netns is there to make one."""
    if not shutil.which("slirp4netns", path=SYSTEM_PATH):
        return None
    words = ["slirp4netns", "--configure", "--mtu=1400", "--disable-host-loopback", str(pid), "tap0"]
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *words],
        env={"PATH": SYSTEM_PATH},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def podman() -> Iterator[Given]:
    """Podman's service in a network of its own, with the stand-in bases."""
    if os.geteuid() != 0 or not shutil.which("podman", path=SYSTEM_PATH):
        pytest.skip("needs root and podman: apt-get install podman runc")
    folder = Path(tempfile.mkdtemp(prefix="pm."))
    (folder / "containers.conf").write_text(_SETTINGS)
    address = f"unix://{folder}/podman.sock"
    service = (
        "podman",
        "--root",
        f"{folder}/root",
        "--runroot",
        f"{folder}/run",
        "system",
        "service",
        "--time=0",
        address,
    )
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", "unshare", "--net", "--mount", *service],
        env={"PATH": SYSTEM_PATH, "HOME": str(folder), "CONTAINERS_CONF": str(folder / "containers.conf")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    network = None
    try:
        end = time.monotonic() + 30
        while not answers(folder / "podman.sock") and time.monotonic() < end:
            time.sleep(0.1)
        assert process.poll() is None, "podman's service runs"
        network = outbound(process.pid)
        load_stand_ins(Given(address))
        yield Given(address)
    finally:
        for started in filter(None, (network, process)):
            started.kill()
            started.wait()
        subprocess.run(["umount", "-l", f"{folder}/root/overlay"], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def of(base: str) -> tuple[str, ...]:
    return (*SMALL[2:], "--base", base, "--tag", TAG)


def test_it_is_told_apart_from_docker(podman: Given) -> None:
    shop = connect(environment(podman.host), 30)
    assert (shop.facts.name, shop.facts.has_buildkit, shop.facts.gpu_ways) == ("podman", False, ())
    assert shop.facts.platform == "linux/amd64"
    assert shop.digest_of("localhost/missing:1") is None
    shop.close()


def test_a_build_that_fails(podman: Given) -> None:
    code, told, said = outcome(podman.host, *of("localhost/stand-in:failing"))
    assert (code, told["status"], told["engine"].split()[0]) == (4, "failed", "podman")
    assert "something is wrong" in said
    assert TAG not in names(podman)


def test_what_is_built_and_not_proven_gets_no_name(podman: Given) -> None:
    """The stand-in has no Python for the payload, so that the proof fails, and says so."""
    code, told, said = outcome(podman.host, *of("localhost/stand-in:fine"))
    assert code == 4, said
    assert told["status"] == "failed"
    assert "running the proof" in said
    assert TAG not in names(podman)


def test_a_secret_is_refused(podman: Given, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("[global]\n")
    words = (*of("localhost/stand-in:fine"), "--pip-config", str(tmp_path / "pip.conf"), "--dry-run")
    code, told, said = outcome(podman.host, *words)
    assert (code, told["images"][0]["builder"]) == (0, None)
    assert "would leave the secrets (pip) in the image" in said


def names(podman: Given) -> set[str]:
    client = client_of(podman)
    try:
        return {tag for image in client.images.list() for tag in image.tags}
    finally:
        client.close()


def test_a_container_is_run_and_removed(podman: Given) -> None:
    shop = connect(environment(podman.host), 30)
    end = shop.run(
        "localhost/stand-in:fine", ["/bin/cat", "/tmp/given/word"], pack({"given/word": "heard"}, 0), None, 60
    )
    shop.close()
    assert (end.exit_code, end.stdout) == (0, "heard")


@pytest.mark.slow
def test_cupy_is_built_and_proven_through_podman(podman: Given, tmp_path: Path) -> None:
    """The default kind on a Debian made here, with CuPy and CUDA really in it, and the payload run inside."""
    reason = bases.lacking() or ("" if shutil.which("slirp4netns", path=SYSTEM_PATH) else "no slirp4netns here")
    if reason:
        pytest.skip(reason)
    client = client_of(podman)
    name = "localhost/stand-in/python:3.11"
    bases.load_root(client, bases.debian(tmp_path), name, bases.certificates())
    asked = ("--cuda", "12.9", "--python", "3.11", "--base", name, "--compute-capability", "9.0")
    words = (*asked, "--builder", "classic")
    tag = "localhost/proven/podman:1"
    code, told, said = outcome(podman.host, *words, "--tag", tag)
    assert code == 0, said
    made = told["images"][0]
    assert (made["status"], made["user"], told["engine"].split()[0]) == ("built", "10001:10001", "podman")
    proofs = {proof["name"]: proof["passed"] for proof in made["proofs"]}
    assert {"compiled.9.0", "library.cublas", "library.nvrtc", "user"} <= set(proofs)
    assert set(proofs.values()) == {True}
    first = client.images.get(tag)
    assert first.attrs["Config"]["Labels"][labels.PROOF].startswith("passed: ")
    code, told, said = outcome(podman.host, *words, "--tag", tag)
    assert (code, client.images.get(tag).attrs["RootFS"]) == (0, first.attrs["RootFS"]), said
    lines = f"FROM {tag}\nRUN pip install tomli && pip check\n"
    client.images.build(fileobj=io.BytesIO(lines.encode()), tag="localhost/extended/it:1", rm=True)
    code_in_it = (
        "import cupy, os, tempfile, tomli; tempfile.mkstemp(dir=os.environ['CUPY_CACHE_DIR']); print(os.getuid())"
    )
    for user in ("10001", "12345", "12345:12345", "0"):
        command = ["python", "-c", code_in_it]
        kept = client.containers.create("localhost/extended/it:1", command, user=user, network_mode="none")
        kept.start()
        ended = kept.wait()["StatusCode"]
        assert (ended, kept.logs(stderr=False).decode().strip()) == (0, user.partition(":")[0]), kept.logs()
        kept.remove()
    client.close()
