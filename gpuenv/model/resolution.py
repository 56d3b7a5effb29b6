"""What fits a machine: the choice, every rejected candidate with its reason, and what would have to change."""

from enum import Enum
from typing import NamedTuple

from gpuenv.model.versions import CudaVersion

SCHEMA = "gpuenv.resolution/1"
AS_TOLD = "as told"


class ConstraintName(str, Enum):
    """The closed list of constraints; the slug names what must hold."""

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
    """What is being chosen."""

    WHEEL = "wheel"
    CONDA = "conda"
    IMAGE = "image"


class Candidate(NamedTuple):
    """Something that could be installed: ``cupy-cuda12x`` 14.2.0 with the extra ``ctk``."""

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
        candidate: what was held against the machine.
        source: the citation of the row that says so.
    """

    candidate: Candidate
    constraint: ConstraintName
    needed: str
    found: str
    source: str


class Assumption(NamedTuple):
    """A fact that was not read: given by the caller (``as told``), or needed by the choice and unknown."""

    fact: str
    value: str


class Change(NamedTuple):
    """What would have to change: ``driver.version`` from 535.104.05 to at least 580.65.06."""

    fact: str
    needed: str
    found: str


class Reachable(NamedTuple):
    """A candidate that would fit after some changes."""

    candidate: Candidate
    changes: tuple[Change, ...]


class NvrtcRange(NamedTuple):
    """The NVRTC minors that compile for every GPU there; both ends belong to it."""

    lowest: CudaVersion
    highest: CudaVersion


class WheelChoice(NamedTuple):
    """The wheel that fits best.

    Attributes:
        extra: the extra that brings CUDA, where it is needed.
        requirements: what to hand to pip or uv, pins included.
        cuda_major: the line's CUDA major version.
        nvrtc: the NVRTC minors that serve these GPUs; null where no GPU is known.
        needs_toolkit: what must come from elsewhere; null where the extra brings it all.
        replaces: other distributions of CuPy in the target; they own the same files and have to go first.
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
        specs: what to hand to conda or mamba.
        assumptions: what the choice rests on and was not measured.
    """

    specs: tuple[str, ...]
    channel: str
    assumptions: tuple[Assumption, ...] = ()


class ImageChoice(NamedTuple):
    """A container image.

    Attributes:
        reference: with its tag.
        digest: of its manifest; null where no registry was asked.
        cuda: the CUDA version in it.
        requirements: what to install in it; empty where CuPy is in it already.
    """

    reference: str
    digest: str | None
    cuda: CudaVersion
    requirements: tuple[str, ...] = ()


class Experimental(NamedTuple):
    """A candidate that might work and is not proven, with what that would rest on."""

    candidate: Candidate
    assumptions: tuple[Assumption, ...]


class Resolution(NamedTuple):
    """The choice and its reasons.

    Attributes:
        wheel: the wheel that fits best; null where none does.
        conda: the conda specification; null where none fits.
        image: the container image; null where none fits.
        rejected: every candidate that does not fit, once a constraint.
        assumptions: what was assumed, by the caller or for want of a fact.
        next_better: the better candidate that is nearest, and what it would take; null where there is none.
        reachable: the best candidate of each line that changes of driver, Python or NumPy would admit.
        matrix_revision: the matrix that was used.
        experimental: what could be tried on an AMD GPU, where there is no NVIDIA GPU.
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
    schema: str = SCHEMA
