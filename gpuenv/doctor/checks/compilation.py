"""Run-time compilation: NVRTC, its builtins and the headers that it meets must go together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gpuenv.doctor.checks.fit import told_outside
from gpuenv.doctor.evidence import readings
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.installed import Installed, install_fix, installed, installed_cuda_major
from gpuenv.doctor.predicates import without_gpu
from gpuenv.doctor.registry import Facts, Outcome, RepairKind, Symptom, check
from gpuenv.matrix.candidates import left_out, minors_of, serving_minors
from gpuenv.matrix.products import reads_ptx
from gpuenv.matrix.records import CudaMinor
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.nvidia import cuda_wheel
from gpuenv.model.snapshot import Library, Toolkit
from gpuenv.model.text import pattern
from gpuenv.model.versions import CudaVersion

_LIBRARIES = ("LIB602", "LIB603", "LIB601")
_BUNDLED = "/cupy/_core/include/cupy/_cuda/"
# Those for 12.2 to 12.6 in the wheel of cupy-cuda12x 13.5.1 want vector_types.h of the runtime; those for 12.8 do not.
_WANTING = pattern(r"/_cuda/cuda-12\.[2-6]/?$")
_AS_PTX = "CUPY_COMPILE_WITH_PTX"
_MINOR = pattern(r"\.so\.(\d+\.\d+)")


@check("LIB604", Cause.NVRTC_BUILTINS_MISMATCH, requires=_LIBRARIES, repair=RepairKind.REINSTALL)
def builtins(facts: Facts) -> Outcome:
    """NVRTC does not find its builtins library, or finds that of another release.

    What it means: NVRTC is two files, libnvrtc.so and libnvrtc-builtins.so, and the second must be of the very release
    of the first. The wheels of some releases (13.0) do not say where it lies, and only cuda-pathfinder knows.
    Without it the first kernel that is compiled fails with NVRTC_ERROR_BUILTIN_OPERATION_FAILURE.
    How it is seen: NVRTC compiles an empty program in the target, for which no GPU is needed; then the file that is
    loaded is looked up.
    What to do: install NVRTC again, or take the release that the other CUDA libraries are of, and let
    LD_LIBRARY_PATH hold one CUDA release only.
    """
    nvrtc, found = _library(facts, "nvrtc"), _library(facts, "nvrtc-builtins")
    if nvrtc is None or nvrtc.path is None or found is None:
        return
    release = _MINOR.search(found.soname)
    if found.path is not None and (release is None or nvrtc.release in (None, release[1])):
        return
    said = found.error or f"{found.path} is not of NVRTC's release {nvrtc.release}"
    yield Symptom(
        f"NVRTC cannot use its builtins: {said}",
        (
            Evidence(nvrtc.soname, f"{nvrtc.release or 'unknown'} in {nvrtc.path}", "NVRTC itself"),
            Evidence(found.soname, found.path or "not found", "NVRTC's compilation of an empty program"),
            Evidence(
                "environment.LD_LIBRARY_PATH",
                facts.snapshot.environment.get("LD_LIBRARY_PATH") or "not set",
                "the environment",
            ),
        ),
        (_nvrtc_fix(facts, nvrtc),),
    )


def _nvrtc_fix(facts: Facts, nvrtc: Library) -> Fix:
    packages = facts.snapshot.target.packages
    wheels = [name for name in packages if re.fullmatch(r"nvidia-cuda-nvrtc(-cu\d\d)?", name)]
    if wheels and "/site-packages/" in (nvrtc.path or ""):
        requirements = [f"{name}=={packages[name]}" for name in wheels]
        return pip_fix(
            facts.snapshot, "Install NVRTC again.", "install", "--force-reinstall", "--no-deps", *requirements
        )
    return Fix("Let the loader find NVRTC and its builtins in one folder, that of one CUDA toolkit.")


@check("LIB605", Cause.CUDA_HEADERS_MISSING, Cause.CUDA_PATH_WRONG, requires=_LIBRARIES, repair=RepairKind.ADD)
def headers_missing(facts: Facts) -> Outcome:
    """The CUDA headers that run-time compilation needs are not found.

    What it means: CuPy compiles most of its kernels when they are first used, and they include CUDA's headers. CuPy 14
    brings none of them; CuPy 13.6 brings those of CUDA 11 and of 12.0 and 12.1. An image of the kind "runtime" has none
    either.
    How it is seen: CuPy's own code, and cuda-pathfinder, are asked in which folders they would be; then they are looked
    for there.
    What to do: let CUDA_PATH name the toolkit that is there, or install the wheel with the headers of the CUDA runtime,
    of NVRTC's minor release, or a whole toolkit.
    """
    target = facts.snapshot.target
    folders = target.headers.value
    if folders is None or target.headers_cuda.known:
        return
    if any(_BUNDLED in folder and not _WANTING.search(folder) for folder in folders):
        return
    searched = ", ".join(folders) or "no folder at all"
    unnamed = _unnamed_toolkit(facts)
    yield Symptom(
        f"CUDA's headers are not found: {searched} was searched"
        + (f", and the toolkit in {unnamed.path} was not" if unnamed else ""),
        readings(facts.snapshot, "target.headers", "target.cuda_path")
        + tuple(Evidence(f"environment.{name}", value, "the environment") for name, value in _variables(facts)),
        (*((_naming(unnamed),) if unnamed else ()), _headers_fix(facts)),
        cause=Cause.CUDA_PATH_WRONG if unnamed else None,
    )


def _unnamed_toolkit(facts: Facts) -> Toolkit | None:
    """A toolkit with headers, of CuPy's major, that no variable names: CuPy was not led to it."""
    if _variables(facts):
        return None
    major = installed_cuda_major(facts)
    kits = (kit for kit in facts.needs.toolkits if kit.has_headers and kit.toolkit.value)
    return next((kit for kit in kits if kit.toolkit.value and kit.toolkit.value.major == major), None)


