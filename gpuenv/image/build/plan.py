"""Plans of images (``gpuenv.plan/1``) and the outcome of building them (``gpuenv.outcome/1``), and their text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from gpuenv.install.plan import OUTCOME, PLAN, Phase, Pin, PlannedCommand, Verification
from gpuenv.model.strings import format_size
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion
from gpuenv.report.text_line import Style, TextLine, counted

_SHOWN = 6  # wheels named in a plan, unless it is verbose


class ImageKind(str, Enum):
    """The source of an image's CUDA.

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
    """The base image.

    Attributes:
        reference: the name with tag or digest.
        digest: the digest of its manifest; null if unknown.
        given: whether the caller named it.
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
        platform: ``linux/amd64`` or ``linux/arm64``.
        python: major and minor.
        cuda: the CUDA of its libraries.
        capabilities: the compute capabilities that NVRTC and CuPy serve.
        stated: the requested compute capabilities; empty without a request.
        minimum_driver: the oldest driver on Linux that starts it.
        admits: the image's condition on the driver, for NVIDIA_REQUIRE_CUDA.
        libraries: the optional libraries, such as nccl, whose wheels are among the requirements.
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
        """The default tag: ``wheels-cuda12.9-cupy14.2.0-py3.12``."""
        return f"{self.kind.value}-cuda{self.cuda}-cupy{self.cupy}-py{self.python}"


@dataclass(frozen=True, slots=True)
class ImagePlan:
    """One image before it is built.

    Attributes:
        pins: the wheels, each with its digests; empty if not resolved yet.
        lock: the digest of the lock file; null if not resolved yet.
        created: the time of every file and of the image, in seconds since 1970 (SOURCE_DATE_EPOCH).
        builder: ``buildkit`` or ``classic``; null if no engine was queried.
        secrets: the names of the build secrets, which the image does not keep.
        commands: the commands to run on this machine; the classic builder needs none.
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
    """The result of building an image."""

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
        message: one sentence; the reason of a failure.
        id: the engine's id.
        digest: the digest of its manifest in the registry; null if it was not pushed and the engine knows none.
        base: the base image, with its digest if known.
        labels: the labels, read back from the engine.
        user: the user, read back from the engine.
        sizes: its size, and its size without the base.
        gpu: whether a smoke test passed on a GPU.
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
    """The outcome of ``build-image``.

    Attributes:
        status: the worst status of the images.
        engine: the engine and its version.
    """

    status: BuildStatus
    exit_code: int
    message: str
    images: tuple[BuiltImage, ...]
    engine: str | None
    remedy: str | None = None
    schema: str = OUTCOME


def plan_lines(plans: ImagePlans, *, verbose: bool) -> Iterator[TextLine]:
    """The lines of plans; for several images, one line each unless verbose."""
    if len(plans.images) > 1 and not verbose:
        yield from _table(plans)
        return
    for plan in plans.images:
        yield from _plan(plan, verbose=verbose)
        yield TextLine()
    for entry in plans.left_out:
        yield TextLine(f"left out: {entry}", Style.QUIET, 10)


def _table(plans: ImagePlans) -> Iterator[TextLine]:
    row = "{:<35} {:<12} {:<11} {}"
    yield TextLine(row.format("image", "cupy", "driver", "compute capability"), Style.HEADING)
    for plan in plans.images:
        choice = plan.choice
        served = choice.stated or choice.capabilities
        gpus = str(served[0]) if len(served) == 1 else f"{served[0]} to {served[-1]}"
        yield TextLine(row.format(choice.name, choice.line, str(choice.minimum_driver), gpus))
    repository = plans.images[0].tag.removesuffix(f":{plans.images[0].choice.name}")
    left_out = f"; {counted(len(plans.left_out), 'combination')} left out" if plans.left_out else ""
    yield TextLine()
    yield TextLine(f"{counted(len(plans.images), 'image')} of {repository}{left_out}: --verbose for the whole plans")


def _plan(plan: ImagePlan, *, verbose: bool) -> Iterator[TextLine]:
    choice = plan.choice
    yield TextLine(
        f"{plan.tag}: {choice.line} {choice.cupy}, CUDA {choice.cuda}, Python {choice.python}", Style.HEADING, 2
    )
    yield TextLine(f"  base       {choice.base.pinned} ({choice.platform})", hang=13)
    yield TextLine(f"  installs   {' '.join(choice.requirements)}", hang=13)
    yield TextLine(
        f"  serves     compute capability {', '.join(map(str, choice.stated or choice.capabilities))}", hang=13
    )
    yield TextLine(f"  driver     {choice.minimum_driver} or newer", hang=13)
    if plan.lock:
        pins = [f"{pin.name} {pin.release}" for pin in plan.pins]
        shown = pins if verbose or len(pins) <= _SHOWN else [*pins[:_SHOWN], f"and {len(pins) - _SHOWN} more"]
        yield TextLine(f"  wheels     {', '.join(shown)}; lock {plan.lock[:19]}", hang=13)
    yield TextLine(f"  builder    {plan.builder or 'no engine was queried'}", hang=13)
    if plan.secrets:
        yield TextLine(f"  secrets    {', '.join(plan.secrets)}: shown to the installer, not kept", hang=13)
    for command in plan.commands:
        yield TextLine(f"  $ {shlex.join(command.argv)}", Style.COMMAND, 4)
    for note in plan.notes:
        yield TextLine(f"  note: {note}", Style.QUIET, 8)


def outcome_lines(outcome: ImageOutcome, *, verbose: bool) -> Iterator[TextLine]:
    """The lines of an outcome."""
    for image in outcome.images:
        yield from _image(image, verbose=verbose)
    good = outcome.status is BuildStatus.BUILT
    yield TextLine(outcome.message, Style.GOOD if good else Style.BAD, 2)


_PHASE_TEXTS = {"prove": "verify"}  # by the name of the phase, if it differs


def _image(image: BuiltImage, *, verbose: bool) -> Iterator[TextLine]:
    style = Style.HEADING if image.status is BuildStatus.BUILT else Style.BAD
    yield TextLine(f"{image.tag}: {image.message.splitlines()[0]}", style, 2)
    if image.id:
        yield TextLine(f"  id         {image.id}", hang=13)
    if image.digest:
        yield TextLine(f"  digest     {image.digest}", hang=13)
    if image.sizes:
        added = f", {format_size(image.sizes.added)} more than its base" if image.sizes.added is not None else ""
        yield TextLine(f"  size       {format_size(image.sizes.whole)}{added}", hang=13)
    if image.steps is not None:
        yield TextLine(f"  steps      {image.steps}, {image.cached} of them out of the cache", hang=13)
    if image.phases:
        times = (f"{_PHASE_TEXTS.get(entry.name, entry.name)} {entry.duration:.1f} s" for entry in image.phases)
        yield TextLine(f"  time       {', '.join(times)}", hang=13)
    for verification in image.proofs:
        if verbose or verification.passed is False:
            word = {True: "passed", False: "FAILED", None: "skipped"}[verification.passed]
            yield TextLine(f"  {word:10} {verification.name} {verification.detail}".rstrip(), hang=13)
