"""``take_snapshot``: asks every source side by side and assembles the answers.

Nothing that understands an answer is imported before the children are started: importing takes as long as they do.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from gpuenv.probe.asking import Asking, start_cuda, start_files, start_interpreter, start_kernel, start_nvml, start_smi
from gpuenv.probe.children import Answer, ChildResult
from gpuenv.probe.early import Early
from gpuenv.probe.limits import DEFAULT_TIMEOUT
from gpuenv.probe.talk import Talk
from gpuenv.probe.target import find_interpreter

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot

_PATIENCE = 2.0  # seconds
_LESSER = "nvidia-smi"  # what it says decides nothing that the others have told
_COURTESY = 4.0  # seconds that it is given once they have
_LATE = 0.7  # seconds beyond the deadline in which a killed child is buried

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask, and how long.

    Attributes:
        environment: the caller's environment variables.
        python: the target that the caller named; None for the active environment.
        root: the driver root.
        timeout: seconds until every source must have answered.
        taken_at: the time of day to note, ISO 8601.
        deep: also what takes long: the digests of the installed files.
    """

    environment: Mapping[str, str]
    python: str | None = None
    root: str = "/"
    timeout: float = DEFAULT_TIMEOUT
    taken_at: str | None = None
    deep: bool = False


class Inquiry:
    """An asking of every source, each in a child of its own, all at the same time.

    To be closed, so that nothing that was started is left behind.
    """

    def __init__(self, request: Request, early: Early | None = None) -> None:
        """Nothing is started yet, but perhaps one child.

        Args:
            request: what to ask, and how long.
            early: the child in which the target's interpreter tells of itself, if it runs by now.

        Raises:
            TargetError: when the target that the caller named is no environment.
        """
        self._request = request
        self._interpreter = find_interpreter(request.python, request.environment)
        self._began = time.monotonic()
        self._asking = Asking(request.environment, request.root, self._began + request.timeout)
        self._early = early
        self._answers: dict[str, Any] = {}
        self._faults: list[Exception] = []
        self._threads: dict[str, threading.Thread] = {}

    def begin(self) -> None:
        """Starts every child; an asking that was interrupted meanwhile is closed like any other."""
        tasks = _tasks(self._asking, self._interpreter, self._early, deep=self._request.deep)
        # What understands the answers is imported while there is one thread: threads that import hold each other up.
        from gpuenv.probe import ask_programs, ask_target, driver_facts  # noqa: F401, PLC0415

        self._threads = {
            name: threading.Thread(target=self._work, args=(name, task), daemon=True) for name, task in tasks.items()
        }
        for thread in self._threads.values():
            thread.start()

    def becomes(self, request: Request) -> bool:
        """Whether this asking answers a request too, made at another time of day; from now on it is for that one."""
        if replace(request, taken_at=None) != replace(self._request, taken_at=None):
            return False
        self._request = request
        return True

    def close(self) -> None:
        """Ends every child that still runs."""
        self._asking.group.close()

    def finish(self, announce: Announce = lambda _: None) -> Snapshot:
        """Waits until every source has answered or is late beyond help, and assembles what was said.

        Args:
            announce: told which sources are still awaited, two seconds after the beginning.

        Raises:
            Exception: a mistake of this program in reading an answer, which is no silence of the source.
        """
        from gpuenv.probe.answers import snapshot_of  # noqa: PLC0415 - imported while the children work

        try:
            self._wait(announce)
            answers = dict(self._answers)
        finally:
            self.close()
        if self._faults:
            raise self._faults[0]
        return snapshot_of(answers, self._request, self._interpreter, self._began)

    def _work(self, name: str, task: Callable[[], Any]) -> None:
        try:
            self._answers[name] = task()
        except Exception as error:  # noqa: BLE001 - told by the main thread
            self._faults.append(error)

    def _wait(self, announce: Announce) -> None:
        """Joins the threads; one that is late beyond help is left behind, its answer missing."""
        threads, deadline = self._threads, self._asking.deadline
        _join(threads.values(), self._began + _PATIENCE)
        waiting = [name for name, thread in threads.items() if thread.is_alive()]
        if waiting:
            left = max(0.0, deadline - time.monotonic())
            announce(f"still waiting for {', '.join(waiting)} (at most {left:.0f} s more)")
        _join((thread for name, thread in threads.items() if name != _LESSER), deadline + _LATE)
        _join(threads.values(), min(deadline, time.monotonic() + _COURTESY) + _LATE)


