"""Can the target environment be used at all?"""

from __future__ import annotations

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.registry import CheckContext, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.model.strings import has_python_name

_BROKEN = (SourceState.FAILED, SourceState.CRASHED, SourceState.TIMED_OUT, SourceState.ABSENT)
_AGAIN = Fix(
    "Make the environment again with a Python that is there.", ("python3", "-m", "venv", "--clear", "ENVIRONMENT")
)
_FOLDERS = "the folders of the environment"
_REACHABLE = (
    Fix("Make an environment with a Python that every user may run: one in another user's home folder is not."),
    Fix("Or let this user enter the folder and run the file."),
)
# What it starts without, where that is not the name of one variable: the title, and what to do.
_UNDER = {
    "startup": (
        "What runs when the target's interpreter starts ends or silences it",
        "Mend or remove what it takes up when it starts: {}.",
    ),
    "variables": (
        "The target's interpreter does not work under a variable of Python's",
        "Unset the variables whose names begin with PYTHON, one by one.",
    ),
}


@check("ENV401", Cause.TARGET_ENVIRONMENT_BROKEN)
def target_broken(ctx: CheckContext) -> Outcome:
    """The target environment's interpreter cannot be used.

    What it means: the interpreter does not start, crashes, hangs, or is no Python. For a virtual environment the usual
    cause is that the Python it was made from has been removed or moved, or lies where this user may not go; or its
    pyvenv.cfg is gone, and its interpreter is that of another environment. Or a variable such as PYTHONHOME or
    LD_PRELOAD, a .pth file or a sitecustomize ends every start. Or this user may not read the packages.
    How it is seen: the interpreter is asked, in a process of its own, to run a small script of the standard library;
    where that fails, once more without Python's variables, without those of the loader, and without what runs at its
    start.
    What to do: make the environment again with a Python that is there, or unset the variable, or mend the file.
    """
    snapshot = ctx.snapshot
    state = snapshot.source("target")
    if snapshot.target.lost_environment.known:
        yield _lost(snapshot)
        return
    if snapshot.target.unreadable and not snapshot.target.cupy:  # else what is used may all lie elsewhere
        yield _unreadable(snapshot)
        return
    if state.state not in _BROKEN or snapshot.target.python.known:
        return
    title, fixes = _what_and_how(snapshot, state.state)
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


def _what_and_how(snapshot: Snapshot, state: SourceState) -> tuple[str, tuple[Fix, ...]]:
    """The title and the fixes."""
    target = snapshot.target
    executable, without = target.executable.value or "", target.starts_without.value
    files = ", ".join(target.startup_files)
    if state is SourceState.ABSENT:
        fixes = (Fix("Name the target with --python, or activate its environment."),)
        return "There is no Python on PATH, and no environment is active", fixes
    if state is SourceState.TIMED_OUT:
        then = f"see what runs when it starts: {files}" if files else "see what it does when it starts"
        fixes = (Fix(f"Give it more time with --timeout; if that does not help, {then}."),)
        return f"The target's interpreter does not answer: {executable}", fixes
    if target.unstartable.known:  # it is a link to what is gone, or to what this user may not reach
        why = str(target.unstartable.value)
        title = f"The target's interpreter cannot be used: {executable}: {why}"
        return title, _REACHABLE if why.endswith("by this user") else (_AGAIN,)
    if without is not None:  # the interpreter is sound by itself
        by_name = (f"The target's interpreter does not work under {without}", "Unset it, or correct it.")
        title, words = _UNDER.get(without, by_name)
        command = None if without in _UNDER else ("env", "-u", without, "gpuenv", "doctor")
        words = words.format(files or "pyvenv.cfg, .pth files, sitecustomize")
        return f"{title}: {executable}", (Fix(words, command),)
    if state is SourceState.FAILED and target.executable.source == "--python" and not has_python_name(executable):
        fixes = (Fix("Name the interpreter itself, a virtual environment or a conda prefix: --python PATH"),)
        return f"What was named as the target does not answer as a Python does: {executable}", fixes
    said = "crashes" if state is SourceState.CRASHED else "cannot be used"
    return f"The target's interpreter {said}: {executable}", (_AGAIN,)


def _unreadable(snapshot: Snapshot) -> Symptom:
    """An environment whose packages this user cannot read: they are not missing."""
    target = snapshot.target
    return Symptom(
        f"This user may not read the target's packages: {', '.join(target.unreadable)}",
        evidence_of(snapshot, "target.executable")
        + tuple(Evidence("target.unreadable", path, "its permissions") for path in target.unreadable),
        (
            Fix("Have whoever installed them let this user read that folder."),
            Fix("Or make an environment of your own.", ("python3", "-m", "venv", "ENVIRONMENT")),
        ),
    )


def _lost(snapshot: Snapshot) -> Symptom:
    """A virtual environment whose interpreter uses the prefix of its base Python."""
    target = snapshot.target
    folder, prefix, python = target.lost_environment.value, target.prefix.value, target.python.value
    minor = f"{python.major}.{python.minor}" if python else "3"
    return Symptom(
        f"{folder} is no virtual environment any more: it has no pyvenv.cfg, so that Python takes {prefix} instead",
        evidence_of(snapshot, "target.executable", "target.lost_environment", "target.prefix"),
        (
            Fix(
                "Have its settings written anew; its packages stay.",
                (f"{prefix}/bin/python{minor}", "-m", "venv", "--without-pip", str(folder)),
            ),
            Fix("Or make the environment again."),
        ),
    )
