"""Adds the error in a paste to the doctor's findings."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.doctor.diagnose import Diagnosis
from gpuenv.explain.explainer import explanation, verdict_of
from gpuenv.explain.explanation_types import LikelyCause
from gpuenv.explain.match import scan
from gpuenv.model.finding import Evidence, Finding, Severity, ranked
from gpuenv.model.snapshot import Snapshot

_LEAST = 0.5  # confidence; one in two less likely causes is wrong


def with_pasted_error(diagnosis: Diagnosis, snapshot: Snapshot, text: str) -> Diagnosis:
    """The diagnosis of a pasted machine with the cause of the error in the paste.

    A finding with that cause comes first. If no check finds it, the error itself becomes a finding.
    """
    causes = explanation(scan(text.encode("utf-8", "replace")), verdict_of(diagnosis, snapshot, pasted=True)).causes
    first = next((entry for entry in causes if entry.signatures and entry.confidence >= _LEAST), None)
    if first is None:
        return diagnosis
    findings = [replace(entry, primary=False, follows_from=None) for entry in diagnosis.findings]
    same = [entry for entry in findings if entry.cause is first.cause and entry.severity is Severity.ERROR]
    new = [] if same else [_finding(first)]
    others = (entry for entry in findings if entry not in same)
    return diagnosis._replace(findings=ranked([*same, *new, *others], lambda *_: False))


def _finding(cause: LikelyCause) -> Finding:
    return Finding(
        code=cause.signatures[0],
        cause=cause.cause,
        severity=Severity.ERROR,
        primary=False,
        follows_from=None,
        title=cause.title,
        evidence=tuple(Evidence(f"line {line.number}", line.text, "the error in the paste") for line in cause.lines),
        fix=cause.fix,
        docs=f"gpuenv explain {cause.signatures[0]}",
    )
