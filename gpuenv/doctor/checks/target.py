"""Checks whether the target environment is usable."""

from __future__ import annotations

from pathlib import PurePosixPath, PureWindowsPath

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.fixes.variables import change_fix, unset_all_fix, variable_fixes
from gpuenv.doctor.registry import CheckContext, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.model.strings import has_python_name, pattern

_BROKEN = (SourceState.FAILED, SourceState.CRASHED, SourceState.TIMED_OUT, SourceState.ABSENT)
_ACTIVATED = ("VIRTUAL_ENV", "CONDA_PREFIX")
_NO_CTYPES = pattern(r"No module named '_ctypes'|(?P<library>libffi\.so\.\d+): cannot open shared object file")
_FOLDERS = "the folders of the environment"
_REACHABLE = (
    Fix("Create an environment with a Python that every user may run, not one in another user's home folder."),
    Fix("Or give this user permission to enter the folder and run the file."),
)


@check("ENV401", Cause.TARGET_ENVIRONMENT_BROKEN, requires=("ENV403",))
def target_broken(ctx: CheckContext) -> Outcome:
    """The interpreter of the target environment does not work.

    What it means: the interpreter does not start, crashes, hangs, or is not a Python. Usually the Python from which a
    virtual environment was created has been removed or moved, or this user has no access to it. Or the environment's
    pyvenv.cfg is missing, and its interpreter is that of another environment; or a variable such as PYTHONHOME or
    LD_PRELOAD, a .pth file or a sitecustomize ends every start; or this user may not read the packages. Or the Python
    was built without libffi, so that ctypes is missing.
    How it is seen: the interpreter runs a small script of the standard library in a process of its own; if that fails,
    it runs again without Python's variables, without those of the loader, and without start-up files.
    What to do: link a virtual environment to an installed Python of the same release, which keeps its packages; unset
    the variable; or repair the file.
    """
    snapshot = ctx.snapshot
    state = snapshot.source("target")
    if snapshot.target.lost_environment.known:
        yield _lost(snapshot)
        return
    if snapshot.target.unreadable and not snapshot.target.cupy:  # else everything in use may lie elsewhere
        yield _unreadable(snapshot)
        return
    if without_ctypes := _without_ctypes(snapshot):
        yield without_ctypes
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
    """The title and the fixes of an interpreter that does not work."""
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
        return title, _REACHABLE if why.endswith("by this user") else _base_fixes(snapshot)
    if without is not None:  # the interpreter itself works
        title, repair = _startup_fault(snapshot, without)
        return f"{title}: {executable}", repair
    if state is SourceState.FAILED and target.executable.source == "--python" and not has_python_name(executable):
        fixes = (Fix("Name the interpreter itself, a virtual environment or a conda prefix: --python PATH"),)
        return f"The target is not a Python interpreter: {executable}", fixes
    fault, repair = "crashes" if state is SourceState.CRASHED else "cannot be used", _base_fixes(snapshot)
    if _OTHER_ARCHITECTURE in (snapshot.source("target").detail or ""):
        fault, repair = "is not a program for this machine's architecture", _other_architecture_fixes(snapshot)
    return f"The target's interpreter {fault}: {executable}", repair


def _startup_fault(snapshot: Snapshot, without: str) -> tuple[str, tuple[Fix, ...]]:
    """The title and the fixes of an interpreter that starts without start-up files, or without variables."""
    if without == "startup":
        files = ", ".join(snapshot.target.startup_files) or "pyvenv.cfg, .pth files, sitecustomize"
        fix = Fix(f"Repair or remove what runs when it starts: {files}.")
        return "A start-up file ends or silences the target's interpreter", (fix,)
    if without == "variables":
        title = "The target's interpreter does not work with a PYTHON variable that is set"
        return title, (unset_all_fix(snapshot, "PYTHON"),)
    return f"The target's interpreter does not work with {without} set", variable_fixes(snapshot, without)


_OTHER_ARCHITECTURE = "Exec format error"  # errno(3), ENOEXEC, of execve(2)


