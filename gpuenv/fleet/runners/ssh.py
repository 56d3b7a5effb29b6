"""SSH: OpenSSH's ``ssh`` on each node of a node set of ClusterShell.

``~/.ssh/config`` has the user, the port, the key and the way to a node; nothing asks for a password. ``ssh`` is run as
any other client, with a limit on its output, since ClusterShell's own worker keeps whatever a node sends.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator

from gpuenv.fleet.runners.task import Answer, Nodes, RunnerError, Task, ask_each, checked_names, command_lines


def find_nodes(nodes: str | None, _: Task) -> Nodes:
    """Expands a node set, also of ClusterShell's groups.

    Raises:
        RunnerError: for an invalid node set, or without ClusterShell.
    """
    try:
        from ClusterShell.NodeSet import NodeSet, NodeSetException  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        raise RunnerError("--via ssh needs ClusterShell: install gpuenv[clustershell]") from error
    if nodes is None:
        raise RunnerError("--via ssh needs --nodes, such as node[001-100,200] or @gpu")
    try:
        names = [*NodeSet(nodes)]
    except NodeSetException as error:
        raise RunnerError(f"--nodes {nodes}: {error}") from error
    return Nodes(checked_names(names), {})


def command(node: str, task: Task) -> tuple[str, ...]:
    """The command that asks one node."""
    options = ("BatchMode=yes", f"ConnectTimeout={math.ceil(task.wait)}", "ForwardAgent=no", "ForwardX11=no")
    return ("ssh", "-T", *(text for each in options for text in ("-o", each)), "--", node, shlex.join(task.command))


def dry_run(nodes: Nodes, task: Task) -> str:
    """The commands of a collection, one a line."""
    return command_lines(command(node, task) for node in nodes.asked)


def ask(nodes: Nodes, task: Task) -> Iterator[Answer]:
    """Asks the nodes."""
    return ask_each({node: command(node, task) for node in nodes.asked}, task)
