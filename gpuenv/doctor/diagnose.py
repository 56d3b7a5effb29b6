"""Runs every check in order, applies suppressions and separates root causes from their consequences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.fixes.adaptation import (
    adapt_for_container,
    adapt_for_ostree,
    adapt_for_pixi,
    adapt_for_system,
    with_target_option,
)
from gpuenv.doctor.registry import (
    EXPECT_NO_GPU,
    GPU_FAMILIES,
    Check,
    CheckContext,
    Component,
    NotKnown,
    Symptom,
    to_finding,
)
from gpuenv.doctor.repair import repair_command, repaired_resolution, with_repair
from gpuenv.matrix.needs import needs_of
from gpuenv.matrix.resolve import resolve
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

UNKNOWN = "unknown: "  # prefix of the reason of an undetermined check


class Diagnosis(NamedTuple):
    """The findings, the status of each check, and what fits; its wheel is the one that the fixes install."""

    findings: tuple[Finding, ...]
    checks: tuple[CheckRun, ...]
    resolution: Resolution


class DiagnosisOptions(NamedTuple):
    """Options of a diagnosis.

    Attributes:
        requirements: the evaluated requirements.
        no_gpu: whether no GPU is expected.
        no_cupy: whether no CuPy is expected.
        host_only: whether to judge driver, GPUs and container alone.
        excluded: codes of checks that do not run.
        suppressions: accepted findings, each until a date.
        fail_on: ``warning``, codes and causes, whose findings become errors.
        hardware_must_be_sound: whether every hardware fault of a GPU is an error.
        day: today, an ISO date.
        python: the value of ``--python``; None if the target was detected.
    """

    requirements: tuple[RequirementResult, ...] = ()
    no_gpu: bool = False
    no_cupy: bool = False
    host_only: bool = False
    excluded: frozenset[str] = frozenset()
    suppressions: tuple[Suppression, ...] = ()
    fail_on: tuple[str, ...] = ()
    hardware_must_be_sound: bool = False
    day: str = ""
    python: str | None = None


DEFAULT_OPTIONS = DiagnosisOptions()


def diagnose(
    snapshot: Snapshot,
    matrix: Matrix,
    clock: Callable[[], float],
    options: DiagnosisOptions = DEFAULT_OPTIONS,
    smoke: SmokeResult | None = None,
    *,
    resolution: Resolution | None = None,
) -> Diagnosis:
    """Runs every check on a snapshot; a check that crashes is reported and the others go on.

    If the target is repaired by another wheel than a new installation would choose, the fixes name that one. ``clock``
    returns seconds, for the durations of checks. ``resolution`` is that of the snapshot, if it is known already.
    """
    resolution = resolution or resolve(snapshot, matrix)
    ctx = CheckContext(snapshot, needs_of(snapshot, matrix), matrix, resolution, options.requirements, smoke)
    diagnosis = _run_checks(ctx, clock, options)
    repaired = repaired_resolution(diagnosis.findings, snapshot, matrix, resolution)
    if repaired is not resolution:
        diagnosis = _run_checks(ctx._replace(resolution=repaired), clock, options)
    command, codes = repair_command(diagnosis.findings, snapshot, matrix, repaired)
    if command is None:
        return diagnosis
    (command,) = with_target_option((command,), options.python)
    findings = (replace(f, fix=with_repair(f.fix, command)) if f.code in codes else f for f in diagnosis.findings)
    return diagnosis._replace(findings=tuple(findings))


def _run_checks(ctx: CheckContext, clock: Callable[[], float], options: DiagnosisOptions) -> Diagnosis:
    findings: dict[Finding, tuple[str, ...]] = {}  # each with the codes that would explain it
    runs: list[CheckRun] = []
    blocked: dict[str, str] = {}
    for check in all_checks():
        if ctx.smoke is None and check.reads_gpu_tests:
            continue
        skipped = _skipped(check, options, findings, blocked)
        if skipped is not None:
            runs.append(skipped)
            continue
        started = clock()
        symptoms, run = _run(check, ctx)
        runs.append(run._replace(duration=clock() - started))
        for symptom in symptoms:
            found = _finding(check, symptom, ctx.snapshot, options)
            findings[found] = () if symptom.independent else check.follows
            # A suppressed finding of the GPU still explains its consequences; after a suppressed one of the environment
            # the dependent checks run.
            if symptom.severity is not Severity.WARNING and (found.allowed is None or check.concerns_gpu):
                blocked[check.code] = check.code
    # Findings that differ only in their evidence, such as those of several devices, are merged.
    merged: dict[tuple[Finding, tuple[str, ...]], dict[Evidence, None]] = {}
    for found, follows in findings.items():
        merged.setdefault((replace(found, evidence=()), follows), {}).update(dict.fromkeys(found.evidence))
    explained = {replace(found, evidence=tuple(entries)): follows for (found, follows), entries in merged.items()}
    ordered = ranked(explained, lambda finding, primary: primary.code.startswith(explained[finding]))
    return Diagnosis(ordered, tuple(runs), ctx.resolution)


def _skipped(
    check: Check, options: DiagnosisOptions, findings: Iterable[Finding], blocked: dict[str, str]
) -> CheckRun | None:
    """The run of a check that is excluded or pointless; ``blocked`` maps pointless checks to the code at their root."""
    if check.code in options.excluded or (options.host_only and not check.concerns_host):
        return excluded_run(check.code)
    has_gpu_problem = any(f.severity is not Severity.WARNING and f.code.startswith(GPU_FAMILIES) for f in findings)
    if options.no_gpu and check.compares_with_gpu and has_gpu_problem:
        return CheckRun(check.code, CheckStatus.SKIPPED, "no GPU is expected", 0.0)
    root = next((blocked[code] for code in check.requires if code in blocked), None)
    root = root or next((code for code in check.unless if blocked.get(code) == code), None)
    if root is None:
        return None
    blocked[check.code] = root
    return CheckRun(check.code, CheckStatus.SKIPPED, f"{root} comes first", 0.0)


def _finding(check: Check, symptom: Symptom, snapshot: Snapshot, options: DiagnosisOptions) -> Finding:
    """Converts a symptom: adapts the fixes to this system, and lowers the severity if it is expected or suppressed."""
    host, fixes = snapshot.host, symptom.fix
    fixes = adapt_for_container(fixes) if is_contained(snapshot) else adapt_for_ostree(fixes, host.image.value)
    fixes = with_target_option(adapt_for_pixi(adapt_for_system(fixes, host.os.value), snapshot.target), options.python)
    found = _apply_severity_options(
        replace(to_finding(check, symptom), fix=fixes), options, hardware_fault=symptom.hardware_fault
    )
    expected = (options.no_gpu and check.concerns_gpu) or (options.no_cupy and check.missing is Component.CUPY)
    if expected and found.severity is Severity.ERROR:
        found = replace(found, severity=Severity.NOTE)
    found = _suppress(found, options)
    if found.severity is Severity.NOTE:  # the option would change nothing
        found = replace(found, fix=tuple(fix for fix in found.fix if fix != EXPECT_NO_GPU))
    return found


def excluded_run(code: str) -> CheckRun:
    """The run of a check that an option excludes."""
    return CheckRun(code, CheckStatus.SKIPPED, "excluded by an option", 0.0)


def add_plugin_findings(
    diagnosis: Diagnosis, findings: Iterable[Finding], runs: Iterable[CheckRun], options: DiagnosisOptions
) -> Diagnosis:
    """Adds the findings of plug-ins and ranks all of them.

    Findings of gpuenv come first: a primary one stays primary and keeps its consequences.
    """
    own = [replace(finding, primary=False) for finding in diagnosis.findings]
    others = (_suppress(_apply_severity_options(entry, options), options) for entry in findings)
    return diagnosis._replace(findings=ranked([*own, *others], lambda *_: False), checks=(*diagnosis.checks, *runs))


def _run(check: Check, ctx: CheckContext) -> tuple[list[Symptom], CheckRun]:
    try:
        results = list(check.run(ctx))
    except Exception as error:  # noqa: BLE001 - a crashed check is reported as such; the others go on
        return [], CheckRun(check.code, CheckStatus.CRASHED, f"{type(error).__name__}: {error}", 0.0)
    found = [entry for entry in results if isinstance(entry, Symptom)]
    if found:
        return found, CheckRun(check.code, CheckStatus.FOUND, None, 0.0)
    unknown = [entry.reason for entry in results if isinstance(entry, NotKnown)]
    if unknown:
        return [], CheckRun(check.code, CheckStatus.SKIPPED, f"{UNKNOWN}{unknown[0]}", 0.0, undecided=True)
    return [], CheckRun(check.code, CheckStatus.CLEAN, None, 0.0)


def apply_fail_on(finding: Finding, names: Sequence[str]) -> Finding:
    """Turns a finding into an error if its severity, code or cause is among the names of ``--fail-on``."""
    own = (finding.severity.value, finding.code, finding.cause.value)
    by = next((f"fail-on {name}" for name in names if name in own), None)
    return finding if by is None else _as_error(finding, by)


def _apply_severity_options(finding: Finding, options: DiagnosisOptions, *, hardware_fault: bool = False) -> Finding:
    """Turns a finding into an error if an option demands it."""
    found = apply_fail_on(finding, options.fail_on)
    if options.hardware_must_be_sound and hardware_fault:
        return _as_error(found, "preflight accepts no hardware fault of a GPU")
    return found


def _as_error(finding: Finding, by: str) -> Finding:
    if finding.severity is Severity.ERROR:
        return finding
    evidence = Evidence("severity", f"a {finding.severity.value}, raised to an error", by)
    return replace(finding, severity=Severity.ERROR, evidence=(*finding.evidence, evidence))


def _suppress(finding: Finding, options: DiagnosisOptions) -> Finding:
    """Turns a suppressed finding into a note; an expired suppression becomes evidence."""
    entries = [entry for entry in options.suppressions if entry.code == finding.code]
    current = next((entry for entry in entries if not entry.has_expired(options.day)), None)
    if current is not None:
        text = f"this {finding.severity.value}, until {current.expires}: {current.reason}"
        evidence = Evidence("allowed", text, current.source)
        return replace(finding, severity=Severity.NOTE, allowed=current, evidence=(*finding.evidence, evidence))
    expired = tuple(
        Evidence("no longer allowed", f"expired on {entry.expires}: {entry.reason}", entry.source) for entry in entries
    )
    return replace(finding, evidence=(*finding.evidence, *expired))


def suppression_results(
    suppressions: Sequence[Suppression], findings: Iterable[Finding], today: str
) -> tuple[SuppressionResult, ...]:
    """Whether each suppression is used, unused or expired, in the order of the list."""
    used = {finding.allowed for finding in findings}

    def state(entry: Suppression) -> SuppressionState:
        if entry.has_expired(today):
            return SuppressionState.EXPIRED
        return SuppressionState.USED if entry in used else SuppressionState.UNUSED

    return tuple(SuppressionResult(entry, state(entry)) for entry in suppressions)
