"""Runs every check in order, applies suppressions and separates the root cause from what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpuenv.doctor.fixes.adapt import about, for_pixi, for_system, from_a_container, on_an_image
from gpuenv.doctor.predicates import contained
from gpuenv.doctor.registry import (
    GPU_FAMILIES,
    NONE_EXPECTED,
    Absence,
    Check,
    Facts,
    NotKnown,
    Symptom,
    all_checks,
    finding_of,
)
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.records import Matrix
from gpuenv.model.finding import (
    Allowance,
    AllowanceResult,
    AllowanceState,
    CheckRun,
    CheckStatus,
    Evidence,
    Finding,
    Fix,
    RequirementResult,
    Severity,
    ranked,
)
from gpuenv.model.resolution import Resolution
from gpuenv.model.smoke import SmokeResult
from gpuenv.model.snapshot import Snapshot

UNKNOWN = "unknown: "  # how the reason of a check reads that could not tell


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found, and how each check went."""

    findings: tuple[Finding, ...]
    checks: tuple[CheckRun, ...]


@dataclass(frozen=True, slots=True)
class Terms:
    """Options of a diagnosis.

    Attributes:
        requirements: the evaluated requirements.
        no_gpu: whether no GPU is expected.
        no_cupy: whether no CuPy is expected.
        left_out: codes of checks that are not to run.
        allowances: accepted findings, each until a day.
        day: today, an ISO date.
        python: the value of ``--python``; None if the target was detected.
    """

    requirements: tuple[RequirementResult, ...] = ()
    no_gpu: bool = False
    no_cupy: bool = False
    left_out: frozenset[str] = frozenset()
    allowances: tuple[Allowance, ...] = ()
    day: str = ""
    python: str | None = None


NO_TERMS = Terms()


def diagnose(
    snapshot: Snapshot,
    matrix: Matrix,
    resolution: Resolution,
    clock: Callable[[], float],
    terms: Terms = NO_TERMS,
    smoke: SmokeResult | None = None,
) -> Diagnosis:
    """Runs every check on a Snapshot; a check that crashes is reported and the others go on.

    Args:
        snapshot: the recorded facts.
        matrix: the compatibility matrix.
        resolution: what would fit, for the fixes.
        clock: seconds, for the checks' durations.
        terms: the options.
        smoke: the result of the GPU tests, if they ran.
    """
    facts = Facts(snapshot, needs_of(snapshot, matrix), matrix, resolution, terms.requirements, smoke)
    findings: dict[Finding, tuple[str, ...]] = {}  # each with what would explain it
    runs: list[CheckRun] = []
    blocked: dict[str, str] = {}
    for check in all_checks():
        if smoke is None and check.of_the_tests:
            continue
        unwanted = _unwanted(check, terms, findings)
        if unwanted is not None:
            runs.append(unwanted)
            continue
        root = _comes_first(check, blocked)
        if root is not None:
            blocked[check.code] = root
            runs.append(CheckRun(check.code, CheckStatus.SKIPPED, f"{root} comes first", 0.0))
            continue
        started = clock()
        symptoms, run = _run(check, facts)
        runs.append(replace(run, duration=clock() - started))
        for symptom in symptoms:
            found = finding_of(check, symptom)
            found = replace(found, fix=about(_here(found.fix, snapshot), terms.python))
            if (terms.no_gpu and check.concerns_gpu) or (terms.no_cupy and check.absence is Absence.CUPY):
                found = replace(found, severity=_milder(found.severity))
            allowed = _without_what_was_done(_allowed_by(found, terms.allowances, terms.day))
            findings[allowed] = () if symptom.stands_alone else check.follows
            if _stands_in_the_way(check, found, allowed):
                blocked[check.code] = check.code
    findings = _merged(findings)
    ranking = ranked(findings, lambda finding, primary: primary.code.startswith(findings[finding]))
    return Diagnosis(ranking, tuple(runs))


