"""What is run from an image: a service of a compose file, a container of a pod, a dev container."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuenv.image.dockerfile.install_requests import SourceLocation
from gpuenv.image.dockerfile.stages import Setting

OF_A_FILE = 1 << 24  # more lines than a file may have


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """What runs it.

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
        context: its build context, from the compose file's folder.
        dockerfile: the file, from the context.
        beside: whether the file's path starts at the folder of what names it, as in dev containers.
        named: whether the file is named at all, and not the one that is taken for want of a name.
        target: the stage.
        arguments: values for its ARGs.
        line: of the build section.
        inline: the Dockerfile itself, where it stands in the compose file.
        inline_line: the line above its first one.
    """

    context: str
    dockerfile: str
    target: str | None
    arguments: Mapping[str, str]
    line: int
    inline: str | None = None
    inline_line: int = 0
    beside: bool = False
    named: bool = False


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """An entry of deploy.resources.reservations.devices, or of gpus.

    Attributes:
        driver: ``nvidia``, ``cdi``; null if not given.
        capabilities: null if none are given.
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
        file: the compose file.
        name: of the service.
        line: of its name.
        image: what it runs; null where it is built alone.
        image_line: the line that names it.
        source: how it is built.
        environment: the variables that it sets.
        requests: the GPUs that it asks for.
        misplaced: lines at which devices stand where compose does not look for them, with the path.
        runtime: the container runtime.
        runtime_line: the line that names it.
        devices: devices that are handed in, with their lines.
        swarm_gpus: whether it asks for generic resources.
        mounts_driver: whether the driver's libraries are mounted by hand, as nvidia-docker 1 had it.
        partly_elsewhere: whether it extends what could not be read.
        kind: what it is, and how such a thing asks for a GPU.
        files: if it comes from several files, all of them: a line of the second has OF_A_FILE added.
    """

    file: str
    name: str
    line: int
    image: str | None
    image_line: int
    source: BuildSource | None
    environment: Mapping[str, Setting]
    requests: tuple[DeviceRequest, ...]
    misplaced: tuple[tuple[str, int], ...]
    runtime: str | None
    runtime_line: int
    devices: tuple[tuple[str, int], ...]
    swarm_gpus: bool
    mounts_driver: bool = False
    partly_elsewhere: bool = False
    kind: ServiceKind = COMPOSE
    files: tuple[str, ...] = ()

    def location(self, line: int) -> SourceLocation:
        """The location of one of its lines; several files have lines of their own."""
        number, own = divmod(line, OF_A_FILE)
        return SourceLocation(self.files[number] if number < len(self.files) else self.file, own)

    @property
    def label(self) -> str:
        """``Service web``."""
        return f"{self.kind.noun} {self.name}"
