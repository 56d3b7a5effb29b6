"""Collects the reports of many nodes in a folder, and records which nodes answered."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from gpuenv.files import make_private_folder, read_own, replace_file
from gpuenv.fleet.node_report import (
    COLLECTION,
    COLLECTION_FILE,
    LARGEST,
    NodeReport,
    NodeReportError,
    parse_node_report,
    write_report,
)
from gpuenv.fleet.runners.task import Answer, Nodes
from gpuenv.model.codec import encode
from gpuenv.model.documents import FleetSilence
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.redaction import hide_secrets
from gpuenv.report.report import primary

_OLDEST = 86_400.0  # seconds: an older report of a node that cannot be asked does not count


@dataclass(frozen=True, slots=True)
class UnfitNode:
    """An unfit node, and the code and title of the finding to fix first."""

    node: str
    code: str
    title: str


@dataclass(frozen=True, slots=True)
class UnavailableNode:
    """A node that the engine could not ask, and how old its report in the folder is, in seconds; null without one."""

    node: str
    reason: str
    report_age: float | None


class Start(NamedTuple):
    """What is known of a collection before a node answers; see ``Collection``."""

    run: str
    via: str
    started_at: float
    quorum: float


@dataclass(frozen=True, slots=True)
class Collection:
    """The record of a collection: which nodes answered."""

    run: str  # the name of the collection, which each of its reports has
    via: str  # the engine
    started_at: float  # when, in seconds since the epoch
    duration: float  # seconds
    nodes: tuple[str, ...]
    fit: tuple[str, ...]
    unfit: tuple[UnfitNode, ...]
    silent: tuple[FleetSilence, ...]  # nodes without an answer, and those that could not be examined
    # Those that the engine could not ask; one with a recent report in the folder is also fit or unfit.
    unavailable: tuple[UnavailableNode, ...]
    quorum: float  # the fraction of the nodes that must be fit or unfit
    exit_code: int  # 1 with an unfit node, 8 below the quorum or without any answer, else 0
    schema: str = COLLECTION


def run_name(now: float) -> str:
    """A new name of a collection, which is also one of a Kubernetes Job: ``20261123-112039-1f0c``."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{secrets.token_hex(2)}"


class _Tally:
    """The nodes by their state."""

    def __init__(self) -> None:
        self.fit: list[str] = []
        self.unfit: list[UnfitNode] = []
        self.silent: list[FleetSilence] = []
        self.unavailable: list[UnavailableNode] = []

    def add(self, node: str, report: NodeReport) -> None:
        if report.report is None or report.exit_code not in (ExitCode.OK, ExitCode.UNFIT):
            self.silent.append(FleetSilence(node, report.error or "whether it is fit is undetermined"))
        elif report.exit_code == ExitCode.OK:
            self.fit.append(node)
        else:
            first = primary(report.report)
            self.unfit.append(UnfitNode(node, first.code if first else "", first.title if first else "unfit"))

    def counts(self, asked: int) -> str:
        known = len(self.fit) + len(self.unfit) + len(self.silent)
        return f"{known} of {asked} nodes: {len(self.fit)} fit, {len(self.unfit)} unfit, {len(self.silent)} unknown"


def collect(
    nodes: Nodes,
    answers: Iterable[Answer],
    folder: Path,
    begun: Start,
    progress: Callable[[str], None],
) -> Collection:
    """Writes the report of each node that answers, and the record of all.

    A report gets the name under which its node was asked. The former report of a silent node stays. ``progress`` gets a
    line of counts after each answer.

    Raises:
        OSError: when a report cannot be written.
    """
    tally, everyone = _Tally(), (*nodes.asked, *nodes.unavailable)
    make_private_folder(folder)
    for node, reason in nodes.unavailable.items():
        _use_kept_report(folder, node, hide_secrets(reason), tally, begun.started_at)
    for answer in answers:
        _take(answer, folder, begun.run, tally)
        progress(tally.counts(len(everyone)))
    known = len(tally.fit) + len(tally.unfit)
    below = ExitCode.OK if known and known >= begun.quorum * len(everyone) else ExitCode.COULD_NOT_CHECK
    collection = Collection(
        run=begun.run,
        via=begun.via,
        started_at=begun.started_at,
        duration=time.time() - begun.started_at,
        nodes=everyone,
        fit=tuple(sorted(tally.fit)),
        unfit=tuple(sorted(tally.unfit, key=lambda entry: entry.node)),
        silent=tuple(sorted(tally.silent, key=lambda entry: entry.node)),
        unavailable=tuple(tally.unavailable),
        quorum=begun.quorum,
        exit_code=int(ExitCode.UNFIT if tally.unfit else below),
    )
    replace_file(folder / COLLECTION_FILE, json.dumps(encode(collection)) + "\n", private=True)
    return collection


def _take(answer: Answer, folder: Path, run: str, tally: _Tally) -> None:
    """Writes the report in the last line of an answer; a login may print others before it."""
    if answer.reason is not None:
        tally.silent.append(FleetSilence(answer.node, hide_secrets(answer.reason)))
        return
    data = answer.output.rstrip().rpartition(b"\n")[2]
    try:
        report = parse_node_report(data)
    except NodeReportError as error:
        tally.silent.append(FleetSilence(answer.node, hide_secrets(f"its answer is no report: {error}")))
        return
    document = json.loads(data) | {"node": answer.node, "run": run}
    write_report(folder, answer.node, json.dumps(document, separators=(",", ":")))
    tally.add(answer.node, report)


def _use_kept_report(folder: Path, node: str, reason: str, tally: _Tally, now: float) -> None:
    """Counts the report of a node that is in the folder, for example from its health check, if it is recent."""
    report = None
    with suppress(OSError, NodeReportError):
        report = parse_node_report(read_own(folder / f"{node}.json", LARGEST))
    age = max(0.0, now - report.taken_at) if report else None
    tally.unavailable.append(UnavailableNode(node, reason, age))
    if report is None or age is None or age > _OLDEST:
        tally.silent.append(FleetSilence(node, f"{reason}; the folder has no report of the last day"))
    else:
        tally.add(node, report)
