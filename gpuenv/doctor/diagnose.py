"""Runs every check in order, applies suppressions and separates the root cause from what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuenv.doctor.fixes.adapt import adapt_for_container, adapt_for_ostree, for_pixi, for_system, with_target_option
from gpuenv.doctor.registry import (
    GPU_FAMILIES,
    NONE_EXPECTED,
    Absence,
    Check,
    CheckContext,
    NotKnown,
    Symptom,
    all_checks,
    finding_of,
)
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.tables import Matrix
from gpuenv.model.finding import (
    CheckRun,
    CheckStatus,
    Evidence,
    Finding,
    RequirementResult,
    Severity,
    Suppression,
    SuppressionResult,
    SuppressionState,
    ranked,
)
from gpuenv.model.gpus import is_contained
from gpuenv.model.resolution import Resolution
from gpuenv.model.smoke import SmokeResult
from gpuenv.model.snapshot import Snapshot

UNKNOWN = "unknown: "  # how the reason of a check reads that could not tell


class Diagnosis(NamedTuple):
    """What was found, and how each check went."""

    findings: tuple[Finding, ...]
    checks: tuple[CheckRun, ...]


class DiagnosisOptions(NamedTuple):
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
    allowances: tuple[Suppression, ...] = ()
    day: str = ""
    python: str | None = None


DEFAULT_OPTIONS = DiagnosisOptions()


def diagnose(
    snapshot: Snapshot,
    matrix: Matrix,
    resolution: Resolution,
    clock: Callable[[], float],
    options: DiagnosisOptions = DEFAULT_OPTIONS,
    smoke: SmokeResult | None = None,
) -> Diagnosis:
    """Runs every check on a Snapshot; a check that crashes is reported and the others go on.

    Args:
        snapshot: the recorded facts.
        matrix: the compatibility matrix.
        resolution: what would fit, for the fixes.
        clock: tells seconds, for the checks' durations.
        options: the options.
        smoke: the result of the GPU tests, if they ran.
    """
    facts = CheckContext(snapshot, needs_of(snapshot, matrix), matrix, resolution, options.requirements, smoke)
    findings: dict[Finding, tuple[str, ...]] = {}  # each with what would explain it
    runs: list[CheckRun] = []
    blocked: dict[str, str] = {}
    for check in all_checks():
        if smoke is None and check.of_the_tests:
            continue
        skipped = _skipped(check, options, findings, blocked)
        if skipped is not None:
            runs.append(skipped)
            continue
        started = clock()
        symptoms, run = _run(check, facts)
        runs.append(run._replace(duration=clock() - started))
        for symptom in symptoms:
            found = _finding(check, symptom, snapshot, options)
            findings[found] = () if symptom.stands_alone else check.follows
            # A suppressed finding about the GPU still explains its consequences; after a suppressed one about the
            # environment the checks that follow run, to show that the rest is sound.
            if symptom.severity is not Severity.WARNING and (found.allowed is None or check.concerns_gpu):
                blocked[check.code] = check.code
    # Findings that differ only in their evidence, as those of several devices, are one with the evidence of each.
    merged: dict[tuple[Finding, tuple[str, ...]], dict[Evidence, None]] = {}
    for found, follows in findings.items():
        merged.setdefault((replace(found, evidence=()), follows), {}).update(dict.fromkeys(found.evidence))
    whole = {replace(found, evidence=tuple(entries)): follows for (found, follows), entries in merged.items()}
    return Diagnosis(ranked(whole, lambda finding, primary: primary.code.startswith(whole[finding])), tuple(runs))


def _skipped(
    check: Check, options: DiagnosisOptions, found: Iterable[Finding], blocked: dict[str, str]
) -> CheckRun | None:
    """The run of a check that is left out or pointless; ``blocked`` has the code at the root of each pointless one."""
    if check.code in options.left_out:
        return left_out(check.code)
    kept_out = any(f.severity is not Severity.WARNING and f.code.startswith(GPU_FAMILIES) for f in found)
    if options.no_gpu and check.compares_with_gpu and kept_out:
        return CheckRun(check.code, CheckStatus.SKIPPED, "no GPU is expected", 0.0)
    root = next((blocked[code] for code in check.requires if code in blocked), None)
    root = root or next((code for code in check.unless if blocked.get(code) == code), None)
    if root is None:
        return None
    blocked[check.code] = root
    return CheckRun(check.code, CheckStatus.SKIPPED, f"{root} comes first", 0.0)


def _finding(check: Check, symptom: Symptom, snapshot: Snapshot, options: DiagnosisOptions) -> Finding:
    """A symptom as a finding: with fixes for this system, and milder where its absence is expected or allowed."""
    host, fixes = snapshot.host, symptom.fix
    fixes = adapt_for_container(fixes) if is_contained(snapshot) else adapt_for_ostree(fixes, host.image.value)
    fixes = with_target_option(for_pixi(for_system(fixes, host.os.value), snapshot.target), options.python)
    found = replace(finding_of(check, symptom), fix=fixes)
    expected = (options.no_gpu and check.concerns_gpu) or (options.no_cupy and check.absence is Absence.CUPY)
    if expected and found.severity is Severity.ERROR:
        found = replace(found, severity=Severity.NOTE)
    found = _allowed_by(found, options.allowances, options.day)
    if found.severity is Severity.NOTE:  # nothing is left that would make a note of it
        found = replace(found, fix=tuple(fix for fix in found.fix if fix != NONE_EXPECTED))
    return found


def left_out(code: str) -> CheckRun:
    """A check that the caller does not want."""
    return CheckRun(code, CheckStatus.SKIPPED, "left out, as was asked for", 0.0)


def extended(
    diagnosis: Diagnosis, findings: Iterable[Finding], runs: Iterable[CheckRun], options: DiagnosisOptions
) -> Diagnosis:
    """The diagnosis with the findings of plug-ins, ranked anew.

    Our own come first: a primary finding of ours stays primary and keeps its consequences.
    """
    own = [replace(finding, primary=False) for finding in diagnosis.findings]
    others = [_allowed_by(finding, options.allowances, options.day) for finding in findings]
    return Diagnosis(ranked([*own, *others], lambda *_: False), (*diagnosis.checks, *runs))


def _run(check: Check, ctx: CheckContext) -> tuple[list[Symptom], CheckRun]:
    try:
        said = list(check.run(ctx))
    except Exception as error:  # noqa: BLE001 - a crashed check is reported as such; the others go on
        return [], CheckRun(check.code, CheckStatus.CRASHED, f"{type(error).__name__}: {error}", 0.0)
    found = [entry for entry in said if isinstance(entry, Symptom)]
    if found:
        return found, CheckRun(check.code, CheckStatus.FOUND, None, 0.0)
    unknown = [entry.reason for entry in said if isinstance(entry, NotKnown)]
    if unknown:
        return [], CheckRun(check.code, CheckStatus.SKIPPED, f"{UNKNOWN}{unknown[0]}", 0.0, undecided=True)
    return [], CheckRun(check.code, CheckStatus.CLEAN, None, 0.0)


def _allowed_by(finding: Finding, allowances: Iterable[Suppression], today: str) -> Finding:
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


def became_of(
    allowances: Sequence[Suppression], findings: Iterable[Finding], today: str
) -> tuple[SuppressionResult, ...]:
    """Each entry of the list with what became of it, in the order of the list."""
    used = {finding.allowed for finding in findings}

    def state(entry: Suppression) -> SuppressionState:
        if entry.has_expired(today):
            return SuppressionState.EXPIRED
        return SuppressionState.USED if entry in used else SuppressionState.UNUSED

    return tuple(SuppressionResult(entry, state(entry)) for entry in allowances)
