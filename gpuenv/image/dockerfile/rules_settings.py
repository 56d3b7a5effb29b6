"""A Dockerfile: paths, variables, what a build cannot do, base images that do not exist or do not fit."""

from __future__ import annotations

import re

from packaging.version import Version

from gpuenv.image.dockerfile.base_images import is_whole_tag
from gpuenv.image.dockerfile.build_target import BuildTarget
from gpuenv.image.dockerfile.cuda_sources import cuda_sources
from gpuenv.image.dockerfile.cupy_lines import release_of, wheel_line
from gpuenv.image.dockerfile.install_commands import PYTHON
from gpuenv.image.dockerfile.install_requests import Install, SourceLocation
from gpuenv.image.dockerfile.rules_docker import from_place, symptom_at
from gpuenv.image.inspect.rules import FileOutcome, rule
from gpuenv.image.inspect.rules_variables import STUBS, capabilities_fault, hides_all
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Severity
from gpuenv.model.versions import CudaVersion

_FAULT = Cause.DOCKERFILE_FAULT
COMPAT = re.compile(r"/compat(?:/lib(?:\.real)?)?/?$")
_LD_CONF = re.compile(r"/cuda[^\s\"']*/compat\b")
# What needs a GPU rather than CuPy alone: importing CuPy 14 does not.
_GPU_CODE = re.compile(
    r"\b(?:cupy|cp)\.(?:array|asarray|zeros|ones|arange|empty|full|eye|linspace|random|linalg|fft|show_config|"
    r"cuda\.(?:Device|Stream|runtime\.(?:getDevice\w*|memGetInfo)|is_available|get_current_stream))\b"
    r"|\bassert\s+torch\.cuda\.is_available|\btorch\.cuda\.get_device_name|\.cuda\(\)"
)
_PROGRAMS = ("nvidia-smi", "nvidia-debugdump", "dcgmi", "deviceQuery", "bandwidthTest", "gpu-burn", "gpu_burn")


@rule("DKF911", _FAULT)
def compat_on_path(target: BuildTarget) -> FileOutcome:
    """A folder of compatibility or stub libraries is put where the loader looks first.

    What it means: forward-compatibility libraries first on LD_LIBRARY_PATH are used with every driver, also where they
    fail (cuInit 803 or 804): on a GeForce, and on a driver that is newer. The container toolkit uses them by itself
    where they are needed. The toolkit's stub of libcuda is for the linker alone.
    How it is seen: a folder compat or stubs in LD_LIBRARY_PATH, or in /etc/ld.so.conf.d.
    What to do: leave the folder out; stubs belong into LIBRARY_PATH.
    """
    setting = target.environment.get("LD_LIBRARY_PATH")
    if setting is not None:
        location = SourceLocation(target.file, setting.line, setting.end_line)
        for part in setting.value.split(":"):
            if COMPAT.search(part):
                yield symptom_at(
                    location,
                    f"LD_LIBRARY_PATH puts forward-compatibility libraries first: {part}",
                    "Leave it out: the container toolkit uses them where they are needed.",
                    Evidence("LD_LIBRARY_PATH", setting.value[:160], target.file),
                )
            elif STUBS.search(part):
                yield symptom_at(
                    location,
                    f"LD_LIBRARY_PATH names the stub of libcuda: {part}",
                    "Use LIBRARY_PATH, which the linker reads and the loader does not.",
                    Evidence("LD_LIBRARY_PATH", setting.value[:160], target.file),
                )
    for run in target.run_commands:
        texts = [word.text for word in run.command.words]
        if (
            run.stage in target.stages
            and run.command.program in ("echo", "printf")
            and any(map(_LD_CONF.search, texts))
        ):
            raw = run.step.instruction.body.text
            if "ld.so.conf" in raw:
                location = SourceLocation(target.file, run.command.words[0].line, run.step.instruction.end_line)
                yield symptom_at(
                    location,
                    "The loader looks into the compatibility folder first",
                    "Leave it out: the container toolkit uses it where it is needed.",
                )


