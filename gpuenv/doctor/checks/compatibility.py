"""Checks whether the installed CuPy fits the driver, the GPUs, the interpreter and NumPy."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from packaging.requirements import InvalidRequirement, Requirement

from gpuenv.doctor.checks.installation import ONE_CUPY
from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.distributions import driver_location, driver_update_fixes
from gpuenv.doctor.fixes.packages import conda_prefix_option, exclude_numpy_fixes, install_fixes, pip_fix
from gpuenv.doctor.fixes.variables import select_fixes
from gpuenv.doctor.installed_cupy import InstalledCupy, installed_cupy, is_managed_by_conda, unknown_cupy_reason
from gpuenv.doctor.predicates import expects_compat_libcuda, is_container_without_gpu
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, RepairKind, Symptom, check
from gpuenv.matrix.candidates import minors_of, serves
from gpuenv.matrix.constraints import (
    Rejected,
    Unknown,
    driver_minimum,
    libc,
    nvrtc_compiles_for_gpu,
    platform,
    python,
    wheel_has_code_for_gpu,
)
from gpuenv.matrix.needs import NeededGpu
from gpuenv.matrix.products import OF_OLD, newest_of_old, outside
from gpuenv.matrix.ranges import in_range
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import conda_record, cuda_minor, is_rocm
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.gpus import driver_sees_gpu
from gpuenv.model.snapshot import SourceState
from gpuenv.model.strings import pattern
from gpuenv.model.versions import ComputeCapability

_NUMPY = pattern(r"numpy\b(?!-)")


@check("WHL509", Cause.ROCM_MISMATCH, requires=ONE_CUPY, repair=RepairKind.REPLACE)
def rocm_build(ctx: CheckContext) -> Outcome:
    """The installed CuPy is built for AMD GPUs, but this machine has an NVIDIA GPU.

    What it means: the lines cupy-rocm-* run on ROCm; they cannot use an NVIDIA GPU.
    How it is seen: the name of the installed distribution, and a GPU that NVIDIA's driver lists.
    What to do: remove it and install the wheel line of CUDA that fits.
    """
    found = [entry for entry in ctx.snapshot.target.cupy if is_rocm(entry.distribution)]
    if not found or not driver_sees_gpu(ctx.snapshot):
        return
    yield Symptom(
        f"{found[0].distribution} is built for AMD GPUs, but the GPU here is NVIDIA's",
        (Evidence("target.cupy", found[0].label, "its metadata"),)
        + tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in ctx.needs.gpus),
        install_fixes(ctx, "Install the wheel that fits."),
    )


@check(
    "WHL504",
    Cause.DRIVER_TOO_OLD_FOR_CUDA,
    requires=(*ONE_CUPY, "WHL508", "WHL509"),
    repair=RepairKind.REPLACE,
    compares_with_gpu=True,
    decisive=True,
)
def driver_too_old(ctx: CheckContext) -> Outcome:
    """The driver is older than the installed CuPy's CUDA needs.

    What it means: a wheel of CUDA 12 needs a driver of CUDA 12, and one of CUDA 13 a driver of CUDA 13. Within a major
    version, an older driver is sufficient.
    How it is seen: the installed wheel line, the driver's version and CUDA level, and the oldest driver of that major.
    What to do: install the wheel line that this driver supports, or update the driver.
    """
    installed = installed_cupy(ctx)
    if installed is None:
        yield NotKnown(unknown_cupy_reason(ctx))
        return
    if ctx.needs.driver_absent or expects_compat_libcuda(ctx.snapshot):
        return
    outside_cuda = isinstance(nvrtc_compiles_for_gpu(installed.wheel, ctx.needs, ctx.matrix), Rejected)
    if outside_cuda and not is_container_without_gpu(ctx.snapshot):
        return  # this CUDA major does not support a GPU here, whatever the driver; WHL505 reports that
    verdict = driver_minimum(installed.wheel, ctx.needs, ctx.matrix)
    if not isinstance(verdict, Rejected):
        return
    change = verdict.change
    is_libcuda = change is not None and change.fact == "driver.cuda"  # the driver itself is new enough
    which, newer = "libcuda in use" if is_libcuda else "driver", tuple[Fix, ...]()
    if is_libcuda:
        newer = (Fix("Or let programs load the driver's own libcuda, not one of an older release."),)
    elif change is not None:  # such a driver exists, up to the last branch that drives every GPU here
        plain = (Fix(f"Or update the driver{driver_location(ctx.snapshot)}: {change.needed}."),)
        newer = driver_update_fixes(ctx, change.needed) or plain
    wheel = ctx.resolution.wheel
    # In WSL the driver is Windows' own and easily updated, while a missing toolkit would have to be installed first.
    needed = (wheel.needs_toolkit if wheel else None) or ""
    lacks_toolkit = bool(needed) and not any(f" {kit.path} fits" in needed for kit in ctx.snapshot.toolkits)
    driver_first = bool(ctx.snapshot.host.wsl.value and newer and lacks_toolkit)
    by_driver = tuple(fix._replace(text=fix.text.replace("Or update", "Update")) for fix in newer)
    text = f"{'Or install' if driver_first else 'Install'} the wheel that this driver supports."
    yield Symptom(
        f"The {which} is too old for {installed.cupy.distribution}: needs {verdict.needed}, found {verdict.found}",
        evidence_of(ctx.snapshot, "driver.version", "driver.cuda") + _installed_and_needed(installed, verdict),
        (
            *_conda_toolkit_fixes(ctx),
            *(by_driver if driver_first else ()),
            *install_fixes(ctx, text),
            *(() if driver_first else newer),
        ),
    )


def _conda_toolkit_fixes(ctx: CheckContext) -> tuple[Fix, ...]:
    """Fixes for conda builds before cuda-version: conda's solver takes the newest cudatoolkit, whatever the driver."""
    level, target = ctx.needs.driver_cuda, ctx.snapshot.target
    if level is None or "cudatoolkit" not in target.conda_packages or not is_managed_by_conda(target):
        return ()
    text = f"Install the CUDA that this driver supports: cudatoolkit={level}."
    return (Fix(text, ("conda", "install", *conda_prefix_option(target), f"cudatoolkit={level}")),)