def _naming(kit: Toolkit) -> Fix:
    words = ("env", f"CUDA_PATH={kit.path}", "python")
    return Fix("Let CUDA_PATH name the toolkit that is there, before Python starts.", words)


def _headers_fix(facts: Facts) -> Fix:
    major = installed_cuda_major(facts)
    nvrtc = _library(facts, "nvrtc")
    if major is None or nvrtc is None or nvrtc.release is None:
        return Fix("Install the headers of the CUDA runtime, of NVRTC's release, or a whole CUDA toolkit.")
    wanted = f"{cuda_wheel('cuda-runtime', major)}=={nvrtc.release}.*"
    return pip_fix(facts.snapshot, "Install the headers of NVRTC's release.", "install", wanted)


@check("LIB606", Cause.CUDA_PATH_WRONG, Cause.LIBRARY_PATH_CONFLICT, requires=(*_LIBRARIES, "LIB605"))
def headers_of_another_major(facts: Facts) -> Outcome:
    """The CUDA headers that are met first are of another major version than NVRTC.

    What it means: headers and compiler go together. Most headers of another minor release compile; those of another
    major need not: NVRTC 12.4 compiles the cuda_fp16.h of CUDA 13.0, and fails on its cuda_fp8.h.
    How it is seen: CUDART_VERSION in the header that is found first, against NVRTC's own word.
    What to do: let CUDA_PATH name a toolkit of NVRTC's major, or unset it, and take the other nvcc from PATH.
    """
    target, nvrtc = facts.snapshot.target, _library(facts, "nvrtc")
    headers = target.headers_cuda.value
    if headers is None or nvrtc is None or nvrtc.release is None:
        return
    if nvrtc.release.split(".")[0] == str(headers.major):
        yield from _of_conda_not_activated(facts, nvrtc)
        return
    variables = _variables(facts)
    yield Symptom(
        f"NVRTC is of CUDA {nvrtc.release}, and the CUDA headers that it meets first are of {headers}",
        readings(facts.snapshot, "target.headers_cuda")
        + (Evidence(nvrtc.soname, f"{nvrtc.release} in {nvrtc.path}", "NVRTC itself"),)
        + readings(facts.snapshot, "target.cuda_path")
        + tuple(Evidence(f"environment.{name}", value, "the environment") for name, value in variables),
        (Fix(f"Let CUDA_PATH name a toolkit of CUDA {nvrtc.release.split('.')[0]}: its headers are taken then."),),
        Severity.WARNING,
        cause=None if variables else Cause.LIBRARY_PATH_CONFLICT,
    )


