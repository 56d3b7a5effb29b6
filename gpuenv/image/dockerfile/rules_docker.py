"""A Dockerfile: the driver, CuPy's line, its CUDA and its headers."""

from __future__ import annotations

import re

from gpuenv.doctor.registry import Symptom
from gpuenv.image.build.cuda_headers import has_own_headers
from gpuenv.image.dockerfile.build_target import BuildTarget, is_cupy_of_pip
from gpuenv.image.dockerfile.cuda_sources import CudaSources, cuda_sources
from gpuenv.image.dockerfile.cupy_lines import release_of, wheel_line
from gpuenv.image.dockerfile.driver_packages import brings_driver, is_driver_library, is_driver_package, runfile
from gpuenv.image.dockerfile.install_requests import Install, Manager, SourceLocation
from gpuenv.image.inspect.rules import FileOutcome, LocatedSymptom, rule
from gpuenv.matrix.tables import Flavour, WheelLine
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity

_FAULT = Cause.DOCKERFILE_FAULT
OF_CONDA = ("cupy", "cupy-core")  # CuPy's packages on conda-forge


def symptom_at(
    location: SourceLocation, title: str, fix: str, *evidence: Evidence, severity: Severity = Severity.ERROR
) -> LocatedSymptom:
    """A finding at a location."""
    return LocatedSymptom(
        Symptom(title, evidence, (Fix(fix),), severity), location.file, location.line, location.end_line
    )


def from_place(target: BuildTarget) -> SourceLocation:
    """The line of the FROM that names the base image."""
    return SourceLocation(target.file, target.first.line, target.first.end_line)


@rule("DKF901", _FAULT)
def driver_installed(target: BuildTarget) -> FileOutcome:
    """The driver is installed in the image.

    What it means: the driver's libraries must be those of the host's kernel module; the container toolkit mounts them.
    Ones in the image are of another version sooner or later, and may be found first.
    How it is seen: packages of the driver (nvidia-driver-*, libnvidia-compute-*, cuda-drivers, also the metapackages
    cuda and cuda-X-Y), its installer, or a copy of libcuda or NVML; and, as a warning, the distribution's own
    nvidia-cuda-toolkit, which depends on them.
    What to do: leave it out; install cuda-toolkit-X-Y where the toolkit is wanted.
    """
    for entry in target.system:
        if brings_driver(entry.text):
            yield symptom_at(
                entry.location,
                f"{entry.text} of the distribution brings the driver's libraries along, as its dependencies",
                "Use an nvidia/cuda devel image, or cuda-toolkit-X-Y of NVIDIA's repository, which bring none.",
                Evidence("package", entry.text, entry.location.file),
                severity=Severity.WARNING,
            )
        if is_driver_package(entry.text):
            meta = re.fullmatch(r"cuda(?:-runtime)?(?:-(\d{1,3})-(\d{1,3}))?", entry.name)
            instead = f"cuda-toolkit-{meta[1]}-{meta[2]}" if meta and meta[1] else "cuda-toolkit"
            yield symptom_at(
                entry.location,
                f"{entry.text} installs the driver in the image"
                + (", as a metapackage that brings it along" if meta else ""),
                f"Install {instead} instead." if meta else "Leave it out: the container toolkit brings the host's.",
                Evidence("package", entry.text, entry.location.file),
            )
    for run in target.run_commands:
        found = runfile([word.text for word in run.command.words])
        if found is not None:
            location = SourceLocation(target.file, run.command.words[0].line, run.step.instruction.end_line)
            yield symptom_at(
                location, f"{found} installs the driver in the image", "Leave it out, or pass --toolkit alone."
            )
    for stage in target.stages:
        for step in stage.steps:
            words = step.instruction.body.text.split() if step.instruction.keyword in ("COPY", "ADD") else []
            copied = next((word for word in words if is_driver_library(word)), None)
            if copied is not None:
                location = SourceLocation(target.file, step.instruction.line, step.instruction.end_line)
                yield symptom_at(location, f"{copied} is the driver's, and is copied into the image", "Leave it out.")


