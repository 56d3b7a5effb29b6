"""A report as lines of ASCII text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from gpuenv.doctor.repair import is_repair_command
from gpuenv.matrix.resolve import changes_text, reasons
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
    Suppression,
    SuppressionResult,
    SuppressionState,
)
from gpuenv.model.gpus import CONTROL_GROUP, host_is_hidden
from gpuenv.model.nvidia import NVIDIA, Nvml
from gpuenv.model.redaction import cut_text
from gpuenv.model.resolution import BY_CALLER, Resolution
from gpuenv.model.snapshot import Gpu, Snapshot, SourceState
from gpuenv.report.job import host_text
from gpuenv.report.report import Report, Status, deciding_command, is_gpu_proven, undetermined_checks, verdict
from gpuenv.report.smoke_text import section_lines
from gpuenv.report.text_line import Style, TextLine, age_text, counted

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
_REPAIRS = {
    RepairStatus.PLANNED: "planned",
    RepairStatus.NOTHING: "nothing to fix",
    RepairStatus.REPAIRED: "fixed",
    RepairStatus.RESTORED: "rolled back",
    RepairStatus.NOT_RESTORED: "rollback failed",
    RepairStatus.FAILED: "failed",
}
_SAME_REPAIR = (Fix("The same command of gpuenv repairs this, too."),)
_LABEL = 10
_MAX_EVIDENCE, _SHOWN_EVIDENCE = 1000, 300  # characters; longer evidence is cut, except in JSON


def report_lines(report: Report, *, verbose: bool = False, matrix_age: int | None = None) -> Iterator[TextLine]:
    """The complete report; ``matrix_age`` is in days."""
    status, sentence = verdict(report)
    yield TextLine(f"{status}: {sentence}", _STYLES[report.status], len(status) + 2)
    if report.retry_elsewhere:
        yield TextLine(f"Try another host: {report.retry_elsewhere}.", Style.BAD, 2)
    yield TextLine()
    yield from _repair_lines(report.repair)
    yield TextLine("Machine", Style.HEADING)
    for row in report_rows(report):
        yield TextLine(f"  {row.label:<{_LABEL - 2}}{row.text}", row.style, _LABEL)
    yield from requirement_lines(report.requirements)
    yield from _finding_groups(report.findings)
    yield from _suppression_lines(report.allow_list)
    if report.smoke is not None:
        yield from section_lines(report.smoke, verbose=verbose)
    if not report.host_only:
        yield TextLine()
        yield from wheel_lines(report.resolution, without_gpu=report.lacks_gpu)
    if verbose:
        yield from _check_lines(report.checks)
    yield from _closing_lines(report, verbose=verbose, matrix_age=matrix_age)


def matrix_line(revision: str, age: int | None) -> TextLine:
    """The revision of the matrix and its age in days, if known."""
    return TextLine(f"Matrix revision {revision}{age_text(age)}.", Style.QUIET, 2)


class MachineRow(NamedTuple):
    """A row about the machine or the target."""

    label: str
    text: str
    style: Style = Style.PLAIN


def report_rows(report: Report) -> Iterator[MachineRow]:
    """What a report is about."""
    if text := host_text(report.host_name, report.jobs):
        yield MachineRow("host", text)
    yield from _host_rows(report.snapshot)
    if not report.host_only:
        yield from _target_rows(report.snapshot)


def requirement_lines(requirements: Sequence[RequirementResult]) -> Iterator[TextLine]:
    """The requirements with their status and the values found."""
    if not requirements:
        return
    yield TextLine()
    yield TextLine("Requirements", Style.HEADING)
    for entry in requirements:
        status, style = _REQUIRED[entry.status]
        yield TextLine(f"  {status:<{_LABEL - 2}}{entry.text}: {found_text(entry)} [{entry.source}]", style, _LABEL)


def found_text(result: RequirementResult) -> str:
    """``found 1``, or ``undetermined: gpus[0].nvlinks (no source reports it)``."""
    return f"undetermined: {result.missing}" if result.missing else f"found {result.found}"


def machine_rows(snapshot: Snapshot) -> Iterator[MachineRow]:
    """The machine and the target."""
    yield from _host_rows(snapshot)
    yield from _target_rows(snapshot)


def _host_rows(snapshot: Snapshot) -> Iterator[MachineRow]:
    yield MachineRow("system", _system(snapshot))
    yield MachineRow("driver", _driver(snapshot))
    yield from gpu_rows(snapshot)
    for kit in snapshot.toolkits:
        suffix = "" if kit.has_nvrtc else ", without NVRTC"
        yield MachineRow("toolkit", f"CUDA {kit.toolkit.value or 'unknown'} in {kit.path}{suffix}")


def _target_rows(snapshot: Snapshot) -> Iterator[MachineRow]:
    target = snapshot.target
    if target.python.known:
        location = f"({target.kind.value or target.python.source}) {target.executable.value or ''}".rstrip()
        yield MachineRow("target", f"Python {target.python.value} {location}")
    else:
        reason = target.python.reason or "not probed"
        yield MachineRow("target", f"{target.executable.value or 'unknown'}: {reason}")
    if target.examined_as.known:
        yield MachineRow("", f"examined as {target.examined_as.value}, who can change it")
    none = "none" if was_probed(snapshot, "target", "target.cupy") else "unknown, not probed"
    cupy = ", ".join(entry.label for entry in target.cupy) or none
    numpy = f", NumPy {target.numpy.value}" if target.numpy.known else ""
    yield MachineRow("CuPy", cupy + numpy)


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
        return "none found" if was_probed(snapshot, "libcuda", "driver.version") else "unknown, not probed"
    level = f", up to CUDA {driver.cuda.value}" if driver.cuda.known else ""
    return f"{driver.version.value or 'unknown version'}{level} ({driver.version.source or driver.cuda.source})"


def _finding_groups(findings: Sequence[Finding]) -> Iterator[TextLine]:
    groups = (
        ("Fix this first", [finding for finding in findings if finding.primary]),
        ("Other errors", [f for f in findings if not f.primary and f.severity is Severity.ERROR]),
        ("Warnings", [f for f in findings if f.severity is Severity.WARNING]),
        ("Notes", [f for f in findings if f.severity is Severity.NOTE]),
    )
    shown: set[Fix] = set()
    for heading, group in groups:
        if group:
            yield TextLine()
            yield TextLine(heading, Style.HEADING)
        for finding in group:
            repeated = shown if any(is_repair_command(fix.command) for fix in shown.intersection(finding.fix)) else ()
            fixes = tuple(fix for fix in finding.fix if fix not in repeated)
            yield from finding_lines(replace(finding, fix=(*_SAME_REPAIR, *fixes) if repeated else fixes))
            shown.update(finding.fix)


def _repair_lines(repair: Repair | None) -> Iterator[TextLine]:
    """What ``doctor --fix`` changed, and what remains."""
    if repair is None:
        return
    style = Style.GOOD if repair.status is RepairStatus.REPAIRED else Style.WARNING
    yield TextLine("Repair", Style.HEADING)
    yield TextLine(f"  {_REPAIRS[repair.status]}: {repair.message}", style, 4)
    yield from (TextLine(f"  {line}", hang=4) for line in repair.plan)
    if repair.gone:
        yield TextLine(f"  resolved: {', '.join(repair.gone)}", Style.GOOD, 4)
    if repair.left:
        yield TextLine(f"  remaining, with the fix below: {', '.join(repair.left)}", hang=4)
    if repair.undo:
        yield TextLine("  To undo:", hang=4)
        yield TextLine(f"  $ {command_text(repair.undo)}", Style.COMMAND, 4)
    yield TextLine()


def _suppression_lines(entries: Sequence[SuppressionResult]) -> Iterator[TextLine]:
    """The suppressions of the configuration: an expired one has no effect, and an unused one can be removed."""
    if not entries:
        return
    yield TextLine()
    yield TextLine("Allowed", Style.HEADING)
    for entry in entries:
        style = Style.WARNING if entry.state is SuppressionState.EXPIRED else Style.PLAIN
        yield TextLine(f"  {entry.state.value:<{_LABEL - 2}}{allowance_text(entry.allowance)}", style, _LABEL)


def allowance_text(entry: Suppression) -> str:
    """``GPU206 until 2027-05-31: replaced in May [gpuenv.toml: line 3]``."""
    return f"{entry.code} until {entry.expires}: {entry.reason} [{entry.source}]"


def finding_lines(finding: Finding) -> Iterator[TextLine]:
    """A finding with its evidence and its fix."""
    style = {Severity.ERROR: Style.BAD, Severity.WARNING: Style.WARNING, Severity.NOTE: Style.PLAIN}[finding.severity]
    suffix = f" (follows from {finding.follows_from})" if finding.follows_from else ""
    suffix += " (allowed)" if finding.allowed else ""
    yield TextLine(f"  {finding.code} {finding.cause}{suffix}", style)
    yield TextLine(f"    {finding.title}.", hang=4)
    for entry in finding.evidence:
        yield TextLine(f"    - {evidence_text(entry)}", Style.QUIET, 6)
    yield from fix_lines(finding.fix, "    ")


def fix_lines(fixes: Iterable[Fix], indent: str = "  ") -> Iterator[TextLine]:
    """The fixes, each with its command."""
    for fix in fixes:
        yield TextLine(f"{indent}> {fix.text}", hang=len(indent) + 2)
        if line := fix_command(fix):
            yield TextLine(f"{indent}  $ {line}", Style.COMMAND, len(indent) + 4)


def fix_command(fix: Fix) -> str | None:
    """The command of a fix as typed in a shell."""
    return command_text(fix.command) if fix.command else fix.shell_line


def command_text(command: Sequence[str]) -> str:
    """An argv list as typed in a shell; a leading ~ stays outside the quotes, so that the shell expands it."""
    import shlex  # noqa: PLC0415 - most reports have no command

    parts = [f"~/{shlex.quote(part[2:])}" if part.startswith("~/") else shlex.quote(part) for part in command]
    return " ".join(parts)


def evidence_text(entry: Evidence) -> str:
    """``driver.version: 550.54.15 [nvml]``."""
    value = entry.value
    if len(value) > _MAX_EVIDENCE:
        value = f"{cut_text(value, _SHOWN_EVIDENCE)} (cut: {len(value)} characters)"
    return f"{entry.fact}: {value} [{entry.source}]" if entry.source else f"{entry.fact}: {value}"


def wheel_lines(resolution: Resolution, *, without_gpu: bool = False) -> Iterator[TextLine]:
    """The wheel to install, or the changes after which one would fit."""
    yield TextLine("The right wheel", Style.HEADING)
    wheel = resolution.wheel
    if wheel is not None:
        yield TextLine(f"  {' '.join(wheel.requirements)}", Style.GOOD, 4)
        if wheel.nvrtc is not None:
            text = f"  NVRTC {wheel.nvrtc.lowest} to {wheel.nvrtc.highest} compiles for every GPU of this machine"
            yield TextLine(text, Style.QUIET, 4)
        if wheel.needs_toolkit:
            yield TextLine(f"  needs {wheel.needs_toolkit}", hang=4)
        yield from (TextLine(f"  {text}", Style.QUIET, 4) for text in assumption_texts(resolution))
        yield from (TextLine(f"  {text}", Style.QUIET, 4) for text in reasons(resolution, newer_only=True))
    elif resolution.is_unknown:
        yield TextLine(f"  {resolution.explanation}", Style.WARNING, 4)
    elif resolution.reachable:
        condition = "without an NVIDIA GPU" if without_gpu else "this machine as it is"
        yield TextLine(f"  None fits {condition}. What would fit:", hang=2)
        for reachable in resolution.reachable:
            yield TextLine(f"    {changes_text(reachable)}: {reachable.candidate.label}", hang=6)
    else:
        yield TextLine("  None fits; no change of driver, Python or NumPy would help.", hang=2)
    if wheel is not None and resolution.next_better is not None:
        better = resolution.next_better
        yield TextLine(f"  next better, with {changes_text(better)}: {better.candidate.label}", Style.QUIET, 4)


def assumption_texts(resolution: Resolution) -> Iterator[str]:
    """``Assumed: driver.cuda`` for the facts that the user passed, ``Assumed (unknown): ...`` for those needed."""
    passed = [entry.fact for entry in resolution.assumptions if entry.value == BY_CALLER]
    if passed:
        yield f"Assumed: {', '.join(passed)}"
    for entry in resolution.assumptions:
        if entry.value != BY_CALLER:
            yield f"Assumed (unknown): {entry.fact} is {entry.value}"


def _check_lines(checks: Sequence[CheckRun]) -> Iterator[TextLine]:
    yield TextLine()
    yield TextLine("Checks", Style.HEADING)
    for run in checks:
        reason = f" ({run.reason})" if run.reason else ""
        yield TextLine(f"  {run.code} {run.status.value}{reason}", Style.QUIET, 4)


def _closing_lines(report: Report, *, verbose: bool, matrix_age: int | None) -> Iterator[TextLine]:
    if report.status is Status.UNKNOWN:
        yield TextLine()
        yield TextLine("Undetermined", Style.HEADING)
        for code, why in undetermined_checks(report):
            yield TextLine(f"  {code} {why}", hang=4)
        if not is_gpu_proven(report.snapshot, report.smoke, expect_no_cupy=bool(report.requirements)):
            yield TextLine("  No GPU was found that an installed CuPy can use.", hang=4)
        if command := deciding_command(report):
            yield TextLine(f"  To determine it, compute with this CuPy: {command}", hang=4)
    skipped = sum(run.status is CheckStatus.SKIPPED for run in report.checks)
    yield TextLine()
    for run in report.checks:
        if run.status is CheckStatus.CRASHED:
            yield TextLine(f"Check {run.code} crashed: {run.reason}", Style.BAD, 2)
    yield matrix_line(report.matrix_revision, matrix_age)
    hint = "" if verbose else " (-v lists them)"
    tail = f", {skipped} skipped{hint}" if skipped else ""
    yield TextLine(f"{len(report.checks)} checks{tail}; exit code {report.exit_code}.", Style.QUIET)


_MIB = 1024 * 1024


def gpu_rows(snapshot: Snapshot) -> list[MachineRow]:
    """The GPUs, equal ones counted; those that this process has no access to come last."""
    if not snapshot.gpus:
        on_bus = [gpu for gpu in snapshot.pci_gpus or () if gpu.vendor == NVIDIA]
        none = "none" if was_probed(snapshot, "kernel", "gpus") else "unknown, not probed"
        if host_is_hidden(snapshot):
            none = "unknown, the PCI bus is not visible"
        texts = [f"{gpu.name or 'NVIDIA ' + gpu.device} at {gpu.pci}, without a driver" for gpu in on_bus] or [none]
        return [MachineRow("GPU", text) for text in texts]
    grouped: dict[MachineRow, int] = {}
    for gpu in sorted(snapshot.gpus, key=_is_denied):
        text = _denied_text(snapshot) if _is_denied(gpu) else _gpu_text(gpu)
        row = MachineRow("GPU", text, Style.BAD if gpu.fault.known else Style.PLAIN)
        grouped[row] = grouped.get(row, 0) + 1
    return [row._replace(text=f"{count} x {row.text}") if count > 1 else row for row, count in grouped.items()]


_FAULTS: dict[int, str] = {Nvml.GPU_IS_LOST: "LOST (it has fallen off the bus)", Nvml.RESET_REQUIRED: "NEEDS A RESET"}


def _is_denied(gpu: Gpu) -> bool:
    """Whether nothing is known about the GPU because a control group denies this process access."""
    return not gpu.name.known and (gpu.hidden_by.value or "").startswith(CONTROL_GROUP)


def _denied_text(snapshot: Snapshot) -> str:
    return "not allocated to this job" if snapshot.grant.by.known else "not accessible to this process"


def _gpu_text(gpu: Gpu) -> str:
    parts = [gpu.name.value or "unknown"]
    if gpu.fault.value is not None:
        parts.append(_FAULTS.get(gpu.fault.value, "CANNOT BE OPENED"))
    if gpu.compute_capability.known:
        parts.append(f"compute capability {gpu.compute_capability.value}")
    if gpu.memory_total.value:
        parts.append(f"{gpu.memory_total.value // _MIB} MiB")
    if gpu.mig.value:
        instances = len(gpu.mig_instances)
        parts.append(f"MIG with {counted(instances, 'instance')}" if instances else "in MIG mode")
    return ", ".join(parts)


def was_probed(snapshot: Snapshot, source: str, path: str) -> bool:
    """Whether an absence was observed or assumed; else it is unknown."""
    return path in snapshot.assumed or snapshot.source(source).state is not SourceState.NOT_ASKED
