"""build-image with Podman, whose socket has Docker's API: the same results and messages."""

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
from tests.image.docker.conftest import ExistingEngine, docker_client, load_stand_in_images
from tests.image.docker.dockerd import SYSTEM_PATH, answers
from tests.image.docker.program import CUDA_OPTIONS, build_report, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
# Low limits, since a small virtual machine forbids higher ones, and a runtime that supports its control groups.
_SETTINGS = """
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""
TAG = "localhost/build/test:1"


def connect_network(pid: int) -> subprocess.Popen[bytes] | None:
    """Connects the network namespace of a process to the host's network; None without slirp4netns."""
    if not shutil.which("slirp4netns", path=SYSTEM_PATH):
        return None
    command = ["slirp4netns", "--configure", "--mtu=1400", "--disable-host-loopback", str(pid), "tap0"]
    return subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", *command],
        env={"PATH": SYSTEM_PATH},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


@pytest.fixture(scope="module")
def podman() -> Iterator[ExistingEngine]:
    """Podman's service in its own network namespace, with the stand-in images."""
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
        network = connect_network(process.pid)
        load_stand_in_images(ExistingEngine(address))
        yield ExistingEngine(address)
    finally:
        for child in filter(None, (network, process)):
            child.kill()
            child.wait()
        subprocess.run(["umount", "-l", f"{folder}/root/overlay"], check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def build_arguments(base: str) -> tuple[str, ...]:
    return (*CUDA_OPTIONS, "--base", base, "--tag", TAG)


def test_podman_is_recognized(podman: ExistingEngine) -> None:
    connection = connect(environment(podman.host), 30)
    assert (connection.facts.name, connection.facts.has_buildkit, connection.facts.gpu_ways) == ("podman", False, ())
    assert connection.facts.platform == "linux/amd64"
    assert connection.digest_of("localhost/missing:1") is None
    connection.close()


def test_a_failed_build_is_reported(podman: ExistingEngine) -> None:
    code, report, stderr = build_report(podman.host, *build_arguments("localhost/stand-in:failing"))
    assert (code, report["status"], report["engine"].split()[0]) == (4, "failed", "podman")
    assert "something is wrong" in stderr
    assert TAG not in image_names(podman)


def test_an_image_that_fails_verification_is_not_tagged(podman: ExistingEngine) -> None:
    """The stand-in image has no Python, so its verification fails with a message."""
    code, report, stderr = build_report(podman.host, *build_arguments("localhost/stand-in:fine"))
    assert code == 4, stderr
    assert report["status"] == "failed"
    assert "running the verification" in stderr
    assert TAG not in image_names(podman)


def test_a_build_with_a_secret_is_refused(podman: ExistingEngine, tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text("[global]\n")
    arguments = (*build_arguments("localhost/stand-in:fine"), "--pip-config", str(tmp_path / "pip.conf"), "--dry-run")
    code, report, stderr = build_report(podman.host, *arguments)
    assert (code, report["images"][0]["builder"]) == (0, None)
    assert "would leave the secrets (pip) in the image" in stderr


def image_names(podman: ExistingEngine) -> set[str]:
    client = docker_client(podman)
    try:
        return {tag for image in client.images.list() for tag in image.tags}
    finally:
        client.close()


def test_a_container_reads_copied_files(podman: ExistingEngine) -> None:
    connection = connect(environment(podman.host), 30)
    result = connection.run(
        "localhost/stand-in:fine", ["/bin/cat", "/tmp/data/text"], pack({"data/text": "content"}, 0), None, 60
    )
    connection.close()
    assert (result.exit_code, result.stdout) == (0, "content")


@pytest.mark.slow
def test_podman_builds_and_verifies_an_image_with_cupy(podman: ExistingEngine, tmp_path: Path) -> None:
    """An image of the default kind on Debian with CuPy and CUDA, and an image that a user builds on it."""
    reason = bases.debian_skip_reason() or (
        "" if shutil.which("slirp4netns", path=SYSTEM_PATH) else "slirp4netns is missing"
    )
    if reason:
        pytest.skip(reason)
    client = docker_client(podman)
    name = "localhost/stand-in/python:3.11"
    bases.import_root(client, bases.make_debian(tmp_path), name, bases.certificate_variables())
    options = ("--cuda", "12.9", "--python", "3.11", "--base", name, "--compute-capability", "9.0")
    arguments = (*options, "--builder", "classic")
    tag = "localhost/verified/podman:1"
    code, report, stderr = build_report(podman.host, *arguments, "--tag", tag)
    assert code == 0, stderr
    result = report["images"][0]
    assert (result["status"], result["user"], report["engine"].split()[0]) == ("built", "10001:10001", "podman")
    proofs = {proof["name"]: proof["passed"] for proof in result["proofs"]}
    assert {"compiled.9.0", "library.cublas", "library.nvrtc", "user"} <= set(proofs)
    assert set(proofs.values()) == {True}
    first = client.images.get(tag)
    assert first.attrs["Config"]["Labels"][labels.PROOF].startswith("passed: ")
    code, report, stderr = build_report(podman.host, *arguments, "--tag", tag)
    assert (code, client.images.get(tag).attrs["RootFS"]) == (0, first.attrs["RootFS"]), stderr
    lines = f"FROM {tag}\nRUN pip install tomli && pip check\n"
    client.images.build(fileobj=io.BytesIO(lines.encode()), tag="localhost/extended/test:1", rm=True)
    script = "import cupy, os, tempfile, tomli; tempfile.mkstemp(dir=os.environ['CUPY_CACHE_DIR']); print(os.getuid())"
    for user in ("10001", "12345", "12345:12345", "0"):
        command = ["python", "-c", script]
        container = client.containers.create("localhost/extended/test:1", command, user=user, network_mode="none")
        container.start()
        exit_code = container.wait()["StatusCode"]
        assert (exit_code, container.logs(stderr=False).decode().strip()) == (0, user.partition(":")[0]), (
            container.logs()
        )
        container.remove()
    client.close()
