"""Container images: does the host's driver get past the image's own condition, and is there a wheel for it? Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from gpuenv.matrix.candidates import WheelCandidate, by_preference, serving_minors, wheel_candidates
from gpuenv.matrix.constraints import fits
from gpuenv.matrix.needs import Needs
from gpuenv.matrix.packages import Flavour, Image
from gpuenv.matrix.ranges import version_of
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.support import branch_of
from gpuenv.model.resolution import Candidate, CandidateKind, ConstraintName, Rejection
from gpuenv.model.versions import CudaVersion

if TYPE_CHECKING:
    from packaging.version import Version

# Brands that NVML and NVIDIA_REQUIRE_CUDA know, by the words in the product's name.
_CONSUMER = {"GeForce": "geforce", "TITAN": "titan"}


@dataclass(frozen=True, slots=True)
class JudgedImage:
    """An image, the wheel that would be used in it, and what stands against it."""

    image: Image
    wheel: WheelCandidate | None
    rejections: tuple[Rejection, ...]


def judge_images(needs: Needs, matrix: Matrix) -> tuple[JudgedImage, ...]:
    """Every image, the preferred one first."""
    inside = inside_container(needs)
    best = {line.cuda_major: _best(line.cuda_major, inside, matrix) for line in matrix.wheel_lines}
    judged = (_judge(image, best, needs, inside, matrix) for image in matrix.images)
    return tuple(sorted(judged, key=lambda entry: _rank(entry, needs), reverse=True))


def inside_container(needs: Needs) -> Needs:
    """The machine as it is inside a container of Linux, where the interpreter and the packages are still to choose."""
    return replace(
        needs,
        platform=needs.container_platform,
        platform_assumed=None,
        libc=None,
        python=None,
        implementation=None,
        numpy=None,
        toolkits=(),
        packages={},
        brings=(),
        cupy=(),
    )


def _best(cuda_major: int, inside: Needs, matrix: Matrix) -> WheelCandidate | None:
    wheels = (wheel for wheel in by_preference(inside, matrix) if wheel.line.cuda_major == cuda_major)
    return next((wheel for wheel in wheels if fits(wheel, inside, matrix)), None)


def _judge(
    image: Image, best: dict[int, WheelCandidate | None], needs: Needs, inside: Needs, matrix: Matrix
) -> JudgedImage:
    wheel = _installed(image, matrix) if image.line else best.get(image.cuda.major)
    name, _, tag = image.reference.partition(":")
    candidate = Candidate(CandidateKind.IMAGE, name, tag)
    told = (*_platform(image, needs), *refusals(image, needs, matrix), *_holds(image, wheel, inside, matrix))
    source = matrix.cite(image.source)
    rejections = (Rejection(candidate, constraint, needed, found, source) for constraint, needed, found in told)
    return JudgedImage(image, wheel, tuple(rejections))


@lru_cache(maxsize=256)
def _installed(image: Image, matrix: Matrix) -> WheelCandidate | None:
    """The wheel that is in an image of CuPy."""
    wheels = (wheel for wheel in wheel_candidates(matrix) if wheel.extra is None and wheel.line.name == image.line)
    return next((wheel for wheel in wheels if wheel.release.cupy == image.cupy), None)


_Told = Iterator[tuple[ConstraintName, str, str]]


def _platform(image: Image, needs: Needs) -> _Told:
    if needs.tegra:
        yield ConstraintName.PLATFORM, "a GPU that is no Tegra; JetPack has images of its own", "Tegra"
    elif needs.container_platform not in image.platforms or needs.likely_platform.startswith("darwin-"):
        yield ConstraintName.PLATFORM, " or ".join(image.platforms), needs.likely_platform


def refusals(image: Image, needs: Needs, matrix: Matrix) -> _Told:
    """NVIDIA_REQUIRE_CUDA: the level, or one of the branches that come with the right brand."""
    if needs.driver_absent:
        yield ConstraintName.IMAGE_ADMITS_DRIVER, f"a driver of CUDA {image.cuda}", "no driver"
    level = needs.driver_cuda
    if needs.driver_absent or level is None or level >= image.cuda:
        return
    branch = branch_of(needs.driver, matrix) if needs.driver else None
    brands = {brand for gpu in needs.gpus for word, brand in _CONSUMER.items() if word in gpu.label}
    unlisted = brands - set(image.brands)
    if branch not in image.branches or unlisted or needs.windows:
        admitted = ", ".join(map(str, image.branches))
        of_brand = f" with another GPU than {', '.join(sorted(unlisted))}" if unlisted else ""
        needed = f"a driver of CUDA {image.cuda} or newer, or of branch {admitted}{of_brand}"
        yield ConstraintName.IMAGE_ADMITS_DRIVER, needed, f"driver {needs.driver or 'unknown'} (CUDA {level})"


def admits(image: Image, level: CudaVersion, branch: int) -> bool:
    """Whether an image starts on a driver of this CUDA level and branch, for a GPU of a brand that it lists."""
    return level >= image.cuda or branch in image.branches


def _holds(image: Image, wheel: WheelCandidate | None, inside: Needs, matrix: Matrix) -> _Told:
    """The wheel fits with the CUDA of the image; one that brings its own CUDA needs no more than the base image."""
    constraint = ConstraintName.IMAGE_HOLDS_A_FITTING_WHEEL
    if wheel is None or (image.line is not None and not fits(wheel, inside, matrix)):
        name = f"{image.line} {image.cupy}" if image.line else f"CuPy for CUDA {image.cuda.major}"
        yield constraint, f"a machine that {name} fits", f"{inside.gpus_label}, driver {inside.driver or 'unknown'}"
    elif wheel.extra is None and image.cuda not in {row.cuda for row in serving_minors(wheel, inside, matrix)}:
        yield constraint, f"a GPU that NVRTC {image.cuda} under CuPy {wheel.release.cupy} serves", inside.gpus_label
    elif wheel.extra is None and image.flavour is not Flavour.DEVEL:
        yield constraint, "the libraries and headers of the devel image", image.flavour.value


def _rank(entry: JudgedImage, needs: Needs) -> tuple[int, Version, bool, bool, bool, tuple[int, int]]:
    """The sort key, best last: CUDA major, CuPy, one to install into, no compat package, the smallest, the CUDA."""
    image, wheel = entry.image, entry.wheel
    plain = needs.driver_cuda is None or needs.driver_cuda >= image.cuda
    cupy = version_of(wheel.release.cupy if wheel else "0")
    smallest = (image.flavour is Flavour.BASE) == (wheel is not None and wheel.extra is not None)
    return (image.cuda.major, cupy, image.line is None, plain, smallest, (image.cuda.major, image.cuda.minor))
