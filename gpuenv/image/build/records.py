"""What building an image would do (``gpuenv.plan/1``), and what was built (``gpuenv.outcome/1``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpuenv.install.plan import OUTCOME, PLAN, Phase, Pin, PlannedCommand, Verification
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion


class ImageKind(str, Enum):
    """Where an image has its CUDA from.

    Attributes:
        WHEELS: a slim Python base, and CUDA from wheels.
        RUNTIME: NVIDIA's runtime base, and the headers from a wheel.
        DEVEL: NVIDIA's devel base.
    """

    WHEELS = "wheels"
    RUNTIME = "runtime"
    DEVEL = "devel"


@dataclass(frozen=True, slots=True)
class Base:
    """The image that another one is built from.

    Attributes:
        reference: with its tag or digest.
        digest: of its manifest, where it is known; null where only the tag is.
        given: whether the caller named it, in place of one that is known.
    """

    reference: str
    digest: str | None = None
    given: bool = False

    @property
    def pinned(self) -> str:
        """The reference, with the digest if one is known."""
        return f"{self.reference}@{self.digest}" if self.digest and "@" not in self.reference else self.reference


@dataclass(frozen=True, slots=True)
class Choice:
    """The contents of an image, chosen from the matrix.

    Attributes:
        kind: where CUDA comes from.
        base: the image below.
        platform: ``linux/amd64`` or ``linux/arm64``.
        python: major and minor.
        line: the wheel line.
        cupy: the release of CuPy.
        cuda: the CUDA of its libraries.
        requirements: what the installer is handed.
        capabilities: the compute capabilities that it serves, by NVRTC and by CuPy's own cap.
        stated: those of them that were requested; empty if none was.
        minimum_driver: the oldest driver on Linux that starts it.
        admits: the condition that the image puts to the driver.
        libraries: the libraries that CuPy works without, such as nccl, whose wheels are among the requirements.
    """

    kind: ImageKind
    base: Base
    platform: str
    python: str
    line: str
    cupy: str
    cuda: CudaVersion
    requirements: tuple[str, ...]
    capabilities: tuple[ComputeCapability, ...]
    stated: tuple[ComputeCapability, ...]
    minimum_driver: DriverVersion
    admits: str
    libraries: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``wheels-cuda12.9-cupy14.2.0-py3.12``: the usual tag."""
        return f"{self.kind.value}-cuda{self.cuda}-cupy{self.cupy}-py{self.python}"


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """One image before it is built.

    Attributes:
        tag: the name that it will have.
        choice: what goes in.
        pins: the wheels, each with its digests; empty if not resolved yet.
        lock: the digest of the lock file; null if not resolved yet.
        labels: what it will say of itself.
        dockerfile: the whole text.
        created: seconds since 1970 that every file and the image itself will bear (SOURCE_DATE_EPOCH).
        builder: ``buildkit`` or ``classic``; null if no engine was queried.
        secrets: the names of the secrets that are shown to the build and not kept.
        commands: what is run on this machine; the classic builder is spoken to, and no command is run.
        notes: what else should be known.
    """

    tag: str
    choice: Choice
    pins: tuple[Pin, ...]
    lock: str | None
    labels: Mapping[str, str]
    dockerfile: str
    created: int
    builder: str | None
    secrets: tuple[str, ...] = ()
    commands: tuple[PlannedCommand, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImagePlans:
    """Every image that would be built, and the combinations that cannot be."""

    images: tuple[ImagePlan, ...]
    left_out: tuple[str, ...]
    matrix_revision: str
    schema: str = PLAN


class BuildStatus(str, Enum):
    """How building an image ended."""

    BUILT = "built"
    FAILED = "failed"
    UNPROVEN = "unproven"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes, as the engine counts them."""

    whole: int
    added: int | None


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """The result of building one image.

    Attributes:
        tag: the name that it was to have.
        status: how it ended.
        message: one sentence; the reason where it failed.
        id: the engine's name for it.
        digest: of the manifest in the registry; null where it was not pushed and the engine knows none.
        base: what it was built from, with the digest where one was known.
        labels: as they were read back.
        user: as the engine reports it.
        sizes: of the whole, and of what was added to the base.
        cached: how many of the steps came out of the cache.
        steps: how many there were.
        proofs: what was shown in it.
        gpu: whether the proof had a GPU.
        phases: where the time went.
    """

    tag: str
    status: BuildStatus
    message: str
    id: str | None = None
    digest: str | None = None
    base: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    sizes: Sizes | None = None
    cached: int | None = None
    steps: int | None = None
    proofs: tuple[Verification, ...] = ()
    gpu: bool = False
    phases: tuple[Phase, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageOutcome:
    """What was built.

    Attributes:
        status: the worst of the images'.
        exit_code: of the command.
        message: one sentence.
        images: each one.
        engine: the engine and its version.
        remedy: what to do about a failure, where that is known.
    """

    status: BuildStatus
    exit_code: int
    message: str
    images: tuple[BuiltImage, ...]
    engine: str | None
    remedy: str | None = None
    schema: str = OUTCOME
