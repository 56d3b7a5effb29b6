"""Does the installed CuPy fit the driver, the GPUs, the interpreter and NumPy?"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.installed import ONE_CUPY, Installed, install_fix, installed, pip_fix, why_not_known
from gpuenv.doctor.machine import driver_sees_gpu, newer_libcuda_to_come, without_gpu
from gpuenv.doctor.registry import Facts, NotKnown, Outcome, Symptom, check
from gpuenv.doctor.remedies import whose
from gpuenv.matrix.candidates import minors_of
from gpuenv.matrix.constraints import driver_minimum, nvrtc_compiles_for_gpu, wheel_has_code_for_gpu
from gpuenv.matrix.installable import Rejected, in_range, libc, platform, python
from gpuenv.matrix.needs import NeededGpu
from gpuenv.matrix.support import outside
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.lines import is_rocm
from gpuenv.model.snapshot import SourceState
from gpuenv.model.versions import ComputeCapability


@check("WHL509", Cause.ROCM_MISMATCH, requires=ONE_CUPY)
def rocm_build(facts: Facts) -> Outcome:
    """The installed CuPy is built for AMD GPUs, and this machine has an NVIDIA GPU.

    What it means: the lines cupy-rocm-* run on ROCm; they cannot use an NVIDIA GPU.
    How it is seen: the name of the installed distribution, and a GPU that NVIDIA's driver shows.
    What to do: remove it and install the wheel line of CUDA that fits.
    """
    found = [entry for entry in facts.snapshot.target.cupy if is_rocm(entry.distribution)]
    if not found or not driver_sees_gpu(facts.snapshot):
        return
    yield Symptom(
        f"{found[0].distribution} is built for AMD GPUs, but the GPU here is NVIDIA's",
        (Evidence("target.cupy", f"{found[0].distribution} {found[0].release}", "its metadata"),)
        + tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in facts.needs.gpus),
        install_fix(facts, "Install the wheel that fits."),
    )


@check("WHL504", Cause.DRIVER_TOO_OLD_FOR_CUDA, requires=(*ONE_CUPY, "WHL508", "WHL509"))
def driver_too_old(facts: Facts) -> Outcome:
    """The driver is older than the installed CuPy's CUDA needs.

    What it means: a wheel of CUDA 12 needs a driver of CUDA 12, and one of CUDA 13 a driver of CUDA 13. Within a major
    version, an older driver will do.
    How it is seen: the installed wheel line, the driver's version and CUDA level, and the oldest driver of that major.
    What to do: install the wheel line that this driver runs, or update the driver.
    """
    there = installed(facts)
    if there is None:
        yield NotKnown(why_not_known(facts))
        return
    if facts.needs.driver_absent or newer_libcuda_to_come(facts.snapshot) or _gpu_outside(there, facts):
        return
    verdict = driver_minimum(there.wheel, facts.needs, facts.matrix)
    if not isinstance(verdict, Rejected):
        return
    yield Symptom(
        f"The driver is too old for {there.cupy.distribution}: needs {verdict.needed}, found {verdict.found}",
        fact("driver.version", facts.snapshot.driver.version)
        + fact("driver.cuda", facts.snapshot.driver.cuda)
        + _installed_and_needed(there, verdict),
        (
            *install_fix(facts, "Install the wheel that this driver runs."),
            *_newer_driver(verdict, facts),
        ),
    )


def _newer_driver(verdict: Rejected, facts: Facts) -> tuple[Fix, ...]:
    """The driver that would do, up to the last branch for every GPU here; nothing where there is none."""
    if verdict.change is None:
        return ()
    return (Fix(f"Or update the driver{whose(facts.snapshot)}: {verdict.change.needed}."),)


def _gpu_outside(there: Installed, facts: Facts) -> bool:
    """Whether this CUDA major makes no code for a GPU here, so that a newer driver would not help; WHL505 tells."""
    judged = nvrtc_compiles_for_gpu(there.wheel, facts.needs, facts.matrix)
    return isinstance(judged, Rejected) and not without_gpu(facts.snapshot)


@check(
    "WHL505",
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    Cause.CUPY_TOO_OLD_FOR_GPU,
    requires=(*ONE_CUPY, "WHL504", "WHL509"),
)
def gpu_outside_toolkit(facts: Facts) -> Outcome:
    """The installed CuPy cannot make code for this GPU.

    What it means: CuPy compiles its kernels with NVRTC of its own CUDA major, which knows a set of GPUs. Older ones
    were removed, newer ones are not in it yet. import cupy and even creating an array succeed; the first kernel fails.
    How it is seen: the GPU's compute capability against what NVRTC of that major compiles for, as measured, what this
    CuPy asks it for, and the code in the wheel.
    What to do: install the wheel line or release that knows the GPU.
    """
    there = installed(facts)
    if there is None:
        yield NotKnown(why_not_known(facts))
        return
    if without_gpu(facts.snapshot):
        return
    # The code in a wheel is known of the very release only.
    judges = (nvrtc_compiles_for_gpu, wheel_has_code_for_gpu) if there.exact else (nvrtc_compiles_for_gpu,)
    verdicts = [judge(there.wheel, facts.needs, facts.matrix) for judge in judges]
    for verdict in verdicts:
        if isinstance(verdict, Rejected):
            known = {capability for row in minors_of(there.wheel, facts.matrix) for capability in row.capabilities}
            cause, what = told_outside(known, facts.needs.gpus, f"CUDA {there.wheel.line.cuda_major}", there)
            yield Symptom(
                f"{what} this GPU: {verdict.found}",
                tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in facts.needs.gpus)
                + _installed_and_needed(there, verdict),
                install_fix(facts, "Install the wheel that knows every GPU here."),
                cause=cause,
            )
            return
    if facts.needs.gpus and all(gpu.compute_capability is None for gpu in facts.needs.gpus):
        yield NotKnown("the GPU's compute capability is not known")


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


@check("WHL506", Cause.NUMPY_INCOMPATIBLE, requires=ONE_CUPY)
def numpy_outside_range(facts: Facts) -> Outcome:
    """The NumPy there does not fit this CuPy, or there is none.

    What it means: CuPy is compiled against a range of NumPy; outside it, import cupy fails or warns.
    How it is seen: NumPy's version against the range in CuPy's metadata.
    What to do: install a NumPy of that range, or the CuPy that fits the NumPy.
    """
    there = installed(facts)
    wanted, told_by = _numpy_wanted(there, facts) if there else (None, "")
    if there is None or wanted is None:
        yield NotKnown(why_not_known(facts))
        return
    numpy = facts.snapshot.target.numpy
    told = "target.packages.numpy" in facts.snapshot.assumed
    if numpy.value is None and not told and facts.snapshot.source("target").state is not SourceState.ANSWERED:
        yield NotKnown("the target was not asked")
        return
    fits = in_range(numpy.value, wanted) if numpy.value is not None else False
    if fits is None:
        yield NotKnown(f"{numpy.value} is no version")
    if fits is not False:
        return
    yield Symptom(
        f"{there.label} needs NumPy {wanted}, found {numpy.value or 'none'}",
        fact("target.numpy", numpy) + (Evidence("needed", f"NumPy {wanted}", told_by),),
        (
            pip_fix(facts, "Install a NumPy that fits.", "install", f"numpy{wanted}"),
            *(install_fix(facts, "Or install the CuPy that fits this NumPy.") if numpy.known else ()),
        ),
    )


def _numpy_wanted(there: Installed, facts: Facts) -> tuple[str | None, str]:
    """The range of NumPy, and who tells it: the matrix of its own releases, their own metadata of other builds."""
    if there.exact:
        return there.wheel.release.numpy, facts.matrix.cite(there.wheel.release.source)
    ranges = (words[len("numpy") :] for words in there.cupy.requires if words.startswith(("numpy>", "numpy<")))
    return next(ranges, None), f"Requires-Dist of {there.cupy.distribution}"


@check("WHL507", Cause.PYTHON_UNSUPPORTED, Cause.PLATFORM_WHEEL_MISSING, requires=ONE_CUPY)
def wheel_of_other_interpreter(facts: Facts) -> Outcome:
    """The installed CuPy has no wheel for this Python or this platform.

    What it means: the files there were built for another Python, C library or architecture, left behind by an upgrade
    or by a shared folder on the path, so import cupy fails.
    How it is seen: the target's Python, C library and architecture against the tags of the release's wheels.
    What to do: install CuPy again in this environment, in a release that has a wheel for it.
    """
    there = installed(facts)
    if there is None or not there.exact:
        yield NotKnown(why_not_known(facts))
        return
    for judge in (platform, libc, python):
        verdict = judge(there.wheel, facts.needs, facts.matrix)
        if isinstance(verdict, Rejected):
            yield Symptom(
                f"{there.label} is not built for {verdict.found}: needs {verdict.needed}",
                fact("target.python", facts.snapshot.target.python)
                + fact("host.libc", facts.snapshot.host.libc)
                + _installed_and_needed(there, verdict),
                (
                    *install_fix(facts, "Install the release that fits."),
                    Fix(f"Or use an environment with {verdict.needed}."),
                ),
                cause=Cause.PYTHON_UNSUPPORTED if judge is python else Cause.PLATFORM_WHEEL_MISSING,
            )
            return
