"""CuPy itself: is it there, once, and of the right line?"""

from __future__ import annotations

from packaging.specifiers import SpecifierSet

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.installed import install_fix, installed_wheel
from gpuenv.doctor.registry import Facts, NotKnown, Outcome, Symptom, check
from gpuenv.matrix.candidates import minors_of
from gpuenv.matrix.constraints import Rejected, driver_minimum, nvrtc_compiles_for_gpu, python, wheel_has_code_for_gpu
from gpuenv.matrix.explanation import changes_text
from gpuenv.matrix.support import branches_for
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.resolution import ConstraintName, Rejection
from gpuenv.model.snapshot import SourceState

_DRIVER_USABLE = ("DRV101", "GPU201", "CTR301", "DRV104", "DRV105", "DRV106")


@check("WHL501", Cause.PYTHON_UNSUPPORTED, Cause.PLATFORM_WHEEL_MISSING, requires=("ENV401",))
def no_wheel_for_interpreter(facts: Facts) -> Outcome:
    """No release of CuPy has a wheel for this interpreter or platform.

    What it means: wheels exist for certain Pythons, C libraries and architectures only. Without one, pip takes the
    source distribution and fails after a while, or finds nothing.
    How it is seen: the interpreter's version, C library and architecture are held against every release in the matrix.
    What to do: make an environment with a Python that has wheels; on musl use a distribution with glibc.
    """
    if facts.snapshot.target.cupy or facts.resolution.wheel is not None:
        return
    for names, cause, what in (
        ((ConstraintName.PLATFORM, ConstraintName.LIBC), Cause.PLATFORM_WHEEL_MISSING, "this platform"),
        ((ConstraintName.PYTHON,), Cause.PYTHON_UNSUPPORTED, "this interpreter"),
    ):
        reasons = _against_all(facts, names)
        if reasons:
            newest = reasons[0]
            yield Symptom(
                f"No release of CuPy has a wheel for {what}: needs {newest.needed}, found {newest.found}",
                fact("target.python", facts.snapshot.target.python)
                + fact("host.libc", facts.snapshot.host.libc)
                + fact("host.arch", facts.snapshot.host.arch)
                + (Evidence("the newest release needs", newest.needed, newest.source),),
                (_other_environment(newest),),
                cause=cause,
            )
            return


def _against_all(facts: Facts, names: tuple[ConstraintName, ...]) -> list[Rejection]:
    """The rejections by these constraints, if every candidate has one."""
    reasons = [entry for entry in facts.resolution.rejected if entry.constraint in names]
    candidates = {entry.candidate for entry in reasons}
    every = sum(1 + len(release.extras) for line in facts.matrix.wheel_lines for release in line.releases)
    return reasons if len(candidates) == every else []


def _other_environment(reason: Rejection) -> Fix:
    if reason.constraint is ConstraintName.PYTHON:
        return Fix(f"Make an environment with {reason.needed}.", ("uv", "venv", "--python", "3.12", "ENVIRONMENT"))
    return Fix(f"Use a system with {reason.needed}.")


@check(
    "WHL508",
    Cause.DRIVER_TOO_OLD_FOR_CUDA,
    Cause.GPU_REMOVED_FROM_DRIVER,
    Cause.GPU_TOO_NEW_FOR_DRIVER,
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    requires=("WHL501", *_DRIVER_USABLE),
)
def nothing_fits(facts: Facts) -> Outcome:
    """No release of CuPy fits this driver and these GPUs together.

    What it means: for every release, the driver is too old, or a GPU is outside what the driver or its CUDA supports.
    How it is seen: every release in the matrix is held against the driver, the GPUs and the interpreter.
    What to do: make the smallest change that the resolver names; usually a newer driver.
    """
    resolution = facts.resolution
    if resolution.wheel is not None or facts.needs.driver_absent:
        return
    better = resolution.next_better
    subject = better.candidate if better else resolution.rejected[0].candidate
    reasons = [entry for entry in resolution.rejected if entry.candidate == subject]
    cause = _cause_of(facts, {entry.constraint for entry in reasons})
    if cause is None:
        yield NotKnown("what stands against CuPy here is neither the driver nor a GPU")
        return
    change = changes_text(better) if better else None
    yield Symptom(
        "No release of CuPy fits this machine" + (f"; the smallest change is {change}" if change else ""),
        fact("driver.version", facts.snapshot.driver.version)
        + tuple(Evidence(r.candidate.label, f"needs {r.needed}, found {r.found}", r.source) for r in reasons),
        (Fix(f"Change {change}: then {better.candidate.label} fits." if better else "Use another GPU."),),
        cause=cause,
    )


