"""What an engine reports: about itself, an image, and how a container ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
