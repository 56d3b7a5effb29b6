"""JSON documents of several commands: what-if, why-not, fleet, diff, and the lists of checks, tests and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix, Severity
from gpuenv.model.resolution import Candidate, Change, Rejection

WHAT_IF = "gpuenv.what-if/1"
WHY_NOT = "gpuenv.why-not/1"
FLEET = "gpuenv.fleet/1"
FLEET_DIFF = "gpuenv.fleet-diff/1"
DIFF = "gpuenv.diff/1"


@dataclass(frozen=True, slots=True)
class BetterChoice:
    """A candidate of a better line than the chosen one, and the changes it would take."""

    candidate: Candidate
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class AssumedMachine:
    """One row of the table: the assumptions, the best candidate, and what each better line would take.

    Attributes:
        given: the assumptions of this row.
        candidate: the best one that fits; null if none does.
        requirements: for pip or uv; empty if nothing fits.
        better: the best release of each better line, with the changes that admit it.
    """

    given: tuple[str, ...]
    candidate: Candidate | None
    requirements: tuple[str, ...]
    better: tuple[BetterChoice, ...]


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The table of answers, in the order of the assumed values."""

    rows: tuple[AssumedMachine, ...]
    matrix_revision: str
    schema: str = WHAT_IF


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a candidate was not chosen.

    Attributes:
        candidate: the one in question; the newest release if none was named.
        rejections: the reasons against it; empty if it fits.
        changes: what would admit it; null if no change by the user does, or none is needed.
        preferred: the chosen candidate; null if it is this one, or nothing was chosen.
        matrix_revision: of the matrix in use.
    """

    candidate: Candidate
    rejections: tuple[Rejection, ...]
    changes: tuple[Change, ...] | None
    preferred: Candidate | None
    matrix_revision: str
    schema: str = WHY_NOT


@dataclass(frozen=True, slots=True)
class FleetAnswer:
    """One candidate, and the machines that it fits."""

    candidate: Candidate
    requirements: tuple[str, ...]
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SnapshotDifference:
    """A fact that differs between two machines.

    Attributes:
        fact: its path, or the name of an entry: ``target.packages.numpy``.
        there: value on the first machine, which works; null without one.
        here: value on the second machine.
        likelihood: how likely it explains the failure, 0 to 1; a rank, not a measured probability.
        finding: code of the second machine's finding that it belongs to; null without one.
    """

    fact: str
    there: str | None
    here: str | None
    likelihood: float
    why: str
    finding: str | None = None


@dataclass(frozen=True, slots=True)
class FleetForcing:
    """Machines that the preferred candidate does not fit.

    Attributes:
        rejections: the reasons of one of these machines; the first reason holds for each.
        alternative: the best candidate for these machines alone.
    """

    machines: tuple[str, ...]
    rejections: tuple[Rejection, ...]
    alternative: Candidate


@dataclass(frozen=True, slots=True)
class FleetImage:
    """One image, and the machines on which it runs."""

    reference: str
    machines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FleetFinding:
    """A finding, and the nodes that have it.

    Attributes:
        cause: its slug; a newer gpuenv may have others than this one.
        severity: ``error`` or ``warning``.
        title: of the first of these nodes.
    """

    code: str
    cause: str
    severity: str
    title: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FleetNode:
    """The newest answer of a node.

    Attributes:
        status: fit, degraded, unfit or unknown, as its own report says.
        group: null if probing failed.
        taken_at: seconds since the epoch.
        findings: errors and warnings: code, cause and title.
        drain: why the node should get no jobs: the cause and the title; null if there is no such reason.
        error: why probing failed.
        reports: how many there are of this node.
    """

    node: str
    status: str
    group: str | None
    taken_at: float
    findings: tuple[str, ...] = ()
    drain: str | None = None
    error: str | None = None
    reports: int = 1


@dataclass(frozen=True, slots=True)
class FleetGroup:
    """Nodes that are equal in all that matters.

    Attributes:
        name: a hash of what they have in common, the same in every report.
        machine: what they are, in a few words.
        statuses: number of nodes of each status.
        nearest: the most similar larger group; null for the largest, and for very small ones among very many.
        differences: from that group; ``there`` is that group.
    """

    name: str
    nodes: tuple[str, ...]
    machine: str
    statuses: Mapping[str, int]
    nearest: str | None = None
    differences: tuple[SnapshotDifference, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetSilence:
    """A node without an answer, or of unknown state; ``reason`` is empty if nothing more is known."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class FleetFile:
    """A file that is no readable report of a node; ``size`` in bytes, null if unknown."""

    file: str
    size: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Fleet:
    """The smallest set of candidates that serves several machines; for node reports, also the state of each node.

    Attributes:
        answers: only one if a single candidate fits all machines.
        unserved: machines that nothing fits.
        matrix_revision: of the matrix in use.
        preferred: the candidate that most machines would choose alone; null if nothing fits any.
        forcing: the machines that need another candidate than that one.
        images: the smallest set of images; only of ``fleet resolve``.
        nodes: in the order of their names; empty unless node reports were analysed.
        groups: the largest first.
        findings: errors first, then by number of nodes.
        drain: the nodes that should get no jobs, by finding.
        asked: the nodes that should have answered.
        answered: number of them that reported whether they are fit.
        quorum: the fraction of them that is needed.
        silent: nodes that should have answered and did not.
        stale: nodes whose answer is too old.
        repeated: nodes with several reports; only the newest counts.
        unreadable: files that are no reports.
        exit_code: of ``fleet report``.
    """

    answers: tuple[FleetAnswer, ...]
    unserved: tuple[str, ...]
    matrix_revision: str
    schema: str = FLEET
    preferred: FleetAnswer | None = None
    forcing: tuple[FleetForcing, ...] = ()
    images: tuple[FleetImage, ...] = ()
    nodes: tuple[FleetNode, ...] = ()
    groups: tuple[FleetGroup, ...] = ()
    findings: tuple[FleetFinding, ...] = ()
    drain: tuple[FleetFinding, ...] = ()
    asked: int = 0
    answered: int = 0
    quorum: float = 0.0
    silent: tuple[FleetSilence, ...] = ()
    stale: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    unreadable: tuple[FleetFile, ...] = ()
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class FleetDrift:
    """Nodes that changed in the same way.

    Attributes:
        status: ``fit`` to ``unfit`` and so on: before and after; null if it is the same.
        differences: what changed; ``there`` is before.
    """

    nodes: tuple[str, ...]
    status: tuple[str, ...] | None
    differences: tuple[SnapshotDifference, ...]


