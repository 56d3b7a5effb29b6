"""Diagnoses an interpreter that does not start: variables, start-up hooks, or the interpreter itself."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from gpuenv.files import read_regular
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.model.strings import has_python_name, pattern
from gpuenv.probe.context import ProbeContext, script
from gpuenv.probe.interpreters import run_interpreter
from gpuenv.probe.protocol import parse_facts
from gpuenv.probe.raw import Raw

# Each is left out in turn; then -E ignores all variables whose names begin with PYTHON, and -S ignores .pth files,
# sitecustomize and usercustomize.
_VARIABLES = ("PYTHONHOME", "PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH")
_OPTIONS = {"variables": "-E", "startup": "-S"}
_UNCHANGED = ""
_ENDED = (SourceState.FAILED, SourceState.CRASHED)
_HOOKS = ("sitecustomize.py", "usercustomize.py")
_PACKAGES = ("site-packages", "dist-packages")
# Those of setuptools and virtualenv, which are common and harmless.
_KNOWN = ("distutils-precedence.pth", "_virtualenv.pth")
_RUNS = pattern(rb"^import[ \t]")  # as in site.py: such a line is run, others name a folder
_RELEASE = pattern(rb"(?m)^version(?:_info)? *= *(\d+\.\d+(?:\.\d+)?)")
_LARGEST = 1 << 20  # bytes
_LINKS = 40  # the kernel's own limit
_MOST = 8


def diagnose_startup(ctx: ProbeContext, interpreter: str, target: Raw, source: Source) -> Raw:
    """Adds why an interpreter does not start to the facts that it printed; ``source`` is how its probe ended."""
    if target.text("python") is not None or not has_python_name(interpreter):
        return target  # a program of another name is not run again
    target = target.plus(venv_python=_release_of_venv(interpreter))
    blocked = _blocked_path(interpreter)
    if blocked is not None:
        return target.plus(unstartable=blocked)
    files = list(_startup_files(interpreter, ctx.environment))[:_MOST]
    return target.plus(startup_files=files, starts_without=_starts_without(ctx, interpreter, source))


def _release_of_venv(interpreter: str) -> str | None:
    """The release of Python in the environment's pyvenv.cfg, whose key ``version`` or ``version_info`` has it."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(interpreter)))
    try:
        found = _RELEASE.search(read_regular(os.path.join(prefix, "pyvenv.cfg"), _LARGEST))
    except OSError:
        return None
    return found[1].decode() if found else None


def _blocked_path(path: str) -> str | None:
    """Why a program cannot be executed: a missing file, a closed folder or a loop of links; None if it can be."""
    for _ in range(_LINKS):
        folder = os.path.dirname(path)
        parents = [folder]
        while os.path.dirname(parents[-1]) != parents[-1]:
            parents.append(os.path.dirname(parents[-1]))
        blocked = next((why for entry in reversed(parents) if (why := _blocked_folder(path, entry))), None)
        if blocked is not None:
            return blocked
        if not os.path.islink(path):
            missing = None if os.path.exists(path) else f"{path} does not exist"
            return missing or (None if os.access(path, os.X_OK) else f"{path} may not be run by this user")
        path = os.path.join(folder, os.readlink(path))
    return "its links form a loop"


def _blocked_folder(path: str, folder: str) -> str | None:
    """Why a folder on a program's path blocks it, if all folders above can be entered; None if it does not."""
    if not folder:
        return None  # relative to the working folder, from PATH
    try:
        os.stat(os.path.join(folder, os.curdir))  # it may link into an inaccessible folder
    except PermissionError:
        return f"{folder} may not be entered by this user"
    except OSError:
        return f"{path} does not exist"
    return None


def _starts_without(ctx: ProbeContext, interpreter: str, source: Source) -> str | None:
    """The variable without which an interpreter starts, else the name of the option with which it does."""
    if source.state not in _ENDED:
        return None  # no time left
    variables = ctx.environment
    starts: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {_UNCHANGED: ((interpreter,), variables)}
    for excluded in (name for name in _VARIABLES if name in variables):
        starts[excluded] = (interpreter,), {name: value for name, value in variables.items() if name != excluded}
    starts |= {name: ((interpreter, option), variables) for name, option in _OPTIONS.items()}
    with ThreadPoolExecutor(len(starts)) as pool:
        answers = pool.map(lambda start: _runs_script(ctx, *start), starts.values())
        working = [name for name, is_working in zip(starts, answers, strict=True) if is_working]
    return working[0] or None if working else None  # unchanged: something else is wrong


def _runs_script(ctx: ProbeContext, command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether an interpreter started in this way runs a script."""
    arguments = [*command, "-B", script("interpreter_bare.py")]
    return "python" in parse_facts(run_interpreter(arguments, environment, ctx.deadline, ctx.group).stdout)


def _startup_files(interpreter: str, environment: Mapping[str, str]) -> Iterator[str]:
    """Yields the files of the environment and of PYTHONPATH that an interpreter runs when it starts."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(interpreter)))
    libraries = sorted(glob.glob(os.path.join(glob.escape(prefix), "lib*", "python*")))
    packages = [os.path.join(folder, name) for folder in libraries for name in _PACKAGES]
    pythonpath = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    # lib64 may be a link to lib
    real = {os.path.realpath(folder): folder for folder in (*libraries[::-1], *packages[::-1], *pythonpath)}
    for folder in real.values():
        yield from (path for name in _HOOKS if os.path.isfile(path := os.path.join(folder, name)))
    for folder in (entry for entry in packages if real[os.path.realpath(entry)] == entry):
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.pth"))):
            if os.path.basename(path) not in _KNOWN and _has_code(path):
                yield path


def _has_code(path: str) -> bool:
    """Whether a .pth file has a line that is run."""
    try:
        return any(map(_RUNS.match, read_regular(path, _LARGEST).splitlines()))
    except OSError:
        return False
