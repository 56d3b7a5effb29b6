"""What an engine reports, of itself, an image, and how a container ended; every type in its answers is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuenv.image.reference import digest_in


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What an engine reports about itself.

    Attributes:
        name: ``docker`` or ``podman``.
        version: of the engine.
        host: its address.
        platform: ``linux/amd64`` and so on.
        has_buildkit: whether it builds with BuildKit through the command line.
        gpu_ways: how it hands GPUs to a container: ``cdi``, ``gpus``; empty if it reports neither.
    """

    name: str
    version: str
    host: str
    platform: str
    has_buildkit: bool
    gpu_ways: tuple[str, ...]

    @property
    def label(self) -> str:
        """``docker 28.5.2``."""
        return f"{self.name} {self.version}"


@dataclass(frozen=True, slots=True)
class EngineImage:
    """An image as the engine has it.

    Attributes:
        id: its digest there.
        size: bytes.
        user: whom it runs as.
        platform: ``linux/amd64``.
        labels: its labels.
        digests: ``NAME@sha256:...``, by which registries know it: one that was pushed elsewhere has another one there.
    """

    id: str
    size: int
    user: str
    platform: str
    labels: Mapping[str, str]
    digests: tuple[str, ...]

    def digest_of(self, reference: str) -> str | None:
        """``sha256:...``, the digest in the registry of this name; None if the engine does not report it."""
        return digest_in(self.digests, reference)


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """How a container ended; no exit code where it was killed at its deadline."""

    exit_code: int | None
    stdout: str
    stderr: str


_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
_BUILDKIT_API = (1, 39)  # Docker 18.09, the first with BuildKit
CDI_GPU = "nvidia.com/gpu"  # the kind of NVIDIA's devices in the Container Device Interface


def engine_facts(version: object, info: object, host: str) -> EngineFacts:
    """What an engine reports about itself.

    Args:
        version: the answer to ``/version``.
        info: the answer to ``/info``.
        host: its address.

    Raises:
        ValueError: when an answer is none of an engine's.
    """
    version_info, about = object_of(version, "its version"), object_of(info, "itself")
    parts = {
        str(entry.get("Name")): entry.get("Version") for entry in _objects(version_info.get("Components"), "its parts")
    }
    podman = "Podman Engine" in parts
    api = tuple(int(part) for part in str(version_info.get("ApiVersion", "0.0")).split("."))
    arch = str(about.get("Architecture", ""))
    return EngineFacts(
        name="podman" if podman else "docker",
        version=str(parts.get("Podman Engine") or version_info.get("Version")),
        host=host,
        platform=f"linux/{_ARCH.get(arch, arch)}",
        has_buildkit=not podman and api >= _BUILDKIT_API,
        gpu_ways=_gpu_ways(about),
    )


def _gpu_ways(info: Mapping[str, Any]) -> tuple[str, ...]:
    devices = [str(entry.get("ID", "")) for entry in _objects(info.get("DiscoveredDevices"), "its devices")]
    cdi = any(entry.startswith(CDI_GPU) for entry in devices)
    named = "nvidia" in object_of(info.get("Runtimes"), "its runtimes")
    return tuple(way for way, there in (("cdi", cdi), ("gpus", named)) if there)


def engine_image(answer: object) -> EngineImage:
    """An image as an engine reports it.

    Raises:
        ValueError: when the answer is none of an engine's.
    """
    image = object_of(answer, "an image")
    config = object_of(image.get("Config"), "an image's configuration")
    name, size = image.get("Id"), image.get("Size") or 0
    if not isinstance(name, str) or not isinstance(size, int):
        raise ValueError(f"it tells of an image with the id {name!r} and the size {size!r}")  # noqa: TRY004 - an answer
    digests = list_of(image.get("RepoDigests"), "an image's digests")
    return EngineImage(
        id=name,
        size=size,
        user=str(config.get("User") or ""),
        platform=f"{image.get('Os')}/{image.get('Architecture')}",
        labels={str(key): str(value) for key, value in object_of(config.get("Labels"), "an image's labels").items()},
        digests=tuple(entry for entry in digests if isinstance(entry, str)),
    )


def object_of(answer: object, what: str) -> Mapping[str, Any]:
    """An object; an empty one where there is none.

    Raises:
        ValueError: when the answer is of another kind.
    """
    if answer is None:
        return {}
    if not isinstance(answer, dict):
        raise ValueError(f"what it tells of {what} is no object: {str(answer)[:60]}")  # noqa: TRY004 - an answer
    return answer


def list_of(answer: object, what: str) -> list[Any]:
    """A list; an empty one where there is none.

    Raises:
        ValueError: when the answer is of another kind.
    """
    if answer is None:
        return []
    if not isinstance(answer, list):
        raise ValueError(f"what it tells of {what} is no list: {str(answer)[:60]}")  # noqa: TRY004 - an answer
    return answer


def _objects(answer: object, what: str) -> list[Mapping[str, Any]]:
    return [object_of(entry, what) for entry in list_of(answer, what)]
