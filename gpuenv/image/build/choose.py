"""Chooses base, wheel line, CuPy and CUDA of an image, with the rows and constraints of the resolver."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from gpuenv.image.build.packages import optional_library
from gpuenv.image.build.plan import Base, Choice, ImageKind
from gpuenv.image.reference import parse_reference
from gpuenv.matrix.alternatives import inside_container, python_of_ubuntu, refusals
from gpuenv.matrix.candidates import TEGRA, WheelCandidate, by_preference, serving_minors
from gpuenv.matrix.constraints import CONSTRAINTS, Rejected, fits
from gpuenv.matrix.needs import NeededGpu, Needs, cuda_of_branch
from gpuenv.matrix.products import generation_for
from gpuenv.matrix.tables import CudaMinor, Flavour, Image, Matrix
from gpuenv.model.cupy import has_own_headers
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, PythonVersion

DOCKER_PLATFORMS = {"linux-x86_64": "linux/amd64", "linux-aarch64": "linux/arm64"}
_CTK = "ctk"
# Debian 12: its glibc, 2.36, is newer than what any wheel of CuPy or CUDA requires (docker-library/python, README).
_SLIM = "python:{python}-slim-bookworm"
_HEADERS = {12: "nvidia-cuda-runtime-cu12=={cuda}.*", 13: "cuda-toolkit[cudart]=={cuda}.*"}


class NoImageError(ValueError):
    """No image fits the request; the message lists the reasons."""


@dataclass(frozen=True, slots=True)
class ImageRequest:
    """The requested image; None is left to the matrix.

    ``capabilities`` are served in addition to those of the machines, ``libraries`` are those that CuPy works without,
    such as nccl, and ``packages`` are further requirements.
    """

    kind: ImageKind = ImageKind.WHEELS
    cuda: CudaVersion | None = None
    line: str | None = None
    cupy: str | None = None
    python: PythonVersion | None = None
    arch: str | None = None
    base: str | None = None
    capabilities: tuple[ComputeCapability, ...] = ()
    libraries: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    """A wheel, its CUDA, and NVIDIA's image with that CUDA; no image if CUDA comes from wheels."""

    wheel: WheelCandidate
    minor: CudaMinor
    image: Image | None
    python: PythonVersion


def choose(request: ImageRequest, machines: Mapping[str, Needs], matrix: Matrix) -> Choice:
    """The best choice that serves every machine; ``machines`` are those that are to run the image, by name.

    Raises:
        NoImageError: if no choice fits.
    """
    inside = {name: _inside(needs, request) for name, needs in machines.items()}
    _refuse_other_platforms(inside)
    gpus = tuple(gpu for needs in inside.values() for gpu in needs.gpus)
    search = _Search(request, inside, replace(next(iter(inside.values())), gpus=gpus), matrix)
    for wheel in search.wheels():
        if search.fits(wheel) and (found := search.complete(wheel)) is not None:
            return _choice(found, request, search.needs, matrix)
    reasons = list(search.reasons) or ["the matrix has no such wheel"]
    raise NoImageError(
        f"no image of kind {request.kind.value} can be made{_request_text(request)}: {'; '.join(reasons[:4])}"
    )


def _refuse_other_platforms(machines: Mapping[str, Needs]) -> None:
    """Refuses machines of several architectures, and Jetson, whose images come with JetPack."""
    platforms = {str(needs.platform): name for name, needs in machines.items()}
    if len(platforms) > 1:
        named = ", ".join(f"{platform} ({name})" for platform, name in platforms.items())
        raise NoImageError(f"no one image is for machines of several architectures: {named}")
    if any(needs.tegra for needs in machines.values()):
        raise NoImageError("there are no images for Tegra GPUs: use those of JetPack")
    if not set(platforms) <= set(DOCKER_PLATFORMS):
        raise NoImageError(f"there are no images for {', '.join(platforms)}, only for {' and '.join(DOCKER_PLATFORMS)}")


def _request_text(request: ImageRequest) -> str:
    parts = [
        f"CUDA {request.cuda}" if request.cuda else "",
        f"CuPy {request.cupy}" if request.cupy else "",
        f"Python {request.python}" if request.python else "",
    ]
    text = ", ".join(part for part in parts if part)
    return f" with {text}" if text else ""


def _inside(needs: Needs, request: ImageRequest) -> Needs:
    """A machine as its container sees it; a machine without driver or GPU only builds the image."""
    inner = inside_container(needs)
    more = tuple(NeededGpu(f"compute capability {entry}", entry) for entry in request.capabilities)
    if needs.driver_absent or needs.gpus_not_there:
        inner = replace(inner, driver_absent=False, driver=None, driver_cuda=None, gpus=())
        inner = replace(inner, gpus_absent=False, gpus_not_there=False)
    if request.arch is not None:
        inner = replace(inner, platform=f"linux-{request.arch}")
    return replace(inner, gpus=(*inner.gpus, *more))


