"""The rules for a Dockerfile: each a function with a code and a docstring that ``gpuenv explain CODE`` prints.

An error fails the build, the import of CuPy, or its first kernel on a GPU. A fault that only some machines have, or
that may be intended, is a warning. Unknown installs (``BuildTarget.unknown``) are never the reason of an error: DKF917
notes them, and ``CudaSources.severity`` lowers the severity of missing CUDA.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.version import Version

from gpuenv.doctor.registry import Symptom
from gpuenv.image.container_variables import (
    COMPAT,
    CUDA_VISIBLE_DEVICES,
    DRIVER_CAPABILITIES,
    STUBS,
    VISIBLE_DEVICES,
    capabilities_fault,
    hides_all,
    requests_no_gpu,
)
from gpuenv.image.dockerfile.cuda import (
    CudaSources,
    cuda_sources,
    frameworks,
    is_no_line,
    release_of,
    wheel_line,
)
from gpuenv.image.dockerfile.driver_packages import depends_on_driver, is_driver_library, is_driver_package, runfile
from gpuenv.image.dockerfile.install_commands import PYTHON
from gpuenv.image.dockerfile.requirements import Install, SourceLocation
from gpuenv.image.dockerfile.shell import Command
from gpuenv.image.dockerfile.target import BuildTarget, is_conda_cupy, is_cupy
from gpuenv.image.dockerfile.variables import is_known
from gpuenv.image.rule_registry import rule
from gpuenv.matrix.tables import Flavour, WheelLine
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import has_own_headers, refused_variables
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.redaction import cut_text
from gpuenv.model.strings import command_name
from gpuenv.model.versions import CudaVersion

FileSymptoms = Iterator[tuple[SourceLocation, Symptom]]
_FAULT = Cause.DOCKERFILE_FAULT
_FIRST_WITH_WHEELS = Version("4.0.0")  # the oldest on the package index: cupy-cuda80 (queried 2026-11-29)
# NVIDIA removed the images of CUDA 10.2 and older from Docker Hub in summer 2023: NVIDIA/nvidia-docker, issues 1768
# and 1790; container-images/cuda, doc/support-policy.md (read 2026-11-29).
_OLDEST_IMAGE = CudaVersion(11, 0)
# container-images/cuda, doc/supported-tags.md (as the matrix cites it): no tag X.Y without the third number. There were
# some up to 11.1: NVIDIA/nvidia-docker, issue 1735, has one that is gone (read 2026-11-29).
_WHOLE_TAG = re.compile(r"\d+\.\d+\.\d+(?:-(?:cudnn\d*|tensorrt))?-(?:base|runtime|devel)-[a-z]+[\d.]*")
# Code that fails without a GPU. Importing CuPy 14 does not fail, nor does cupy.show_config().
_GPU_CODE = re.compile(
    r"\b(?:cupy|cp)\.(?:array|asarray|zeros|ones|arange|empty|full|eye|linspace|random|linalg|fft|"
    r"cuda\.(?:Device|Stream|runtime\.(?:getDevice\w*|memGetInfo)|get_current_stream))\b"
    r"|\bassert\s+torch\.cuda\.is_available|\btorch\.cuda\.get_device_name|\.cuda\(\)"
)
# Arguments with which Python runs its input: no program, or a dash (python3 --help of 3.11).
_READS_INPUT = re.compile(r"(?:-[WX] ?\S+ |-[bBdEiIOPqsSuvx]+ )*(?:(?:-|/dev/stdin) .*)?", re.DOTALL)
_GPU_PROGRAMS = ("nvidia-smi", "nvidia-debugdump", "dcgmi", "deviceQuery", "bandwidthTest", "gpu-burn", "gpu_burn")


def symptom_at(
    location: SourceLocation, title: str, fix: str, *evidence: Evidence, severity: Severity = Severity.ERROR
) -> tuple[SourceLocation, Symptom]:
    """A symptom with its location."""
    return location, Symptom(title, evidence, (Fix(fix),), severity)


def _base_evidence(target: BuildTarget) -> Evidence:
    return Evidence("base image", cut_text(target.base.text, 200), f"line {target.stages[0].line}")


def _cupy_evidence(install: Install) -> Evidence:
    return Evidence("CuPy", install.text, install.location.file)


def has_gpu_software(target: BuildTarget) -> bool:
    """Whether the image runs CUDA kernels: CuPy or a framework with CUDA is installed in it."""
    conda = any(map(is_conda_cupy, target.installs))
    return bool(target.base_line or target.cupy) or conda or any(each.cuda_major for each in frameworks(target))


@rule("DKF901", _FAULT)
def driver_installed(target: BuildTarget) -> FileSymptoms:
    """The driver is installed in the image.

    What it means: the driver's libraries must be those of the host's kernel module; the container toolkit mounts them.
    Libraries in the image have another version sooner or later, and may be found first.
    How it is seen: packages of the driver (nvidia-driver-*, libnvidia-compute-*, cuda-drivers, also the metapackages
    cuda and cuda-X-Y), its installer, or a copy of libcuda or NVML, in an image that has CUDA or CuPy.
    What to do: leave it out; if you need the toolkit, install cuda-toolkit-X-Y.
    """
    with_cuda = target.base.has_cuda or has_gpu_software(target)
    for entry in target.system if with_cuda else ():
        if not (is_driver_package(entry.text) or depends_on_driver(entry.text)):
            continue
        meta = re.fullmatch(r"cuda(?:-runtime)?(?:-(\d{1,3})-(\d{1,3}))?", entry.name)
        if meta is not None or depends_on_driver(entry.text):
            toolkit = f"cuda-toolkit-{meta[1]}-{meta[2]}" if meta and meta[1] else "cuda-toolkit-X-Y"
            title = f"{entry.text} installs the driver's libraries, on which it depends"
            fix = f"Install {toolkit} of NVIDIA's repository, or use an nvidia/cuda devel image."
        else:
            title, fix = f"{entry.text} installs the driver in the image", "Leave it out: the host has the driver."
        evidence = Evidence("package", entry.text, entry.location.file)
        yield symptom_at(entry.location, title, fix, evidence, severity=Severity.WARNING)
    for run in target.run_commands:
        found = runfile([word.text for word in run.command.words])
        if found is not None and (with_cuda or found.startswith("cuda")):
            yield symptom_at(
                run.location(target.file),
                f"{found} installs the driver in the image",
                "Leave it out, or pass only --toolkit.",
                severity=Severity.WARNING,
            )
    for step in (step for stage in target.stages if with_cuda for step in stage.steps):
        words = step.instruction.body.text.split() if step.instruction.keyword in ("COPY", "ADD") else []
        copied = next((word for word in words if is_driver_library(word)), None)
        if copied is not None:
            title = f"{copied} is a library of the driver, and is copied into the image"
            yield symptom_at(target.location(step.instruction), title, "Leave it out.", severity=Severity.WARNING)


@rule("DKF902", _FAULT)
def line_against_cuda(target: BuildTarget) -> FileSymptoms:
    """CuPy's line is for another CUDA than the image has.

    What it means: cupy-cuda12x loads the libraries of CUDA 12, and finds none in an image of CUDA 11 or 13; import and
    the first array succeed, but the first kernel fails.
    How it is seen: the line's name is compared with the CUDA of the base image, its packages and the wheels.
    What to do: install the line of the image's CUDA, or add the extra [ctk], which installs the line's own CUDA.
    """
    has = cuda_sources(target)
    for install in target.cupy:
        line = wheel_line(install.name, target.matrix)
        if line is None or not has.versions or has.severity is None or has.serves(line):
            continue
        cuda, source = has.versions[0]
        wanted = f"{line.cuda_major}.x" if line.last_cuda is None else str(line.first_cuda)
        extra = any("ctk" in row.extras for row in line.releases)
        own = f", or {_with_own_cuda(target, line)}, which installs its own CUDA" if extra else ""
        yield symptom_at(
            install.location,
            f"{install.name} is for CUDA {wanted}, and the image has CUDA {cuda}",
            f"Install the line of CUDA {cuda.major}{own}.",
            Evidence("CUDA", str(cuda), source),
            _cupy_evidence(install),
            severity=has.severity,
        )


@rule("DKF903", _FAULT)
def headers_missing(target: BuildTarget) -> FileSymptoms:
    """CuPy finds no CUDA headers in the image.

    What it means: CuPy 14 needs the headers of the CUDA runtime to compile kernels, older releases from CUDA 12.2 on.
    The base and runtime images of nvidia/cuda have none, nor do NVIDIA's packages of libraries (cuda-cudart without
    cuda-cudart-dev), so every kernel fails: "Failed to find CUDA headers", or a cuda_fp16.h or vector_types.h that
    cannot be opened.
    How it is seen: the flavour in the base image's tag, and no package or wheel with the headers.
    What to do: add the extra [ctk], the wheel nvidia-cuda-runtime of the image's CUDA, or use the devel image.
    """
    has = cuda_sources(target)
    for install in target.cupy:
        line, release = wheel_line(install.name, target.matrix), release_of(target, install)
        if line is None or release is None or has.headers or not has.libraries or has.severity is None:
            continue
        if line.cuda_major in has.wheels or not has.serves(line):
            continue
        own = has_own_headers(release.cupy, has.cuda)
        is_shown = target.base.plain or target.base.flavour in (Flavour.RUNTIME, Flavour.BASE)
        if own is True or not is_shown or any(not each.plain for each in target.copied):
            continue
        extra = f'"{install.name}[ctk]", or ' if "ctk" in release.extras else ""
        package = f", or cuda-cudart-dev-{str(has.cuda).replace('.', '-')}" if target.base.plain else ""
        yield symptom_at(
            install.location,
            f"CuPy {release.cupy} needs CUDA headers, and {target.base.text} has none",
            f"Install {extra}{_runtime_wheel(line, has)}{package}; or use the devel image.",
            _base_evidence(target),
            _cupy_evidence(install),
            severity=Severity.WARNING if own is None else has.severity,
        )


def _runtime_wheel(line: WheelLine, has: CudaSources) -> str:
    name = "nvidia-cuda-runtime" if line.cuda_major > 12 else f"nvidia-cuda-runtime-cu{line.cuda_major}"  # noqa: PLR2004 - the wheels of CUDA 13 lost the suffix
    return f"{name}=={has.cuda}.*" if has.cuda else name


@rule("DKF904", _FAULT)
def libraries_missing(target: BuildTarget) -> FileSymptoms:
    """The image has no CUDA libraries for CuPy.

    What it means: a wheel of CuPy contains no CUDA libraries. Without NVRTC, cuBLAS and the others only the import of
    CuPy works.
    How it is seen: a base image without CUDA, or one of the flavour base, and neither the extra [ctk] nor wheels or
    packages with the libraries.
    What to do: install cupy-cudaXXx[ctk]; or use a base image that has them.
    """
    has = cuda_sources(target)
    for install in target.cupy if not target.base.musl else ():  # for musl there is no wheel at all: DKF914
        line = wheel_line(install.name, target.matrix)
        if line is None or has.libraries or line.cuda_major in has.wheels or has.severity is None:
            continue
        if not (target.base.plain or target.base.flavour is Flavour.BASE):
            continue
        release = release_of(target, install)
        if "ctk" in install.extras:
            yield symptom_at(
                install.location,
                f"{f'CuPy {release.cupy}' if release else install.text} has no extra [ctk]: installers ignore it, "
                "and install no CUDA libraries",
                f'Install "{install.name}[ctk]" in release 14 or newer, or use an nvidia/cuda devel image.',
                _cupy_evidence(install),
                _base_evidence(target),
                severity=has.severity,
            )
            continue
        yield symptom_at(
            install.location,
            f"{install.name} finds no CUDA libraries in {target.base.text}",
            f"Install {_with_own_cuda(target, line)}, or use an nvidia/cuda devel image.",
            _base_evidence(target),
            _cupy_evidence(install),
            severity=has.severity,
        )


def _with_own_cuda(target: BuildTarget, line: WheelLine) -> str:
    """A requirement with the extra ctk: of this line, or of the lines that have the extra."""
    lines = [row.name for row in target.matrix.wheel_lines if any("ctk" in each.extras for each in row.releases)]
    if line.name in lines:
        return f'"{line.name}[ctk]" (CuPy 14 or newer)'
    return " or ".join(f'"{name}[ctk]"' for name in lines) + f" ({line.name} has no such extra)"


@rule("DKF905", _FAULT)
def two_lines(target: BuildTarget) -> FileSymptoms:
    """Two distributions of CuPy are installed in one environment.

    What it means: the lines of CuPy own the same files. They install without an error; either may be imported, and
    removing one breaks the other.
    How it is seen: two of cupy, cupy-cudaXXx and conda's cupy in the stages of the image, without a removal between
    them.
    What to do: keep one of them.
    """
    own = target.base_line
    there: dict[tuple[str, str | None], Install | None] = {(own, None): None} if own else {}
    names = {name for name, _ in there}
    for install in target.installs:
        of_conda = is_conda_cupy(install)
        if not (of_conda or is_cupy(install) or install.name.startswith("cupy-rocm")):
            continue
        label = "cupy" if of_conda else install.name  # conda's package is the distribution cupy, to pip as well
        others = (
            name
            for (name, _), each in there.items()
            if name != label and (each is None or each.environment == install.environment)
        )
        other = next(others, None) if label not in names else None
        if other is not None:
            yield symptom_at(
                install.location,
                f"{label} is installed next to {other}",
                "Keep one of them; if both are installed already, remove both and install one again.",
                _cupy_evidence(install),
            )
        names.add(label)
        there.setdefault((label, install.environment), install)


@rule("DKF906", _FAULT)
def from_source(target: BuildTarget) -> FileSymptoms:
    """CuPy is built from source.

    What it means: on the package index, cupy is a source distribution: it compiles for half an hour with a CUDA
    toolkit, and fails at once without one.
    How it is seen: pip installs cupy, or a line with --no-binary or from a repository. conda's cupy is binary, and
    satisfies a later requirement of pip. Before CuPy 4.0.0 there were no wheels.
    What to do: install the wheel of the right line: cupy-cuda12x, cupy-cuda13x.
    """
    has = cuda_sources(target)
    line = f"cupy-cuda{has.cuda.major}x" if has.cuda else "cupy-cuda12x or cupy-cuda13x"
    fails = not has.headers and has.severity is Severity.ERROR
    of_conda = any(map(is_conda_cupy, target.installs))
    ending = "which fails without a CUDA toolkit" if fails else "which takes long"
    for install in target.cupy:
        old = install.exact is not None and Version(install.exact) < _FIRST_WITH_WHEELS
        if (install.name != "cupy" and not install.from_source) or old or (of_conda and not install.from_source):
            continue
        yield symptom_at(
            install.location,
            f"{install.text.split(' #', maxsplit=1)[0].strip()} builds CuPy from source, {ending}",
            f"Install {line} instead.",
            _base_evidence(target),
            severity=Severity.ERROR if fails else Severity.WARNING,
        )


@rule("DKF911", _FAULT)
def compat_on_path(target: BuildTarget) -> FileSymptoms:
    """A folder of compatibility or stub libraries is first on the loader's path.

    What it means: forward-compatibility libraries first on LD_LIBRARY_PATH are used with every driver, even where they
    fail (cuInit 803 or 804): on a GeForce, and with a newer driver. The container toolkit uses them where they are
    needed. The toolkit's stub of libcuda is only for the linker.
    How it is seen: a folder compat in LD_LIBRARY_PATH, in /etc/ld.so.conf.d, or as an argument of ldconfig; a folder
    stubs in LD_LIBRARY_PATH, in which a link gives the stub the name that programs load.
    What to do: leave the folder out; stubs belong in LIBRARY_PATH.
    """
    if target.base.unknown and not has_gpu_software(target):
        return  # it may be for a Jetson, on which such libraries are meant
    setting = target.environment.get("LD_LIBRARY_PATH")
    for part in setting.value.split(":") if setting is not None else ():
        compat = COMPAT.search(part) is not None
        if setting is not None and (compat or (STUBS.search(part) and _links_stub(target))):
            yield symptom_at(
                target.location(setting),
                f"LD_LIBRARY_PATH {_compat_title(part) if compat else f'names the stub of libcuda: {part}'}",
                _COMPAT_FIX if compat else "Use LIBRARY_PATH, which the linker reads and the loader does not.",
                Evidence("LD_LIBRARY_PATH", cut_text(setting.value, 160), target.file),
                severity=Severity.WARNING,
            )
    for run in target.run_commands:
        texts = run.command.texts
        if run.stage not in target.stages:
            continue
        folder: str | None = None
        if run.command.program == "ldconfig":
            folder = next((text for text in texts if COMPAT.search(text)), None)
        elif run.command.program in ("echo", "printf") and "ld.so.conf" in run.step.instruction.body.text:
            folder = next((text for text in texts if re.search(r"/cuda[^\s\"']*/compat\b", text)), None)
        if folder is not None:
            title = f"The loader's configuration {_compat_title(folder.strip())}"
            yield symptom_at(run.location(target.file), title, _COMPAT_FIX, severity=Severity.WARNING)


def _links_stub(target: BuildTarget) -> bool:
    """Whether a link gives the stub (libcuda.so) the name that programs load (libcuda.so.1)."""
    runs = (run for run in target.run_commands if run.stage in target.stages and run.command.program in ("ln", "cp"))
    return any("libcuda.so.1" in run.command.words[-1].text for run in runs)


_COMPAT_FIX = "Leave it out: the container toolkit uses them where they are needed."


def _compat_title(folder: str) -> str:
    return f"puts forward-compatibility libraries first: {folder}"


@rule("DKF912", _FAULT)
def gpu_at_build_time(target: BuildTarget) -> FileSymptoms:
    """A step of the build uses a GPU.

    What it means: the steps of a build have neither a GPU nor a driver, on any machine, unless a step requests one (RUN
    --device, Dockerfile 1.27) and the builder allows it; so the step fails.
    How it is seen: nvidia-smi, or Python code that makes CuPy arrays, in a RUN that must not fail; a warning if its
    output goes to another command, which may hide the failure.
    What to do: move it to the program's start, or to a test that runs the image with --gpus.
    """
    # moby/buildkit, frontend/dockerfile/docs/reference.md, RUN --device (read 2026-11-21).
    for run in target.run_commands:
        if run.command.guarded or run.step.instruction.flag("device") is not None:
            continue
        what = _gpu_use(run.command)
        if what is not None:
            yield symptom_at(
                run.location(target.file),
                f"{what} needs a GPU, and a build has none",
                "Do it when the container starts, or in a test with docker run --gpus all.",
                severity=Severity.WARNING if run.command.piped else Severity.ERROR,
            )


def _gpu_use(command: Command) -> str | None:
    program, arguments = command.program, command.texts
    if program in _GPU_PROGRAMS:
        return program
    if program == "gpuenv" and (name := command_name(arguments)) in ("doctor", "smoke", "preflight"):
        return None if "--expect-no-gpu" in arguments else f"gpuenv {name}"
    if not PYTHON.fullmatch(program):
        return None
    code = next(iter(arguments[arguments.index("-c") + 1 :]), "") if "-c" in arguments else ""
    if command.heredoc is not None and _READS_INPUT.fullmatch(" ".join((*arguments, ""))):
        code = command.heredoc.text
    match = _GPU_CODE.search(code)
    is_tried = re.search(r"\btry:|is_available\(\)\s*(?:else|and|:)", code)
    return match[0] if match and not is_tried else None


@rule("DKF913", _FAULT)
def variables_hide(target: BuildTarget) -> FileSymptoms:
    """A variable hides the GPUs, or leaves out the driver's libraries.

    What it means: CUDA_VISIBLE_DEVICES in an image hides every GPU, however the container is started.
    NVIDIA_VISIBLE_DEVICES=void requests no GPU, and NVIDIA_DRIVER_CAPABILITIES without compute leaves libcuda out of
    the container.
    How it is seen: the ENV instructions of an image that has CuPy or a framework with CUDA. In other images, such as
    those of the container toolkit itself, these values are intended.
    What to do: leave the first two out, and set the last to compute,utility.
    """
    if not has_gpu_software(target):
        return
    for name, setting in target.environment.items():
        fault = _variable_fault(name, setting.value)
        if fault is not None:
            title, fix, severity = fault
            yield symptom_at(
                target.location(setting),
                f"{name}{title}",
                fix,
                Evidence(name, setting.value or "(empty)", target.file),
                severity=severity,
            )


def _variable_fault(name: str, value: str) -> tuple[str, str, Severity] | None:
    if name == CUDA_VISIBLE_DEVICES and is_known(value) and hides_all(value):
        return f"={value} hides every GPU", f"Leave {name} out of the image.", Severity.ERROR
    if name == VISIBLE_DEVICES and requests_no_gpu(value):
        title = f"={value} requests no GPU, unless the container is started with --gpus"
        return title, "Set it to all, or leave it out.", Severity.WARNING
    fault = capabilities_fault(value) if name == DRIVER_CAPABILITIES and is_known(value) else None
    return (f" {fault[0]}", "Set it to compute,utility.", fault[1]) if fault is not None else None


@rule("DKF914", _FAULT)
def no_wheel_for_base(target: BuildTarget) -> FileSymptoms:
    """CuPy has no wheel for the C library or the Python of the base image.

    What it means: pip then takes the source distribution, or an older release without a warning, or finds nothing.
    How it is seen: a base image with musl (Alpine), a Python of the base image for which the pinned release has no
    wheel, or a pinned release that the line never had.
    What to do: use a base image with glibc (such as the slim ones) and a Python that the release has wheels for.
    """
    for install in target.cupy:
        if install.from_source or install.name == "cupy":
            continue
        if target.base.musl:
            yield symptom_at(
                install.location,
                f"{install.name} has no wheel for musl, which {target.base.text} is made of",
                "Use a base image with glibc, such as python:3.12-slim.",
                _base_evidence(target),
            )
        release, python = release_of(target, install), target.python
        if install.exact is None:
            continue
        if release is None:
            yield from _no_release(target, install)
        elif python is not None and python.tag not in release.pythons:
            known = ", ".join(re.sub(r"^cp(\d)", r"\1.", tag) for tag in release.pythons)
            yield symptom_at(
                install.location,
                f"{install.name} {release.cupy} has no wheel for Python {python}, which {target.base.text} has",
                f"Use a Python of {known}, or another release.",
                _base_evidence(target),
            )


def _no_release(target: BuildTarget, install: Install) -> FileSymptoms:
    line = wheel_line(install.name, target.matrix)
    if line is None or not line.releases or install.exact is None:
        return
    known = sorted({Version(row.cupy) for each in target.matrix.wheel_lines for row in each.releases})
    version = Version(install.exact)
    if known[0] <= version <= known[-1] and not version.is_prerelease:
        newest = max((row.cupy for row in line.releases), key=Version)
        yield symptom_at(
            install.location,
            f"{install.name} has no release {install.exact}",
            f"Pin one that there is: {install.name}=={newest} is its newest.",
            _cupy_evidence(install),
        )


@rule("DKF915", _FAULT)
def no_such_base(target: BuildTarget) -> FileSymptoms:
    """nvidia/cuda has no image with this tag.

    What it means: tags of nvidia/cuda are X.Y.Z-FLAVOUR-DISTRIBUTION. There is no tag latest; one without flavour or
    distribution, or of a CUDA that was never released, does not exist, and the build fails.
    How it is seen: the tag is compared with that pattern, and its CUDA with the releases in the matrix. A default of an
    ARG without a number is a placeholder and is not checked.
    What to do: name a tag that exists, such as 12.9.1-devel-ubuntu24.04.
    """
    fault = tag_fault(target)
    if fault is not None:
        title, severity = fault
        fix = "Name a whole tag, such as 12.9.1-devel-ubuntu24.04."
        yield symptom_at(target.location(target.stages[0]), title, fix, _base_evidence(target), severity=severity)


def tag_fault(target: BuildTarget) -> tuple[str, Severity] | None:
    """The fault of the tag of an image of nvidia/cuda, and its severity."""
    base, tag = target.base, target.base.name.tag if target.base.name is not None else None
    if not base.nvidia or base.name is None or base.row is not None or base.name.digest is not None:
        return None
    if target.stages[0].uses_default and (tag is None or not tag[:1].isdigit()):
        return None  # a word such as notset, which the caller replaces by a version
    if tag is None or tag == "latest":
        return f"{base.text}: nvidia/cuda has no tag latest, so the build fails", Severity.ERROR
    known = {row.cuda for row in target.matrix.cuda_minors}
    if base.cuda is not None and min(known) <= base.cuda <= max(known) and base.cuda not in known:
        return f"There is no CUDA {base.cuda}", Severity.ERROR
    if base.cuda is not None and base.cuda < _OLDEST_IMAGE and base.text.startswith("nvidia/"):
        return f"{base.text}: NVIDIA has removed the images of CUDA 10.2 and older, so the build fails", Severity.ERROR
    whole = _WHOLE_TAG.fullmatch(tag) or not base.text.startswith("nvidia/")  # other registries may keep old tags
    title = f"nvidia/cuda has no tag {tag}: expected X.Y.Z-FLAVOUR-DISTRIBUTION"
    return None if whole else (title, Severity.WARNING)


@rule("DKF916", _FAULT)
def cuda_path_elsewhere(target: BuildTarget) -> FileSymptoms:
    """CUDA_PATH or CUDA_HOME names another CUDA than the image has.

    What it means: CuPy looks for headers and libraries where CUDA_PATH points, and builds of extensions where CUDA_HOME
    does; a folder that is missing, or of another version, breaks them.
    How it is seen: a version in the variable's folder is compared with the CUDA of the base image and its packages.
    What to do: leave the variable out, or set it to /usr/local/cuda.
    """
    has = cuda_sources(target)
    for name in ("CUDA_PATH", "CUDA_HOME"):
        setting = target.environment.get(name)
        match = re.search(r"/cuda-(\d{1,3})\.(\d{1,3})/?$", setting.value) if setting is not None else None
        if setting is None or match is None or not has.versions or has.severity is not Severity.ERROR:
            continue
        named = CudaVersion(int(match[1]), int(match[2]))
        if all(cuda != named for cuda, _ in has.versions):
            cuda, source = has.versions[0]
            yield symptom_at(
                target.location(setting),
                f"{name} names {setting.value}, and the image has CUDA {cuda}",
                f"Leave {name} out, or set it to /usr/local/cuda.",
                Evidence("CUDA", str(cuda), source),
                severity=Severity.WARNING,
            )


@rule("DKF917", _FAULT)
def unknown_installs(target: BuildTarget) -> FileSymptoms:
    """Some of what is installed is unknown.

    What it means: a condition, a loop, a script or another package manager installs something unknown, so CuPy and CUDA
    may or may not be in the image. gpuenv draws no conclusion from this.
    How it is seen: the other commands of an image that installs CuPy, and commands that may install it: in a condition,
    or from a file that is not in the build context.
    What to do: check the built image: gpuenv check-image IMAGE; name the build context with --context.
    """
    concerned = any(is_cupy(each) or is_conda_cupy(each) for each in target.installs)
    matters = [concerned or "cupy" in each.what or any(map(is_cupy, each.possible)) for each in target.unknown]
    found = [each for each, is_likely in zip(target.unknown, matters, strict=True) if is_likely]
    found += [
        each
        for each, is_likely in zip(target.unknown, matters, strict=True)
        if not is_likely and target.base.has_cuda and each.is_file
    ]
    if found:
        shown = [f"{each.what} (line {each.location.line})" for each in found[:3]]
        rest = f" and {len(found) - 3} more" if len(found) > 3 else ""  # noqa: PLR2004 - as many as are shown
        yield symptom_at(
            found[0].location,
            f"What these install is unknown: {', '.join(shown)}{rest}",
            "Check the built image: gpuenv check-image IMAGE.",
            severity=Severity.NOTE,
        )


@rule("DKF918", _FAULT)
def base_without_name(target: BuildTarget) -> FileSymptoms:
    """FROM names no image.

    What it means: the text is not a valid image name, so the build does not start: "invalid reference format", or
    "repository name must be lowercase".
    How it is seen: the name is compared with the grammar of names (distribution/reference). Names with unknown
    variables, or with digests other than sha256, are not checked.
    What to do: write it as name:tag, the name in lower case.
    """
    base = target.base
    written = not target.stages[0].uses_default  # a default such as ? stands for what the caller gives
    if base.text and base.name is None and written and is_known(base.text) and "@" not in base.text:
        yield symptom_at(
            target.location(target.stages[0]),
            f"{cut_text(base.text, 80)} is not a name of an image, so the build fails",
            "Write it as name:tag, the name in lower case.",
            _base_evidence(target),
        )


@rule("DKF919", _FAULT)
def cupy_variable_refused(target: BuildTarget) -> FileSymptoms:
    """A CuPy variable is set to a value that CuPy rejects.

    What it means: CuPy reads its variables when it is imported, and ends with an error at a value that it cannot read.
    How it is seen: the ENV instructions of the stages of the image are compared with the values that CuPy accepts. A
    value that contains a variable is not checked.
    What to do: leave the variable out, or correct it.
    """
    settings = {name: setting for name, setting in target.environment.items() if is_known(setting.value)}
    releases = [release_of(target, install) for install in target.cupy]
    release = releases[0].cupy if releases and releases[0] else None
    for wrong in refused_variables({name: setting.value for name, setting in settings.items()}, release):
        setting = settings[wrong.name]
        yield symptom_at(
            target.location(setting),
            f"{wrong.name}={wrong.value or '(empty)'}: CuPy refuses this value",
            f"Leave it out, or correct it: {wrong.taken}.",
            Evidence(wrong.name, wrong.value or "(empty)", target.file),
        )


@rule("DKF920", _FAULT)
def no_such_line(target: BuildTarget) -> FileSymptoms:
    """A distribution is named like a CuPy line, but is not one.

    What it means: from CUDA 11.2 on there is one line for each major (cupy-cuda11x, cupy-cuda12x, cupy-cuda13x); a name
    such as cupy-cuda121 is not CuPy's: either the index has nothing of that name, or another party than CuPy's
    developers published it.
    How it is seen: the name is compared with CuPy's lines, including those of old releases.
    What to do: install the line of the CUDA major.
    """
    newest = max(line.cuda_major for line in target.matrix.wheel_lines)
    for install in target.cupy:
        if is_no_line(install.name, target.matrix):
            digits = re.match(r"cupy-cuda-?(1\d)", install.name)
            major = int(digits[1]) if digits is not None and int(digits[1]) <= newest else newest
            yield symptom_at(
                install.location,
                f"{install.name} is not a distribution of CuPy",
                f"Install cupy-cuda{major}x, or the line of the CUDA that is meant.",
                _cupy_evidence(install),
            )