def _cause_of(facts: Facts, constraints: set[ConstraintName]) -> Cause | None:
    """The cause behind the constraints that stand against the nearest release."""
    driver = facts.needs.driver
    if ConstraintName.DRIVER_SUPPORTS_GPU in constraints and driver is not None:
        ranges = [branches_for(gpu.compute_capability, facts.matrix) for gpu in facts.needs.gpus]
        old = any(row and row.last is not None and driver.branch > row.last for row in ranges)
        return Cause.GPU_REMOVED_FROM_DRIVER if old else Cause.GPU_TOO_NEW_FOR_DRIVER
    if ConstraintName.NVRTC_COMPILES_FOR_GPU in constraints:
        oldest = min(capability for row in facts.matrix.cuda_minors for capability in row.capabilities)
        old = any(gpu.compute_capability and gpu.compute_capability < oldest for gpu in facts.needs.gpus)
        return Cause.GPU_REMOVED_FROM_TOOLKIT if old else Cause.GPU_TOO_NEW_FOR_TOOLKIT
    return Cause.DRIVER_TOO_OLD_FOR_CUDA if ConstraintName.DRIVER_MINIMUM in constraints else None


@check("WHL502", Cause.MULTIPLE_CUPY_PACKAGES, requires=("ENV401",))
def two_cupys(facts: Facts) -> Outcome:
    """Two CuPy distributions share one environment.

    What it means: every wheel line installs the same module, cupy. The files of the one installed last win, and
    removing one removes files of the other.
    How it is seen: the metadata of the distributions in the target.
    What to do: remove all of them, then install the right one.
    """
    found = facts.snapshot.target.cupy
    if len({entry.distribution for entry in found}) < 2:  # noqa: PLR2004 - two
        return
    names = tuple(dict.fromkeys(entry.distribution for entry in found))
    interpreter = facts.snapshot.target.executable.value or "python"
    yield Symptom(
        f"{len(names)} CuPy distributions share the target: {' and '.join(names)}",
        tuple(Evidence(entry.distribution, entry.release, entry.location or "its metadata") for entry in found),
        (
            Fix("Remove all of them.", (interpreter, "-m", "pip", "uninstall", "-y", *names), safe=True),
            *install_fix(facts, "Then install the right one."),
        ),
    )


@check("WHL503", Cause.CUPY_NOT_INSTALLED, requires=("ENV401", "WHL501"))
def cupy_missing(facts: Facts) -> Outcome:
    """CuPy is not in the target environment.

    What it means: the environment that was examined has no CuPy, under whatever name. It may be in another one.
    How it is seen: the metadata of the distributions in the target; nothing is imported.
    What to do: install the wheel that fits, or name the environment that you mean with --python.
    """
    snapshot = facts.snapshot
    told = "target.cupy" in snapshot.assumed
    if snapshot.target.cupy:
        return
    if snapshot.source("target").state is not SourceState.ANSWERED and not told:
        yield NotKnown("the target was not asked")
        return
    yield Symptom(
        "CuPy is not in the target environment",
        fact("target.executable", snapshot.target.executable) + fact("target.kind", snapshot.target.kind),
        (
            *install_fix(facts, "Install the wheel that fits."),
            Fix("If another environment is meant, name it: gpuenv doctor --python PATH"),
        ),
    )


@check("WHL504", Cause.DRIVER_TOO_OLD_FOR_CUDA, requires=("WHL502", "WHL503", "WHL508", *_DRIVER_USABLE))
def driver_too_old(facts: Facts) -> Outcome:
    """The driver is older than the installed CuPy's CUDA needs.

    What it means: a wheel of CUDA 12 needs a driver of CUDA 12, and one of CUDA 13 a driver of CUDA 13. Within a major
    version, an older driver will do.
    How it is seen: the installed wheel line, the driver's version and CUDA level, and the oldest driver of that major.
    What to do: install the wheel line that this driver runs, or update the driver.
    """
    wheel = installed_wheel(facts)
    if wheel is None:
        yield from _not_in_matrix(facts)
        return
    verdict = driver_minimum(wheel, facts.needs, facts.matrix)
    if not isinstance(verdict, Rejected):
        return
    yield Symptom(
        f"The driver is too old for the installed {wheel.line.name}: needs {verdict.needed}, found {verdict.found}",
        fact("driver.version", facts.snapshot.driver.version)
        + fact("driver.cuda", facts.snapshot.driver.cuda)
        + (
            Evidence("target.cupy", f"{wheel.line.name} {wheel.release.cupy}", "its metadata"),
            Evidence("needed", verdict.needed, verdict.source),
        ),
        (
            *install_fix(facts, "Install the wheel that this driver runs."),
            Fix(f"Or update the driver: {verdict.needed}."),
        ),
    )


def _not_in_matrix(facts: Facts) -> Outcome:
    found = facts.snapshot.target.cupy
    if len(found) == 1:
        yield NotKnown(f"{found[0].distribution} {found[0].release} is not in the matrix")


