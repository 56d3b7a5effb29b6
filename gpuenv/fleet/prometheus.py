"""A fleet as metrics for the text-file collector of Prometheus's node exporter; a metric of one node has its name."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.model.documents import Fleet
from gpuenv.report.prometheus import Metric, metrics_text

_STATUSES = ("fit", "degraded", "unfit", "unknown")


def render(fleet: Fleet) -> str:
    """The metrics."""
    return metrics_text(_metrics(fleet))


def _metrics(fleet: Fleet) -> Iterator[Metric]:
    nodes = fleet.nodes
    counts = (({"status": name}, float(sum(node.status == name for node in nodes))) for name in _STATUSES)
    yield Metric("fleet_nodes", "Nodes by status.", tuple(counts))
    missing = {"silent": fleet.silent, "stale": fleet.stale, "unreadable": fleet.unreadable}
    yield Metric(
        "fleet_missing",
        "Nodes that are silent or stale, and unreadable files.",
        tuple(({"kind": kind}, float(len(entries))) for kind, entries in missing.items()),
    )
    fit = (({"node": node.node}, float(node.status in ("fit", "degraded"))) for node in nodes)
    yield Metric("node_fit", "1 if a node is fit, 0 if it is unfit or unknown.", tuple(fit))
    silent = (({"node": entry.node}, 1.0) for entry in fleet.silent)
    yield Metric("node_silent", "1 for each node that did not answer.", tuple(silent))
    drain = (({"node": node.node, "reason": node.drain}, 1.0) for node in nodes if node.drain)
    yield Metric("node_drain_info", "One sample per node that should get no jobs.", tuple(drain))
    groups = (({"node": node.node, "group": node.group}, 1.0) for node in nodes if node.group)
    yield Metric("node_group_info", "The group of each node.", tuple(groups))
    taken = (({"node": node.node}, node.taken_at) for node in nodes)
    yield Metric("node_report_timestamp_seconds", "Time of the report of a node.", tuple(taken))
