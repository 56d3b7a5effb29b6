"""A report as lines of text: readable in ten seconds, in ASCII, without colour."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuenv.matrix.resolve import changes_text
from gpuenv.model.finding import (
    CheckRun,
    CheckStatus,
    Evidence,
    Finding,
    Fix,
    Repair,
    RepairStatus,
    RequirementResult,
    RequirementStatus,
    Severity,
    SuppressionResult,
    SuppressionState,
)
from gpuenv.model.gpus import CONTROL_GROUP
from gpuenv.model.nvidia import NVIDIA
from gpuenv.model.resolution import BY_CALLER, Resolution
from gpuenv.model.snapshot import Gpu, Snapshot, SourceState
from gpuenv.report.lines import Line, Style, counted
from gpuenv.report.report import Report, Status, is_proven, open_questions, verdict
from gpuenv.report.smoke import section_lines

_STYLES = {
    Status.FIT: Style.GOOD,
    Status.DEGRADED: Style.WARNING,
    Status.UNKNOWN: Style.WARNING,
    Status.UNFIT: Style.BAD,
}
_REQUIRED = {
    RequirementStatus.MET: ("met", Style.PLAIN),
    RequirementStatus.VIOLATED: ("NOT MET", Style.BAD),
    RequirementStatus.UNKNOWN: ("unknown", Style.WARNING),
}
_LABEL = 10
_READABLE, _BEGINNING = 1000, 300  # characters of evidence, and of what is shown of a longer one; JSON has it whole


def report_lines(report: Report, *, verbose: bool = False) -> Iterator[Line]:
    """The whole report."""
    word, sentence = verdict(report)
    yield Line(f"{word}: {sentence}", _STYLES[report.status], len(word) + 2)
    if report.retry_elsewhere:
        yield Line(f"Try another host: {report.retry_elsewhere}.", Style.BAD, 2)
    yield Line()
    yield from _repair_lines(report.repair)
    yield from machine_lines(report.snapshot)
    yield from requirement_lines(report.requirements)
    yield from _finding_groups(report.findings)
    yield from _allow_lines(report.allow_list)
    if report.smoke is not None:
        yield from section_lines(report.smoke, verbose=verbose)
    yield Line()
    yield from wheel_lines(report.resolution, without_gpu=report.lacks_gpu)
    if verbose:
        yield from _check_lines(report.checks)
    yield from _closing(report, verbose=verbose)


def machine_lines(snapshot: Snapshot) -> Iterator[Line]:
    """The machine and the target in a few lines."""
    yield Line("Machine", Style.HEADING)
    for label, text in machine_rows(snapshot):
        yield Line(f"  {label:<{_LABEL - 2}}{text}", hang=_LABEL)


def requirement_lines(requirements: Sequence[RequirementResult]) -> Iterator[Line]:
    """What was asked for, and whether it is there."""
    if not requirements:
        return
    yield Line()
    yield Line("Requirements", Style.HEADING)
    for entry in requirements:
        word, style = _REQUIRED[entry.status]
        told = f"cannot tell {entry.missing}" if entry.missing else f"found {entry.found}"
        yield Line(f"  {word:<{_LABEL - 2}}{entry.text}: {told} [{entry.source}]", style, _LABEL)


def machine_rows(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """The machine and the target: a label and a few words each."""
    yield "system", _system(snapshot)
    yield "driver", _driver(snapshot)
    for text in gpu_texts(snapshot):
        yield "GPU", text
    for kit in snapshot.toolkits:
        lacks = "" if kit.has_nvrtc else ", without NVRTC"
        yield "toolkit", f"CUDA {kit.toolkit.value or 'unknown'} in {kit.path}{lacks}"
    target = snapshot.target
    if target.python.known:
        place = f"({target.kind.value or target.python.source}) {target.executable.value or ''}".rstrip()
        yield "target", f"Python {target.python.value} {place}"
    else:
        yield "target", f"{target.executable.value or 'unknown'}: {target.python.reason or 'not asked'}"
    none = "none" if was_asked(snapshot, "target", "target.cupy") else "unknown, not asked"
    cupy = ", ".join(entry.label for entry in target.cupy) or none
    numpy = f", NumPy {target.numpy.value}" if target.numpy.known else ""
    yield "CuPy", cupy + numpy


def _system(snapshot: Snapshot) -> str:
    host = snapshot.host
    parts = [host.distribution.value or host.os.value or "unknown", host.arch.value, host.libc.value]
    if host.wsl.value:
        parts.append("WSL")
    if host.tegra.known:
        parts.append("Jetson")
    if host.contained:
        parts.append(f"container ({host.container.value.value})" if host.container.value else None)
    return ", ".join(str(part) for part in parts if part is not None)


def _driver(snapshot: Snapshot) -> str:
    driver = snapshot.driver
    if not driver.version.known and not driver.cuda.known:
        return "none found" if was_asked(snapshot, "libcuda", "driver.version") else "unknown, not asked"
    level = f", up to CUDA {driver.cuda.value}" if driver.cuda.known else ""
    return f"{driver.version.value or 'unknown version'}{level} ({driver.version.source or 'no source'})"


def _finding_groups(findings: Sequence[Finding]) -> Iterator[Line]:
    groups = (
        ("Cure this first", [finding for finding in findings if finding.primary]),
        ("Other matters", [f for f in findings if not f.primary and f.severity is Severity.ERROR]),
        ("Warnings", [f for f in findings if f.severity is Severity.WARNING]),
        ("Notes", [f for f in findings if f.severity is Severity.NOTE]),
    )
    for heading, found in groups:
        if found:
            yield Line()
            yield Line(heading, Style.HEADING)
        for finding in found:
            yield from finding_lines(finding)


def _repair_lines(repair: Repair | None) -> Iterator[Line]:
    """What was done about the findings, and what is left."""
    if repair is None:
        return
    mended = repair.status is RepairStatus.REPAIRED
    yield Line("Mending", Style.HEADING)
    yield Line(f"  {repair.status.value}: {repair.message}", Style.GOOD if mended else Style.WARNING, 4)
    yield from (Line(f"  {line}", hang=4) for line in repair.plan)
    if repair.gone:
        yield Line(f"  gone: {', '.join(repair.gone)}", Style.GOOD, 4)
    if repair.left:
        yield Line(f"  left for you, with its cure below: {', '.join(repair.left)}", hang=4)
    if repair.undo:
        yield Line("  To undo it", hang=4)
        yield Line(f"  $ {command_text(repair.undo)}", Style.COMMAND, 4)
    yield Line()


def _allow_lines(entries: Sequence[SuppressionResult]) -> Iterator[Line]:
    """What the configuration accepts: what has expired does not count, and what allows nothing can go."""
    if not entries:
        return
    yield Line()
    yield Line("Allowed", Style.HEADING)
    for entry in entries:
        told = entry.allowance
        style = Style.WARNING if entry.state is SuppressionState.EXPIRED else Style.PLAIN
        until = f"{told.code} until {told.expires}: {told.reason} [{told.source}]"
        yield Line(f"  {entry.state.value:<{_LABEL - 2}}{until}", style, _LABEL)


def finding_lines(finding: Finding) -> Iterator[Line]:
    """A finding with its evidence and its cure."""
    style = {Severity.ERROR: Style.BAD, Severity.WARNING: Style.WARNING, Severity.NOTE: Style.PLAIN}[finding.severity]
    follows = f" (follows from {finding.follows_from})" if finding.follows_from else ""
    follows += " (allowed)" if finding.allowed else ""
    yield Line(f"  {finding.code} {finding.cause}{follows}", style)
    yield Line(f"    {finding.title}.", hang=4)
    for entry in finding.evidence:
        yield Line(f"    - {evidence_text(entry)}", Style.QUIET, 6)
    yield from fix_lines(finding.fix, "    ")


def fix_lines(fixes: Iterable[Fix], indent: str = "  ") -> Iterator[Line]:
    """What to do, each with its command."""
    for fix in fixes:
        yield Line(f"{indent}> {fix.text}", hang=len(indent) + 2)
        if fix.command:
            yield Line(f"{indent}  $ {command_text(fix.command)}", Style.COMMAND, len(indent) + 4)


def command_text(command: Sequence[str]) -> str:
    """An argv list as one types it: a leading ~ must stay outside the quotes."""
    import shlex  # noqa: PLC0415 - for a command alone

    parts = [f"~/{shlex.quote(part[2:])}" if part.startswith("~/") else shlex.quote(part) for part in command]
    return " ".join(parts)


def evidence_text(entry: Evidence) -> str:
    """``driver.version: 550.54.15 [nvml]``."""
    told = entry.value
    if len(told) > _READABLE:
        told = f"{told[:_BEGINNING]} ... (cut: {len(told)} characters)"
    return f"{entry.fact}: {told} [{entry.source}]" if entry.source else f"{entry.fact}: {told}"


def wheel_lines(resolution: Resolution, *, without_gpu: bool = False) -> Iterator[Line]:
    """What would be installed, or what decides it; a driver alone does not, where there is no GPU."""
    yield Line("The right wheel", Style.HEADING)
    wheel = resolution.wheel
    if wheel is not None:
        yield Line(f"  {' '.join(wheel.requirements)}", Style.GOOD, 4)
        if wheel.nvrtc is not None:
            yield Line(f"  NVRTC {wheel.nvrtc.lowest} to {wheel.nvrtc.highest} serves every GPU here", Style.QUIET, 4)
        if wheel.needs_toolkit:
            yield Line(f"  needs {wheel.needs_toolkit}", hang=4)
        told = [entry.fact for entry in resolution.assumptions if entry.value == BY_CALLER]
        if told:
            yield Line(f"  as told: {', '.join(told)}", Style.QUIET, 4)
        for entry in resolution.assumptions:
            if entry.value != BY_CALLER:
                yield Line(f"  if {entry.fact} is {entry.value}", Style.QUIET, 4)
    elif resolution.reachable:
        which = "without an NVIDIA GPU. With one, it" if without_gpu else "as things are. It"
        yield Line(f"  None fits {which} would be decided by:", hang=2)
        for reachable in resolution.reachable:
            yield Line(f"    {changes_text(reachable)}: {reachable.candidate.label}", hang=6)
    else:
        yield Line("  None fits; no change of driver, Python or NumPy would help.", hang=2)
    if wheel is not None and resolution.next_better is not None:
        better = resolution.next_better
        yield Line(f"  better still, with {changes_text(better)}: {better.candidate.label}", Style.QUIET, 4)


def _check_lines(checks: Sequence[CheckRun]) -> Iterator[Line]:
    yield Line()
    yield Line("Checks", Style.HEADING)
    for run in checks:
        reason = f" ({run.reason})" if run.reason else ""
        yield Line(f"  {run.code} {run.status.value}{reason}", Style.QUIET, 4)


def _closing(report: Report, *, verbose: bool) -> Iterator[Line]:
    if report.status is Status.UNKNOWN:
        yield Line()
        yield Line("Could not be told", Style.HEADING)
        for code, why in open_questions(report):
            yield Line(f"  {code} {why}", hang=4)
        if not is_proven(report.snapshot, report.smoke, expect_no_cupy=bool(report.requirements)):
            yield Line("  No GPU was seen that CUDA can use together with a CuPy.", hang=4)
    skipped = sum(run.status is CheckStatus.SKIPPED for run in report.checks)
    yield Line()
    for run in report.checks:
        if run.status is CheckStatus.CRASHED:
            yield Line(f"The check {run.code} did not come to its end: {run.reason}", Style.BAD, 2)
    hint = "" if verbose else " (-v lists them)"
    tail = f", {skipped} skipped{hint}" if skipped else ""
    yield Line(f"{len(report.checks)} checks{tail}; exit code {report.exit_code}.", Style.QUIET)


_MIB = 1024 * 1024


def gpu_texts(snapshot: Snapshot) -> list[str]:
    """Each kind of GPU with how many there are of it; what was not given to this process comes last."""
    if not snapshot.gpus:
        on_bus = [gpu for gpu in snapshot.pci_gpus or () if gpu.vendor == NVIDIA]
        none = "none" if was_asked(snapshot, "kernel", "gpus") else "unknown, not asked"
        return [f"{gpu.name or 'NVIDIA ' + gpu.device} at {gpu.pci}, not driven" for gpu in on_bus] or [none]
    grouped: dict[str, int] = {}
    given_first = sorted(snapshot.gpus, key=_is_not_given)
    for gpu in given_first:
        text = _not_given(snapshot) if _is_not_given(gpu) else _gpu_text(gpu)
        grouped[text] = grouped.get(text, 0) + 1
    return [f"{count} x {text}" if count > 1 else text for text, count in grouped.items()]


def _is_not_given(gpu: Gpu) -> bool:
    """Whether nothing is known of it since a control group keeps it from this process."""
    return not gpu.name.known and (gpu.hidden_by.value or "").startswith(CONTROL_GROUP)


def _not_given(snapshot: Snapshot) -> str:
    return f"not given to this {'job' if snapshot.grant.by.known else 'process'}"


def _gpu_text(gpu: Gpu) -> str:
    parts = [gpu.name.value or "unknown"]
    if gpu.compute_capability.known:
        parts.append(f"compute capability {gpu.compute_capability.value}")
    if gpu.memory_total.value:
        parts.append(f"{gpu.memory_total.value // _MIB} MiB")
    if gpu.mig.value:
        instances = len(gpu.mig_instances)
        parts.append(f"MIG with {counted(instances, 'instance')}" if instances else "in MIG mode")
    return ", ".join(parts)


def was_asked(snapshot: Snapshot, source: str, path: str) -> bool:
    """Whether an absence was seen or told; else nobody knows."""
    return path in snapshot.assumed or snapshot.source(source).state is not SourceState.NOT_ASKED
