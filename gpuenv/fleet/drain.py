"""Commands that take nodes out of service: printed for an administrator, never run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from shlex import quote

from gpuenv.fleet.node_report import is_node_name
from gpuenv.fleet.node_sets import fold_by_number
from gpuenv.model.documents import Fleet

_LONGEST = 120  # characters of a reason
_UNSAFE = re.compile(r"[^A-Za-z0-9 .,:;()%/+_-]")


def slurm_commands(fleet: Fleet) -> Iterator[str]:
    """One command for all nodes with the same reason."""
    for reason, nodes in _nodes_by_reason(fleet).items():
        names = f"NodeName={fold_by_number(nodes)}"
        yield f"scontrol update {quote(names)} State=DRAIN {quote(f'Reason={reason}')}"


def kubernetes_commands(fleet: Fleet) -> Iterator[str]:
    """Two commands for each node, after a comment with their reason."""
    for reason, nodes in _nodes_by_reason(fleet).items():
        yield f"# {reason}"
        for name in map(quote, nodes):
            yield f"kubectl cordon {name}"
            yield f"kubectl drain {name} --ignore-daemonsets"


def _nodes_by_reason(fleet: Fleet) -> dict[str, list[str]]:
    """The nodes to drain, each once; only harmless characters of a reason are kept, since it comes from the node."""
    nodes: dict[str, list[str]] = {}
    for node in fleet.nodes:
        if node.drain is not None and is_node_name(node.node):
            reason = f"gpuenv: {_UNSAFE.sub('_', node.drain)}"[:_LONGEST]
            nodes.setdefault(reason, []).append(node.node)
    return nodes