@check(
    "WHL505",
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    Cause.CUPY_TOO_OLD_FOR_GPU,
    requires=("WHL502", "WHL503", "WHL504", *_DRIVER_USABLE),
)
def gpu_outside_toolkit(facts: Facts) -> Outcome:
    """The installed CuPy cannot make code for this GPU.

    What it means: CuPy compiles its kernels with NVRTC of its own CUDA major, which knows a set of GPUs. Older ones
    were removed, newer ones are not in it yet. import cupy and even creating an array succeed; the first kernel fails.
    How it is seen: the GPU's compute capability against what NVRTC of that major compiles for, as measured, what this
    CuPy asks it for, and the code in the wheel.
    What to do: install the wheel line or release that knows the GPU.
    """
    wheel = installed_wheel(facts)
    if wheel is None:
        yield from _not_in_matrix(facts)
        return
    for judge in (nvrtc_compiles_for_gpu, wheel_has_code_for_gpu):
        verdict = judge(wheel, facts.needs, facts.matrix)
        if not isinstance(verdict, Rejected):
            continue
        supported = {capability for row in minors_of(wheel, facts.matrix) for capability in row.capabilities}
        there = [gpu.compute_capability for gpu in facts.needs.gpus if gpu.compute_capability]
        cause, what = Cause.CUPY_TOO_OLD_FOR_GPU, f"CuPy {wheel.release.cupy} does not know"
        if any(capability < min(supported) for capability in there):
            cause, what = Cause.GPU_REMOVED_FROM_TOOLKIT, f"CUDA {wheel.line.cuda_major} no longer supports"
        elif any(capability not in supported for capability in there):
            cause, what = Cause.GPU_TOO_NEW_FOR_TOOLKIT, f"CUDA {wheel.line.cuda_major} does not know"
        yield Symptom(
            f"{what} this GPU: {verdict.found}",
            tuple(Evidence("GPU", gpu.label, "gpus[]") for gpu in facts.needs.gpus)
            + (
                Evidence("target.cupy", f"{wheel.line.name} {wheel.release.cupy}", "its metadata"),
                Evidence("needed", verdict.needed, verdict.source),
            ),
            install_fix(facts, "Install the wheel that knows every GPU here."),
            cause=cause,
        )
        return


@check("WHL506", Cause.NUMPY_INCOMPATIBLE, requires=("WHL502", "WHL503"))
def numpy_outside_range(facts: Facts) -> Outcome:
    """The NumPy there does not fit this CuPy, or there is none.

    What it means: CuPy is compiled against a range of NumPy; outside it, import cupy fails or warns.
    How it is seen: NumPy's version against the range in CuPy's metadata.
    What to do: install a NumPy of that range, or the CuPy that fits the NumPy.
    """
    wheel = installed_wheel(facts)
    if wheel is None:
        yield from _not_in_matrix(facts)
        return
    there = facts.snapshot.target.numpy.value
    wanted = wheel.release.numpy
    if there is not None and SpecifierSet(wanted).contains(there, prereleases=True):
        return
    if there is None and facts.snapshot.source("target").state is not SourceState.ANSWERED:
        yield NotKnown("the target was not asked")
        return
    interpreter = facts.snapshot.target.executable.value or "python"
    yield Symptom(
        f"{wheel.line.name} {wheel.release.cupy} needs NumPy {wanted}, found {there or 'none'}",
        fact("target.numpy", facts.snapshot.target.numpy)
        + (Evidence("needed", f"NumPy {wanted}", facts.matrix.cite(wheel.release.source)),),
        (
            Fix("Install a NumPy that fits.", (interpreter, "-m", "pip", "install", f"numpy{wanted}"), safe=True),
            *install_fix(facts, "Or install the CuPy that fits this NumPy."),
        ),
    )


@check("WHL507", Cause.PYTHON_UNSUPPORTED, requires=("WHL502", "WHL503"))
def wheel_of_other_python(facts: Facts) -> Outcome:
    """The installed CuPy has no wheel for this Python.

    What it means: the files there were built for another Python, left behind by an upgrade or a shared folder on the
    path, so import cupy fails.
    How it is seen: the target's Python against the tags of the release's wheels.
    What to do: install CuPy again in this environment, in a release that has a wheel for its Python.
    """
    wheel = installed_wheel(facts)
    if wheel is None:
        yield from _not_in_matrix(facts)
        return
    verdict = python(wheel, facts.needs, facts.matrix)
    if isinstance(verdict, Rejected):
        yield Symptom(
            f"{wheel.line.name} {wheel.release.cupy} is not built for Python {verdict.found}: needs {verdict.needed}",
            fact("target.python", facts.snapshot.target.python) + (Evidence("needed", verdict.needed, verdict.source),),
            install_fix(facts, "Install the release that fits this Python."),
        )
