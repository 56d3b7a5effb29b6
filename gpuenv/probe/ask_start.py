"""What keeps a target's interpreter from answering: its variables, what runs when it starts, or itself."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from gpuenv.model.secrets import for_the_target
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.model.strings import has_python_name, pattern
from gpuenv.probe.children import run_child
from gpuenv.probe.context import ProbeContext, script
from gpuenv.probe.protocol import parse_facts
from gpuenv.probe.raw import Raw

# Each is left out by itself; -E then passes over all variables whose names begin with PYTHON, and -S over .pth files,
# sitecustomize and usercustomize.
_VARIABLES = ("PYTHONHOME", "PYTHONPATH", "LD_PRELOAD", "LD_LIBRARY_PATH")
_OPTIONS = {"variables": "-E", "startup": "-S"}
_AS_IT_IS = ""
_ENDED = (SourceState.FAILED, SourceState.CRASHED)
_HOOKS = ("sitecustomize.py", "usercustomize.py")
_PACKAGES = ("site-packages", "dist-packages")
# Those of setuptools and of virtualenv, which are everywhere.
_KNOWN = ("distutils-precedence.pth", "_virtualenv.pth")
_RUNS = pattern(rb"^import[ \t]")  # as site.py tells a line that is run from one that names a folder
_LIMIT = 100_000
_LINKS = 40  # as the kernel's own limit
_MOST = 8


def how_it_starts(ctx: ProbeContext, interpreter: str, target: Raw, source: Source) -> Raw:
    """The same facts, and where they are none: what it starts without, and which files run when it starts.

    ``source`` is how the probe of the interpreter ended.
    """
    if target.text("python") is not None or not has_python_name(interpreter):
        return target  # what is called otherwise is no matter to be run again
    blocked = _unstartable(interpreter)
    if blocked is not None:
        return target.plus(unstartable=blocked)
    files = list(_startup_files(interpreter, ctx.environment))[:_MOST]
    return target.plus(startup_files=files, starts_without=_starts_without(ctx, interpreter, source))


def _unstartable(path: str) -> str | None:
    """What is not there, or may not be entered or run, on the way to a program by its links; None where nothing is."""
    for _ in range(_LINKS):
        folder = os.path.dirname(path)
        above = [folder]
        while os.path.dirname(above[-1]) != above[-1]:
            above.append(os.path.dirname(above[-1]))
        blocked = next((why for entry in reversed(above) if (why := _no_way_to(path, entry))), None)
        if blocked is not None:
            return blocked
        if not os.path.islink(path):
            missing = None if os.path.exists(path) else f"{path} is not there"
            return missing or (None if os.access(path, os.X_OK) else f"{path} may not be run by this user")
        path = os.path.join(folder, os.readlink(path))
    return "its links lead nowhere"


def _no_way_to(path: str, folder: str) -> str | None:
    """Why a program below a folder is not to be reached, where every folder above that one may be entered."""
    if not folder:
        return None  # the working folder, from which PATH may name it
    try:
        os.stat(os.path.join(folder, os.curdir))  # it may be a link to what lies in a closed one
    except PermissionError:
        return f"{folder} may not be entered by this user"
    except OSError:
        return f"{path} is not there"
    return None


def _starts_without(ctx: ProbeContext, interpreter: str, source: Source) -> str | None:
    if source.state not in _ENDED:
        return None  # the time is over
    whole = for_the_target(ctx.environment)
    starts: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {_AS_IT_IS: ((interpreter,), whole)}
    for left_out in (name for name in _VARIABLES if name in whole):
        starts[left_out] = (interpreter,), {name: value for name, value in whole.items() if name != left_out}
    starts |= {name: ((interpreter, option), whole) for name, option in _OPTIONS.items()}
    with ThreadPoolExecutor(len(starts)) as pool:
        answers = pool.map(lambda start: _answers(ctx, *start), starts.values())
        working = [name for name, answered in zip(starts, answers, strict=True) if answered]
    return working[0] or None if working else None  # as it is: then something else is wrong


def _answers(ctx: ProbeContext, command: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Whether an interpreter that is started so runs a script."""
    arguments = [*command, "-B", script("interpreter_bare.py")]
    return "python" in parse_facts(run_child(arguments, environment, ctx.deadline, ctx.group).stdout)


def _startup_files(interpreter: str, environment: Mapping[str, str]) -> Iterator[str]:
    """The files of the environment, and of PYTHONPATH, that an interpreter runs when it starts."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(interpreter)))
    of_python = sorted(glob.glob(os.path.join(glob.escape(prefix), "lib*", "python*")))
    packages = [os.path.join(folder, name) for folder in of_python for name in _PACKAGES]
    told = [entry for entry in environment.get("PYTHONPATH", "").split(os.pathsep) if entry]
    real = {os.path.realpath(folder): folder for folder in (*of_python[::-1], *packages[::-1], *told)}  # lib64 is lib
    for folder in real.values():
        yield from (path for name in _HOOKS if os.path.isfile(path := os.path.join(folder, name)))
    for folder in (entry for entry in packages if real[os.path.realpath(entry)] == entry):
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.pth"))):
            if os.path.basename(path) not in _KNOWN and _runs(path):
                yield path


def _runs(path: str) -> bool:
    """Whether a .pth file has a line which is run."""
    try:
        if not os.path.isfile(path):  # a FIFO would keep us waiting
            return False
        with open(path, "rb") as file:
            return any(_RUNS.match(line) for line in file.read(_LIMIT).splitlines())
    except OSError:
        return False
