"""Whether the same job may succeed on another host, so that CI should try there."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.model.finding import Finding, RequirementResult, RequirementStatus, Severity


def reason_to_retry(findings: Sequence[Finding], requirements: Sequence[RequirementResult]) -> str | None:
    """Why another host should be tried; None where it would be no better there."""
    for finding in findings:
        if finding.severity is Severity.ERROR and finding.cause.other_host:
            return f"{finding.cause}: {finding.cause.other_host}"
    job_bound = _of_the_job(findings)
    for result in requirements:
        if result.status is RequirementStatus.VIOLATED and result.of_host and result.text not in job_bound:
            return f"{result.text}: another host may meet it"
    return None


def _of_the_job(findings: Sequence[Finding]) -> frozenset[str]:
    """The requirements that are not met because of what goes with the job, such as a variable that hides the GPU."""
    host_codes = {finding.code for finding in findings if finding.cause.other_host}
    following = [f for f in findings if f.follows_from is not None and f.follows_from not in host_codes]
    return frozenset(
        str(entry.value) for finding in following for entry in finding.evidence if entry.fact == "required"
    )