def _other_architecture_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """Compiled packages are of the same architecture as the interpreter, so none of them can be kept."""
    executable, release = snapshot.target.executable.value or "", snapshot.target.venv_python.value
    if release is None or snapshot.host.os.value == "windows":
        return (Fix("Install a Python for this machine's architecture, or name another one with --python."),)
    folder, minor = str(PurePosixPath(executable).parent.parent), ".".join(release.split(".")[:2])
    return (
        Fix(
            "Note which packages the environment has: they are of the other architecture too.",
            ("ls", f"{folder}/lib/python{minor}/site-packages"),
        ),
        Fix("Create a new environment with a Python of this machine.", ("python3", "-m", "venv", f"{folder}-new")),
        Fix("Then install the packages in it."),
    )


def _base_fixes(snapshot: Snapshot) -> tuple[Fix, ...]:
    """How to get a working interpreter: the links of a virtual environment are replaced, and its packages stay.

    ``venv --upgrade`` keeps links that exist, also dangling ones (Lib/venv/__init__.py of 3.11); its packages are in a
    folder of the minor release.
    """
    executable, release = snapshot.target.executable.value or "", snapshot.target.venv_python.value
    active = snapshot.target.executable.source or ""
    if release is None and active in _ACTIVATED:  # the environment was renamed or deleted
        text = f"Activate an environment that exists, or unset {active}, which names this one."
        return (change_fix(snapshot, active, text=text),)
    if release is None:
        return (Fix("Reinstall this Python, or name another one with --python."),)
    is_windows = snapshot.host.os.value == "windows"
    path = (PureWindowsPath if is_windows else PurePosixPath)(executable)
    folder, minor = str(path.parent.parent), ".".join(release.split(".")[:2])
    links = ("rm", "-f", *(str(path.with_name(name)) for name in ("python", "python3", f"python{minor}")))
    python = ("py", f"-{minor}") if is_windows else (f"python{minor}",)
    return (
        *(() if is_windows else (Fix("Remove the links to the Python that is gone; the packages stay.", links),)),
        Fix(
            f"{'Link' if is_windows else 'Then link'} the environment to an installed Python {minor}.",
            (*python, "-m", "venv", "--upgrade", "--without-pip", folder),
        ),
        Fix(
            f"If Python {minor} cannot be installed: create a new environment, and install the packages again.",
            ("python3", "-m", "venv", f"{folder}-new"),
        ),
    )


def _without_ctypes(snapshot: Snapshot) -> Symptom | None:
    """The interpreter starts, but its ctypes, which CuPy and NumPy import, cannot be imported.

    CPython leaves _ctypes out if it is built without libffi's header files, as pyenv does; a libffi of another release
    replaces the one of the build after an upgrade of the distribution.
    """
    found = _NO_CTYPES.search(snapshot.source("libraries").detail or "")
    if found is None:
        return None
    library = found["library"]
    title = f"it needs {library}, which is missing" if library else "it was built without libffi"
    return Symptom(
        f"The target's Python has no ctypes, which CuPy needs: {title}",
        evidence_of(snapshot, "target.executable", "target.python", "libraries"),
        (
            Fix(
                "Install libffi with its header files: libffi-dev on Debian and Ubuntu, libffi-devel on Fedora, RHEL "
                "and openSUSE, libffi on Arch."
            ),
            Fix(
                "Build this Python again, from source or with pyenv; VERSION is its release.",
                ("pyenv", "install", "--force", "VERSION"),
            ),
            Fix("Or create the environment with another Python, such as the system's."),
        ),
    )


def _unreadable(snapshot: Snapshot) -> Symptom:
    """This user cannot read the packages; they are not missing."""
    target = snapshot.target
    return Symptom(
        f"This user may not read the target's packages: {', '.join(target.unreadable)}",
        evidence_of(snapshot, "target.executable")
        + tuple(Evidence("target.unreadable", path, "its permissions") for path in target.unreadable),
        (
            Fix("Ask the owner of that folder to let this user read it."),
            Fix("Or create an environment of your own.", shell_line="python3 -m venv ~/cupy-env"),
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
        ),
    )
