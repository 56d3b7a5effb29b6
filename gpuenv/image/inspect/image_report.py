"""The report of check-image: findings, and for each machine whether the image runs there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.model.finding import Finding
from gpuenv.report.report import Status

SCHEMA = "gpuenv.image/1"


@dataclass(frozen=True, slots=True)
class ImageFinding(Finding):
    """A finding, and where it is.

    Attributes:
        machine: the machine on which it is so; null where it is so on every one.
        file: the file that it stands in; null for an image.
        line: its line, from 1.
        end_line: the last line of the instruction that it stands in.
    """

    allowed: ClassVar[None] = None  # type: ignore[misc]  # no configuration of check-image accepts a finding
    machine: str | None = None
    file: str | None = None
    line: int | None = None
    end_line: int | None = None


def at_location(finding: Finding, **location: str | int | None) -> ImageFinding:
    """The finding at a location: the keyword arguments are ``machine``, ``file``, ``line`` and ``end_line``."""
    shared: dict[str, Any] = {name: getattr(finding, name) for name in Finding.__match_args__ if name != "allowed"}
    return ImageFinding(**{**shared, **location})


class ImageRequirementStatus(str, Enum):
    """Whether a requirement of the image is met; ``invalid`` is what the container runtime refuses to read."""

    MET = "met"
    UNMET = "unmet"
    UNKNOWN = "unknown"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class RequirementVerdict:
    """One NVIDIA_REQUIRE_* variable, held against one GPU of a machine.

    Attributes:
        variable: the variable; CUDA_VERSION for an image that has no other.
        gpu: the GPU; null where the machine has none that is known.
        status: whether it is met.
        failed: for every alternative the conditions that do not hold.
    """

    variable: str
    gpu: str | None
    status: ImageRequirementStatus
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineVerdict:
    """Whether the image runs on a machine.

    Attributes:
        machine: its name: the recording's file, or ``this machine``.
        status: whether it does.
        driver: the driver's version.
        driver_cuda: the driver's CUDA level.
        gpus: its GPUs.
        platform: the platform of the image that it would run.
        requirements: the image's own conditions.
        findings: what stands against it.
        changes: what would have to change for the image to run there.
        unknown: what is not known.
        uses_gpu: whether anything known of the image uses a GPU; false promises no more than that it starts; null where
            the image is unknown.
    """

    machine: str
    status: Status
    driver: str | None
    driver_cuda: str | None
    gpus: tuple[str, ...]
    platform: str | None
    requirements: tuple[RequirementVerdict, ...]
    findings: tuple[ImageFinding, ...]
    changes: tuple[str, ...]
    unknown: tuple[str, ...]
    uses_gpu: bool | None = None


@dataclass(frozen=True, slots=True)
class ImageReport:
    """The whole report of check-image.

    Attributes:
        subject: the reference or the file that was checked.
        kind: ``image``, ``dockerfile``, ``compose``, ``kubernetes`` or ``devcontainer``.
        status: the worst of the machines and of the files.
        exit_code: 0, 1 or 8.
        runs_on: the machines that can run it.
        images: what was looked at, one a platform.
        machines: the verdict for each machine; empty if none was named.
        findings: all of them, each with its machine or its location.
        files: the files that were read.
        cuda: the CUDA that the image has, by platform; where it says so.
        duration: seconds.
    """

    subject: str
    kind: str
    status: Status
    exit_code: int
    runs_on: tuple[str, ...]
    images: tuple[ImageFacts, ...]
    machines: tuple[MachineVerdict, ...]
    findings: tuple[ImageFinding, ...]
    files: tuple[str, ...]
    gpuenv_version: str
    matrix_revision: str
    duration: float = 0.0
    cuda: Mapping[str, str] = field(default_factory=dict)
    schema: str = SCHEMA
