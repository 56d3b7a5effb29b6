"""Holds requirements against a machine, and says whether another host may be better."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuenv.model.finding import Evidence, Finding, RequirementResult, RequirementStatus, Severity
from gpuenv.model.snapshot import Snapshot
from gpuenv.preflight.requirements import KEYS, TRANSIENT, Clause, Key, Observation, Requirement


def evaluate(requirements: Iterable[Requirement], snapshot: Snapshot) -> tuple[RequirementResult, ...]:
    """Each requirement with its verdict: a fact that nobody could tell is neither met nor violated."""
    return tuple(_evaluate(requirement, KEYS[requirement.key], snapshot) for requirement in requirements)


def no_gpu_expected(requirements: Iterable[Requirement]) -> bool:
    """Whether a caller says that no GPU is to be there."""
    return any(entry.key == "gpu" and Clause("==", "0") in entry.clauses for entry in requirements)


def no_cupy_expected(requirements: Iterable[Requirement]) -> bool:
    """Whether a caller says that no CuPy is to be there."""
    return any(
        entry.key == "cupy" and any(c.operator == "==" and c.value.lower() == "none" for c in entry.clauses)
        for entry in requirements
    )


def is_transient(result: RequirementResult) -> bool:
    """Whether a violated requirement may be met in a while, on the same machine."""
    return result.key in TRANSIENT


def _evaluate(requirement: Requirement, key: Key, snapshot: Snapshot) -> RequirementResult:
    seen = key.look(snapshot)
    lacking, observations = (seen, ()) if isinstance(seen, str) else (None, seen)
    tests = [key.kind.read(clause.operator, clause.value) for clause in requirement.clauses]
    known = [entry for entry in observations if entry.known]
    unknown = [entry for entry in observations if not entry.known]
    failing = [entry for entry in known if not all(test(entry.value) for test in tests)]
    if failing or lacking:
        status = RequirementStatus.VIOLATED
    else:
        status = RequirementStatus.UNKNOWN if unknown else RequirementStatus.MET
    told = failing or (unknown if status is RequirementStatus.UNKNOWN else known)
    shown = [(entry, key.kind.show(entry.value) if entry.known else "unknown") for entry in told]
    evidence = tuple(Evidence(entry.fact, value, entry.source) for entry, value in shown)
    return RequirementResult(
        text=requirement.text,
        key=key.name,
        status=status,
        found=lacking or _found(shown, [entry.subject for entry in observations]),
        evidence=(Evidence(key.meaning, lacking, ""),) if lacking else evidence,
        missing=f"{unknown[0].fact} ({unknown[0].source})" if status is RequirementStatus.UNKNOWN else None,
        of_host=key.of_host,
        source=requirement.origin.text,
        file=requirement.origin.file,
        line=requirement.origin.line,
        by_absence=key.of_host and (lacking is not None or (key.counts and _too_few(requirement, key, failing))),
        by_unusable=bool(failing) and key.name == "gpu" and all(test(len(snapshot.gpus)) for test in tests),
    )


def _too_few(requirement: Requirement, key: Key, failing: Sequence[Observation]) -> bool:
    """Whether more of it would meet a clause that is violated; one that asks for fewer is another matter."""
    floors = [(">=" if clause.operator == "==" else clause.operator, clause.value) for clause in requirement.clauses]
    tests = [key.kind.read(operator, value) for operator, value in floors if operator in (">", ">=")]
    return any(not test(entry.value) for entry in failing for test in tests)


def _found(shown: Sequence[tuple[Observation, str]], every: Sequence[str]) -> str:
    """``GPU 0 and GPU 1: 15.0 GiB``; what is equal is said once. ``every`` has all subjects there are, in order."""
    grouped: dict[str, list[str]] = {}
    for entry, value in shown:
        grouped.setdefault(value, []).append(entry.subject)
    return "; ".join(f"{_several(subjects, every)}{value}" for value, subjects in grouped.items())


def _several(subjects: Sequence[str], every: Sequence[str]) -> str:
    named = [subject for subject in subjects if subject]
    if not named:
        return ""
    between = every[every.index(named[0]) : every.index(named[-1]) + 1]
    if len(named) > 2 and list(between) == named:  # noqa: PLR2004 - a range, of which none is left out
        return f"{named[0]} to {named[-1]}: "
    return f"{', '.join(named[:-1])} and {named[-1]}: " if len(named) > 1 else f"{named[0]}: "


def reason_to_retry(findings: Sequence[Finding], requirements: Sequence[RequirementResult]) -> str | None:
    """Why another host should be tried; None where it would be no better there."""
    for finding in findings:
        if finding.severity is Severity.ERROR and finding.cause.other_host:
            return f"{finding.cause}: {finding.cause.other_host}"
    # Not met because of what goes with the job, such as a variable that hides the GPU.
    host_codes = {finding.code for finding in findings if finding.cause.other_host}
    following = [f for f in findings if f.follows_from is not None and f.follows_from not in host_codes]
    job_bound = {str(entry.value) for finding in following for entry in finding.evidence if entry.fact == "required"}
    for result in requirements:
        if result.status is RequirementStatus.VIOLATED and result.of_host and result.text not in job_bound:
            return f"{result.text}: another host may meet it"
    return None