@check(
    "WHL505",
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    Cause.CUPY_TOO_OLD_FOR_GPU,
    requires=(*ONE_CUPY, "WHL504", "WHL509"),
    repair=RepairKind.REPLACE,
    compares_with_gpu=True,
    decisive=True,
)
def gpu_outside_toolkit(ctx: CheckContext) -> Outcome:
    """The installed CuPy cannot make code for this GPU.

    What it means: CuPy compiles its kernels with NVRTC of its own CUDA major, which supports a set of GPUs. Older ones
    were removed, newer ones are not included yet. import cupy and even creating an array succeed; the first kernel
    fails.
    How it is seen: the GPU's compute capability is compared with what NVRTC of that major compiles for, as measured,
    what this CuPy requests from it, and the code in the wheel.
    What to do: install the wheel line or release that supports the GPU.
    """
    installed = installed_cupy(ctx)
    if installed is None:
        yield from _old_line(ctx)
        return
    if is_container_without_gpu(ctx.snapshot):
        return
    # The code in a wheel is known only for exactly this release.
    judges = (nvrtc_compiles_for_gpu, wheel_has_code_for_gpu) if installed.exact else (nvrtc_compiles_for_gpu,)
    verdicts = [judge(installed.wheel, ctx.needs, ctx.matrix) for judge in judges]
    for verdict in verdicts:
        if isinstance(verdict, Rejected):
            known = {capability for row in minors_of(installed.wheel, ctx.matrix) for capability in row.capabilities}
            cause, what = outside_text(known, ctx.needs.gpus, f"CUDA {installed.wheel.line.cuda_major}", installed)
            yield Symptom(
                f"{what} this GPU: {verdict.found}",
                tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in ctx.needs.gpus)
                + _installed_and_needed(installed, verdict),
                (
                    *install_fixes(ctx, "Install the wheel that supports every GPU here."),
                    *_other_gpu_fixes(installed, ctx),
                ),
                cause=cause,
            )
            return
    if ctx.needs.gpus and all(gpu.compute_capability is None for gpu in ctx.needs.gpus):
        yield NotKnown("the GPU's compute capability is unknown")


