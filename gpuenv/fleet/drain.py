"""Commands that take nodes out of service: printed for an administrator, never run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from gpuenv.fleet.node_report import is_node_name
from gpuenv.fleet.node_sets import fold_by_number
from gpuenv.fleet.scheduler import Scheduler
from gpuenv.model.documents import Fleet

_LONGEST = 120  # letters of a reason
_UNSAFE = re.compile(r"[^A-Za-z0-9 .,:;()%/+_-]")


def drain_commands(fleet: Fleet, scheduler: Scheduler) -> Iterator[str]:
    """One command for the nodes with the same reason, or one a node; each node once, for its first reason."""
    nodes_of: dict[str, list[str]] = {}
    for node in fleet.nodes:
        if node.drain is not None and is_node_name(node.node):
            nodes_of.setdefault(reason_text(node.drain), []).append(node.node)
    for reason, nodes in nodes_of.items():
        if scheduler is Scheduler.SLURM:
            names = f"NodeName={fold_by_number(nodes)}"
            yield f"scontrol update {quote(names)} State=DRAIN {quote(f'Reason={reason}')}"
        else:
            yield f"# {reason}"
            for name in map(quote, nodes):
                yield f"kubectl cordon {name}"
                yield f"kubectl drain {name} --ignore-daemonsets"


def reason_text(text: str) -> str:
    """A reason for an administrator; its text comes from the node, so that only harmless letters are kept."""
    return f"gpuenv: {_UNSAFE.sub('_', text)}"[:_LONGEST]