def _of_conda_not_activated(facts: Facts, nvrtc: Library) -> Outcome:
    """Conda's own compiler, and the headers of the system: what activating sets has not been set."""
    target = facts.snapshot.target
    prefix = target.prefix.value
    folders = [folder for folder in target.headers.value or () if _BUNDLED not in folder]
    if target.kind.value != "conda" or prefix is None or not folders or str(target.headers_cuda.value) == nvrtc.release:
        return
    activated = facts.snapshot.environment.get("CONDA_PREFIX") == prefix
    if activated or not (nvrtc.path or "").startswith(f"{prefix}/") or folders[0].startswith(f"{prefix}/"):
        return
    yield Symptom(
        f"NVRTC {nvrtc.release} is conda's, and the CUDA headers that it meets first are the system's, "
        f"of {target.headers_cuda.value}: the environment is not activated",
        readings(facts.snapshot, "target.headers", "target.headers_cuda")
        + (
            Evidence(nvrtc.soname, f"{nvrtc.release} in {nvrtc.path}", "NVRTC itself"),
            Evidence(
                "environment.CONDA_PREFIX",
                facts.snapshot.environment.get("CONDA_PREFIX") or "not set",
                "the environment",
            ),
        ),
        (Fix("Activate the environment before Python starts.", ("conda", "run", f"--prefix={prefix}", "python")),),
        Severity.WARNING,
        cause=Cause.LIBRARY_PATH_CONFLICT,
    )


@check(
    "LIB610",
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.CUPY_TOO_OLD_FOR_GPU,
    requires=("LIB602", "LIB603", "WHL505"),
    repair=RepairKind.REPLACE_WITH_LIBRARIES,
    compares_with_gpu=True,
)
def nvrtc_outside_gpu(facts: Facts) -> Outcome:
    """The NVRTC that is loaded makes no code for this GPU, although another one of its major version would.

    What it means: a wheel line takes any NVRTC of its CUDA major, and what is installed decides which one it gets. An
    older minor release does not know a newer GPU: CUDA 12.4 knows no Blackwell, CUDA 12.8 does. import cupy succeeds,
    and the first kernel fails with "invalid value for --gpu-architecture", or finds no code for the device.
    How it is seen: NVRTC's own word on its release, and what that release compiles for, as measured.
    What to do: install an NVRTC that knows the GPU, or the CuPy that brings one along.
    """
    there, nvrtc = installed(facts), _library(facts, "nvrtc")
    if there is None or nvrtc is None or nvrtc.path is None or nvrtc.release is None or without_gpu(facts.snapshot):
        return
    row = next((row for row in minors_of(there.wheel, facts.matrix) if str(row.cuda) == nvrtc.release), None)
    gpus = left_out(there.wheel, facts.needs, row, facts.matrix) if row else ()
    if row is not None and _is_one(facts.snapshot.environment.get(_AS_PTX, "")):
        # PTX of the newest that NVRTC knows is compiled by the driver for GPUs that are newer still.
        oldest = min(row.capabilities)
        gpus = tuple(gpu for gpu in gpus if gpu.compute_capability and gpu.compute_capability < oldest)
    if row is None or not gpus:
        return
    cause, what = told_outside(set(row.capabilities), gpus, f"NVRTC {row.cuda}", there)
    yield Symptom(
        f"{what} this GPU: {', '.join(dict.fromkeys(gpu.label for gpu in gpus))}",
        tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in gpus)
        + (
            Evidence(nvrtc.soname, f"{nvrtc.release} in {nvrtc.path}", "NVRTC itself"),
            Evidence("compiled for", ", ".join(map(str, sorted(row.capabilities))), facts.matrix.cite(row.source)),
        ),
        tuple(_to_another_nvrtc(facts, there, nvrtc)),
        cause=cause,
    )


