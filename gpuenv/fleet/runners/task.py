"""What runs on every node, its answers, and the clients of engines, which are run as child processes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from typing import NamedTuple

from gpuenv.fleet.node_report import is_node_name
from gpuenv.model.redaction import cut_text
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, run_child

_CLIENT_SECONDS = 60.0  # for a question to an engine
_LONGEST_REASON = 200  # characters


class RunnerError(Exception):
    """An engine cannot be used, or does not have the nodes."""


class Task(NamedTuple):
    """What runs on every node."""

    command: tuple[str, ...]  # prints a node report as the last line of standard output
    run: str  # the name of the collection
    seconds: float  # the time limit of the command on a node
    wait: float  # seconds that an engine may take to start the command on a node
    parallel: int  # the most nodes that Slurm and SSH ask at once
    environment: Mapping[str, str]  # the variables for the clients of engines
    image: str | None = None  # Kubernetes: the container image with gpuenv
    runtime_class: str | None = None  # Kubernetes: the runtime class of the pods
    scheduler: str | None = None  # Dask: the address of the scheduler

    @property
    def limit(self) -> float:
        """Seconds after which a node is given up."""
        return self.seconds + self.wait


class Nodes(NamedTuple):
    """The nodes of a collection: those to ask, and why others cannot be asked now."""

    asked: tuple[str, ...]
    unavailable: Mapping[str, str]


class Answer(NamedTuple):
    """The output of a node, or the reason why there is none."""

    node: str
    output: bytes
    reason: str | None = None


def checked_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names without duplicates, in their order.

    Raises:
        RunnerError: for one that can be no host name.
    """
    wrong = [name for name in names if not is_node_name(name)]
    if wrong:
        raise RunnerError(f"{cut_text(wrong[0], 80)!r} cannot be the name of a node")
    return tuple(dict.fromkeys(names))


def command_lines(commands: Iterable[Sequence[str]]) -> str:
    """The commands for a shell, one a line."""
    return "".join(f"{shlex.join(command)}\n" for command in commands)


def call_client(
    command: Sequence[str], task: Task, *, stdin: str | None = None, seconds: float = _CLIENT_SECONDS
) -> str:
    """The output of a client that asks its engine.

    Raises:
        RunnerError: when it fails, with its last message.
    """
    result = run_child(command, task.environment, time.monotonic() + seconds, stdin=stdin)
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        raise RunnerError(f"{' '.join(command[:3])}: {failure_reason(result)}")
    return result.stdout


def failure_reason(result: ChildResult) -> str:
    """Why a client failed: its last error, else its last message, else how it ended."""
    if result.ending is Ending.NOT_STARTED:
        return result.error or "cannot be started"
    if result.ending is Ending.TIMED_OUT:
        return f"no answer within {result.duration:.0f} s"
    lines = [line.strip() for line in result.stderr.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()]
    ending = result.signal_name or f"exit code {result.exit_code}"
    return cut_text([ending, *lines, *errors][-1], _LONGEST_REASON)


def ask_each(commands: Mapping[str, Sequence[str]], task: Task) -> Iterator[Answer]:
    """Runs a client for each node, many at once, and yields the answers as they come."""
    with closing(ChildGroup()) as group, ThreadPoolExecutor(max(1, min(task.parallel, len(commands)))) as pool:

        def ask(node: str, command: Sequence[str]) -> Answer:
            result = run_child(command, task.environment, time.monotonic() + task.limit, group)
            output = result.stdout.encode()
            return Answer(node, output, None if output.strip() else failure_reason(result))

        futures = {pool.submit(ask, node, command) for node, command in commands.items()}
        try:
            for future in as_completed(futures):
                futures.discard(future)  # with its output
                yield future.result()
        finally:
            for future in futures:
                future.cancel()
            group.close()
