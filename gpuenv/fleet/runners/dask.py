"""Dask: a task pinned to one worker of each host, on an existing cluster.

A task is ``subprocess.run`` of the standard library, so that the workers need only the program. Dask's own
configuration names the certificates; its workers and clients trust each other.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from typing import Any

from gpuenv.fleet.runners.task import Answer, Nodes, RunnerError, Task, checked_names, command_lines
from gpuenv.model.redaction import cut_text, hide_secrets

_POLL = 1.0  # seconds
_CONNECT_SECONDS = 20


def _client(task: Task) -> Any:  # noqa: ANN401 - a class of an extra
    """A client of the named or configured scheduler.

    Raises:
        RunnerError: without Dask or a scheduler.
    """
    try:
        import dask  # noqa: PLC0415 - an extra
        from distributed import Client  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise RunnerError("--via dask needs Dask: install gpuenv[dask]") from error
    address = task.scheduler or dask.config.get("scheduler-address", None)
    if not address:
        raise RunnerError("--via dask needs --scheduler, such as tcp://10.0.0.1:8786")
    try:
        return Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise RunnerError(f"{address}: no Dask scheduler answers: {error}") from error


def _workers(client: Any) -> dict[str, str]:  # noqa: ANN401 - a class of an extra
    """The address of one worker for each host."""
    from distributed.comm.addressing import get_address_host  # noqa: PLC0415 - an extra

    return {get_address_host(address): address for address in sorted(_addresses(client), reverse=True)}


def _addresses(client: Any) -> set[str]:  # noqa: ANN401 - a class of an extra
    info = client.scheduler_info(n_workers=-1)
    if "workers" not in info:  # a client that is closed has no information
        raise ConnectionError("the client has closed the connection")
    return set(info["workers"])


def find_nodes(nodes: str | None, task: Task) -> Nodes:
    """The hosts of the workers, or those of a list.

    Raises:
        RunnerError: if no scheduler answers.
    """
    with _client(task) as client:
        workers = _workers(client)
    names = checked_names([*workers] if nodes is None else [name for name in nodes.split(",") if name])
    reasons = {name: "no Dask worker runs there" for name in names if name not in workers}
    return Nodes(tuple(name for name in names if name in workers), reasons)


def dry_run(nodes: Nodes, task: Task) -> str:
    """The commands of a collection, one a line."""
    return command_lines(task.command for _ in nodes.asked)


def ask(nodes: Nodes, task: Task) -> Iterator[Answer]:
    """Asks one worker of each host; a worker that is lost takes its own answer along, the scheduler all others."""
    settings = {"stdin": subprocess.DEVNULL, "capture_output": True, "check": False, "timeout": task.limit}
    left = dict.fromkeys(nodes.asked)
    reason = f"no answer within {task.limit:.0f} s"
    try:
        with _client(task) as client:
            workers = _workers(client)
            futures = {
                node: client.submit(
                    subprocess.run,
                    task.command,
                    **settings,
                    workers=[workers[node]],
                    key=f"gpuenv-{task.run}-{node}",
                    pure=False,
                    retries=0,
                )
                for node in nodes.asked
                if node in workers
            }
            until = time.monotonic() + task.limit
            while left and time.monotonic() < until:
                present = _addresses(client)
                for node in [*left]:
                    future = futures.get(node)
                    if future is not None and future.done():
                        answer = _answer(node, future)
                        del left[node]
                        yield answer
                    elif workers.get(node) not in present:
                        del left[node]
                        yield Answer(node, b"", "its Dask worker was lost")
                time.sleep(_POLL if left else 0)
            client.cancel([*futures.values()], force=True)
    except OSError as error:
        reason = cut_text(f"the Dask scheduler was lost: {error}", 200)
    for node in left:
        yield Answer(node, b"", reason)


def _answer(node: str, future: Any) -> Answer:  # noqa: ANN401 - a class of an extra
    if future.cancelled():
        return Answer(node, b"", "Dask cancelled its task, as it does when the scheduler is lost")
    error = future.exception()
    if error is not None:
        return Answer(node, b"", cut_text(f"{type(error).__name__}: {error}", 200))
    result = future.result()
    reason = None if result.stdout else hide_secrets((result.stderr or b"").decode("utf-8", "replace")).strip()[-200:]
    return Answer(node, result.stdout, reason)
