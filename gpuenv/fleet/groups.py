"""Groups nodes by the facts that matter: ``summarize`` some reports anywhere, then ``merge`` the summaries.

The name of a group is a hash of the facts in the table below. One Snapshot per group is kept and decoded; of every
other report, only these facts and the findings are read.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from gpuenv.fleet.node_report import (
    COLLECTION,
    NodeReportError,
    decode_part,
    is_node_name,
    load_document,
)
from gpuenv.fleet.node_sets import natural_order
from gpuenv.fleet.reader import ReportFile
from gpuenv.model.documents import FleetFile, FleetSilence
from gpuenv.model.finding import Severity
from gpuenv.model.redaction import cut_text, hide_secrets
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import sanitize
from gpuenv.report.report import Status

# The facts that two nodes must have in common to be in one group. They exclude the identity of a node (UUIDs, serials,
# addresses, names), momentary values (free memory, temperature, clocks, times, processes) and the health of single GPUs
# (errors and events, which are findings of the node).
MATTERS = (
    *("host.os", "host.distribution", "host.kernel", "host.arch", "host.libc", "host.container", "host.sandbox"),
    *("host.wsl", "host.tegra", "host.secure_boot", "host.lockdown", "host.overcommit", "host.image"),
    *("driver.version", "driver.cuda", "driver.module", "driver.module_version", "driver.library_version"),
    *("driver.flavor", "driver.nouveau", "driver.cuda_origin", "driver.nvml_init", "driver.cuda_init"),
    *("driver.module_options", "driver.module_blocks"),
    *("gpu_count", "visible_count", "rocm", "amd_gpus[].name"),
    *("gpus[].name", "gpus[].compute_capability", "gpus[].memory_total", "gpus[].mig", "gpus[].mig_instances[].name"),
    *("gpus[].compute_mode", "gpus[].virtualization", "gpus[].licensed", "gpus[].hidden_by", "gpus[].nvlink_count"),
    *("gpus[].pcie.width", "gpus[].fabric.state", "gpus[].health.ecc", "gpus[].health.power_limit"),
    *("container_support.toolkit", "container_support.default_runtime", "mps.daemon"),
    *("toolkits[].toolkit", "toolkits[].found_via", "pointing_nowhere"),
    *("target.kind", "target.python", "target.implementation", "target.platform", "target.cupy[].distribution"),
    *("target.cupy[].release", "target.numpy", "target.packages", "target.libraries[].name"),
    *("target.libraries[].release", "target.libraries[].error"),
    *("environment.LD_LIBRARY_PATH", "environment.LD_PRELOAD", "environment.CUDA_PATH", "environment.CUDA_HOME"),
)
_STEPS = tuple(tuple((step.removesuffix("[]"), step.endswith("[]")) for step in path.split(".")) for path in MATTERS)
_LONGEST, _MOST_FINDINGS = 300, 20  # characters kept of a text, and findings kept of a node


class NodeFinding(NamedTuple):
    """The fields that are read of a finding; ``code`` and ``cause`` are text, since a newer gpuenv may have others."""

    code: str
    cause: str
    severity: Severity
    title: str
    in_image: bool = False


class _Verdict(NamedTuple):
    status: Status
    findings: tuple[NodeFinding, ...]
    host_only: bool = False


class _Answer(NamedTuple):
    """The fields that are read of every report; see ``NodeReport``."""

    node: str
    taken_at: float
    report: _Verdict | None = None
    error: str | None = None


class _Collection(NamedTuple):
    """The fields that are read of the record of a collection."""

    started_at: float
    nodes: tuple[str, ...]
    silent: tuple[FleetSilence, ...] = ()


class Request(NamedTuple):
    """The last collection with a node: when it started, and why the node did not answer; null if it did."""

    started_at: float
    silent: str | None = None


class Moment(NamedTuple):
    """The state of a node at a time."""

    taken_at: float
    status: Status
    group: str | None


class NodeState(NamedTuple):
    """The newest report of a node."""

    node: str
    now: Moment
    findings: tuple[NodeFinding, ...]  # errors and warnings
    error: str | None = None  # why probing failed
    earlier: tuple[Moment, ...] = ()  # its states in older reports, in any order


class Sample(NamedTuple):
    """The Snapshot of one node of a group, as compressed JSON; ``host_only`` is whether no environment was probed."""

    data: bytes
    host_only: bool

    @property
    def document(self) -> Any:  # noqa: ANN401 - JSON
        """The plain values."""
        return json.loads(zlib.decompress(self.data))

    @property
    def snapshot(self) -> Snapshot:
        """The record."""
        return decode_part(Snapshot, self.document)


class Snapshots(Mapping[str, Snapshot]):
    """The Snapshots of some groups by name, in this order; each is decoded when it is read: a fleet may have many."""

    def __init__(self, samples: Mapping[str, Sample], groups: Sequence[str]) -> None:
        self._samples, self._groups = samples, groups

    def __getitem__(self, name: str) -> Snapshot:
        return self._samples[name].snapshot

    def __iter__(self) -> Iterator[str]:
        return iter(self._groups)

    def __len__(self) -> int:
        return len(self._groups)


@dataclass(slots=True)
class Partial:
    """A summary of some of the reports."""

    nodes: dict[str, NodeState] = field(default_factory=dict)  # by name
    samples: dict[str, Sample] = field(default_factory=dict)  # by group
    unreadable: list[FleetFile] = field(default_factory=list)  # the files that are no reports
    asked: dict[str, Request] = field(default_factory=dict)  # the nodes of collections, each with its last request

    def add(self, state: NodeState) -> None:
        """Adds a report of a node; the newest one counts, and of equally old ones the first."""
        other = self.nodes.get(state.node)
        if other is not None:
            newest, oldest = (state, other) if state.now.taken_at > other.now.taken_at else (other, state)
            state = newest._replace(earlier=(*newest.earlier, oldest.now, *oldest.earlier))
        self.nodes[state.node] = state

    def add_collection(self, collection: _Collection) -> None:
        """Adds the requests of a collection."""
        silent = {entry.node: _short(entry.reason) for entry in collection.silent}
        for name in filter(is_node_name, collection.nodes):
            self.add_request(name, Request(collection.started_at, silent.get(name)))

    def add_request(self, node: str, request: Request) -> None:
        """Adds a request; the last one counts."""
        self.asked[node] = max(self.asked.get(node, request), request, key=lambda entry: entry.started_at)


def merge(partials: Iterable[Partial]) -> Partial:
    """One summary of all; their order decides only which node's Snapshot is the sample of a group."""
    merged = Partial()
    for partial in partials:
        for state in partial.nodes.values():
            merged.add(state)
        merged.samples = partial.samples | merged.samples
        merged.unreadable += partial.unreadable
        for node, request in partial.asked.items():
            merged.add_request(node, request)
    return merged


