"""Checks whether a CuPy exists for this interpreter and this machine."""

from __future__ import annotations

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.packages import DEFAULT_PYTHON, new_environment_fixes
from gpuenv.doctor.installed_cupy import older_than_the_matrix
from gpuenv.doctor.predicates import is_container_without_gpu
from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.matrix.products import branch_of, generation_for
from gpuenv.matrix.resolve import changes_text
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.resolution import CandidateKind, ConstraintName, Rejection, Resolution

# After these, the driver will change. What only hides the GPU from this process (a variable, a module that is not
# loaded, a missing node) does not change the driver, so problems of the wheel are reported too.
_DRIVER_CHANGES = ("DRV101", "GPU201", "GPU204", "DRV104", "DRV106", "DRV112", "DRV115")
_INTERPRETER_CONSTRAINTS = (ConstraintName.PLATFORM, ConstraintName.LIBC, ConstraintName.PYTHON)


@check("WHL501", Cause.PYTHON_UNSUPPORTED, Cause.PLATFORM_WHEEL_MISSING, Cause.JETSON_TEGRA, requires=("ENV401",))
def no_wheel_for_interpreter(ctx: CheckContext) -> Outcome:
    """No release of CuPy has a wheel for this interpreter or platform.

    What it means: wheels exist only for certain Pythons, C libraries and architectures. Without one, pip tries the
    source distribution and fails after a while, or finds nothing.
    How it is seen: the interpreter's version, C library and architecture are compared with every release in the matrix.
    What to do: create an environment with a Python that has wheels; on musl use a distribution with glibc.
    """
    if ctx.snapshot.target.cupy or ctx.resolution.wheel is not None:
        return
    wheels = [entry for entry in ctx.resolution.rejected if entry.candidate.kind is CandidateKind.WHEEL]
    every = sum(1 + len(release.extras) for line in ctx.matrix.wheel_lines for release in line.releases)
    by_driver = {entry.candidate for entry in wheels if entry.constraint is ConstraintName.DRIVER_MINIMUM}
    if ctx.needs.tegra and len(by_driver) == every:  # for any Python
        yield _old_jetpack(ctx)
        return
    reasons = [entry for entry in wheels if entry.constraint in _INTERPRETER_CONSTRAINTS]
    if len({entry.candidate for entry in reasons}) < every:
        return
    newest = [entry for entry in reasons if entry.candidate == reasons[0].candidate]
    platform = [entry for entry in newest if entry.constraint is not ConstraintName.PYTHON]
    details = "; ".join(f"needs {entry.needed}, found {entry.found}" for entry in newest)
    yield Symptom(
        f"No release of CuPy has a wheel for this {'platform' if platform else 'interpreter'}: {details}",
        evidence_of(ctx.snapshot, "target.python", "host.libc", "host.arch")
        + tuple(Evidence("the newest release needs", entry.needed, entry.source) for entry in newest),
        tuple(fix for entry in newest for fix in _other_environment(entry)),
        cause=Cause.PLATFORM_WHEEL_MISSING if platform else Cause.PYTHON_UNSUPPORTED,
    )


_BUILD = ("env", "CUPY_NVCC_GENERATE_CODE=current", "python", "-m", "pip", "install", "--no-binary=cupy", "cupy")


def _old_jetpack(ctx: CheckContext) -> Symptom:
    level = ctx.needs.driver_cuda
    return Symptom(
        f"No release of CuPy has a wheel for the CUDA {level} of this JetPack",
        evidence_of(ctx.snapshot, "host.tegra", "driver.cuda", "target.python"),
        (
            Fix("Install a newer JetPack: the first that CuPy has wheels for has CUDA 10.2."),
            Fix("Or build an older CuPy from source for this board, which takes long.", _BUILD),
        ),
        cause=Cause.JETSON_TEGRA,
    )


def _other_environment(reason: Rejection) -> tuple[Fix, ...]:
    if reason.constraint is ConstraintName.PYTHON:
        return new_environment_fixes(f"Create an environment with {reason.needed}.", DEFAULT_PYTHON)
    if reason.found.startswith("musl"):
        return (
            Fix(
                "Use a system with glibc, such as Debian or Ubuntu; in a container an image that is not based on "
                "Alpine."
            ),
        )
    return (Fix(f"Use a system with {reason.needed}."),)