def _merged(findings: Mapping[Finding, tuple[str, ...]]) -> dict[Finding, tuple[str, ...]]:
    """Findings that differ only in their evidence, as those of several devices, are one with the evidence of each."""
    told: dict[tuple[Finding, tuple[str, ...]], dict[Evidence, None]] = {}
    for finding, follows in findings.items():
        told.setdefault((replace(finding, evidence=()), follows), {}).update(dict.fromkeys(finding.evidence))
    return {replace(finding, evidence=tuple(evidence)): follows for (finding, follows), evidence in told.items()}


def _here(fixes: Iterable[Fix], snapshot: Snapshot) -> tuple[Fix, ...]:
    """The fixes adapted to this system and environment."""
    host = snapshot.host
    fixes = from_a_container(fixes) if contained(snapshot) else on_an_image(fixes, host.image.value)
    return for_pixi(for_system(fixes, host.os.value), snapshot.target)


def _unwanted(check: Check, terms: Terms, found: Iterable[Finding]) -> CheckRun | None:
    """The skipped run of a check that is left out, or that compares CuPy with a GPU where none is expected."""
    if check.code in terms.left_out:
        return left_out(check.code)
    if terms.no_gpu and check.compares_with_gpu and any(_is_of_the_gpu(finding) for finding in found):
        return CheckRun(check.code, CheckStatus.SKIPPED, "no GPU is expected", 0.0)
    return None


def _comes_first(check: Check, blocked: Mapping[str, str]) -> str | None:
    """The code at the root of what makes this check pointless."""
    root = next((blocked[code] for code in check.requires if code in blocked), None)
    return root or next((code for code in check.unless if blocked.get(code) == code), None)


def _is_of_the_gpu(finding: Finding) -> bool:
    """Whether it keeps this process from every GPU."""
    return finding.severity is not Severity.WARNING and finding.code.startswith(GPU_FAMILIES)


def left_out(code: str) -> CheckRun:
    """A check that the caller does not want."""
    return CheckRun(code, CheckStatus.SKIPPED, "left out, as was asked for", 0.0)


def extended(diagnosis: Diagnosis, findings: Iterable[Finding], runs: Iterable[CheckRun], terms: Terms) -> Diagnosis:
    """The diagnosis with the findings of plug-ins, ranked anew.

    Our own come first: a primary finding of ours stays primary and keeps its consequences.
    """
    own = [replace(finding, primary=False) for finding in diagnosis.findings]
    others = [_allowed_by(finding, terms.allowances, terms.day) for finding in findings]
    return Diagnosis(ranked([*own, *others], lambda *_: False), (*diagnosis.checks, *runs))


def _stands_in_the_way(check: Check, before: Finding, after: Finding) -> bool:
    """Whether the checks that require this one are skipped.

    A suppressed finding about the GPU still explains its consequences; after a suppressed one about the environment the
    checks that follow run, to show that the rest is sound.
    """
    if before.severity is Severity.WARNING:
        return False
    return after.allowed is None or check.concerns_gpu


def _milder(severity: Severity) -> Severity:
    """Where nothing is expected, its absence and what keeps it from working are notes."""
    return Severity.NOTE if severity is Severity.ERROR else severity


def _run(check: Check, facts: Facts) -> tuple[list[Symptom], CheckRun]:
    try:
        said = list(check.run(facts))
    except Exception as error:  # noqa: BLE001 - a crashed check is reported as such; the others go on
        return [], CheckRun(check.code, CheckStatus.CRASHED, f"{type(error).__name__}: {error}", 0.0)
    found = [entry for entry in said if isinstance(entry, Symptom)]
    if found:
        return found, CheckRun(check.code, CheckStatus.FOUND, None, 0.0)
    unknown = [entry.reason for entry in said if isinstance(entry, NotKnown)]
    if unknown:
        return [], CheckRun(check.code, CheckStatus.SKIPPED, f"{UNKNOWN}{unknown[0]}", 0.0, undecided=True)
    return [], CheckRun(check.code, CheckStatus.CLEAN, None, 0.0)


def _allowed_by(finding: Finding, allowances: Iterable[Allowance], today: str) -> Finding:
    """The finding as a note where the list allows it; an expired entry becomes evidence."""
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


def _without_what_was_done(finding: Finding) -> Finding:
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