@dataclass(frozen=True, slots=True)
class _Search:
    """The search for the best image.

    ``machines`` are as their containers see them, ``needs`` those of the first with the GPUs of all; ``reasons`` tell
    why candidates were rejected, in a dictionary, to keep each once in order.
    """

    request: ImageRequest
    machines: Mapping[str, Needs]
    needs: Needs
    matrix: Matrix
    reasons: dict[str, None] = field(default_factory=dict)

    def _reject(self, *reasons: str) -> None:
        self.reasons.update(dict.fromkeys(reasons))

    def wheels(self) -> Iterator[WheelCandidate]:
        """The wheels of the request, the preferred first; with the extra ctk if CUDA comes from wheels."""
        request = self.request
        for wheel in by_preference(self.needs, self.matrix):
            named = request.line in (None, wheel.line.name) and request.cupy in (None, wheel.release.cupy)
            if not named or (request.cuda is not None and not wheel.line.serves(request.cuda)):
                continue
            if wheel.line.last_cuda is not None and request.line is None and request.cuda is None:
                continue
            if request.kind is ImageKind.WHEELS and _CTK not in wheel.release.extras:
                self._reject(
                    "CuPy takes CUDA from wheels from 14.0 on, for CUDA 12 and newer; the other kinds take it from the "
                    "base"
                )
            elif (wheel.extra == _CTK) == (request.kind is ImageKind.WHEELS) and wheel.extra in (None, _CTK):
                yield wheel

    def fits(self, wheel: WheelCandidate) -> bool:
        """Whether no constraint rejects a wheel on a machine."""
        reasons = [
            f"{wheel.candidate.label} needs {verdict.needed}, found {verdict.found}{_on(name)}"
            for name, needs in self.machines.items()
            for _, constraint in CONSTRAINTS
            if isinstance(verdict := constraint(wheel, needs, self.matrix), Rejected)
        ]
        self._reject(*reasons)
        return not reasons

    def complete(self, wheel: WheelCandidate) -> _Found | None:
        """The newest CUDA that serves every GPU, and for NVIDIA's images one that every driver may start."""
        cuda = self.request.cuda
        serving = [row for row in serving_minors(wheel, self.needs, self.matrix) if cuda in (None, row.cuda)]
        if not serving:
            self._reject(f"{wheel.candidate.label}: no CUDA that serves these GPUs{_request_text(self.request)}")
        for minor in reversed(serving):
            for image in self._images(minor):
                starts = image is None or self._starts(image)
                python = self._python(wheel, image)
                if python is not None and starts:
                    return _Found(wheel, minor, image, python)
        return None

    def _starts(self, image: Image) -> bool:
        """Whether an image of NVIDIA's starts on every machine."""
        reasons = [
            f"{image.reference} needs {needed}, found {found}{_on(name)}"
            for name, needs in self.machines.items()
            for _, needed, found in refusals(image, needs, self.matrix)
        ]
        self._reject(*reasons)
        return not reasons

    def _images(self, minor: CudaMinor) -> Iterator[Image | None]:
        """NVIDIA's images of one CUDA; a single None if the request needs no such image."""
        if self.request.kind is ImageKind.WHEELS or self.request.base is not None:
            yield None
            return
        platform = self.needs.likely_platform
        rows = [row for row in self.matrix.images if row.line is None and row.cuda == minor.cuda]
        fitting = [row for row in rows if row.flavour is Flavour.DEVEL and platform in row.platforms]
        if not fitting:
            self._reject(f"there is no image of NVIDIA's with CUDA {minor.cuda} for {platform}")
        yield from fitting

    def _python(self, wheel: WheelCandidate, image: Image | None) -> PythonVersion | None:
        """The requested Python, that of the base, or the newest one that CuPy has a wheel for."""
        request = self.request
        name = (request.base or (image.reference if image else "")).partition("@")[0]
        own = _own_python(name)
        offered = [PythonVersion.parse(entry) for entry in wheel.release.pythons if not entry.endswith("t")]
        wanted = request.python or (PythonVersion.parse(own) if own else max(offered))
        if "alpine" in name:
            self._reject(f"{name} uses musl, for which CuPy has no wheels; use a base with glibc")
        elif request.base is not None and own is None and request.python is None:
            self._reject(f"the Python of {request.base} is unknown: name it with --python")
        elif own is not None and request.python is not None and str(request.python) != own:
            self._reject(f"{name} has Python {own}; the kind wheels takes any")
        elif wanted not in offered:
            self._reject(f"{wheel.line.name} {wheel.release.cupy} has no wheel for Python {wanted}")
        else:
            return wanted
        return None


def _on(machine: str) -> str:
    return f" ({machine})" if machine else ""


def _own_python(name: str) -> str | None:
    """The Python of an image, from its name: its Ubuntu's, or that in a tag of the official ``python``."""
    official = re.search(r"(?:^|/)python:(3\.\d+)", name)
    return official[1] if official else python_of_ubuntu(name)


