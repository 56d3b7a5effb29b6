"""Does the installed CuPy fit the driver, the GPUs, the interpreter and NumPy?"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuenv.doctor.checks.installation import ONE_CUPY
from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.distributions import driver_location
from gpuenv.doctor.fixes.gpus import showing
from gpuenv.doctor.fixes.packages import condas_prefix, install_fix, numpy_out_of_the_way, pip_fix
from gpuenv.doctor.installed import Installed, installed, is_condas, why_not_known
from gpuenv.doctor.predicates import newer_libcuda_to_come, without_gpu
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
    """The installed CuPy is built for AMD GPUs, and this machine has an NVIDIA GPU.

    What it means: the lines cupy-rocm-* run on ROCm; they cannot use an NVIDIA GPU.
    How it is seen: the name of the installed distribution, and a GPU that NVIDIA's driver shows.
    What to do: remove it and install the wheel line of CUDA that fits.
    """
    found = [entry for entry in ctx.snapshot.target.cupy if is_rocm(entry.distribution)]
    if not found or not driver_sees_gpu(ctx.snapshot):
        return
    yield Symptom(
        f"{found[0].distribution} is built for AMD GPUs, but the GPU here is NVIDIA's",
        (Evidence("target.cupy", found[0].label, "its metadata"),)
        + tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in ctx.needs.gpus),
        install_fix(ctx, "Install the wheel that fits."),
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
    version, an older driver will do.
    How it is seen: the installed wheel line, the driver's version and CUDA level, and the oldest driver of that major.
    What to do: install the wheel line that this driver runs, or update the driver.
    """
    there = installed(ctx)
    if there is None:
        yield NotKnown(why_not_known(ctx))
        return
    if ctx.needs.driver_absent or newer_libcuda_to_come(ctx.snapshot):
        return
    outside_cuda = isinstance(nvrtc_compiles_for_gpu(there.wheel, ctx.needs, ctx.matrix), Rejected)
    if outside_cuda and not without_gpu(ctx.snapshot):
        return  # this CUDA major cannot compile for a GPU here, whatever the driver; WHL505 reports that
    verdict = driver_minimum(there.wheel, ctx.needs, ctx.matrix)
    if not isinstance(verdict, Rejected):
        return
    change = verdict.change
    of_libcuda = change is not None and change.fact == "driver.cuda"  # the driver itself would do
    which, newer = "libcuda in use" if of_libcuda else "driver", tuple[Fix, ...]()
    if of_libcuda:
        newer = (Fix("Or let programs load the driver's own libcuda, and none of an older release before it."),)
    elif change is not None:  # there is such a driver, up to the last branch that drives every GPU here
        newer = (Fix(f"Or update the driver{driver_location(ctx.snapshot)}: {change.needed}."),)
    yield Symptom(
        f"The {which} is too old for {there.cupy.distribution}: needs {verdict.needed}, found {verdict.found}",
        evidence_of(ctx.snapshot, "driver.version", "driver.cuda") + _installed_and_needed(there, verdict),
        (
            *_older_toolkit(ctx),
            *install_fix(ctx, "Install the wheel that this driver runs."),
            *newer,
        ),
    )


