"""Debian's docker-registry, filled by its own interface, answers as the tests' own one does."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from contextlib import closing
from http.client import HTTPConnection
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.inspect.image_facts import ImageError
from tests.image.layouts import Made, digest, manifest
from tests.image.test_fetch import AMD, get

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.skipif(shutil.which("docker-registry") is None, reason="docker-registry is not installed")
def test_a_real_registry_answers_the_same(tmp_path: Path) -> None:
    """Debian's docker-registry, filled by its own interface."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    config = tmp_path / "config.yml"
    config.write_text(
        f"version: 0.1\nlog: {{level: error}}\nstorage: {{filesystem: {{rootdirectory: {tmp_path}/data}}}}\n"
        f"http: {{addr: 127.0.0.1:{port}}}\n"
    )
    with subprocess.Popen(["docker-registry", "serve", str(config)], stderr=subprocess.DEVNULL) as process:
        try:
            _fill(port, AMD)
            image = get(f"127.0.0.1:{port}/team/image:1", tmp_path)
            assert image.environment == AMD.environment
            assert image.digest == digest(_plain_manifest(AMD))
            with pytest.raises(ImageError, match="no such image"):
                get(f"127.0.0.1:{port}/team/image:2", tmp_path)
        finally:
            process.terminate()


def _plain_manifest(made: Made) -> bytes:
    """Without layers: a registry wants to have those that a manifest names."""
    return json.dumps({**json.loads(manifest(made)), "layers": []}).encode()


def _fill(port: int, made: Made) -> None:
    until = time.monotonic() + 10
    while (place := _begun(port)) is None:
        assert time.monotonic() < until, "the registry does not start"
        time.sleep(0.1)
    data = made.configuration()
    path = place.partition(f":{port}")[2]
    assert _put(port, f"{path}&digest={digest(data)}", data, "application/octet-stream") == 201
    kind = "application/vnd.oci.image.manifest.v1+json"
    assert _put(port, "/v2/team/image/manifests/1", _plain_manifest(made), kind) == 201


def _begun(port: int) -> str | None:
    """Where the registry wants a piece to go; none while it does not answer."""
    with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        try:
            connection.request("POST", "/v2/team/image/blobs/uploads/")
            return connection.getresponse().getheader("Location")
        except OSError:
            return None


def _put(port: int, path: str, data: bytes, kind: str) -> int:
    with closing(HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request("PUT", path, data, {"Content-Type": kind})
        return connection.getresponse().status