@dataclass(frozen=True, slots=True)
class FleetDiff:
    """What changed between two sets of node reports.

    Attributes:
        new: nodes of the second set alone.
        gone: nodes of the first set alone.
        flapping: nodes whose status changed more than once.
        drifted: the others that changed, most nodes first.
        unchanged: number of nodes.
    """

    new: tuple[str, ...]
    gone: tuple[str, ...]
    flapping: tuple[str, ...]
    drifted: tuple[FleetDrift, ...]
    unchanged: int
    unreadable: tuple[FleetFile, ...] = ()
    schema: str = FLEET_DIFF


@dataclass(frozen=True, slots=True)
class ComparedFinding:
    """A finding of one machine or of both."""

    code: str
    cause: Cause
    title: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of two machines.

    Attributes:
        differences: the most likely explanation first.
        findings: of the second machine only; the one to fix first is first.
        try_first: the fix of the explanation; without one an experiment, if the likeliest difference can be undone.
        compared: number of facts known on both machines.
        explanation: the worst error or warning of the second machine only; null without one.
        findings_there: of the first machine only.
        findings_on_both: of both machines, which explain no difference.
    """

    schema: str
    differences: tuple[SnapshotDifference, ...]
    findings: tuple[ComparedFinding, ...]
    try_first: tuple[Fix, ...]
    compared: int
    explanation: ComparedFinding | None = None
    findings_there: tuple[ComparedFinding, ...] = ()
    findings_on_both: tuple[ComparedFinding, ...] = ()


MEANING = "gpuenv.meaning/1"
CHECKS = "gpuenv.checks/1"
TESTS = "gpuenv.tests/1"
REQUIREMENTS = "gpuenv.requirements/1"


@dataclass(frozen=True, slots=True)
class CauseMeaning:
    """A cause and its sentence."""

    cause: Cause
    sentence: str


@dataclass(frozen=True, slots=True)
class CheckMeaning:
    """A check, or a rule of check-image.

    Attributes:
        causes: those that it can report.
        sections: the meaning, the evidence and the fix; for a plug-in's check, the plug-in's text.
        package: the distribution that provides it; null for gpuenv's own.
        complaint: why a plug-in's check could not be loaded; null if it could.
    """

    code: str
    title: str
    causes: tuple[CauseMeaning, ...]
    sections: Mapping[str, str]
    package: str | None = None
    complaint: str | None = None


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code, a cause or the name of a message means.

    Attributes:
        subject: the normalized code, cause or name.
        kind: ``code``, ``cause`` or ``message``.
        causes: the cause itself; for a code or a message, the possible ones, the most likely first.
        checks: the checks that can report the cause; for a code, its check.
        fix: what to do: of a cause, if no check covers it; of a message, if it has fixes of its own.
        demonstration: always null; earlier versions had a command that showed the mistake and its fix.
        source: where the message comes from.
        would_decide: the fact that would settle the cause of a message; null if none would.
    """

    subject: str
    kind: str
    title: str
    causes: tuple[CauseMeaning, ...]
    checks: tuple[CheckMeaning, ...] = ()
    fix: tuple[Fix, ...] = ()
    demonstration: tuple[str, ...] | None = None
    source: str | None = None
    would_decide: str | None = None
    schema: str = MEANING


@dataclass(frozen=True, slots=True)
class ListedCheck:
    """A check; for a plug-in's check, the title is the path of its function, and the causes are unknown."""

    code: str
    title: str
    causes: tuple[Cause, ...]
    package: str | None = None


@dataclass(frozen=True, slots=True)
class Checks:
    """The checks of the doctor."""

    checks: tuple[ListedCheck, ...]
    schema: str = CHECKS


@dataclass(frozen=True, slots=True)
class ListedTest:
    """A GPU test.

    Attributes:
        name: ``blas.matmul_f32``.
        group: ``blas``.
        level: the lowest one that includes it.
        tolerance: the accepted error, and why.
    """

    name: str
    group: str
    level: str
    title: str
    tolerance: str
    needs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tests:
    """The list of the GPU tests, with what each of them checks."""

    __test__ = False  # not for pytest

    tests: tuple[ListedTest, ...]
    schema: str = TESTS


@dataclass(frozen=True, slots=True)
class RequirementKey:
    """A key of a requirement."""

    name: str
    meaning: str
    example: str
    operators: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Requirements:
    """The keys and the grammar of requirements."""

    keys: tuple[RequirementKey, ...]
    grammar: tuple[str, ...]
    schema: str = REQUIREMENTS
