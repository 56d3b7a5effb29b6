"""A report of check-image as lines of text, in ASCII."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.inspect.image_report import ImageFinding, ImageReport, ImageRequirementStatus, MachineVerdict
from gpuenv.model.finding import Severity
from gpuenv.report.report import Status
from gpuenv.report.text import finding_lines
from gpuenv.report.text_line import Style, TextLine

_STYLES = {Status.FIT: Style.GOOD, Status.DEGRADED: Style.WARNING, Status.UNKNOWN: Style.WARNING}
_INDENT = 12
_MAX_EVIDENCE = 300


def report_lines(report: ImageReport, *, verbose: bool = False) -> Iterator[TextLine]:
    """The whole report."""
    yield TextLine(_headline(report), _STYLES.get(report.status, Style.BAD), 2)
    for image in report.images:
        yield TextLine()
        yield from _image_lines(image, report.cuda.get(image.platform or "", ""), verbose=verbose)
    for machine in report.machines:
        yield TextLine()
        yield from _machine_lines(machine, verbose=verbose)
    for finding in report.findings if report.kind != "image" else ():
        if finding.file is not None:
            yield TextLine()
            yield TextLine(f"{finding.file}:{finding.line}: {finding.severity.value}", Style.HEADING, 2)
            yield from _finding_lines(finding)
    yield TextLine()
    looked_at = f"Read: {', '.join(report.files)}."
    if report.kind == "image":
        looked_at = "From manifest and configuration alone; no layer was looked at."
    yield TextLine(f"{looked_at} Exit code {report.exit_code}.", Style.QUIET)


def _headline(report: ImageReport) -> str:
    start = f"{report.status.value.upper()}: {report.subject}"
    is_file = report.kind != "image"
    counts = _count_of_findings(report)
    if is_file and not report.machines:
        return f"{start}: {counts}"
    if len(report.machines) == 1:
        only = report.machines[0]
        return f"{start}{f': {counts}. On' if is_file else ' on'} {only.machine}: {_verdict(only)}."
    verb = "starts" if all(machine.uses_gpu is False for machine in report.machines) else "runs"
    what = f": {counts}. What it builds" if is_file else ""
    return f"{start}{what} {verb} on {len(report.runs_on)} of {len(report.machines)} machines."


def _count_of_findings(report: ImageReport) -> str:
    """How many findings there are in the file itself."""
    own = [entry for entry in report.findings if entry.file is not None]
    errors = sum(entry.severity is Severity.ERROR for entry in own)
    rest = len(own) - errors
    return f"{errors} error{'s' * (errors != 1)}, {rest} other finding{'s' * (rest != 1)}" if own else "nothing found"


def _verdict(machine: MachineVerdict) -> str:
    if machine.status is Status.UNFIT:
        return "does not run"
    if machine.status is Status.UNKNOWN:
        return "could not be checked"
    warnings = ", with warnings" if machine.status is Status.DEGRADED else ""
    return f"starts{warnings}; nothing known in it uses a GPU" if machine.uses_gpu is False else f"runs{warnings}"


def _image_lines(image: ImageFacts, cuda: str, *, verbose: bool) -> Iterator[TextLine]:
    yield TextLine("Image", Style.HEADING)
    offered = f" (of {', '.join(image.offered)})" if len(image.offered) > 1 else ""
    yield from _rows(
        ("from", image.source),
        ("platform", f"{image.platform}{offered}" if image.platform else ""),
        ("digest", image.digest or ""),
        ("CUDA", cuda),
        ("size", f"{image.size / 1e6:.0f} MB in {image.layers or '?'} layers" if image.size else ""),
        *((name, value) for name, value in image.labels.items() if name.startswith("io.gpuenv.") and verbose),
    )


def _rows(*rows: tuple[str, str]) -> Iterator[TextLine]:
    """Labels and values, without empty ones."""
    return (TextLine(f"  {label:<{_INDENT - 2}}{value}", hang=_INDENT) for label, value in rows if value)


def _machine_lines(machine: MachineVerdict, *, verbose: bool) -> Iterator[TextLine]:
    yield TextLine(f"{machine.machine}: {_verdict(machine)}", _STYLES.get(machine.status, Style.BAD), 2)
    level = f", up to CUDA {machine.driver_cuda}" if machine.driver_cuda else ""
    gpus = _counted(machine.gpus) or ["none known"]
    yield from _rows(("driver", f"{machine.driver or 'unknown'}{level}"), *(("GPU", text) for text in gpus))
    shown = [entry for entry in machine.requirements if verbose or entry.status is not ImageRequirementStatus.MET]
    for entry in dict.fromkeys(shown):  # once for several GPUs that are the same
        gpu = f" for {entry.gpu}" if entry.gpu else ""
        yield TextLine(f"  {entry.variable}{gpu}: {entry.status.value}", Style.QUIET, 4)
    for finding in machine.findings:
        yield from _finding_lines(finding)
    if machine.changes:
        yield TextLine("  What would have to change:", Style.HEADING)
        yield from (TextLine(f"    {text}", hang=6) for text in machine.changes)
    for text in machine.unknown if machine.status is not Status.UNFIT or verbose else ():
        yield TextLine(f"  not known: {text}", Style.WARNING, 4)


def _counted(texts: Iterable[str]) -> list[str]:
    return [f"{count} x {text}" if count > 1 else text for text, count in Counter(texts).items()]


def _finding_lines(finding: ImageFinding) -> Iterator[TextLine]:
    """As everywhere, with long evidence shortened."""
    evidence = (
        entry if len(entry.value) <= _MAX_EVIDENCE else entry._replace(value=f"{entry.value[:_MAX_EVIDENCE]}...")
        for entry in finding.evidence
    )
    return finding_lines(replace(finding, evidence=tuple(evidence)))
