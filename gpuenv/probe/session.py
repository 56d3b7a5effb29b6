"""Runs all probes at the same time, each in a child with a deadline, and assembles their answers.

The modules that parse answers are imported while the children run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from gpuenv.probe.children import ChildGroup, join_all
from gpuenv.probe.context import ProbeContext, run_nvml, run_script, run_target, script, working_folder
from gpuenv.probe.interpreters import examining_identity
from gpuenv.probe.request import ProbeRequest
from gpuenv.probe.target import find_interpreter

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot, Source
    from gpuenv.probe.raw import Raw

_ANNOUNCE_AFTER = 2.0  # seconds until the caller is notified of the probes that still run
_FALLBACK = "nvidia-smi"  # only needed where the other probes fail
_FALLBACK_SECONDS = 4.0  # seconds to wait for it after the others
_LATE = 0.7  # seconds after the deadline to reap a killed child

Announce = Callable[[str], None]


class ProbeSession:
    """One run of all probes.

    Must be closed, so that no child process is left behind.
    """

    def __init__(self, request: ProbeRequest) -> None:
        """Finds the target; starts nothing yet.

        Raises:
            TargetError: when the requested target is not an environment, or root cannot examine it as its owner.
        """
        self._request = request
        self._interpreter = None if request.host_only else find_interpreter(request.python, request.environment)
        self._identity = None
        if self._interpreter is not None:
            self._identity = examining_identity(self._interpreter, request.environment, script("start.py"))
        self._started = time.monotonic()
        self._ctx = ProbeContext(request.environment, request.root, self._started + request.timeout, ChildGroup())
        self._answers: dict[str, Any] = {}
        self._faults: list[Exception] = []
        self._threads: dict[str, threading.Thread] = {}

    def begin(self) -> None:
        """Starts every probe."""
        ctx, interpreter = self._ctx, self._interpreter
        tasks: dict[str, Callable[[], Any]] = {}
        if interpreter is not None:
            facts: SimpleQueue[tuple[Raw, Source] | None] = SimpleQueue()
            tasks["target"] = lambda: _target(ctx, interpreter, facts)
            tasks["files"] = lambda: _files(ctx, facts, deep=self._request.deep)
        for name, probe in {"kernel": _kernel, "nvml": _nvml, "libcuda": _cuda, _FALLBACK: _smi}.items():
            tasks[name] = partial(probe, ctx)
        self._threads = {
            name: threading.Thread(target=self._work, args=(name, task), daemon=True) for name, task in tasks.items()
        }
        for thread in self._threads.values():
            thread.start()

    def close(self) -> None:
        """Kills every child that still runs, and waits until its working folder is removed."""
        self._ctx.group.close()
        running = [thread for thread in self._threads.values() if thread.is_alive()]  # one may never have started
        join_all(running, time.monotonic() + _LATE)

    def finish(self, announce: Announce = lambda _: None) -> Snapshot:
        """Waits until every probe has answered or missed its deadline, and assembles the answers.

        ``announce`` gets the names of the probes that still run after two seconds.

        Raises:
            Exception: raised in parsing an answer: a bug of gpuenv, not a failed probe.
        """
        from gpuenv.probe.assembly import assemble_snapshot  # noqa: PLC0415 - see the module's docstring

        try:
            self._wait(announce)
            answers = dict(self._answers)
        finally:
            self.close()
        if self._faults:
            raise self._faults[0]
        return assemble_snapshot(answers, self._request, self._interpreter, self._started, self._identity)

    def _work(self, name: str, task: Callable[[], Any]) -> None:
        try:
            self._answers[name] = task()
        except Exception as error:  # noqa: BLE001 - raised again by the main thread
            self._faults.append(error)

    def _wait(self, announce: Announce) -> None:
        """Joins the threads; one that misses its deadline is abandoned, and its answer is missing."""
        threads, deadline = self._threads, self._ctx.deadline
        join_all(threads.values(), self._started + _ANNOUNCE_AFTER)
        waiting = [name for name, thread in threads.items() if thread.is_alive()]
        if waiting:
            seconds = max(0.0, deadline - time.monotonic())
            announce(f"still waiting for {', '.join(waiting)} (at most {seconds:.0f} s more)")
        join_all((thread for name, thread in threads.items() if name != _FALLBACK), deadline + _LATE)
        join_all(threads.values(), min(deadline, time.monotonic() + _FALLBACK_SECONDS) + _LATE)


def take_snapshot(request: ProbeRequest) -> Snapshot:
    """Probes the machine and the target.

    Raises:
        TargetError: when the requested target is not an environment.
    """
    with closing(ProbeSession(request)) as session:
        session.begin()
        return session.finish()


# The probes by the name of their source; ``assembly.py`` reads their answers


def _kernel(ctx: ProbeContext) -> Any:  # noqa: ANN401 - the answer of a task
    result = run_script(ctx, "kernel", ctx.root)
    from gpuenv.probe.driver_probes import kernel_facts, probe_nvcc  # noqa: PLC0415 - see the module's docstring

    kernel, source = kernel_facts(result)
    return kernel, source, *probe_nvcc(ctx, kernel)


def _nvml(ctx: ProbeContext) -> Any:  # noqa: ANN401 - the answer of a task
    result = run_nvml(ctx)
    from gpuenv.probe.driver_probes import nvml_facts  # noqa: PLC0415 - see the module's docstring

    return nvml_facts(result)


def _cuda(ctx: ProbeContext) -> Any:  # noqa: ANN401 - the answer of a task
    result = run_script(ctx, "cuda")
    from gpuenv.probe.driver_probes import cuda_facts  # noqa: PLC0415 - see the module's docstring

    return cuda_facts(result)


def _smi(ctx: ProbeContext) -> Any:  # noqa: ANN401 - the answer of a task
    from gpuenv.probe.driver_probes import probe_smi  # noqa: PLC0415 - see the module's docstring

    return probe_smi(ctx)


def _target(ctx: ProbeContext, interpreter: str, facts: SimpleQueue[tuple[Raw, Source] | None]) -> Any:  # noqa: ANN401
    """Probes the target's interpreter, then its libraries; passes the interpreter's facts to ``_files``."""
    try:
        result = run_target(ctx, interpreter, "interpreter", *working_folder(ctx.environment))
        from gpuenv.probe.target_probes import (  # noqa: PLC0415 - see the module's docstring
            probe_libraries,
            target_facts,
            with_transactions,
        )

        target, source = target_facts(result)
        if target.text("python") is None:
            from gpuenv.probe.startup_failure import diagnose_startup  # noqa: PLC0415 - few targets need it

            target = diagnose_startup(ctx, interpreter, target, source)
        target = with_transactions(target, interpreter)
        facts.put((target, source))
        libraries, libraries_source = probe_libraries(ctx, interpreter, target)
    finally:
        facts.put(None)
    return target, source, libraries, libraries_source


def _files(ctx: ProbeContext, facts: SimpleQueue[tuple[Raw, Source] | None], *, deep: bool) -> Any:  # noqa: ANN401
    found = None
    with suppress(Empty):
        found = facts.get(timeout=max(0.0, ctx.deadline - time.monotonic()))
    if found is None:
        return None
    from gpuenv.probe.target_probes import probe_files  # noqa: PLC0415 - see the module's docstring

    return probe_files(ctx, *found, deep=deep)
