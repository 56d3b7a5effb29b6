"""The analysis of a fleet: its state, how its groups differ, which nodes to drain, and which wheels serve them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuenv.doctor.checks import find_check
from gpuenv.doctor.compare import compare
from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.fleet.groups import (
    MATTERS,
    NodeFinding,
    NodeState,
    Partial,
    Request,
    Sample,
    Snapshots,
    facts_that_matter,
    node_of,
)
from gpuenv.fleet.node_sets import natural_order
from gpuenv.matrix.resolve import resolve_all
from gpuenv.matrix.tables import Matrix
from gpuenv.matrix.what_if import resolve_fleet, resolve_images
from gpuenv.model.causes import Cause
from gpuenv.model.documents import (
    Fleet,
    FleetAnswer,
    FleetFinding,
    FleetGroup,
    FleetNode,
    FleetSilence,
    SnapshotDifference,
)
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import NONE
from gpuenv.report.report import Status

_MOST_COMPARED = 60  # groups, the largest ones; each comparison takes a diagnosis
_CAUSES = {cause.value: cause for cause in Cause}


class FleetOptions(NamedTuple):
    """What is expected of the nodes."""

    now: float  # seconds since the epoch
    max_age: float | None = None  # seconds after which an answer does not count; None for no limit
    quorum: float = 0.95  # the fraction of the nodes that must answer


def analyse(partial: Partial, matrix: Matrix, options: FleetOptions) -> Fleet:
    """The state of the whole fleet."""
    states = [partial.nodes[name] for name in sorted(partial.nodes, key=natural_order)]
    silent = {
        name: request.silent or ""
        for name, request in partial.asked.items()
        if _is_silent(request, partial.nodes.get(name))
    }
    oldest = options.now - options.max_age if options.max_age is not None else 0.0
    stale = tuple(state.node for state in states if state.now.taken_at < oldest and state.node not in silent)
    fresh = [state for state in states if state.now.taken_at >= oldest and state.node not in silent]
    # A file that cannot be read is the answer of an unknown node, unless its name is that of a node.
    lost = {name for file in partial.unreadable if (name := node_of(file)) not in partial.nodes}
    count = len(partial.asked.keys() | partial.nodes.keys() | lost)
    answered = sum(state.now.status is not Status.UNKNOWN for state in fresh)
    groups = group_states(fresh, partial.samples)
    served = serve(groups, partial.samples, matrix)
    unfit = any(state.now.status is Status.UNFIT for state in fresh)
    enough = answered >= options.quorum * count
    return replace(
        served,
        nodes=tuple(map(_node, fresh)),
        groups=tuple(with_differences(groups, partial.samples, matrix)),
        findings=_by_finding(fresh),
        drain=_by_finding(fresh, is_reason_to_drain),
        asked=count,
        answered=answered,
        quorum=options.quorum,
        silent=tuple(FleetSilence(name, silent[name]) for name in sorted(silent, key=natural_order)),
        stale=stale,
        repeated=tuple(state.node for state in states if state.earlier),
        unreadable=tuple(partial.unreadable),
        exit_code=int(ExitCode.UNFIT if unfit else ExitCode.OK if enough and count else ExitCode.COULD_NOT_CHECK),
    )


def _is_silent(request: Request, state: NodeState | None) -> bool:
    """Whether a node has not answered its last request; a drained node gets none, and its former report counts."""
    return state is None or (request.silent is not None and state.now.taken_at < request.started_at)


def _node(state: NodeState) -> FleetNode:
    reason = next(filter(is_reason_to_drain, state.findings), None)
    return FleetNode(
        node=state.node,
        status=state.now.status.value,
        group=state.now.group,
        taken_at=state.now.taken_at,
        findings=tuple(f"{entry.code} {entry.cause}: {entry.title}" for entry in state.findings),
        drain=f"{reason.cause}: {reason.title}" if reason else None,
        error=state.error,
        reports=1 + len(state.earlier),
    )


def is_reason_to_drain(finding: NodeFinding) -> bool:
    """Whether jobs fail on this node and may succeed on another, and waiting does not help."""
    cause = _CAUSES.get(finding.cause)  # a newer gpuenv may have others
    if cause is None:
        return False
    check = find_check(finding.code)
    of_process = check is not None and check.of_process
    concerns_host = cause.other_host is not None and not cause.transient and not finding.in_image and not of_process
    return concerns_host and finding.severity is Severity.ERROR


def _by_finding(
    states: Iterable[NodeState], accept: Callable[[NodeFinding], bool] | None = None
) -> tuple[FleetFinding, ...]:
    """Each finding once, by code, cause and severity, with the nodes that have it; errors first, then the commonest."""
    nodes: dict[tuple[str, str, Severity], dict[str, str]] = {}
    for state in states:
        for entry in filter(accept, state.findings):
            nodes.setdefault((entry.code, entry.cause, entry.severity), {}).setdefault(state.node, entry.title)
    findings = (
        FleetFinding(code, cause, severity.value, _title(tuple(titles.values())), tuple(titles))
        for (code, cause, severity), titles in nodes.items()
    )
    return tuple(sorted(findings, key=lambda entry: (entry.severity, -len(entry.nodes), entry.code)))


def _title(titles: Sequence[str]) -> str:
    others = len(set(titles)) - 1
    return f"{titles[0]} (and {others} similar)" if others else titles[0]


def group_states(states: Iterable[NodeState], samples: Mapping[str, Sample]) -> list[FleetGroup]:
    """The groups, the largest first, without their differences."""
    members: dict[str, list[NodeState]] = {}
    for state in states:
        if state.now.group is not None:
            members.setdefault(state.now.group, []).append(state)
    groups = [
        FleetGroup(
            name=name,
            nodes=tuple(state.node for state in group),
            machine=machine_text(samples[name].snapshot),
            statuses=Counter(state.now.status.value for state in group),
        )
        for name, group in members.items()
    ]
    return sorted(groups, key=lambda group: (-len(group.nodes), natural_order(group.nodes[0])))


def machine_text(snapshot: Snapshot) -> str:
    """``8 x NVIDIA H100 80GB HBM3, driver 550.54.15, debian 12, Python 3.12, cupy-cuda12x 13.6.0``."""
    gpus = Counter(gpu.name.value or "unknown GPU" for gpu in snapshot.gpus)
    target = snapshot.target
    parts = (
        *((f"{count} x {name}" for name, count in gpus.items()) if gpus else ("no listed GPU",)),
        f"driver {snapshot.driver.version.value}" if snapshot.driver.version.known else "no known driver",
        snapshot.host.distribution.value,
        f"Python {target.python.value}" if target.python.known else None,
        *(entry.label for entry in target.cupy),
    )
    return ", ".join(filter(None, parts))


def serve(
    groups: Sequence[FleetGroup], samples: Mapping[str, Sample], matrix: Matrix, *, images: bool = False
) -> Fleet:
    """The wheels, and on request the images, that serve the nodes of the groups."""
    members = {group.name: group.nodes for group in groups}
    snapshots = Snapshots(samples, tuple(members))
    fleet = resolve_fleet(snapshots, matrix, {name: len(nodes) for name, nodes in members.items()})

    def nodes(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted((node for name in names for node in members[name]), key=natural_order))

    def expanded(answer: FleetAnswer) -> FleetAnswer:
        return replace(answer, machines=nodes(answer.machines))

    found = resolve_images(snapshots, matrix) if images else ()
    return replace(
        fleet,
        answers=tuple(map(expanded, fleet.answers)),
        unserved=nodes(fleet.unserved),
        preferred=expanded(fleet.preferred) if fleet.preferred else None,
        forcing=tuple(replace(entry, machines=nodes(entry.machines)) for entry in fleet.forcing),
        images=tuple(replace(image, machines=nodes(image.machines)) for image in found),
    )


class Comparer:
    """Compares groups; each is diagnosed once."""

    def __init__(self, samples: Mapping[str, Sample], matrix: Matrix) -> None:
        self._samples, self._matrix = samples, matrix
        self._findings: dict[str, tuple[Snapshot, tuple[Finding, ...]]] = {}

    def differences(self, there: str, here: str) -> tuple[SnapshotDifference, ...]:
        """The differences that matter; the likeliest reason for trouble first."""
        first, second = self._diagnosed(there), self._diagnosed(here)
        found = compare(first[0], second[0], first[1], second[1]).differences
        shown = tuple(entry for entry in found if _matters(entry.fact))
        if shown:
            return shown
        # Differences that only the hash shows, such as the order of the GPUs.
        pairs = zip(MATTERS, *(facts_that_matter(self._samples[name].document) for name in (there, here)), strict=True)
        return tuple(
            SnapshotDifference(fact, _text(before), _text(after), 0.0, "it differs")
            for fact, before, after in pairs
            if before != after
        )

    def _diagnosed(self, group: str) -> tuple[Snapshot, tuple[Finding, ...]]:
        if group not in self._findings:
            sample, matrix = self._samples[group], self._matrix
            snapshot = sample.snapshot
            (resolution,) = resolve_all([snapshot], matrix, wheels_only=True)
            options = DiagnosisOptions(host_only=sample.host_only)
            findings = diagnose(snapshot, matrix, float, options, resolution=resolution).findings
            self._findings[group] = snapshot, findings
        return self._findings[group]


def _matters(fact: str) -> bool:
    """Whether a fact of a comparison is one of those that make a group, a part of one, or a record with one."""
    return any(
        path == fact or path.startswith((f"{fact}.", f"{fact}[]")) or fact.startswith(f"{path}.") for path in _KNOWN
    )


_KNOWN = (*MATTERS, "target.libraries")


def _text(value: object) -> str:
    return NONE if value is None else str(value)


def with_differences(
    groups: Sequence[FleetGroup], samples: Mapping[str, Sample], matrix: Matrix
) -> Iterable[FleetGroup]:
    """The groups, each with its differences from the most similar larger one; only the largest ones are compared."""
    comparer = Comparer(samples, matrix)
    facts = [facts_that_matter(samples[group.name].document) for group in groups[:_MOST_COMPARED]]
    for index, group in enumerate(groups):
        if not 0 < index < _MOST_COMPARED:
            yield group
            continue
        equal = [sum(a == b for a, b in zip(facts[index], other, strict=True)) for other in facts[:index]]
        nearest = groups[equal.index(max(equal))].name
        yield replace(group, nearest=nearest, differences=comparer.differences(nearest, group.name))
