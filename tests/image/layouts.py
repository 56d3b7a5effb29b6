"""Images as folders and files: manifests and configurations without layers."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"


@dataclass(frozen=True)
class Made:
    """The configuration of an image for one platform."""

    environment: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    history: tuple[str, ...] = ()
    architecture: str = "amd64"
    os: str = "linux"
    variant: str | None = None

    @property
    def platform(self) -> dict[str, str]:
        variant = {"variant": self.variant} if self.variant else {}
        return {"os": self.os, "architecture": self.architecture, **variant}

    def configuration(self) -> bytes:
        inner = {"Env": [f"{name}={value}" for name, value in self.environment.items()], "Labels": dict(self.labels)}
        whole: dict[str, Any] = {
            **self.platform,
            "created": "2026-11-21T00:00:00Z",
            "config": inner,
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + "0" * 64]},
            "history": [{"created_by": step} for step in self.history],
        }
        return json.dumps(whole).encode()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def descriptor(data: bytes, media_type: str, **more: object) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": digest(data), "size": len(data), **more}


def manifest(made: Made, *, docker: bool = False) -> bytes:
    """A manifest with one layer that does not exist."""
    config = descriptor(made.configuration(), DOCKER_CONFIG if docker else OCI_CONFIG)
    layer = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": "sha256:" + "1" * 64, "size": 4000}
    media_type = DOCKER_MANIFEST if docker else OCI_MANIFEST
    value = {"schemaVersion": 2, "mediaType": media_type, "config": config, "layers": [layer]}
    return json.dumps(value).encode()


def index(images: tuple[Made, ...], *, docker: bool = False, attested: bool = False) -> bytes:
    """An index of images, with an attestation for the first if requested."""
    media_type = DOCKER_MANIFEST if docker else OCI_MANIFEST
    entries = [descriptor(manifest(made, docker=docker), media_type, platform=made.platform) for made in images]
    if attested:
        unknown = {"os": "unknown", "architecture": "unknown"}
        note = {"vnd.docker.reference.type": "attestation-manifest"}
        entries.append({**entries[0], "platform": unknown, "annotations": note})
    value = {"schemaVersion": 2, "mediaType": DOCKER_LIST if docker else OCI_INDEX, "manifests": entries}
    return json.dumps(value).encode()


def blobs(images: tuple[Made, ...], *, docker: bool = False) -> dict[str, bytes]:
    """Manifests and configurations by digest."""
    pieces = [piece for made in images for piece in (manifest(made, docker=docker), made.configuration())]
    return {digest(piece): piece for piece in pieces}


def layout(folder: Path, *images: Made) -> Path:
    """An OCI layout."""
    (folder / "blobs/sha256").mkdir(parents=True)
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    whole = index(images)
    (folder / "index.json").write_bytes(whole)
    for name, data in blobs(images).items():
        (folder / "blobs" / name.replace(":", "/")).write_bytes(data)
    return folder


def saved(path: Path, made: Made) -> Path:
    """A file of ``docker save`` from before engines wrote OCI layouts."""
    configuration = made.configuration()
    name = digest(configuration).partition(":")[2] + ".json"
    listing = json.dumps([{"Config": name, "RepoTags": ["made:1"], "Layers": []}]).encode()
    with tarfile.open(path, "w") as archive:
        for member, data in ((name, configuration), ("manifest.json", listing)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return path