@rule("DKF902", _FAULT)
def line_against_cuda(target: BuildTarget) -> FileOutcome:
    """CuPy's line is for another CUDA than the image has.

    What it means: cupy-cuda12x loads the libraries of CUDA 12, and finds none in an image of CUDA 11 or 13; import and
    the first array succeed, the first kernel fails.
    How it is seen: the line's name against the CUDA of the base image, of its packages, and of other frameworks in the
    same environment; CUDA from wheels of the line's own major will do.
    What to do: install the line of the image's CUDA, or let the extra [ctk] bring the line's own.
    """
    has = cuda_sources(target)
    for install in target.cupy:
        line = wheel_line(install.name, target.matrix)
        if line is None:
            continue
        if has.cuda is not None and not has.wheels_of(line.cuda_major) and not line.serves(has.cuda):
            yield symptom_at(
                install.location,
                f"{install.name} is for CUDA {_range(line)}, and the image has CUDA {has.cuda}",
                f"Install the line of CUDA {has.cuda.major}{_or_extra(line)}.",
                Evidence("CUDA", str(has.cuda), has.cuda_source),
                Evidence("CuPy", install.text, install.location.file),
                severity=_severity(install),
            )
        for other in has.frameworks:
            if other.cuda_major != line.cuda_major:
                newest = " in its newest release" if other.newest else ""
                yield symptom_at(
                    install.location,
                    f"{install.name} shares its environment with {other.name}, which brings CUDA {other.cuda_major}"
                    f"{newest}",
                    f"Install the line of CUDA {other.cuda_major}, or a build of {other.name} for CUDA "
                    f"{line.cuda_major}.",
                    Evidence("CuPy", install.text, install.location.file),
                    severity=Severity.WARNING if other.newest or other.perhaps else _severity(install),
                )


def _or_extra(line: WheelLine) -> str:
    brings = any("ctk" in row.extras for row in line.releases)
    return f", or {line.name}[ctk], which brings its own CUDA" if brings else ""


def _range(line: WheelLine) -> str:
    return f"{line.cuda_major}.x" if line.last_cuda is None else str(line.first_cuda)


@rule("DKF903", _FAULT)
def headers_missing(target: BuildTarget) -> FileOutcome:
    """CuPy finds no CUDA headers in the image.

    What it means: CuPy 14 needs the headers of the CUDA runtime to compile kernels, older releases from CUDA 12.2 on.
    The base and runtime images of nvidia/cuda have none, nor have NVIDIA's packages of libraries alone (cuda-cudart,
    without cuda-cudart-dev), so that every kernel fails: "Failed to find CUDA headers", or
    a cuda_fp16.h or vector_types.h that cannot be opened.
    How it is seen: the flavour in the base image's tag, and no package or wheel that brings headers.
    What to do: add the extra [ctk], the wheel nvidia-cuda-runtime of the image's CUDA, or use the devel image.
    """
    has = cuda_sources(target)
    for install in target.cupy:
        line, release = wheel_line(install.name, target.matrix), release_of(target, install)
        if line is None or has.headers or has.wheels_of(line.cuda_major) or not has.libraries:
            continue
        if has.cuda is not None and has.cuda.major != line.cuda_major:
            continue  # another CUDA's headers would be of no use: DKF902
        own = has_own_headers(release.cupy, has.cuda) if release else True
        if has.headers_known and release is not None and own is not True:
            extra = f'"{install.name}[ctk]", or ' if "ctk" in release.extras else ""
            yield symptom_at(
                install.location,
                f"CuPy {release.cupy} needs CUDA headers, and {target.base.text} has none",
                f"Install {extra}{_runtime_wheel(line, has)}{_dev_package(target, has)}; or use the devel image.",
                Evidence("base image", target.base.text, f"line {target.first.line}"),
                Evidence("CuPy", install.text, install.location.file),
                severity=Severity.WARNING if own is None else _severity(install),
            )


def _dev_package(target: BuildTarget, has: CudaSources) -> str:
    """NVIDIA's package with the headers, where the libraries are from such packages too."""
    return f", or cuda-cudart-dev-{has.cuda.major}-{has.cuda.minor}" if target.base.plain and has.cuda else ""


def _runtime_wheel(line: WheelLine, has: CudaSources) -> str:
    name = "nvidia-cuda-runtime" if line.cuda_major > 12 else f"nvidia-cuda-runtime-cu{line.cuda_major}"  # noqa: PLR2004 - the wheels of CUDA 13 lost the suffix
    return f"{name}=={has.cuda}.*" if has.cuda else name


@rule("DKF904", _FAULT)
def libraries_missing(target: BuildTarget) -> FileOutcome:
    """The image has no CUDA libraries for CuPy.

    What it means: a wheel of CuPy has none of CUDA's libraries in it. Without NVRTC, cuBLAS and the others nothing but
    import works.
    How it is seen: a base image without CUDA, or one of the flavour base, and neither the extra [ctk], CUDA wheels nor
    packages that bring the libraries.
    What to do: install cupy-cudaXXx[ctk]; or use a base image that has them.
    """
    has = cuda_sources(target)
    for install in target.cupy if not target.base.musl else ():  # for musl there is no wheel at all: DKF914
        line = wheel_line(install.name, target.matrix)
        if line is None or has.libraries or has.wheels_of(line.cuda_major):
            continue
        if not (target.base.plain or target.base.flavour is Flavour.BASE):
            continue
        if "ctk" in install.extras:
            yield _without_extra(target, install)
            continue
        what = f"no {', '.join(has.lacking)}" if has.lacking else "no CUDA libraries"
        more = "Install those packages too; or i" if has.lacking else "I"
        yield symptom_at(
            install.location,
            f"{install.name} finds {what} in {target.base.text}",
            f"{more}nstall {_with_own_cuda(target, line)}, or use an nvidia/cuda devel image.",
            Evidence("base image", target.base.text, f"line {target.first.line}"),
            Evidence("CuPy", install.text, install.location.file),
            severity=_severity(install),
        )


