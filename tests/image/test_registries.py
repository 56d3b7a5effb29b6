"""Unusual registries: nested indexes, artifacts, proxies, helpers that hang, no TLS."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.inspect.image_facts import ImageError
from tests.cli.program import gpuenv
from tests.image.layouts import OCI_INDEX, OCI_MANIFEST, descriptor, digest, index, manifest
from tests.image.registry_server import serving
from tests.image.test_fetch import AMD, ARM, get, helper

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("layers", [5, True, None, "text", {}, [5, {"size": True}, {"size": -1}, {"size": 10**400}]])
def test_invalid_layers_have_no_size(tmp_path: Path, layers: object) -> None:
    changed = json.dumps({**json.loads(manifest(AMD)), "layers": layers}).encode()
    with serving(AMD) as served:
        served.pieces["manifests/1"] = (OCI_MANIFEST, changed)
        assert get(served.name, tmp_path).size == 0


def test_an_index_may_name_an_index_or_one_image_without_a_platform(tmp_path: Path) -> None:
    inner = index((AMD, ARM))
    outer = {"schemaVersion": 2, "manifests": [descriptor(inner, OCI_INDEX)]}
    alone = {"schemaVersion": 2, "manifests": [descriptor(manifest(ARM), OCI_MANIFEST)]}
    with serving(AMD, ARM) as served:
        served.pieces[f"manifests/{digest(inner)}"] = (OCI_INDEX, inner)
        for whole, arch in ((outer, "amd64"), (alone, "arm64")):
            served.pieces["manifests/1"] = (OCI_INDEX, json.dumps(whole).encode())
            assert get(served.name, tmp_path).environment["ARCH"] == arch


@pytest.mark.parametrize(
    ("media_type", "artifact", "shown"),
    [
        ("application/vnd.cncf.helm.config.v1+json", None, "helm.config"),
        ("application/vnd.oci.empty.v1+json", "application/vnd.example.model", "vnd.example.model"),
    ],
)
def test_an_artifact_that_is_no_image_is_named_by_its_type(
    tmp_path: Path, media_type: str, artifact: str | None, shown: str
) -> None:
    data = b'{"name": "chart"}'
    whole = {"schemaVersion": 2, "config": descriptor(data, media_type), "layers": [], "artifactType": artifact}
    with serving(AMD) as served:
        served.pieces["manifests/1"] = (OCI_MANIFEST, json.dumps(whole).encode())
        served.pieces[f"blobs/{digest(data)}"] = ("application/octet-stream", data)
        with pytest.raises(ImageError, match=f"not a container image.*{shown}") as caught:
            get(served.name, tmp_path)
        assert caught.value.is_input


def test_a_registry_on_this_machine_is_reached_without_a_proxy() -> None:
    """As engines do: a proxy of a company cannot reach the registry on this machine."""
    with serving(AMD) as served:
        words = ("check-image", served.name, "--no-probe", "--assume", "arch=x86_64")
        done = gpuenv(*words, environment={"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1"})
        assert "linux/amd64" in done.stdout, done.stderr


def test_a_helper_that_hangs_leaves_time_for_the_registry(tmp_path: Path) -> None:
    with serving(AMD) as served:
        helper(tmp_path, "sleep 20")
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker/config.json").write_text(json.dumps({"credsStore": "made"}))
        begun = time.monotonic()
        image = get(served.name, tmp_path, deadline=2.0, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
        assert image.environment["ARCH"] == "amd64"
        assert time.monotonic() - begun < 4.0


@pytest.mark.parametrize("name", ["localhost:99999/a:1", "[::::]:5000/a:1", "[abc]/a:1", "127.0.0.1:0/a:1"])
def test_an_invalid_host_is_an_error(tmp_path: Path, name: str) -> None:
    with pytest.raises(ImageError, match=r"cannot be reached|is no address"):
        get(name, tmp_path, deadline=3.0)


def test_a_registry_without_tls_on_another_host_is_refused(tmp_path: Path) -> None:
    """On another address of this machine than loopback."""
    with serving(AMD, host="0.0.0.0") as served:  # noqa: S104 - the address of this machine is none of loopback
        name = f"{own_address()}:{served.port}/team/image:1"
        with pytest.raises(ImageError, match="speaks no TLS") as caught:
            get(name, tmp_path)
        assert "--from engine" in (caught.value.remedy or "")


def own_address() -> str:
    """The address of this machine in a network; no packet is sent."""
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as udp:
        try:
            udp.connect(("192.0.2.1", 9))
        except OSError:
            pytest.skip("this machine has no network")
        return str(udp.getsockname()[0])
