"""Facts in the answers of an engine: about itself, an image and a container. Every type in an answer is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuenv.image.reference import digest_in
from gpuenv.model.redaction import cut_text


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """The facts about an engine: its name is ``docker`` or ``podman``, its platform one such as ``linux/amd64``.

    ``has_buildkit`` is whether it builds with BuildKit through the command line; ``gpu_ways`` are the ways in which it
    gives GPUs to a container, ``cdi`` or ``gpus``, as far as it reports them.
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
    """The facts about an image of an engine; its digests are ``NAME@sha256:...``, since registries differ in them."""

    id: str
    size: int
    user: str
    platform: str
    labels: Mapping[str, str]
    digests: tuple[str, ...]

    def digest_of(self, reference: str) -> str | None:
        """The digest (``sha256:...``) in the registry of a reference; None if unknown."""
        return digest_in(self.digests, reference)


@dataclass(frozen=True, slots=True)
class ContainerEnd:
    """The end of a container; no exit code if it was killed at its deadline."""

    exit_code: int | None
    stdout: str
    stderr: str


_ARCH = {"x86_64": "amd64", "aarch64": "arm64"}
_BUILDKIT_API = (1, 39)  # Docker 18.09, the first with BuildKit
CDI_GPU = "nvidia.com/gpu"  # the kind of NVIDIA's devices in the Container Device Interface


def engine_facts(version: object, info: object, host: str) -> EngineFacts:
    """The facts about the engine at an address, from its answers to ``/version`` and ``/info``.

    Raises:
        ValueError: if an answer is malformed.
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
    """The facts about an image.

    Raises:
        ValueError: if the answer is malformed.
    """
    image = object_of(answer, "an image")
    config = object_of(image.get("Config"), "an image's configuration")
    name, size = image.get("Id"), image.get("Size") or 0
    if not isinstance(name, str) or not isinstance(size, int):
        raise ValueError(f"it reports an image with the id {name!r} and the size {size!r}")  # noqa: TRY004 - an answer
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
    """The answer as an object; null becomes an empty one.

    Raises:
        ValueError: if it has another type.
    """
    if answer is None:
        return {}
    if not isinstance(answer, dict):
        raise ValueError(f"its answer about {what} is not an object: {cut_text(str(answer), 60)}")  # noqa: TRY004 - an answer
    return answer


def list_of(answer: object, what: str) -> list[Any]:
    """The answer as a list; null becomes an empty one.

    Raises:
        ValueError: if it has another type.
    """
    if answer is None:
        return []
    if not isinstance(answer, list):
        raise ValueError(f"its answer about {what} is not a list: {cut_text(str(answer), 60)}")  # noqa: TRY004 - an answer
    return answer


def _objects(answer: object, what: str) -> list[Mapping[str, Any]]:
    return [object_of(entry, what) for entry in list_of(answer, what)]
