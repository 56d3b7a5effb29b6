"""What runs a container: a service of a compose file, a container of a pod, a dev container."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuenv.image.dockerfile.requirements import SourceLocation
from gpuenv.image.dockerfile.stages import Setting

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Plain


class ServiceFileError(ValueError):
    """A file that describes no services; the message has the line."""


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """The kind of a service.

    Attributes:
        noun: what it is called.
        ask: how it requests a GPU, as a fix.
    """

    noun: str
    ask: str


COMPOSE = ServiceKind("Service", 'Add "gpus: all", or deploy.resources.reservations.devices with capabilities: [gpu].')
POD = ServiceKind("Container", 'Add "nvidia.com/gpu: 1" to its resources.limits.')
DEVCONTAINER = ServiceKind("Dev container", 'Add "--gpus=all" to runArgs, or "gpu": true to hostRequirements.')


@dataclass(frozen=True, slots=True)
class BuildSource:
    """How a service's image is built.

    Attributes:
        context: its build context, from the folder of the file.
        dockerfile: the Dockerfile, from the context.
        target: the stage.
        arguments: values for its ARGs.
        line: of the build section.
        inline: the Dockerfile itself, if it stands in the compose file.
        beside: whether the Dockerfile's path starts at the folder of the file, as in dev containers.
    """

    context: str
    dockerfile: str
    target: str | None
    arguments: Mapping[str, str]
    line: int
    inline: str | None = None
    beside: bool = False


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """A request for GPUs.

    Attributes:
        driver: ``nvidia``, ``cdi``; null if not given.
        capabilities: null if not given.
        count: as it is written; null if not given.
        device_ids: null if not given.
        line: where it begins.
    """

    driver: str | None
    capabilities: tuple[str, ...] | None
    count: str | None
    device_ids: tuple[str, ...] | None
    line: int


@dataclass(frozen=True, slots=True)
class Service:
    """A service.

    Attributes:
        file: the file.
        name: of the service.
        line: of its name.
        image: the image; null if it is built alone.
        image_line: the line that names it.
        source: how it is built.
        environment: the variables that it sets.
        requests: the GPUs that it requests.
        misplaced: requests where nothing looks for them, as path and line.
        runtime: the container runtime, with its line.
        has_devices: whether GPUs are handed in as devices or by other means.
        means_cpu: whether it says that it runs without a GPU.
        partial: whether a part of it is elsewhere.
        kind: the kind.
    """

    file: str
    name: str
    line: int
    image: str | None = None
    image_line: int = 1
    source: BuildSource | None = None
    environment: Mapping[str, Setting] = field(default_factory=dict)
    requests: tuple[DeviceRequest, ...] = ()
    misplaced: tuple[tuple[str, int], ...] = ()
    runtime: tuple[str, int] | None = None
    has_devices: bool = False
    means_cpu: bool = False
    partial: bool = False
    kind: ServiceKind = COMPOSE

    def location(self, line: int) -> SourceLocation:
        """The location of one of its lines."""
        return SourceLocation(self.file, line)

    @property
    def label(self) -> str:
        """``Service web``."""
        return f"{self.kind.noun} {self.name}"

    @property
    def requests_gpu(self) -> bool:
        """Whether it requests a GPU in any way."""
        return bool(self.requests) or self.has_devices or (self.runtime is not None and self.runtime[0] == "nvidia")


def value_at(value: Plain, *keys: str) -> Plain:
    """The value behind these keys, one after the other; None if there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def text_at(value: Plain, *keys: str) -> str | None:
    """The text behind these keys."""
    found = value_at(value, *keys)
    return found if isinstance(found, str) else None


def pairs_of(value: Plain) -> Iterator[tuple[str, str, str]]:
    """Names, values and paths of a mapping or of a list of ``NAME=value``; names without a value are left out."""
    for name, text in value.items() if isinstance(value, dict) else ():
        if isinstance(text, str):
            yield name, text, f".{name}"
    for number, entry in enumerate(value if isinstance(value, list) else ()):
        name, equals, text = entry.partition("=") if isinstance(entry, str) else ("", "", "")
        if equals:
            yield name, text, f"[{number}]"
