"""Compares two sets of node reports: new, gone, flapping and changed nodes."""

from __future__ import annotations

from itertools import pairwise

from gpuenv.fleet.analysis import Comparer
from gpuenv.fleet.groups import NodeState, Partial
from gpuenv.fleet.node_sets import natural_order
from gpuenv.matrix.tables import Matrix
from gpuenv.model.documents import FleetDiff, FleetDrift

_FLAPS = 2  # changes of the status, there and back


def diff_fleets(before: Partial, after: Partial, matrix: Matrix) -> FleetDiff:
    """The changes from one to the other; nodes that changed in the same way are compared once."""
    comparer = Comparer(after.samples | before.samples, matrix)
    common = sorted(before.nodes.keys() & after.nodes.keys(), key=natural_order)
    flapping = [name for name in common if _changes(before.nodes[name], after.nodes[name]) >= _FLAPS]
    drifts: dict[tuple[object, ...], list[str]] = {}
    unchanged = 0
    for name in common:
        then, now = before.nodes[name].now, after.nodes[name].now
        if (then.group, then.status) == (now.group, now.status):
            unchanged += name not in flapping
        else:
            drifts.setdefault((then.group, now.group, then.status.value, now.status.value), []).append(name)
    drifted = []
    for (group, new_group, status, new_status), nodes in drifts.items():
        known = isinstance(group, str) and isinstance(new_group, str) and group != new_group
        drifted.append(
            FleetDrift(
                nodes=tuple(nodes),
                status=(str(status), str(new_status)) if status != new_status else None,
                differences=comparer.differences(str(group), str(new_group)) if known else (),
            )
        )
    return FleetDiff(
        new=tuple(sorted(after.nodes.keys() - before.nodes.keys(), key=natural_order)),
        gone=tuple(sorted(before.nodes.keys() - after.nodes.keys(), key=natural_order)),
        flapping=tuple(flapping),
        drifted=tuple(sorted(drifted, key=lambda drift: -len(drift.nodes))),
        unchanged=unchanged,
        unreadable=(*before.unreadable, *after.unreadable),
    )


def _changes(*states: NodeState) -> int:
    """How often the status of a node changed, over all its reports."""
    found = {moment for state in states for moment in (state.now, *state.earlier)}
    moments = sorted(found, key=lambda moment: moment.taken_at)
    return sum(one.status is not next_one.status for one, next_one in pairwise(moments))