def _older_toolkit(ctx: CheckContext) -> tuple[Fix, ...]:
    """What conda's builds went by before there was cuda-version; its solver takes the newest, whatever the driver."""
    level, target = ctx.needs.driver_cuda, ctx.snapshot.target
    if level is None or "cudatoolkit" not in target.conda_packages or not is_condas(target):
        return ()
    said = f"Let conda take the CUDA that this driver runs: cudatoolkit={level}."
    return (Fix(said, ("conda", "install", *condas_prefix(target), f"cudatoolkit={level}")),)


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

    What it means: CuPy compiles its kernels with NVRTC of its own CUDA major, which knows a set of GPUs. Older ones
    were removed, newer ones are not in it yet. import cupy and even creating an array succeed; the first kernel fails.
    How it is seen: the GPU's compute capability against what NVRTC of that major compiles for, as measured, what this
    CuPy asks it for, and the code in the wheel.
    What to do: install the wheel line or release that knows the GPU.
    """
    there = installed(ctx)
    if there is None:
        yield from _of_an_old_line(ctx)
        return
    if without_gpu(ctx.snapshot):
        return
    # The code in a wheel is known of the very release only.
    judges = (nvrtc_compiles_for_gpu, wheel_has_code_for_gpu) if there.exact else (nvrtc_compiles_for_gpu,)
    verdicts = [judge(there.wheel, ctx.needs, ctx.matrix) for judge in judges]
    for verdict in verdicts:
        if isinstance(verdict, Rejected):
            known = {capability for row in minors_of(there.wheel, ctx.matrix) for capability in row.capabilities}
            cause, what = told_outside(known, ctx.needs.gpus, f"CUDA {there.wheel.line.cuda_major}", there)
            yield Symptom(
                f"{what} this GPU: {verdict.found}",
                tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in ctx.needs.gpus)
                + _installed_and_needed(there, verdict),
                (*install_fix(ctx, "Install the wheel that knows every GPU here."), *_others(there, ctx)),
                cause=cause,
            )
            return
    if ctx.needs.gpus and all(gpu.compute_capability is None for gpu in ctx.needs.gpus):
        yield NotKnown("the GPU's compute capability is not known")


def _of_an_old_line(ctx: CheckContext) -> Outcome:
    """A line of a CUDA before those that were measured; what CuPy of its time makes of a newer GPU is not known."""
    cupy = next(iter(ctx.snapshot.target.cupy), None)
    cuda = cuda_minor(cupy.distribution) if cupy else None
    newest = newest_of_old(cuda) if cuda else None
    newer = [g for g in ctx.needs.gpus if g.compute_capability and newest and g.compute_capability.major > newest]
    if cupy is None or not newer or without_gpu(ctx.snapshot):
        yield NotKnown(why_not_known(ctx))
        return
    yield Symptom(
        f"CUDA {cuda} is older than this GPU: {', '.join(dict.fromkeys(gpu.label for gpu in newer))}",
        tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in newer)
        + (
            Evidence("target.cupy", cupy.label, "its metadata"),
            Evidence("compiles for", f"compute capability {newest}.x at most", OF_OLD),
        ),
        install_fix(ctx, "Install the wheel that knows every GPU here.")
        or (Fix("Install the CuPy of a newer CUDA, and the driver that it needs."),),
        Severity.WARNING,
        Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    )


def _others(there: Installed, ctx: CheckContext) -> tuple[Fix, ...]:
    """The other GPUs, which this CuPy does serve."""
    seen = [(gpu, gpu.compute_capability.value) for gpu in ctx.snapshot.gpus if gpu.index.known]
    served = [gpu for gpu, capability in seen if capability and serves(there.wheel, capability, ctx.matrix)]
    if not served:
        return ()
    names = ", ".join(dict.fromkeys(str(gpu.name.value or f"GPU {gpu.index.value}") for gpu in served))
    variables = showing(served, ctx.snapshot.gpus)
    return (Fix(f"Or keep to what it knows: {names}.", ("env", *variables, "python")),) if variables else ()


def told_outside(
    compiled_for: Collection[ComputeCapability], gpus: Iterable[NeededGpu], cuda: str, there: Installed
) -> tuple[Cause, str]:
    """Why GPUs are outside of what a CUDA and the installed CuPy make code for, as a cause and in words."""
    cause = outside(compiled_for, [gpu.compute_capability for gpu in gpus if gpu.compute_capability])
    words = {
        Cause.GPU_REMOVED_FROM_TOOLKIT: f"{cuda} no longer supports",
        Cause.GPU_TOO_NEW_FOR_TOOLKIT: f"{cuda} does not know",
        Cause.CUPY_TOO_OLD_FOR_GPU: f"CuPy {there.cupy.release} does not know",
    }
    return cause, words[cause]


def _installed_and_needed(there: Installed, verdict: Rejected) -> tuple[Evidence, ...]:
    return (
        Evidence("target.cupy", there.label, "its metadata"),
        Evidence("needed", verdict.needed, verdict.source),
    )


@check("WHL506", Cause.NUMPY_INCOMPATIBLE, requires=ONE_CUPY, repair=RepairKind.REPLACE, decisive_if_assumed=True)
def numpy_outside_range(ctx: CheckContext) -> Outcome:
    """The NumPy there does not fit this CuPy, or there is none.

    What it means: CuPy is compiled against a range of NumPy; outside it, import cupy fails or warns.
    How it is seen: NumPy's version against the range in CuPy's metadata, as measured or as it is installed; of
    conda's build, against the range in its recipe.
    What to do: install a NumPy of that range, or the CuPy that fits the NumPy.
    """
    there = installed(ctx)
    wanted, cited = _numpy_of(there, ctx)
    if wanted is None:
        yield NotKnown(why_not_known(ctx))
        return
    numpy, label = ctx.snapshot.target.numpy, ctx.snapshot.target.cupy[0].label
    told = "target.packages.numpy" in ctx.snapshot.assumed
    if numpy.value is None and not told and ctx.snapshot.source("target").state is not SourceState.ANSWERED:
        yield NotKnown("the target was not asked")
        return
    fits = in_range(numpy.value, wanted) if numpy.value is not None else False
    if fits is None:
        yield NotKnown(f"{numpy.value} is no version")
    if fits is not False:
        return
    yield Symptom(
        f"{label} needs NumPy {wanted}, found {numpy.value or 'none'}",
        evidence_of(ctx.snapshot, "target.numpy") + (Evidence("needed", f"NumPy {wanted}", cited),),
        (
            *numpy_out_of_the_way(ctx.snapshot),
            pip_fix(ctx.snapshot, "Install a NumPy that fits.", "install", f"numpy{wanted}"),
            *(install_fix(ctx, "Or install the CuPy that fits this NumPy.") if numpy.known else ()),
        ),
    )


def _numpy_of(there: Installed | None, ctx: CheckContext) -> tuple[str | None, str]:
    """The NumPy range of a CuPy and its source: the matrix, the wheel's own metadata, or conda's recipe."""
    if there is not None and there.exact:
        return there.wheel.release.numpy, ctx.matrix.cite(there.wheel.release.source)
    cupy = next(iter(ctx.snapshot.target.cupy), None)
    if cupy is not None and conda_record(cupy.distribution, ctx.snapshot.target.conda_packages):
        # Conda's solver went by the recipe of its build, and not by the metadata within the build.
        rows = [build for build in ctx.matrix.conda_builds if build.cupy == cupy.release]
        same = len({row.numpy for row in rows}) == 1
        return (rows[0].numpy, ctx.matrix.cite(rows[0].source)) if same else (None, "")
    words = next((text for text in (cupy.requires if cupy else ()) if _NUMPY.match(text)), None)
    if words is None:
        return None, ""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - 8 ms, and few are not measured

    try:
        return str(Requirement(words).specifier) or None, "its own metadata"
    except InvalidRequirement:
        return None, ""


@check(
    "WHL507",
    Cause.PYTHON_UNSUPPORTED,
    Cause.PLATFORM_WHEEL_MISSING,
    requires=ONE_CUPY,
    repair=RepairKind.REPLACE,
    decisive_if_assumed=True,
)
def wheel_of_other_interpreter(ctx: CheckContext) -> Outcome:
    """The installed CuPy has no wheel for this Python or this platform.

    What it means: the files there were built for another Python, C library or architecture, left behind by an upgrade
    or by a shared folder on the path, so import cupy fails.
    How it is seen: the target's Python, C library and architecture against the tags of the release's wheels.
    What to do: install CuPy again in this environment, in a release that has a wheel for it.
    """
    there = installed(ctx)
    if there is None or not there.exact:
        yield NotKnown(why_not_known(ctx))
        return
    verdicts = [(judge, judge(there.wheel, ctx.needs, ctx.matrix)) for judge in (platform, libc, python)]
    for judge, verdict in verdicts:
        if isinstance(verdict, Rejected):
            yield Symptom(
                f"{there.label} is not built for {verdict.found}: needs {verdict.needed}",
                evidence_of(ctx.snapshot, "target.python", "host.libc") + _installed_and_needed(there, verdict),
                (
                    *install_fix(ctx, "Install the release that fits."),
                    Fix(f"Or use an environment with {verdict.needed}."),
                ),
                cause=Cause.PYTHON_UNSUPPORTED if judge is python else Cause.PLATFORM_WHEEL_MISSING,
            )
            return
    open_facts = [verdict.fact for _, verdict in verdicts if isinstance(verdict, Unknown)]
    if open_facts:
        yield NotKnown(f"{', '.join(open_facts)}: not told, and the wheel has to be built for it")