def _to_another_nvrtc(facts: Facts, there: Installed, nvrtc: Library) -> Iterator[Fix]:
    """To the one that is there and found too late; by a CuPy that brings one; or by a toolkit."""
    serving = serving_minors(there.wheel, facts.needs, facts.matrix)
    first = (nvrtc.path or "").rpartition("/")[0]
    led = first in facts.snapshot.environment.get("LD_LIBRARY_PATH", "").split(":")
    known = {row.cuda for row in serving}
    fitting = [kit for kit in facts.snapshot.toolkits if kit.has_nvrtc and kit.toolkit.value in known]
    instead = led and bool(fitting)
    if instead:
        yield Fix(f"Take {first} out of LD_LIBRARY_PATH: the toolkit in {fitting[0].path} knows the GPU.")
    wheel = facts.resolution.wheel
    same = wheel and (wheel.distribution, wheel.version) == (there.cupy.distribution, there.cupy.release)
    if wheel is not None and (wheel.extra or not same):  # the very same would find the same NVRTC
        brought = install_fix(facts, f"{'Or install' if instead else 'Install'} the CuPy that brings such an NVRTC.")
        instead = instead or bool(brought)
        yield from brought
    yield from _newer_nvrtc(serving, "Or install" if instead else "Install")


def _newer_nvrtc(serving: Sequence[CudaMinor], words: str) -> tuple[Fix, ...]:
    if not serving:
        return ()
    versions = sorted(row.cuda for row in serving)
    named = f"{versions[0]} to {versions[-1]}" if len(versions) > 1 else str(versions[0])
    return (Fix(f"{words} a toolkit of CUDA {named}, and let CUDA_PATH and the loader find it first."),)


@check("LIB612", Cause.NVRTC_OUTPUT_INVALID, requires=("LIB602", "LIB603", "WHL504"), compares_with_gpu=True)
def ptx_newer_than_driver(facts: Facts) -> Outcome:
    """CuPy is told to hand PTX to a driver that is older than the NVRTC that writes it.

    What it means: CuPy has NVRTC make finished code for the GPU, which any driver of the major version runs. With
    CUPY_COMPILE_WITH_PTX=1 it takes PTX instead, and a driver reads that of its own CUDA or older only (NVRTC, section
    Versioning; cupy/cuda/compiler.py). Kernels then fail with CUDA_ERROR_UNSUPPORTED_PTX_VERSION.
    How it is seen: the variable, NVRTC's own word on its release, and the CUDA level of the driver.
    What to do: unset the variable, or take a driver as new as NVRTC.
    """
    nvrtc, level = _library(facts, "nvrtc"), facts.needs.driver_cuda
    told = facts.snapshot.environment.get(_AS_PTX, "")
    if not _is_one(told) or nvrtc is None or nvrtc.release is None or level is None:
        return
    if reads_ptx(level, CudaVersion.parse(nvrtc.release)):
        return
    yield Symptom(
        f"NVRTC {nvrtc.release} writes PTX, and the driver reads that of CUDA {level} at most",
        (
            Evidence(f"environment.{_AS_PTX}", told, "the environment"),
            Evidence(nvrtc.soname, f"{nvrtc.release} in {nvrtc.path}", "NVRTC itself"),
            *readings(facts.snapshot, "driver.cuda"),
        ),
        (Fix("Unset CUPY_COMPILE_WITH_PTX."), Fix(f"Or update the driver to one of CUDA {nvrtc.release} or newer.")),
    )


def _is_one(told: str) -> bool:
    """How CuPy reads its switches."""
    try:
        return int(told) == 1
    except ValueError:
        return False


def _variables(facts: Facts) -> list[tuple[str, str]]:
    environment = facts.snapshot.environment
    return [(name, environment[name]) for name in ("CUDA_PATH", "CUDA_HOME") if name in environment]


def _library(facts: Facts, name: str) -> Library | None:
    return next((entry for entry in facts.snapshot.target.libraries if entry.name == name), None)
