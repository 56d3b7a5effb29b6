"""Evaluates requirements on a Snapshot, and decides whether to try again, here or on another host."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Finding, RequirementResult, RequirementStatus, Severity
from gpuenv.model.snapshot import Snapshot
from gpuenv.preflight.requirements import KEYS, MAX_COUNT, TRANSIENT, Clause, Key, Observation, Requirement


def evaluate(requirements: Iterable[Requirement], snapshot: Snapshot) -> tuple[RequirementResult, ...]:
    """The result of each requirement; with an unknown fact it is neither met nor violated."""
    return tuple(_evaluate(requirement, KEYS[requirement.key], snapshot) for requirement in requirements)


def no_gpu_expected(requirements: Iterable[Requirement]) -> bool:
    """Whether the requirements say that no GPU is expected."""
    return any(entry.key == "gpu" and Clause("==", "0") in entry.clauses for entry in requirements)


def no_cupy_expected(requirements: Iterable[Requirement]) -> bool:
    """Whether the requirements say that no CuPy is expected."""
    return any(
        entry.key == "cupy" and any(c.operator == "==" and c.value.lower() == "none" for c in entry.clauses)
        for entry in requirements
    )


def contradiction(requirements: Iterable[Requirement]) -> str | None:
    """The requirements on the number of GPUs, with their origins, if no number meets all of them."""
    entries = [entry for entry in requirements if entry.key == "gpu"]
    tests = [KEYS["gpu"].value_type.read(clause.operator, clause.value) for e in entries for clause in e.clauses]
    if any(all(test(count) for test in tests) for count in range(MAX_COUNT + 2)):
        return None
    return " and ".join(f"{entry.text} ({entry.origin.text})" for entry in entries)


def _evaluate(requirement: Requirement, key: Key, snapshot: Snapshot) -> RequirementResult:
    result = key.look(snapshot)
    absent_reason, observations = (result, ()) if isinstance(result, str) else (None, result)
    tests = [key.value_type.read(clause.operator, clause.value) for clause in requirement.clauses]
    known = [entry for entry in observations if entry.known]
    unknown = [entry for entry in observations if not entry.known]
    failing = [entry for entry in known if not all(test(entry.value) for test in tests)]
    if failing or absent_reason:
        status = RequirementStatus.VIOLATED
    else:
        status = RequirementStatus.UNKNOWN if unknown else RequirementStatus.MET
    relevant = failing or (unknown if status is RequirementStatus.UNKNOWN else known)
    values = [(entry, key.value_type.show(entry.value) if entry.known else "unknown") for entry in relevant]
    evidence = tuple(Evidence(entry.fact, value, entry.source) for entry, value in values)
    return RequirementResult(
        text=requirement.text,
        key=key.name,
        status=status,
        found=absent_reason or _found_text(values, [entry.subject for entry in observations]),
        evidence=(Evidence(key.meaning, absent_reason, ""),) if absent_reason else evidence,
        missing=f"{unknown[0].fact} ({unknown[0].source})" if status is RequirementStatus.UNKNOWN else None,
        of_host=key.of_host,
        source=requirement.origin.text,
        file=requirement.origin.file,
        line=requirement.origin.line,
        by_absence=key.of_host and (absent_reason is not None or (key.counts and _too_few(requirement, key, failing))),
        by_unusable=bool(failing) and key.name == "gpu" and all(test(len(snapshot.gpus)) for test in tests),
    )


def _too_few(requirement: Requirement, key: Key, failing: Sequence[Observation]) -> bool:
    """Whether a violated clause requires more, not fewer."""
    floors = [(">=" if clause.operator == "==" else clause.operator, clause.value) for clause in requirement.clauses]
    tests = [key.value_type.read(operator, value) for operator, value in floors if operator in (">", ">=")]
    return any(not test(entry.value) for entry in failing for test in tests)


def _found_text(values: Sequence[tuple[Observation, str]], all_subjects: Sequence[str]) -> str:
    """``GPU 0 and GPU 1: 15.0 GiB``, with equal values grouped; ``all_subjects`` are in order."""
    grouped: dict[str, list[str]] = {}
    for entry, value in values:
        grouped.setdefault(value, []).append(entry.subject)
    return "; ".join(f"{_subjects_text(subjects, all_subjects)}{value}" for value, subjects in grouped.items())


def _subjects_text(subjects: Sequence[str], all_subjects: Sequence[str]) -> str:
    names = [subject for subject in subjects if subject]
    if not names:
        return ""
    between = all_subjects[all_subjects.index(names[0]) : all_subjects.index(names[-1]) + 1]
    if len(names) > 2 and list(between) == names:  # noqa: PLR2004 - a range without gaps
        return f"{names[0]} to {names[-1]}: "
    return f"{', '.join(names[:-1])} and {names[-1]}: " if len(names) > 1 else f"{names[0]}: "


def may_pass(findings: Sequence[Finding], requirements: Sequence[RequirementResult]) -> bool:
    """Whether there are errors, and all of them may pass on the same machine, as those of a busy GPU."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    violated = [entry for entry in requirements if entry.status is RequirementStatus.VIOLATED]
    may_end = all(entry.cause.transient or entry.cause is Cause.REQUIREMENT_NOT_MET for entry in errors)
    return bool(errors) and may_end and all(entry.key in TRANSIENT for entry in violated)


def reason_to_retry(findings: Sequence[Finding], requirements: Sequence[RequirementResult]) -> str | None:
    """Why to try another host; None if it would not help."""
    for finding in findings:
        if finding.severity is Severity.ERROR and finding.cause.other_host and not finding.in_image:
            return f"{finding.cause}: {finding.cause.other_host}"
    # Requirements that are not met because of the job itself, such as a variable that hides the GPU.
    host_codes = {finding.code for finding in findings if finding.cause.other_host and not finding.in_image}
    consequences = [f for f in findings if f.follows_from is not None and f.follows_from not in host_codes]
    job_bound = {str(entry.value) for finding in consequences for entry in finding.evidence if entry.fact == "required"}
    for result in requirements:
        if result.status is RequirementStatus.VIOLATED and result.of_host and result.text not in job_bound:
            return f"{result.text}: another host may meet it"
    return None