def take_snapshot(request: Request) -> Snapshot:
    """Asks the machine and the target, each source in a child of its own, all at the same time.

    Args:
        request: what to ask, and how long.

    Raises:
        TargetError: when the target that the caller named is no environment.
    """
    with closing(Inquiry(request)) as inquiry:
        inquiry.begin()
        return inquiry.finish(lambda _: None)


def _tasks(
    asking: Asking, interpreter: str | None, early: Early | None, *, deep: bool
) -> Mapping[str, Callable[[], Any]]:
    """What is asked, by the name of the source.

    Every child is started here, before there is a second thread: those of the target first, which take longest, then
    the forks.
    """
    tasks: dict[str, Callable[[], Any]] = {}
    if interpreter is not None:
        target, files = start_interpreter(asking, interpreter, early), start_files(asking)
        told: SimpleQueue[Any] = SimpleQueue()
        tasks["target"] = lambda: _environment(asking, interpreter, target, told)
        tasks["files"] = lambda: _files(asking, files, told, deep=deep)
    cuda, nvml, kernel = start_cuda(asking), start_nvml(asking), start_kernel(asking)
    return {
        "kernel": lambda: _kernel(asking, kernel),
        "nvml": lambda: _nvml(nvml),
        "libcuda": lambda: _cuda(cuda),
        _LESSER: lambda: _smi(asking),
        **tasks,
    }


def _kernel(asking: Asking, answer: Answer) -> Any:  # noqa: ANN401 - answers.py knows what each task gives
    result = answer()
    from gpuenv.probe.ask_programs import ask_nvcc  # noqa: PLC0415 - likewise
    from gpuenv.probe.driver_facts import kernel_facts  # noqa: PLC0415 - the child was to be started first

    kernel, source = kernel_facts(result)
    return kernel, source, *ask_nvcc(asking, kernel)


def _nvml(answer: Answer) -> Any:  # noqa: ANN401 - likewise
    result = answer()
    from gpuenv.probe.driver_facts import nvml_facts  # noqa: PLC0415 - the child was to be started first

    return nvml_facts(result)


def _cuda(answer: Answer) -> Any:  # noqa: ANN401 - likewise
    result = answer()
    from gpuenv.probe.driver_facts import cuda_facts  # noqa: PLC0415 - the child was to be started first

    return cuda_facts(result)


def _smi(asking: Asking) -> Any:  # noqa: ANN401 - likewise
    begun = start_smi(asking)
    from gpuenv.probe.ask_programs import smi_facts  # noqa: PLC0415 - the child was to be started first

    return smi_facts(asking, begun)


def _environment(asking: Asking, interpreter: str, begun: Talk | ChildResult, told: SimpleQueue[Any]) -> Any:  # noqa: ANN401
    talk = None if isinstance(begun, ChildResult) else begun
    try:
        with closing(talk) if talk is not None else nullcontext():
            result = begun if isinstance(begun, ChildResult) else begun.first()
            from gpuenv.probe.ask_target import ask_libraries, target_facts  # noqa: PLC0415 - likewise

            target, source = target_facts(result)
            if target.python is None:
                from gpuenv.probe.ask_start import how_it_starts  # noqa: PLC0415 - few targets need it

                target = how_it_starts(asking, interpreter, target, source)
            told.put((target, source))
            libraries, libraries_source = ask_libraries(asking, interpreter, target, talk)
    finally:
        told.put(None)  # nobody shall wait for what will not be told
    return target, source, libraries, libraries_source


def _files(asking: Asking, ask: Callable[[str], ChildResult], told: SimpleQueue[Any], *, deep: bool) -> Any:  # noqa: ANN401
    found = None
    with suppress(Empty):
        found = told.get(timeout=max(0.0, asking.deadline - time.monotonic()))
    if found is None:
        ask("")  # it has been started, and is to be buried
        return None
    from gpuenv.probe.ask_target import ask_files  # noqa: PLC0415 - the child was to be started first

    return ask_files(ask, *found, deep=deep)


def _join(threads: Iterable[threading.Thread], until: float) -> None:
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
