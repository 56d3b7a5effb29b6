"""What is expected or accepted: such a finding stays visible as a note, and makes nothing unfit. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuenv.model.allowance import Allowance, AllowanceResult, AllowanceState
from gpuenv.model.finding import Evidence, Finding, Fix, Severity

# A report is read elsewhere than where it was made, and a finding is told by several commands: both are named.
NONE_EXPECTED = Fix("Where none is expected here, --expect-no-gpu of doctor and preflight makes this a note.")


def allowed_by(finding: Finding, allowances: Iterable[Allowance], today: str) -> Finding:
    """The finding as a note where the list allows it; where an entry has expired, the finding says so.

    Args:
        finding: what a check has found.
        allowances: the list.
        today: an ISO date.
    """
    entries = [entry for entry in allowances if entry.code == finding.code]
    standing = next((entry for entry in entries if not entry.has_expired(today)), None)
    if standing is not None:
        told = f"this {finding.severity.value}, until {standing.expires}: {standing.reason}"
        evidence = Evidence("allowed", told, standing.source)
        return replace(finding, severity=Severity.NOTE, allowed=standing, evidence=(*finding.evidence, evidence))
    over = tuple(
        Evidence("no longer allowed", f"expired on {entry.expires}: {entry.reason}", entry.source) for entry in entries
    )
    return replace(finding, evidence=(*finding.evidence, *over))


def without_what_was_done(finding: Finding) -> Finding:
    """A note without the advice that would make a note of it."""
    if finding.severity is not Severity.NOTE:
        return finding
    return replace(finding, fix=tuple(fix for fix in finding.fix if fix != NONE_EXPECTED))


def became_of(allowances: Sequence[Allowance], findings: Iterable[Finding], today: str) -> tuple[AllowanceResult, ...]:
    """Each entry of the list with what became of it, in the order of the list."""
    used = {finding.allowed for finding in findings}
    return tuple(AllowanceResult(entry, _state(entry, used, today)) for entry in allowances)


def _state(entry: Allowance, used: set[Allowance | None], today: str) -> AllowanceState:
    if entry.has_expired(today):
        return AllowanceState.EXPIRED
    return AllowanceState.USED if entry in used else AllowanceState.UNUSED