def _choice(found: _Found, request: ImageRequest, needs: Needs, matrix: Matrix) -> Choice:
    wheel, minor = found.wheel, found.minor
    stated = tuple(sorted({gpu.compute_capability for gpu in needs.gpus if gpu.compute_capability}))
    major, cupy = wheel.line.cuda_major, wheel.release.cupy
    libraries = {name: optional_library(name, cupy, minor.cuda.major) for name in request.libraries}
    lacking = [name for name, row in libraries.items() if row is None]
    if lacking:
        raise NoImageError(
            f"no wheel is known that has {' and '.join(lacking)} for CuPy {cupy} and CUDA {minor.cuda.major}"
        )
    additions = (*(row.requirement for row in libraries.values() if row is not None), *request.packages)
    return Choice(
        kind=request.kind,
        base=_base(found, request),
        platform=DOCKER_PLATFORMS[needs.likely_platform],
        python=str(found.python),
        line=wheel.line.name,
        cupy=cupy,
        cuda=minor.cuda,
        requirements=(*_requirements(found, request), *additions),
        capabilities=_served(found, needs, matrix),
        stated=stated,
        minimum_driver=_minimum_driver(found, stated, matrix),
        admits=f"cuda>={major}.0" if request.kind is ImageKind.WHEELS else "",
        libraries=request.libraries,
    )


def _base(found: _Found, request: ImageRequest) -> Base:
    if request.base is not None:
        return Base(request.base, parse_reference(request.base).digest, given=True)
    if found.image is None:
        return Base(_SLIM.format(python=found.python))
    if request.kind is ImageKind.DEVEL:
        return Base(found.image.reference, found.image.digest)
    # Every devel image has a runtime image with the same condition (NVIDIA's image sources, 2025-12-15).
    return Base(found.image.reference.replace("-devel-", "-runtime-"))


def _requirements(found: _Found, request: ImageRequest) -> tuple[str, ...]:
    name, cupy, cuda = found.wheel.line.name, found.wheel.release.cupy, found.minor.cuda
    if request.kind is ImageKind.WHEELS:
        return (f"{name}[{_CTK}]=={cupy}", f"cuda-toolkit=={cuda}.*")
    if request.kind is ImageKind.RUNTIME and has_own_headers(cupy, cuda) is not True and cuda.major in _HEADERS:
        return (f"{name}=={cupy}", _HEADERS[cuda.major].format(cuda=cuda))
    return (f"{name}=={cupy}",)


def _served(found: _Found, needs: Needs, matrix: Matrix) -> tuple[ComputeCapability, ...]:
    """The capabilities that this wheel and CUDA serve, with any driver that the image admits, without Tegra.

    Tegra has its own images.
    """
    served = []
    for entry in found.minor.capabilities:
        level = cuda_of_branch(_minimum_driver(found, (entry,), matrix), matrix)
        one = replace(needs, gpus=(NeededGpu(str(entry), entry),), driver=None, driver_cuda=level)
        good = found.minor in serving_minors(found.wheel, one, matrix) and fits(found.wheel, one, matrix)
        if good and entry not in TEGRA:
            served.append(entry)
    return tuple(sorted(served))


def _minimum_driver(found: _Found, stated: Sequence[ComputeCapability], matrix: Matrix) -> DriverVersion:
    """The oldest driver: by minor-version compatibility, NVIDIA's image, and the first driver for the GPUs."""
    first = {row.branch: row.first or _branch(row.branch) for row in matrix.driver_branches}
    floor = next(row.linux for row in matrix.cuda_majors if row.major == found.minor.cuda.major)
    if found.image is not None:
        admitted = [first.get(branch, _branch(branch)) for branch in found.image.branches]
        own = [entry for entry in (*admitted, found.minor.linux) if entry is not None and entry >= floor]
        floor = min(own, default=floor)
    for entry in stated:
        known = generation_for(entry, matrix)
        if known is not None and known.first_branch is not None:
            floor = max(floor, first.get(known.first_branch, _branch(known.first_branch)))
    return floor


def _branch(number: int) -> DriverVersion:
    return DriverVersion(str(number), (number,))


_CUPY_FORMS = "expected a release, a line, or one of a line: 14.2.0, cupy-cuda12x, cupy-cuda12x==14.2.0"


def line_and_release(text: str) -> tuple[str | None, str | None]:
    """Line and release: ``14.2.0``, ``cupy-cuda12x``, or as ``gpuenv resolve`` names them; ``cupy`` is any line.

    Raises:
        ValueError: for any other text.
    """
    if not text or text[0].isdigit():
        return None, text or None
    try:
        requirement = Requirement(text)
    except InvalidRequirement as error:
        raise ValueError(_CUPY_FORMS) from error
    pins = [each.version for each in requirement.specifier if each.operator == "==" and "*" not in each.version]
    if len(pins) != len(requirement.specifier) or len(pins) > 1 or requirement.url or requirement.marker:
        raise ValueError(_CUPY_FORMS)
    line = canonicalize_name(requirement.name)
    return None if line == "cupy" else line, pins[0] if pins else None