def summarize(files: Iterable[ReportFile]) -> Partial:
    """The summary of some reports, read one at a time."""
    partial = Partial()
    known: dict[NodeFinding, NodeFinding] = {}  # each is kept once, however many nodes have it
    for file in files:
        try:
            _summarize(_document(file), partial, known)
        except NodeReportError as error:
            partial.unreadable.append(FleetFile(_short(file.name), file.size, _short(str(error))))
    return partial


def _document(file: ReportFile) -> dict[str, Any]:
    if file.data is None:
        raise NodeReportError(file.reason)
    return load_document(file.data)


def _summarize(document: dict[str, Any], partial: Partial, known: dict[NodeFinding, NodeFinding]) -> None:
    if document["schema"] == COLLECTION:
        partial.add_collection(decode_part(_Collection, document))
        return
    answer = decode_part(_Answer, document, deepest=None)
    if not is_node_name(answer.node):
        raise NodeReportError(f"{cut_text(answer.node, 40)!r} is no name of a node")
    verdict, group = answer.report, None
    if isinstance(facts := document.get("snapshot"), dict):
        host_only = verdict is not None and verdict.host_only
        group = group_of(facts, host_only=host_only)
        if group not in partial.samples:
            decode_part(Snapshot, facts)
            data = json.dumps(facts, separators=(",", ":")).encode()
            partial.samples[group] = Sample(zlib.compress(data, 1), host_only)
    kept = (entry for entry in (verdict.findings if verdict else ()) if entry.severity is not Severity.NOTE)
    shortened = (
        entry._replace(code=_short(entry.code), cause=_short(entry.cause), title=_short(entry.title)) for entry in kept
    )
    findings = tuple(known.setdefault(entry, entry) for entry in shortened)[:_MOST_FINDINGS]
    moment = Moment(answer.taken_at, verdict.status if verdict else Status.UNKNOWN, group)
    partial.add(NodeState(answer.node, moment, findings, _short(answer.error) if answer.error else None))


@lru_cache(maxsize=4096)
def _short(text: str) -> str:
    """A text of a node or a client for the report: shortened, without secrets and control characters."""
    return sanitize(hide_secrets(cut_text(text, _LONGEST)))


def group_of(snapshot: Any, *, host_only: bool) -> str:  # noqa: ANN401 - JSON
    """The name of the group: a hash of the facts that matter."""
    text = json.dumps([host_only, facts_that_matter(snapshot)], sort_keys=True)
    return blake2b(text.encode(), digest_size=6).hexdigest()


def facts_that_matter(snapshot: Any) -> list[object]:  # noqa: ANN401 - JSON
    """The values of the facts in the table, without their sources."""
    return [_value(snapshot, steps) for steps in _STEPS]


def _value(value: Any, steps: tuple[tuple[str, bool], ...]) -> object:  # noqa: ANN401 - JSON
    for depth, (name, is_list) in enumerate(steps, 1):
        value = value.get(name) if isinstance(value, dict) else None
        if is_list:
            return [_value(entry, steps[depth:]) for entry in value] if isinstance(value, list) else None
    return value.get("value") if isinstance(value, dict) and "source" in value else value


def node_of(file: FleetFile) -> str:
    """The node after which a file is named."""
    return file.file.partition(".json")[0]


def with_pseudonyms(partial: Partial) -> Partial:
    """The summary with numbered names of nodes and files instead of the real ones."""
    names = sorted(partial.nodes.keys() | partial.asked.keys(), key=natural_order)
    width = len(str(len(names)))
    new = {name: f"node{number:0{width}d}" for number, name in enumerate(names, 1)}

    def hidden(text: str | None, name: str) -> str | None:
        return text and text.replace(name, new[name])

    shared = Partial(samples=partial.samples)
    for name, state in partial.nodes.items():
        shared.nodes[new[name]] = state._replace(
            node=new[name],
            error=hidden(state.error, name),
            findings=tuple(f._replace(title=f.title.replace(name, new[name])) for f in state.findings),
        )
    for name, request in partial.asked.items():
        shared.asked[new[name]] = request._replace(silent=hidden(request.silent, name))
    for number, file in enumerate(partial.unreadable, 1):
        node = new.get(node_of(file))
        name = f"{node}.json" if node else f"file{number}"
        shared.unreadable.append(replace(file, file=name, reason=file.reason.replace(file.file, "FILE")))
    return shared
