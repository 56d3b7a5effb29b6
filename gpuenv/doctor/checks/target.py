"""Checks whether the target environment is usable."""

from __future__ import annotations

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.registry import CheckContext, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.model.strings import has_python_name

_BROKEN = (SourceState.FAILED, SourceState.CRASHED, SourceState.TIMED_OUT, SourceState.ABSENT)
_RECREATE = Fix(
    "Recreate the environment with an existing Python.", ("python3", "-m", "venv", "--clear", "ENVIRONMENT")
)
_FOLDERS = "the folders of the environment"
_REACHABLE = (
    Fix("Create an environment with a Python that every user may run, not one in another user's home folder."),
    Fix("Or give this user permission to enter the folder and run the file."),
)
# Title and fix by what the interpreter starts without, unless it is a single variable.
_STARTUP_FAULTS = {
    "startup": (
        "A start-up file ends or silences the target's interpreter",
        "Repair or remove what runs when it starts: {}.",
    ),
    "variables": (
        "The target's interpreter does not work with a PYTHON variable that is set",
        "Unset the variables whose names begin with PYTHON, one at a time.",
    ),
}


@check("ENV401", Cause.TARGET_ENVIRONMENT_BROKEN, requires=("ENV403",))
def target_broken(ctx: CheckContext) -> Outcome:
    """The interpreter of the target environment does not work.

    What it means: the interpreter does not start, crashes, hangs, or is not a Python. Usually the Python from which a
    virtual environment was created has been removed or moved, or this user has no access to it. Or the environment's
    pyvenv.cfg is missing, and its interpreter is that of another environment; or a variable such as PYTHONHOME or
    LD_PRELOAD, a .pth file or a sitecustomize ends every start; or this user may not read the packages.
    How it is seen: the interpreter runs a small script of the standard library in a process of its own; if that fails,
    it runs again without Python's variables, without those of the loader, and without start-up files.
    What to do: recreate the environment with an existing Python, unset the variable, or repair the file.
    """
    snapshot = ctx.snapshot
    state = snapshot.source("target")
    if snapshot.target.lost_environment.known:
        yield _lost(snapshot)
        return
    if snapshot.target.unreadable and not snapshot.target.cupy:  # else everything in use may lie elsewhere
        yield _unreadable(snapshot)
        return
    if state.state not in _BROKEN or snapshot.target.python.known:
        return
    title, fixes = _title_and_fixes(snapshot, state.state)
    files = tuple(Evidence("runs when it starts", path, _FOLDERS) for path in snapshot.target.startup_files)
    name = snapshot.target.starts_without.value  # the variable that keeps it from starting
    variable = evidence_of(snapshot, f"environment.{name}") if name in snapshot.environment else ()
    yield Symptom(
        title,
        evidence_of(snapshot, "target.executable", "target")
        + (variable or files)
        + (evidence_of(snapshot, "target.unstartable") if snapshot.target.unstartable.known else ()),
        fixes,
    )


def _title_and_fixes(snapshot: Snapshot, state: SourceState) -> tuple[str, tuple[Fix, ...]]:
    """The title and the fixes."""
    target = snapshot.target
    executable, without = target.executable.value or "", target.starts_without.value
    files = ", ".join(target.startup_files)
    if state is SourceState.ABSENT:
        fixes = (Fix("Name the target with --python, or activate its environment."),)
        return "No Python is on PATH, and no environment is active", fixes
    if state is SourceState.TIMED_OUT:
        then = f"check what runs when it starts: {files}" if files else "check what it does when it starts"
        fixes = (Fix(f"Give it more time with --timeout; if that does not help, {then}."),)
        return f"The target's interpreter does not answer: {executable}", fixes
    if target.unstartable.known:  # a dangling link, or one to a file that this user may not read
        why = str(target.unstartable.value)
        title = f"The target's interpreter cannot be used: {executable}: {why}"
        return title, _REACHABLE if why.endswith("by this user") else (_RECREATE,)
    if without is not None:  # the interpreter itself works
        by_name = (f"The target's interpreter does not work with {without} set", "Unset or correct it.")
        title, text = _STARTUP_FAULTS.get(without, by_name)
        command = None if without in _STARTUP_FAULTS else ("env", "-u", without, "gpuenv", "doctor")
        text = text.format(files or "pyvenv.cfg, .pth files, sitecustomize")
        return f"{title}: {executable}", (Fix(text, command),)
    if state is SourceState.FAILED and target.executable.source == "--python" and not has_python_name(executable):
        fixes = (Fix("Name the interpreter itself, a virtual environment or a conda prefix: --python PATH"),)
        return f"The target is not a Python interpreter: {executable}", fixes
    fault = "crashes" if state is SourceState.CRASHED else "cannot be used"
    return f"The target's interpreter {fault}: {executable}", (_RECREATE,)


def _unreadable(snapshot: Snapshot) -> Symptom:
    """This user cannot read the packages; they are not missing."""
    target = snapshot.target
    return Symptom(
        f"This user may not read the target's packages: {', '.join(target.unreadable)}",
        evidence_of(snapshot, "target.executable")
        + tuple(Evidence("target.unreadable", path, "its permissions") for path in target.unreadable),
        (
            Fix("Ask the owner of that folder to let this user read it."),
            Fix("Or create your own environment.", ("python3", "-m", "venv", "ENVIRONMENT")),
        ),
    )


def _lost(snapshot: Snapshot) -> Symptom:
    """A virtual environment whose interpreter uses the prefix of its base Python."""
    target = snapshot.target
    folder, prefix, python = target.lost_environment.value, target.prefix.value, target.python.value
    minor = f"{python.major}.{python.minor}" if python else "3"
    return Symptom(
        f"{folder} is no longer a virtual environment: it has no pyvenv.cfg, so Python uses {prefix} instead",
        evidence_of(snapshot, "target.executable", "target.lost_environment", "target.prefix"),
        (
            Fix(
                "Recreate its pyvenv.cfg; its packages stay.",
                (f"{prefix}/bin/python{minor}", "-m", "venv", "--without-pip", str(folder)),
            ),
            Fix("Or recreate the environment."),
        ),
    )
