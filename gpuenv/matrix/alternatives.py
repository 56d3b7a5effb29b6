"""Alternatives to CUDA wheels: conda builds, container images and wheels for AMD GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from gpuenv.matrix.candidates import (
    WheelCandidate,
    by_preference,
    minors_of,
    other_cupys,
    serving_minors,
    wheel_candidates,
)
from gpuenv.matrix.constraints import INSTALLABLE, LineVerdicts, Rejected, fits, python
from gpuenv.matrix.needs import AmdHost, Needs
from gpuenv.matrix.products import branch_of, generation_for
from gpuenv.matrix.ranges import version_of
from gpuenv.matrix.tables import CondaBuild, Flavour, Image, Matrix, Platform, RocmLine, WheelLine
from gpuenv.model.resolution import (
    Assumption,
    Candidate,
    CandidateKind,
    CondaChoice,
    ConstraintName,
    Experimental,
    Rejection,
)
from gpuenv.model.strings import pattern
from gpuenv.model.versions import CudaVersion, PythonVersion

if TYPE_CHECKING:
    from packaging.version import Version


@lru_cache(maxsize=4)
def conda_candidates(matrix: Matrix) -> tuple[WheelCandidate, ...]:
    """Returns every conda build as a candidate, in order of preference.

    NVRTC support is that of the wheel of the same release; the GPU code in the build is unknown.
    """
    found = [candidate for build in matrix.conda_builds if (candidate := _conda_candidate(build, matrix)) is not None]
    return tuple(sorted(found, key=lambda wheel: (version_of(wheel.release.cupy), wheel.line.cuda_major), reverse=True))


def _conda_candidate(build: CondaBuild, matrix: Matrix) -> WheelCandidate | None:
    line = next((line for line in matrix.wheel_lines if line.serves(build.cuda)), None)
    row = next((row for row in line.releases if row.cupy == build.cupy), None) if line else None
    if line is None or row is None:
        return None
    platforms = {name: Platform(build.channel, build.libc if "linux" in name else None) for name in build.platforms}
    release = row._replace(
        pythons=build.pythons,
        platforms=platforms,
        numpy=build.numpy,
        source=build.source,
        built_with=build.cuda,
    )
    name = f"{build.channel}::cupy (CUDA {build.cuda.major})"
    return WheelCandidate(
        WheelLine(name, line.cuda_major, line.first_cuda, build.source, ()), release, None, CandidateKind.CONDA
    )


def conda_choice(
    wheel: WheelCandidate, assumptions: tuple[Assumption, ...], needs: Needs, matrix: Matrix
) -> CondaChoice:
    """Returns the specifications that install this build with CUDA libraries for the GPUs."""
    serving, offered = serving_minors(wheel, needs, matrix), minors_of(wheel, matrix)
    major = wheel.line.cuda_major
    pin = f"cuda-version={major}"
    if serving and len(serving) < len(offered):
        pin = f"cuda-version>={serving[0].cuda},<{major + 1}"
        if serving[-1] is not offered[-1]:
            pin = f"cuda-version={serving[-1].cuda}"
    return CondaChoice(
        (f"cupy={wheel.release.cupy}", pin), next(iter(wheel.release.platforms.values())).tag, assumptions
    )


class JudgedImage(NamedTuple):
    """An image, the wheel to use in it, and the reasons against it."""

    image: Image
    wheel: WheelCandidate | None
    rejections: tuple[Rejection, ...]


def judge_images(needs: Needs, matrix: Matrix, lines: LineVerdicts) -> tuple[JudgedImage, ...]:
    """Judges every image, in order of preference."""
    inside = inside_container(needs)
    preferred = by_preference(inside, matrix)

    @cache
    def fits_inside(wheel: WheelCandidate) -> bool:
        return fits(wheel, inside, matrix, lines)

    @cache
    def best_wheel(cuda_major: int, own_python: str | None) -> WheelCandidate | None:
        in_image = replace(inside, python=PythonVersion.parse(own_python) if own_python else None)
        of_major = (wheel for wheel in preferred if wheel.line.cuda_major == cuda_major and fits_inside(wheel))
        return next((wheel for wheel in of_major if not isinstance(python(wheel, in_image, matrix), Rejected)), None)

    def judge_image(image: Image) -> JudgedImage:
        wheel = (
            _wheel_in(image.line, image.cupy, matrix)
            if image.line
            else best_wheel(image.cuda.major, python_of_ubuntu(image.reference))
        )
        fitting = wheel if wheel is not None and fits_inside(wheel) else None
        held = _holds(image, fitting, inside, matrix)
        refused = (*_image_platform(image, needs), *refusals(image, needs, matrix), *held)
        name, _, tag = image.reference.partition(":")
        candidate, source = Candidate(CandidateKind.IMAGE, name, tag), matrix.cite(image.source)
        return JudgedImage(image, wheel, tuple(Rejection(candidate, *refusal, source) for refusal in refused))

    return tuple(sorted(map(judge_image, matrix.images), key=lambda entry: _image_rank(entry, needs), reverse=True))


# The Python of each Ubuntu, which its packages are named after (packages.ubuntu.com: python3 in focal, jammy, noble).
_PYTHON_OF = {"ubuntu20.04": "3.8", "ubuntu22.04": "3.10", "ubuntu24.04": "3.12"}


def python_of_ubuntu(text: str) -> str | None:
    """Returns the Python of the Ubuntu that the name of an image or its tag contains."""
    return next((version for system, version in _PYTHON_OF.items() if system in text), None)


def inside_container(needs: Needs) -> Needs:
    """Returns the needs inside a Linux container, with a free choice of interpreter and packages."""
    return replace(
        needs,
        platform=needs.container_platform,
        platform_assumed=None,
        libc=None,
        python=None,
        implementation=None,
        numpy=None,
        toolkits=(),
        packages=frozenset(),
        brings=(),
        cupy=(),
    )


@lru_cache(maxsize=256)
def _wheel_in(line: str, cupy: str | None, matrix: Matrix) -> WheelCandidate | None:
    """Returns the wheel in a CuPy image."""
    wheels = (wheel for wheel in wheel_candidates(matrix) if wheel.extra is None and wheel.line.name == line)
    return next((wheel for wheel in wheels if wheel.release.cupy == cupy), None)


_Refusals = Iterator[tuple[ConstraintName, str, str]]


def _image_platform(image: Image, needs: Needs) -> _Refusals:
    if needs.tegra:
        yield ConstraintName.PLATFORM, "a GPU that is no Tegra; JetPack has images of its own", "Tegra"
    elif needs.container_platform not in image.platforms or needs.likely_platform.startswith("darwin-"):
        yield ConstraintName.PLATFORM, " or ".join(image.platforms), needs.likely_platform


def refusals(image: Image, needs: Needs, matrix: Matrix) -> _Refusals:
    """Evaluates NVIDIA_REQUIRE_CUDA: the CUDA level, or one of the branches with the right brand.

    Below its CUDA level an image starts with the libcuda of its compat package, which must support the GPUs too.
    """
    if needs.driver_absent:
        yield ConstraintName.IMAGE_ADMITS_DRIVER, f"a driver of CUDA {image.cuda}", "no driver"
    level = needs.driver_cuda
    if needs.driver_absent or level is None or level >= image.cuda:
        return
    branch = branch_of(needs.driver, matrix) if needs.driver else None
    unlisted = [brand for brand in needs.brands if brand not in image.brands]
    if branch not in image.branches or unlisted or needs.windows:
        admitted = ", ".join(map(str, image.branches))
        of_brand = f" with another GPU than {', '.join(sorted(unlisted))}" if unlisted else ""
        needed = f"a driver of CUDA {image.cuda} or newer, or of branch {admitted}{of_brand}"
        yield ConstraintName.IMAGE_ADMITS_DRIVER, needed, f"driver {needs.driver or 'unknown'} (CUDA {level})"
    compat = next((row.branch for row in matrix.driver_branches if row.cuda == image.cuda), None)
    for gpu in needs.gpus:
        row = generation_for(gpu.compute_capability, matrix)
        if row is not None and compat is not None and row.wants(compat):
            needed = f"a GPU that the image's libcuda of branch {compat} supports"
            yield ConstraintName.IMAGE_ADMITS_DRIVER, needed, gpu.label


def _holds(image: Image, wheel: WheelCandidate | None, inside: Needs, matrix: Matrix) -> _Refusals:
    """Checks that a wheel fits, and the CUDA of the image with it; with CUDA from an extra the base image suffices."""
    constraint = ConstraintName.IMAGE_HOLDS_A_FITTING_WHEEL
    if wheel is None:
        name = f"{image.line} {image.cupy}" if image.line else f"CuPy for CUDA {image.cuda.major}"
        yield constraint, f"a machine that {name} fits", f"{inside.gpus_label}, driver {inside.driver or 'unknown'}"
    elif wheel.extra is None and all(row.cuda != image.cuda for row in serving_minors(wheel, inside, matrix)):
        yield constraint, f"a GPU that NVRTC {image.cuda} under CuPy {wheel.release.cupy} serves", inside.gpus_label
    elif wheel.extra is None and image.flavour is not Flavour.DEVEL:
        yield constraint, "the libraries and headers of the devel image", image.flavour.value


def _image_rank(entry: JudgedImage, needs: Needs) -> tuple[int, bool, Version, bool, bool, bool, tuple[int, int]]:
    """Returns the sort key, best last: CUDA major, CuPy, without CuPy, no compat package, smallest, CUDA.

    The compat package is for data center GPUs (CUDA Compatibility, Forward Compatibility), whatever an image admits.
    """
    image, wheel = entry.image, entry.wheel
    without_compat = needs.driver_cuda is None or needs.driver_cuda >= image.cuda
    cupy = version_of(wheel.release.cupy if wheel else "0")
    smallest = (image.flavour is Flavour.BASE) == (wheel is not None and wheel.extra is not None)
    starts = without_compat or not needs.brands
    cuda = image.cuda.major, image.cuda.minor
    return image.cuda.major, starts, cupy, image.line is None, without_compat, smallest, cuda


_HIP = pattern(r"libamdhip64\.so\.(\d+)")


def experimental(needs: Needs, matrix: Matrix) -> tuple[tuple[Experimental, ...], tuple[Rejection, ...]]:
    """Returns the newest fitting release of each ROCm line, the newest ROCm first, and the rejections."""
    host = needs.amd
    if host is None or needs.gpus:
        return (), ()
    found: list[Experimental] = []
    rejected: list[Rejection] = []
    for line in sorted(matrix.rocm_lines, key=lambda line: tuple(map(int, line.rocm.split("."))), reverse=True):
        as_line = WheelLine(line.name, 0, CudaVersion(0, 0), line.source, line.releases)
        for wheel in (WheelCandidate(as_line, release, None) for release in line.releases):
            verdicts = [(name, constraint(wheel, needs, matrix)) for name, constraint in INSTALLABLE]
            refused = [(name, verdict) for name, verdict in verdicts if isinstance(verdict, Rejected)]
            if refused:
                rejected += (Rejection(wheel.candidate, name, *verdict[:3]) for name, verdict in refused)
                continue
            if against := list(_runs(wheel, line, host, needs, matrix)):
                rejected += against  # an older release would not fit either, and less of it was measured
            else:
                assumptions = tuple(_assumed(line, wheel.platform(needs), host))
                requirements = (f"{line.name}=={wheel.release.cupy}",)
                found.append(Experimental(wheel.candidate, assumptions, requirements, other_cupys(wheel, needs)))
            break
    return tuple(found), tuple(rejected)


def _runs(wheel: WheelCandidate, line: RocmLine, host: AmdHost, needs: Needs, matrix: Matrix) -> Iterator[Rejection]:
    """Yields rejections: another ROCm major than the HIP runtime needs, or no code for a GPU."""
    row, source = wheel.platform(needs), matrix.cite(wheel.release.source)
    # The major version in the soname of the HIP runtime that the wheel needs; else that of its ROCm.
    hip = _HIP.fullmatch(row.hip or "") if row is not None else None
    wanted = hip[1] if hip else line.rocm.split(".")[0]
    if host.rocm is not None and host.rocm.split(".")[0] != wanted:
        yield Rejection(wheel.candidate, ConstraintName.ROCM_VERSION, f"ROCm {wanted}", f"ROCm {host.rocm}", source)
    code = row.gfx if row is not None else None
    missing = [target for target in host.targets if code and target not in code]
    if code and missing:
        needed, name = f"one of {', '.join(code)}", ConstraintName.WHEEL_HAS_CODE_FOR_GPU
        yield Rejection(wheel.candidate, name, needed, ", ".join(missing), source)


def _assumed(line: RocmLine, row: Platform | None, host: AmdHost) -> Iterator[Assumption]:
    """Yields the assumptions that nothing known confirms."""
    if host.rocm is None or host.rocm.split(".")[:2] != line.rocm.split("."):
        yield Assumption("ROCm", f"{line.rocm} on the host")
    if not host.all_known or row is None or row.gfx is None:
        yield Assumption("the gfx target", f"of {host.names}, one that the wheel has code for")
    else:
        yield Assumption("upstream's support", f"experimental, as it says, for {host.names}")