def _old_line(ctx: CheckContext) -> Outcome:
    """A line of a CUDA older than those measured; whether its CuPy supports a newer GPU is unknown."""
    cupy = next(iter(ctx.snapshot.target.cupy), None)
    cuda = cuda_minor(cupy.distribution) if cupy else None
    newest = newest_of_old(cuda) if cuda else None
    newer = [g for g in ctx.needs.gpus if g.compute_capability and newest and g.compute_capability.major > newest]
    if cupy is None or not newer or is_container_without_gpu(ctx.snapshot):
        yield NotKnown(unknown_cupy_reason(ctx))
        return
    yield Symptom(
        f"CUDA {cuda} is older than this GPU: {', '.join(dict.fromkeys(gpu.label for gpu in newer))}",
        tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in newer)
        + (
            Evidence("target.cupy", cupy.label, "its metadata"),
            Evidence("compiles for", f"compute capability {newest}.x at most", OF_OLD),
        ),
        install_fixes(ctx, "Install the wheel that supports every GPU here.")
        or (Fix("Install the CuPy of a newer CUDA, and the driver that it needs."),),
        Severity.WARNING,
        Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    )


def _other_gpu_fixes(installed: InstalledCupy, ctx: CheckContext) -> tuple[Fix, ...]:
    """A fix that selects the other GPUs, which this CuPy supports."""
    gpus = [(gpu, gpu.compute_capability.value) for gpu in ctx.snapshot.gpus if gpu.index.known]
    supported = [gpu for gpu, capability in gpus if capability and serves(installed.wheel, capability, ctx.matrix)]
    if not supported:
        return ()
    names = ", ".join(dict.fromkeys(str(gpu.name.value or f"GPU {gpu.index.value}") for gpu in supported))
    return select_fixes(ctx.snapshot, supported, f"Or use only the GPUs that it supports: {names}.")


def outside_text(
    compiled_for: Collection[ComputeCapability], gpus: Iterable[NeededGpu], cuda: str, installed: InstalledCupy
) -> tuple[Cause, str]:
    """Why a CUDA and the installed CuPy make no code for GPUs, as a cause and as the beginning of a sentence."""
    cause = outside(compiled_for, [gpu.compute_capability for gpu in gpus if gpu.compute_capability])
    texts = {
        Cause.GPU_REMOVED_FROM_TOOLKIT: f"{cuda} no longer supports",
        Cause.GPU_TOO_NEW_FOR_TOOLKIT: f"{cuda} does not yet support",
        Cause.CUPY_TOO_OLD_FOR_GPU: f"CuPy {installed.cupy.release} does not support",
    }
    return cause, texts[cause]


def _installed_and_needed(installed: InstalledCupy, verdict: Rejected) -> tuple[Evidence, ...]:
    return (
        Evidence("target.cupy", installed.cupy.label, "its metadata"),
        Evidence("needed", verdict.needed, verdict.source),
    )


@check(
    "WHL507",
    Cause.PYTHON_UNSUPPORTED,
    Cause.PLATFORM_WHEEL_MISSING,
    requires=ONE_CUPY,
    repair=RepairKind.REPLACE,
    decisive_if_assumed=True,
)
def wheel_of_other_interpreter(ctx: CheckContext) -> Outcome:
    """The installed CuPy has no wheel for this Python or platform.

    What it means: the installed files were built for another Python, C library or architecture, left by an upgrade or
    found in a shared folder on the path, so import cupy fails.
    How it is seen: the target's Python, C library and architecture are compared with the tags of the release's wheels.
    What to do: reinstall CuPy in this environment, in a release that has a wheel for it.
    """
    installed = installed_cupy(ctx)
    if installed is None or not installed.exact:
        yield NotKnown(unknown_cupy_reason(ctx))
        return
    verdicts = [(judge, judge(installed.wheel, ctx.needs, ctx.matrix)) for judge in (platform, libc, python)]
    for judge, verdict in verdicts:
        if isinstance(verdict, Rejected):
            yield Symptom(
                f"{installed.cupy.label} is not built for {verdict.found}: needs {verdict.needed}",
                evidence_of(ctx.snapshot, "target.python", "host.libc") + _installed_and_needed(installed, verdict),
                (
                    *install_fixes(ctx, "Install the release that fits."),
                    Fix(f"Or use an environment with {verdict.needed}."),
                ),
                cause=Cause.PYTHON_UNSUPPORTED if judge is python else Cause.PLATFORM_WHEEL_MISSING,
            )
            return
    unknown = [verdict.fact for _, verdict in verdicts if isinstance(verdict, Unknown)]
    if unknown:
        yield NotKnown(f"{', '.join(unknown)}: unknown, but the wheel must be built for it")