@check(
    "WHL508",
    Cause.DRIVER_TOO_OLD_FOR_CUDA,
    Cause.GPU_REMOVED_FROM_DRIVER,
    Cause.GPU_TOO_NEW_FOR_DRIVER,
    Cause.GPU_REMOVED_FROM_TOOLKIT,
    Cause.GPU_TOO_NEW_FOR_TOOLKIT,
    Cause.GPU_TOO_OLD_FOR_ANY_DRIVER,
    Cause.PYTHON_UNSUPPORTED,
    requires=("WHL501",),
    unless=_DRIVER_CHANGES,
    compares_with_gpu=True,
)
def nothing_fits(ctx: CheckContext) -> Outcome:
    """No release of CuPy fits this driver and these GPUs together.

    What it means: for every release, the driver is too old, or a GPU is outside what the driver or its CUDA supports,
    or the releases that this driver and GPU could run have no wheel for this Python.
    How it is seen: every release in the matrix is compared with the driver, the GPUs and the interpreter. If the
    installed CuPy is older than all of these, it may still run; for one built from source only the driver's support for
    the GPUs counts.
    What to do: make the smallest change that the resolver names: a newer driver, or an older Python.
    """
    resolution = ctx.resolution
    if resolution.wheel is not None or ctx.needs.driver_absent or is_container_without_gpu(ctx.snapshot):
        return
    better = resolution.next_better
    excluded = {entry.candidate for entry in resolution.rejected if entry.constraint in _INTERPRETER_CONSTRAINTS}
    wheels = (entry.candidate for entry in resolution.rejected if entry.candidate.kind is CandidateKind.WHEEL)
    nearest = next((candidate for candidate in wheels if candidate not in excluded), None)
    subject = better.candidate if better else nearest
    if subject is None:
        yield NotKnown("no wheel exists for the interpreter or its platform")
        return
    reasons = [entry for entry in resolution.rejected if entry.candidate == subject]
    constraints = {entry.constraint for entry in reasons}
    if _is_not_a_wheel(ctx) and ConstraintName.DRIVER_SUPPORTS_GPU not in constraints:
        return
    cause = _cause_of(ctx, constraints)
    if cause is None:
        yield NotKnown("neither the driver nor a GPU excludes CuPy here")
        return
    change = changes_text(better) if better else None
    older = older_than_the_matrix(ctx)
    yield Symptom(
        ("No release of CuPy that the matrix covers" if older else "No release of CuPy")
        + " fits this machine"
        + (f"; the smallest change is {change}" if change else ""),
        evidence_of(ctx.snapshot, "driver.version")
        + tuple(Evidence("target.cupy", e.label, "older than the matrix") for e in older)
        + tuple(Evidence(r.candidate.label, f"needs {r.needed}, found {r.found}", r.source) for r in reasons),
        _changes(resolution, cause),
        # An old CuPy may match the old driver and run.
        Severity.WARNING if older else Severity.ERROR,
        cause=cause,
    )


_REFRESH = Fix("Update the matrix: a newer CuPy or CUDA may support the GPU.", ("gpuenv", "matrix", "refresh"))


def _is_not_a_wheel(ctx: CheckContext) -> bool:
    """Whether the CuPy that an import finds has no name of a wheel line: it was built here, or by conda."""
    cupy = ctx.snapshot.target.cupy
    return bool(cupy) and cupy[0].distribution not in {line.name for line in ctx.matrix.wheel_lines}


def _changes(resolution: Resolution, cause: Cause) -> tuple[Fix, ...]:
    """Every sufficient change, the smallest first; a newer matrix may know an unknown GPU."""
    better = resolution.next_better
    if better is None and cause is Cause.GPU_TOO_NEW_FOR_TOOLKIT:
        return (_REFRESH, Fix("Or use another GPU."))
    if better is None:
        return (Fix("Use another GPU."),)
    others = [entry for entry in resolution.reachable if entry.candidate != better.candidate]
    return (
        Fix(f"Change to {changes_text(better)}: then {better.candidate.label} fits."),
        *(Fix(f"Or change to {changes_text(entry)}: then {entry.candidate.label} fits.") for entry in others),
    )


def _cause_of(ctx: CheckContext, constraints: set[ConstraintName]) -> Cause | None:
    """The cause behind the constraints that reject the nearest release."""
    covered = min(row.branch for row in ctx.matrix.driver_branches)
    ranges = [generation_for(gpu.compute_capability, ctx.matrix) for gpu in ctx.needs.gpus]
    last = [row.last_branch for row in ranges if row and row.last_branch is not None]
    if not _is_not_a_wheel(ctx) and any(branch < covered for branch in last):
        return Cause.GPU_TOO_OLD_FOR_ANY_DRIVER  # its last branch is older than any that a CuPy runs on
    driver = ctx.needs.driver
    if ConstraintName.DRIVER_SUPPORTS_GPU in constraints and driver is not None:
        old = any(branch_of(driver, ctx.matrix) > branch for branch in last)
        return Cause.GPU_REMOVED_FROM_DRIVER if old else Cause.GPU_TOO_NEW_FOR_DRIVER
    if ConstraintName.NVRTC_COMPILES_FOR_GPU in constraints:
        oldest = min(capability for row in ctx.matrix.cuda_minors for capability in row.capabilities)
        old = any(gpu.compute_capability and gpu.compute_capability < oldest for gpu in ctx.needs.gpus)
        return Cause.GPU_REMOVED_FROM_TOOLKIT if old else Cause.GPU_TOO_NEW_FOR_TOOLKIT
    if ConstraintName.DRIVER_MINIMUM in constraints:
        return Cause.DRIVER_TOO_OLD_FOR_CUDA
    return Cause.PYTHON_UNSUPPORTED if ConstraintName.PYTHON in constraints else None
