"""What every asking needs, and how a script of ours is run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from gpuenv.model.secrets import for_the_driver, for_the_target
from gpuenv.probe.children import (
    Answer,
    ChildGroup,
    ChildResult,
    follow,
    run_child,
    start_child,
    start_process,
    tell,
)
from gpuenv.probe.command import in_target, of_target, script
from gpuenv.probe.early import Early
from gpuenv.probe.forked import fork_script, may_fork
from gpuenv.probe.listening import Process
from gpuenv.probe.piped import Piped
from gpuenv.probe.talk import Talk

_WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"


@dataclass(frozen=True, slots=True)
class Asking:
    """What every asking needs: the caller's environment, the driver root and the time by which to answer.

    Attributes:
        environment: the caller's environment variables; a child is handed those of them that it needs.
        root: folder under which ``/proc``, ``/sys``, ``/dev`` and the toolkits are looked for.
        deadline: reading of ``time.monotonic``.
        group: the children that are ended when nobody waits for them any longer.
    """

    environment: Mapping[str, str]
    root: str
    deadline: float
    group: ChildGroup = field(default_factory=ChildGroup)


def start_own(asking: Asking, name: str, *arguments: str) -> Answer:
    """Starts a script of ours and answers what waits for its end.

    A fork is started at once; where none may be made, an interpreter is started when its end is waited for.
    """
    if not may_fork(asking.environment):
        return lambda: _run_own(asking, name, *arguments)
    started = time.monotonic()
    try:
        process = asking.group.start(lambda: fork_script(script(name), *arguments))
    except OSError:
        return lambda: _run_own(asking, name, *arguments)
    return lambda: follow(process, started, asking.deadline, asking.group)


def start_listening(asking: Asking, name: str) -> Callable[[str], ChildResult]:
    """Starts a script of ours that is to be told what it shall look at; the answer tells it, and waits for its end.

    The script reads the one line that it is told before all else, however long that is.
    """
    if not may_fork(asking.environment):
        return lambda told: _run_own(asking, name, told=told)
    try:
        process = asking.group.start(lambda: fork_script(script(name), listening=True))
    except OSError:
        return lambda told: _run_own(asking, name, told=told)

    def ask(told: str) -> ChildResult:
        started = time.monotonic()
        tell(process, told + "\n")
        return follow(process, started, asking.deadline, asking.group)

    return ask


def _run_own(asking: Asking, name: str, *arguments: str, told: str | None = None) -> ChildResult:
    """Runs a script under gpuenv's own interpreter, apart from PYTHONPATH: that is the target's affair."""
    # The scripts import each other: without -B they are compiled once, unless this process was told to write nothing.
    flags = ["-I", "-B"] if sys.dont_write_bytecode else ["-I"]
    command = [sys.executable, *flags, script(name), *arguments]
    return run_child(command, for_the_driver(asking.environment), asking.deadline, asking.group, told=told)


def start_kernel(asking: Asking) -> Answer:
    """The child that reads the kernel's files."""
    return start_own(asking, "kernel.py", asking.root)


def start_nvml(asking: Asking) -> Answer:
    """The child that asks NVML, through nvidia-ml-py."""
    return start_own(asking, "nvml.py", folder_of("pynvml"))


def start_cuda(asking: Asking) -> Answer:
    """The child that asks libcuda."""
    return start_own(asking, "cuda.py")


def start_target(asking: Asking, interpreter: str, name: str, *arguments: str) -> Answer:
    """Starts a script under the target's interpreter, with the caller's variables but for secrets."""
    command = [*in_target(interpreter, name, *arguments)]
    return start_child(command, for_the_target(asking.environment), asking.deadline, asking.group)


def start_interpreter(asking: Asking, interpreter: str, early: Early | None = None) -> Talk | ChildResult:
    """The child in which the target's interpreter tells of itself and its distributions, then of its libraries.

    Args:
        asking: what every asking needs.
        interpreter: the target's.
        early: that child, where it runs by now.

    Returns:
        Who is talked to, to be closed; or why nobody is.
    """
    started = time.monotonic()
    process: Process | ChildResult
    if early is not None and early.command == of_target(interpreter):
        process = asking.group.start(lambda: Piped(interpreter, early.pid, early.out, early.err, early.told))
        started = early.started
    else:
        process = start_process(
            of_target(interpreter), for_the_target(asking.environment), asking.group, listening=True
        )
    return process if isinstance(process, ChildResult) else Talk(process, started, asking.deadline, asking.group)


def start_files(asking: Asking) -> Callable[[str], ChildResult]:
    """The child that looks through the installed files of a target, once that has told where it imports from."""
    return start_listening(asking, "files.py")


def start_smi(asking: Asking) -> tuple[str, Answer] | None:
    """Starts nvidia-smi for its banner, and answers its path and what waits for it; None where it is not on PATH.

    This thread is not to start anything that makes device nodes afterwards: where there is no driver, it no longer can.
    """
    import shutil  # noqa: PLC0415 - with three libraries of compression, which would keep the first children waiting

    beside_path = asking.root.rstrip("/") + _WSL_SMI
    path = shutil.which("nvidia-smi", path=asking.environment.get("PATH")) or shutil.which(beside_path)
    if path is None:
        return None
    from gpuenv.probe.scripts.device_nodes import make_none  # noqa: PLC0415 - where there is one to be asked

    make_none()
    return path, start_child([path], for_the_driver(asking.environment), asking.deadline, asking.group)


def folder_of(module: str) -> str:
    """Where a module of ours lies: a child kept apart from PYTHONPATH and the user site may not find it."""
    spec = find_spec(module)
    return os.path.dirname(spec.origin) if spec and spec.origin else ""  # noqa: PTH120 - for start-up
