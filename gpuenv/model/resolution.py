"""Resolutions: the choice for a machine, rejected candidates with reasons, and the changes that others need."""

from enum import Enum
from typing import NamedTuple

from gpuenv.model.codec import to_json
from gpuenv.model.notebook import Printer, text_html
from gpuenv.model.versions import CudaVersion

SCHEMA = "gpuenv.resolution/1"
BY_CALLER = "as told"


class ConstraintName(str, Enum):
    """The closed list of constraints; the slug names the condition."""

    NOT_YANKED = "not-yanked"
    PLATFORM = "platform"
    LIBC = "libc"
    PYTHON = "python"
    NUMPY = "numpy"
    DRIVER_MINIMUM = "driver-minimum"
    DRIVER_SUPPORTS_GPU = "driver-supports-gpu"
    GPU_PRESENT = "gpu-present"
    NVRTC_COMPILES_FOR_GPU = "nvrtc-compiles-for-gpu"
    WHEEL_HAS_CODE_FOR_GPU = "wheel-has-code-for-gpu"
    EXTRA_FITS_PLATFORM = "extra-fits-platform"
    AGREES_WITH_PACKAGES = "agrees-with-packages"
    NO_ADVISORY = "no-advisory"
    ROCM_VERSION = "rocm-version"
    IMAGE_ADMITS_DRIVER = "image-admits-driver"
    IMAGE_HOLDS_A_FITTING_WHEEL = "image-holds-a-fitting-wheel"


class CandidateKind(str, Enum):
    """Kind of a candidate."""

    WHEEL = "wheel"
    CONDA = "conda"
    IMAGE = "image"


class Candidate(NamedTuple):
    """An installable candidate: ``cupy-cuda12x`` 14.2.0 with the extra ``ctk``."""

    kind: CandidateKind
    name: str
    version: str
    extra: str | None = None

    @property
    def label(self) -> str:
        """``cupy-cuda12x[ctk] 14.2.0``."""
        return f"{self.name}{f'[{self.extra}]' if self.extra else ''} {self.version}"


class Rejection(NamedTuple):
    """Why a candidate does not fit.

    Attributes:
        candidate: the rejected one.
        source: citation of the matrix row.
    """

    candidate: Candidate
    constraint: ConstraintName
    needed: str
    found: str
    source: str


class Unusable(NamedTuple):
    """An installed package that cannot use the GPUs of the machine, with any CuPy.

    Attributes:
        package: ``torch 2.15.0``.
        cuda_major: the CUDA major version that it is built for.
        needed: what that version requires.
        source: citation of the matrix row.
    """

    package: str
    cuda_major: int
    needed: str
    found: str
    source: str


class Assumption(NamedTuple):
    """A fact that was not read: assumed by the caller (``as told``), or unknown and relevant to the choice."""

    fact: str
    value: str


class Change(NamedTuple):
    """A required change: ``driver.version`` from 535.104.05 to at least 580.65.06."""

    fact: str
    needed: str
    found: str


class Reachable(NamedTuple):
    """A candidate that would fit after some changes."""

    candidate: Candidate
    changes: tuple[Change, ...]


class NvrtcRange(NamedTuple):
    """The NVRTC minor versions that compile for every GPU of the machine; both ends are included."""

    lowest: CudaVersion
    highest: CudaVersion


class WheelChoice(NamedTuple):
    """The wheel that fits best.

    Attributes:
        extra: the extra that provides CUDA, if needed.
        requirements: for pip or uv, including pins.
        cuda_major: CUDA major version of the line.
        nvrtc: the NVRTC minor versions that support these GPUs; null if no GPU is known.
        needs_toolkit: what else must be installed; null if the extra provides everything.
        replaces: what to remove from the target first: other CuPy distributions, which own the same files, and CUDA
            wheels of another major version that nothing else needs, which would be found first.
    """

    distribution: str
    version: str
    extra: str | None
    requirements: tuple[str, ...]
    cuda_major: int
    nvrtc: NvrtcRange | None
    needs_toolkit: str | None
    tags: tuple[str, ...]
    replaces: tuple[str, ...] = ()


class CondaChoice(NamedTuple):
    """A conda specification.

    Attributes:
        specs: for conda or mamba.
        assumptions: unmeasured facts that the choice relies on.
    """

    specs: tuple[str, ...]
    channel: str
    assumptions: tuple[Assumption, ...] = ()


class ImageChoice(NamedTuple):
    """A container image.

    Attributes:
        reference: with its tag.
        digest: of its manifest; null if no registry was queried.
        cuda: its CUDA version.
        requirements: what to install in it; empty if it has CuPy.
    """

    reference: str
    digest: str | None
    cuda: CudaVersion
    requirements: tuple[str, ...] = ()


class Experimental(NamedTuple):
    """A candidate that fits if its assumptions hold.

    Attributes:
        requirements: for pip or uv.
        replaces: other CuPy distributions in the target, as in a wheel choice.
    """

    candidate: Candidate
    assumptions: tuple[Assumption, ...]
    requirements: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()


class Resolution(NamedTuple):
    """The choice and its reasons.

    Attributes:
        wheel: the wheel that fits best; null if none does.
        conda: the conda specification; null if none fits.
        image: the container image; null if none fits.
        rejected: every candidate that does not fit, once per constraint.
        assumptions: made by the caller, or because a fact is unknown.
        next_better: the closest better candidate and the changes it needs; null without one.
        reachable: the best candidate of each wheel line that would fit after changes of driver, Python or NumPy.
        matrix_revision: of the matrix in use.
        experimental: candidates for an AMD GPU, if there is no NVIDIA GPU.
        unusable: installed packages that cannot use the GPUs, such as a PyTorch for another driver.
        solved: whether the solver of an installer has confirmed the wheel.
    """

    wheel: WheelChoice | None
    conda: CondaChoice | None
    image: ImageChoice | None
    rejected: tuple[Rejection, ...]
    assumptions: tuple[Assumption, ...]
    next_better: Reachable | None
    reachable: tuple[Reachable, ...]
    explanation: str
    matrix_revision: str
    experimental: tuple[Experimental, ...] = ()
    unusable: tuple[Unusable, ...] = ()
    solved: bool = False
    schema: str = SCHEMA

    def to_json(self) -> str:
        """The resolution as JSON."""
        return to_json(self)

    def __str__(self) -> str:
        return self.explanation

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def _repr_pretty_(self, printer: Printer, _cycle: object) -> None:
        printer.text(str(self))

    @property
    def is_unknown(self) -> bool:
        """Whether no candidate was judged, because the state of the target is unknown; the explanation says why."""
        return self.wheel is None and not self.rejected