@rule("DKF912", _FAULT)
def gpu_at_build_time(target: BuildTarget) -> FileOutcome:
    """A step of the build uses a GPU.

    What it means: a build gives its steps neither a GPU nor a driver, whatever the machine has, unless the step asks
    for one (RUN --device, Dockerfile 1.27) and the builder allows it; the step fails, or decides on a machine without a
    GPU.
    How it is seen: nvidia-smi, or Python code that makes arrays of CuPy, in a RUN that is not allowed to fail; a
    warning where its output goes to another command, which may hide that it failed.
    What to do: move it to the program's start, or to a test that runs the image with --gpus.
    """
    # moby/buildkit, frontend/dockerfile/docs/reference.md, RUN --device (read 2026-11-21).
    for run in target.run_commands:
        if run.command.guarded or run.step.instruction.flag("device") is not None:
            continue
        what = _gpu_use(run.command.program, run.command.texts)
        if what is None and PYTHON.fullmatch(run.command.program):
            scripts = [heredoc.body.text for heredoc in run.step.instruction.heredocs]
            what = next((match[0] for text in scripts if (match := _GPU_CODE.search(text))), None)
        if what is not None:
            location = SourceLocation(target.file, run.command.words[0].line, run.step.instruction.end_line)
            yield symptom_at(
                location,
                f"{what} needs a GPU, and a build has none",
                "Do it when the container starts, or in a test with docker run --gpus all.",
                severity=Severity.WARNING if run.command.piped else Severity.ERROR,
            )


def _gpu_use(program: str, arguments: tuple[str, ...]) -> str | None:
    if program in _PROGRAMS:
        return program
    if program == "gpuenv" and arguments[:1] and arguments[0] in ("doctor", "smoke", "preflight"):
        return None if "--expect-no-gpu" in arguments else f"gpuenv {arguments[0]}"
    if PYTHON.fullmatch(program) and "-c" in arguments[:-1]:
        match = _GPU_CODE.search(arguments[arguments.index("-c") + 1])
        return match[0] if match else None
    return None


@rule("DKF913", _FAULT)
def variables_hide(target: BuildTarget) -> FileOutcome:
    """A variable hides the GPUs, or leaves out the driver's libraries.

    What it means: CUDA_VISIBLE_DEVICES in an image hides every GPU however it is started. NVIDIA_VISIBLE_DEVICES=void
    asks for none, and NVIDIA_DRIVER_CAPABILITIES without compute leaves libcuda out of the container.
    How it is seen: the ENV instructions of the stages that the image is made of.
    What to do: leave the first two out, and set the last to compute,utility.
    """
    for name, setting in target.environment.items():
        location = SourceLocation(target.file, setting.line, setting.end_line)
        evidence = Evidence(name, setting.value or "(empty)", target.file)
        if name == "CUDA_VISIBLE_DEVICES" and hides_all(setting.value):
            yield symptom_at(
                location, f"{name}={setting.value} hides every GPU", f"Leave {name} out of the image.", evidence
            )
        elif name == "NVIDIA_VISIBLE_DEVICES" and setting.value.strip() in ("", "void", "none"):
            yield symptom_at(
                location,
                f"{name}={setting.value} asks for no GPU, unless the container is started with --gpus",
                "Set it to all, or leave it out.",
                evidence,
                severity=Severity.WARNING,
            )
        elif name == "NVIDIA_DRIVER_CAPABILITIES" and "$" not in setting.value:
            fault = capabilities_fault(setting.value)
            if fault is not None:
                yield symptom_at(
                    location, f"{name} {fault[0]}", "Set it to compute,utility.", evidence, severity=fault[1]
                )


