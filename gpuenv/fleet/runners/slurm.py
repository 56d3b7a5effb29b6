"""Slurm: a job of one task on each node, by ``srun``; a lost node ends only its own job.

Slurm's own variables choose partition, account and reservation: ``SLURM_PARTITION``, ``SLURM_ACCOUNT``,
``SLURM_RESERVATION``. A job has its node for itself, since a job on a shared node sees only its own GPUs. So a busy
node is not asked; its health check can report at any time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress

from gpuenv.fleet.runners.task import (
    Answer,
    Nodes,
    RunnerError,
    Task,
    ask_each,
    call_client,
    checked_names,
    command_lines,
)

# srun(1), INPUT ENVIRONMENT VARIABLES: the user's choices. In a job, others would make each command a step of that job.
_CHOICES = ("SLURM_CONF", "SLURM_PARTITION", "SLURM_ACCOUNT", "SLURM_RESERVATION", "SLURM_QOS", "SLURM_CLUSTERS")
# sinfo(1), NODE STATE CODES; * is a node that does not respond.
_UNAVAILABLE = (
    "DOWN",
    "DRAIN",
    "FAIL",
    "ERROR",
    "UNKNOWN",
    "NO_RESPOND",
    "POWER",
    "REBOOT",
    "MAINT",
    "FUTURE",
    "INVAL",
)


def find_nodes(nodes: str | None, task: Task) -> Nodes:
    """Expands a node set by Slurm, all nodes by default, and looks up which can run a job.

    Raises:
        RunnerError: for an invalid node set, or if Slurm does not answer.
    """
    states: dict[str, str] = {}
    for line in call_client(("sinfo", "-h", "-N", "-o", "%N %T"), task).splitlines():
        name, _, state = line.strip().partition(" ")
        states[name] = state.strip()
    names = checked_names([*states] if nodes is None else _expand(nodes, task))
    reasons = {name: reason for name in names if (reason := _why_unavailable(states.get(name)))}
    return Nodes(tuple(name for name in names if name not in reasons), reasons)


def _expand(nodes: str, task: Task) -> Sequence[str]:
    if nodes.startswith("-"):
        raise RunnerError(f"--nodes {nodes}: expected a node set of Slurm, such as node[001-100,200]")
    return call_client(("scontrol", "show", "hostnames", nodes), task).split()


def _why_unavailable(state: str | None) -> str | None:
    if state is None:
        return "not a node of this Slurm cluster"
    is_unavailable = state.upper().startswith(_UNAVAILABLE) or state.endswith("*")
    return f"its state in Slurm is {state}" if is_unavailable else None


def command(node: str, task: Task) -> tuple[str, ...]:
    """The command that asks one node."""
    return (
        *(
            "srun",
            "--nodes=1",
            "--ntasks=1",
            f"--nodelist={node}",
            "--exclusive",
            f"--immediate={math.ceil(task.wait)}",
        ),
        *(f"--time={math.ceil(task.seconds / 60) + 1}", f"--job-name={_job_name(task)}", "--chdir=/", "--input=none"),
        *task.command,
    )


def _job_name(task: Task) -> str:
    return f"gpuenv-{task.run}"


def dry_run(nodes: Nodes, task: Task) -> str:
    """The commands of a collection, one a line."""
    return command_lines(command(node, task) for node in nodes.asked)


def ask(nodes: Nodes, task: Task) -> Iterator[Answer]:
    """Asks the nodes; cancels the jobs of nodes that did not answer in time."""
    own = {k: v for k, v in task.environment.items() if k in _CHOICES or not k.startswith(("SLURM_", "SLURMD_"))}
    task = task._replace(environment=own)
    try:
        yield from ask_each({node: command(node, task) for node in nodes.asked}, task)
    finally:
        with suppress(RunnerError):  # Slurm ends them at their time limit
            call_client(("scancel", f"--name={_job_name(task)}"), task, seconds=10)