def _with_own_cuda(target: BuildTarget, line: WheelLine) -> str:
    """A line that brings CUDA along: this one where it can."""
    brings = [row.name for row in target.matrix.wheel_lines if any("ctk" in each.extras for each in row.releases)]
    if line.name in brings:
        return f'"{line.name}[ctk]" (CuPy 14 or newer)'
    return " or ".join(f'"{name}[ctk]"' for name in brings) + f" ({line.name} has no such extra)"


def _severity(install: Install) -> Severity:
    """A warning for a conditional install, which may be meant for another base; else an error."""
    return Severity.WARNING if install.perhaps else Severity.ERROR


def _without_extra(target: BuildTarget, install: Install) -> LocatedSymptom:
    release = release_of(target, install)
    release_text = f"CuPy {release.cupy}" if release else install.text
    return symptom_at(
        install.location,
        f"{release_text} has no extra [ctk]: installers leave it out in silence, and no CUDA libraries come",
        f'Install "{install.name}[ctk]" in release 14 or newer, or use an nvidia/cuda devel image.',
        Evidence("CuPy", install.text, install.location.file),
        Evidence("base image", target.base.text, f"line {target.first.line}"),
    )


@rule("DKF905", _FAULT)
def two_lines(target: BuildTarget) -> FileOutcome:
    """Two distributions of CuPy are installed in one environment.

    What it means: the lines of CuPy own the same files. They install without a complaint; which one is imported is
    chance, and removing one breaks the other.
    How it is seen: two of cupy, cupy-cudaXXx and conda's cupy in the stages that the image is made of, without a
    removal between them.
    What to do: keep one.
    """
    found = [entry for entry in target.installs if _is_cupy(entry)]
    own = target.base.row.line if target.base.row else None
    there: dict[str, list[Install | None]] = {own: [None]} if own else {}
    for entry in found:
        label = _label(entry)
        known = label in there
        there.setdefault(label, []).append(entry)
        if known:
            continue
        beside = ((name, other) for name, others in there.items() if name != label for other in others)
        first = next(((name, other) for name, other in beside if not _alternatives(entry, other)), None)
        if first is None:
            continue
        name, other = first
        sure = not (entry.perhaps or (other is not None and other.perhaps))
        yield symptom_at(
            entry.location,
            f"{_label(entry)} is installed beside {name}" + ("" if sure else ", where its condition holds"),
            "Keep one of them; remove both and install one anew where they are there already.",
            Evidence("CuPy", entry.text, entry.location.file),
            severity=Severity.ERROR if sure else Severity.WARNING,
        )


def _alternatives(one: Install, other: Install | None) -> bool:
    """Whether they are for two environments, or choices of one RUN: branches, or what is tried after a failure."""
    if other is not None and one.environment and other.environment and one.environment != other.environment:
        return True
    if other is None or not (one.perhaps or other.perhaps):
        return False
    return one.location.file == other.location.file and one.location.end_line == other.location.end_line


def _is_cupy(install: Install) -> bool:
    if install.manager is Manager.CONDA:
        return install.name in OF_CONDA
    return is_cupy_of_pip(install) or install.name.startswith("cupy-rocm")


def _label(install: Install) -> str:
    return f"conda's {install.name}" if install.manager is Manager.CONDA else install.name


@rule("DKF906", _FAULT)
def from_source(target: BuildTarget) -> FileOutcome:
    """CuPy is built from source.

    What it means: on the package index, the name cupy alone is a source distribution: it compiles for half an hour
    where a toolkit is there, and fails at once where none is.
    How it is seen: pip installs cupy, or a line with --no-binary or from a repository. conda's cupy is binary.
    What to do: install the wheel of the right line: cupy-cuda12x, cupy-cuda13x.
    """
    has = cuda_sources(target)
    line = f"cupy-cuda{has.cuda.major}x" if has.cuda else "cupy-cuda12x or cupy-cuda13x"
    ending = "which takes long" if has.headers else "which fails without a CUDA toolkit"
    for install in target.cupy:
        if install.name != "cupy" and not install.from_source:
            continue
        yield symptom_at(
            install.location,
            f"{install.text.split(' #', maxsplit=1)[0].strip()} builds CuPy from source, {ending}",
            f"Install {line} instead.",
            Evidence("base image", target.base.text, f"line {target.first.line}"),
            severity=Severity.WARNING if has.headers else Severity.ERROR,
        )