@rule("DKF914", _FAULT)
def no_wheel_for_base(target: BuildTarget) -> FileOutcome:
    """CuPy has no wheel for the C library or the Python of the base image.

    What it means: pip then takes the source distribution, or an older release in silence, or finds nothing.
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
                Evidence("base image", target.base.text, f"line {target.first.line}"),
            )
        yield from _python(target, install)
        yield from _no_release(target, install)


def _no_release(target: BuildTarget, install: Install) -> FileOutcome:
    line = wheel_line(install.name, target.matrix)
    if install.exact is None or line is None or release_of(target, install) is not None:
        return
    known = sorted({Version(row.cupy) for each in target.matrix.wheel_lines for row in each.releases})
    version = Version(install.exact)
    if line.releases and known[0] <= version <= known[-1] and not version.is_prerelease:
        newest = max((row.cupy for row in line.releases), key=Version)
        yield symptom_at(
            install.location,
            f"{install.name} has no release {install.exact}",
            f"Pin one that there is: {install.name}=={newest} is its newest.",
            Evidence("CuPy", install.text, install.location.file),
        )


def _python(target: BuildTarget, install: Install) -> FileOutcome:
    release, python = release_of(target, install), target.python
    if release is None or python is None or python.tag in release.pythons or install.exact is None:
        return
    yield symptom_at(
        install.location,
        f"{install.name} {release.cupy} has no wheel for Python {python}, which {target.base.text} has",
        f"Use a Python of {', '.join(map(_dotted, release.pythons))}, or another release.",
        Evidence("base image", target.base.text, f"line {target.first.line}"),
    )


def _dotted(tag: str) -> str:
    """``cp312`` as people write it, 3.12."""
    return re.sub(r"^cp(\d)", r"\1.", tag)


@rule("DKF915", _FAULT)
def no_such_base(target: BuildTarget) -> FileOutcome:
    """The base image's tag is none that nvidia/cuda has.

    What it means: tags of nvidia/cuda are X.Y.Z-FLAVOUR-DISTRIBUTION; one without flavour or distribution, or of a CUDA
    that was never released, does not exist, and the build fails.
    How it is seen: the tag against that pattern, and its CUDA against the releases that the matrix knows.
    What to do: name a tag that exists, such as 12.9.1-devel-ubuntu24.04.
    """
    base = target.base
    if not base.nvidia or base.name is None or base.name.tag in (None, "latest") or base.row is not None:
        return
    known = {row.cuda for row in target.matrix.cuda_minors}
    tag = base.name.tag or ""
    if base.cuda is not None and known and min(known) <= base.cuda <= max(known) and base.cuda not in known:
        yield symptom_at(from_place(target), f"There is no CUDA {base.cuda}", "Name a CUDA that was released.")
    elif not is_whole_tag(tag):
        yield symptom_at(
            from_place(target),
            f"nvidia/cuda has no tag {tag}: expected X.Y.Z-FLAVOUR-DISTRIBUTION",
            "Name a whole tag, such as 12.9.1-devel-ubuntu24.04.",
            severity=Severity.WARNING,
        )


@rule("DKF916", _FAULT)
def cuda_path_elsewhere(target: BuildTarget) -> FileOutcome:
    """CUDA_PATH or CUDA_HOME names another CUDA than the image has.

    What it means: CuPy looks for headers and libraries where CUDA_PATH points; a folder that is not there, or of
    another version, breaks the first kernel.
    How it is seen: a version in the variable's folder against the CUDA of the base image and its packages.
    What to do: leave the variable out, or let it name /usr/local/cuda.
    """
    has = cuda_sources(target)
    for name in ("CUDA_PATH", "CUDA_HOME"):
        setting = target.environment.get(name)
        match = re.search(r"/cuda-(\d{1,3})\.(\d{1,3})/?$", setting.value) if setting is not None else None
        if setting is None or match is None or has.cuda is None:
            continue
        if CudaVersion(int(match[1]), int(match[2])) != has.cuda:
            yield symptom_at(
                SourceLocation(target.file, setting.line, setting.end_line),
                f"{name} names {setting.value}, and the image has CUDA {has.cuda}",
                f"Leave {name} out, or set it to /usr/local/cuda.",
                Evidence("CUDA", str(has.cuda), has.cuda_source),
            )
