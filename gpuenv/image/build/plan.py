"""A choice made into a plan: tag, labels, Dockerfile and everything that the engine is sent."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from gpuenv.image import labels as own
from gpuenv.image.build.records import Choice, ImageKind, ImagePlan
from gpuenv.image.build.render import SBOM, Rendering, render
from gpuenv.install.lockfile import lock_text
from gpuenv.install.plan import Pin

REPOSITORY = "gpuenv-cupy"
DOCKERFILE, LOCK, TIDY = "Dockerfile", "requirements.txt", "tidy.py"
# What images/tidy.py leaves out of the wheels, which their RECORDs then do not name either.
LEFT_OUT = ("libnvrtc.alt", "libcusolverMg", "libnvblas", "libcufftw", "static libraries", "tests of NumPy")
_OCI = "org.opencontainers.image."
NO_WARMTH = (
    "the kernel cache starts empty: CuPy asks for a device before it compiles anything, so that it cannot be filled "
    "without a GPU (seen with 14.2.0; the code of 13.6.0 does the same)"
)


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What a plan needs in addition to the choice.

    Attributes:
        tag: the image's name.
        pins: the wheels; empty if they were not resolved.
        labels: the user's own.
        matrix_revision: what the choice was made with.
    """

    tag: str
    pins: tuple[Pin, ...]
    labels: Mapping[str, str]
    matrix_revision: str


@dataclass(frozen=True, slots=True)
class Templates:
    """The files of ``images/``: the Dockerfile of the kind, and the script that tidies up."""

    dockerfile: str
    tidy: str


def plan_image(choice: Choice, inputs: PlanInputs, how: Rendering, templates: Templates) -> ImagePlan:
    """The plan of one image.

    Raises:
        RenderError: for a label that no Dockerfile can hold.
    """
    lock = digest_of(lock_text(inputs.pins)) if inputs.pins else None
    labels = {**inputs.labels, **labels_of(choice, lock, how.created, inputs.matrix_revision)}
    notes = [] if choice.base.pinned != choice.base.reference or "@" in choice.base.reference else [_unpinned(choice)]
    return ImagePlan(
        tag=inputs.tag,
        choice=choice,
        pins=inputs.pins,
        lock=lock,
        labels=labels,
        dockerfile=render(templates.dockerfile, choice, labels, how),
        created=how.created,
        builder=None,
        secrets=how.secrets,
        notes=(*notes, NO_WARMTH, *_reach(choice)),
    )


def _unpinned(choice: Choice) -> str:
    return f"no digest of {choice.base.reference} is known: it is pinned to the one that the engine has or finds"


def _reach(choice: Choice) -> tuple[str, ...]:
    beyond = [str(entry) for entry in choice.stated if entry not in choice.capabilities]
    return (f"compute capability {', '.join(beyond)} runs on code of an older one",) if beyond else ()


def labels_of(choice: Choice, lock: str | None, created: int, matrix_revision: str) -> dict[str, str]:
    """The labels of an image, without the proof."""
    labels = {
        f"{_OCI}title": f"CuPy {choice.cupy} with CUDA {choice.cuda}",
        f"{_OCI}description": f"{choice.line} {choice.cupy}, CUDA {choice.cuda}, Python {choice.python}; "
        + ("CUDA from wheels" if choice.kind is ImageKind.WHEELS else f"on NVIDIA's {choice.kind.value} image"),
        f"{_OCI}version": choice.cupy,
        f"{_OCI}created": datetime.fromtimestamp(created, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        f"{_OCI}base.name": choice.base.reference.split("@")[0],
        own.MATRIX: matrix_revision,
        own.LINE: choice.line,
        own.CUPY: choice.cupy,
        own.CUDA: str(choice.cuda),
        own.COMPUTE_CAPABILITIES: ",".join(map(str, choice.stated or choice.capabilities)),
        own.MINIMUM_DRIVER: str(choice.minimum_driver),
        own.LEFT_OUT: ",".join(LEFT_OUT),
    }
    if choice.base.digest:
        labels[f"{_OCI}base.digest"] = choice.base.digest
    if lock:
        labels[own.LOCK] = lock
    return labels


def files_of(plan: ImagePlan, templates: Templates) -> dict[str, str]:
    """What the engine builds from, by name."""
    files = {DOCKERFILE: plan.dockerfile, LOCK: lock_text(plan.pins), TIDY: templates.tidy}
    if plan.lock:
        from gpuenv.image.build.sbom import bill  # noqa: PLC0415 - its library is of an extra

        files[SBOM] = bill(plan.choice, plan.pins, (plan.lock, plan.created), LEFT_OUT)
    return files


def tag_for(given: str | None, choice: Choice, *, several: bool) -> str:
    """The name of an image: the one given, or the usual one; of several, each its own tag of the repository given."""
    if given is None or several:
        return f"{given or REPOSITORY}:{choice.name}"
    return given


def digest_of(text: str) -> str:
    """``sha256:...`` of a text."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