@check(
    "WHL506",
    Cause.NUMPY_INCOMPATIBLE,
    requires=(*ONE_CUPY, "WHL507"),  # the CuPy for another Python decides which NumPy fits
    repair=RepairKind.REPLACE,
    decisive_if_assumed=True,
)
def numpy_outside_range(ctx: CheckContext) -> Outcome:
    """The installed NumPy does not fit this CuPy, or NumPy is missing.

    What it means: CuPy is compiled for a range of NumPy; outside it, import cupy fails or warns.
    How it is seen: NumPy's version is compared with the range in CuPy's metadata, as measured or as installed; for
    conda's build, with the range in its recipe.
    What to do: install a NumPy of that range, or the CuPy that fits the NumPy.
    """
    installed = installed_cupy(ctx)
    needed, cited = _numpy_of(installed, ctx)
    if needed is None:
        yield NotKnown(unknown_cupy_reason(ctx))
        return
    numpy, label = ctx.snapshot.target.numpy, ctx.snapshot.target.cupy[0].label
    is_assumed = "target.packages.numpy" in ctx.snapshot.assumed
    if numpy.value is None and not is_assumed and ctx.snapshot.source("target").state is not SourceState.ANSWERED:
        yield NotKnown("the target was not probed")
        return
    fits = in_range(numpy.value, needed) if numpy.value is not None else False
    if fits is None:
        yield NotKnown(f"{numpy.value} is not a version")
    if fits is not False:
        return
    wheel = ctx.resolution.wheel
    keeps_cupy = wheel is None or any(entry.release == wheel.version for entry in ctx.snapshot.target.cupy)
    text = f"{'Install' if keeps_cupy else 'Or install'} a NumPy that fits."
    other_numpy = pip_fix(ctx.snapshot, text, "install", f"numpy{needed}")
    other_cupy = () if keeps_cupy else install_fixes(ctx, "Install the CuPy that fits this NumPy.")
    yield Symptom(
        f"{label} needs NumPy {needed}, found {numpy.value or 'none'}",
        evidence_of(ctx.snapshot, "target.numpy") + (Evidence("needed", f"NumPy {needed}", cited),),
        (*exclude_numpy_fixes(ctx.snapshot), *other_cupy, other_numpy),
    )


def _numpy_of(installed: InstalledCupy | None, ctx: CheckContext) -> tuple[str | None, str]:
    """The NumPy range of a CuPy and its source: the matrix, the wheel's own metadata, or conda's recipe."""
    if installed is not None and installed.exact:
        return installed.wheel.release.numpy, ctx.matrix.cite(installed.wheel.release.source)
    cupy = next(iter(ctx.snapshot.target.cupy), None)
    if cupy is not None and conda_record(cupy.distribution, ctx.snapshot.target.conda_packages):
        # Conda's solver uses the recipe of its build, not the metadata within the build.
        rows = [build for build in ctx.matrix.conda_builds if build.cupy == cupy.release]
        same = len({row.numpy for row in rows}) == 1
        return (rows[0].numpy, ctx.matrix.cite(rows[0].source)) if same else (None, "")
    line = next((text for text in (cupy.requires if cupy else ()) if _NUMPY.match(text)), None)
    if line is None:
        return None, ""
    try:
        return str(Requirement(line).specifier) or None, "its own metadata"
    except InvalidRequirement:
        return None, ""
