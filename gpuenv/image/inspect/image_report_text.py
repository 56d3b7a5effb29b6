"""A report of check-image as lines of text, in ASCII."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.inspect.image_report import ImageFinding, ImageReport, ImageRequirementStatus, MachineVerdict
from gpuenv.model.finding import Severity
from gpuenv.report.report import Status
from gpuenv.report.text import finding_lines
from gpuenv.report.text_line import Style, TextLine

_STYLES = {Status.FIT: Style.GOOD, Status.DEGRADED: Style.WARNING, Status.UNKNOWN: Style.WARNING}
_WORDS = {Status.FIT: "runs", Status.DEGRADED: "runs, with warnings", Status.UNKNOWN: "could not be checked"}
_INDENT = 12


def report_lines(report: ImageReport, *, verbose: bool = False) -> Iterator[TextLine]:
    """The whole report."""
    yield TextLine(_headline(report), _STYLES.get(report.status, Style.BAD), 2)
    for image in report.images:
        yield TextLine()
        yield from _image_lines(image, report.cuda.get(image.platform or "", ""), verbose=verbose)
    for machine in report.machines:
        yield TextLine()
        yield from _machine_lines(machine, verbose=verbose)
    if report.kind != "image":
        yield from _file_lines(report)
    yield TextLine()
    yield TextLine(_closing(report), Style.QUIET)


def _headline(report: ImageReport) -> str:
    word = report.status.value.upper()
    of_file = "" if report.kind == "image" else f": {_counted_findings(report)}."
    if of_file and not report.machines:
        return f"{word}: {report.subject}{of_file}"
    if len(report.machines) == 1:
        only = report.machines[0]
        rest = f"{of_file} On {only.machine}" if of_file else f" on {only.machine}"
        return f"{word}: {report.subject}{rest}: {_verdict(only)}."
    rest = f"{of_file} What it builds" if of_file else ""
    return f"{word}: {report.subject}{rest} runs on {len(report.runs_on)} of {len(report.machines)} machines."


def _counted_findings(report: ImageReport) -> str:
    """The number of findings about the file itself, as text."""
    own = [entry for entry in report.findings if entry.file is not None]
    errors = sum(entry.severity is Severity.ERROR for entry in own)
    rest = len(own) - errors
    counts = f"{errors} error{'s' * (errors != 1)}, {rest} other finding{'s' * (rest != 1)}"
    return counts if own else "nothing found"


def _verdict(machine: MachineVerdict) -> str:
    return _WORDS.get(machine.status, "does not run")


def _image_lines(image: ImageFacts, cuda: str, *, verbose: bool) -> Iterator[TextLine]:
    yield TextLine("Image", Style.HEADING)
    offered = f" (of {', '.join(image.offered)})" if len(image.offered) > 1 else ""
    size = f"{image.size / 1e6:.0f} MB in {image.layers or '?'} layers" if image.size else None
    rows = (
        ("from", image.source),
        ("platform", f"{image.platform}{offered}" if image.platform else None),
        ("digest", image.digest),
        ("CUDA", cuda or None),
        ("size", size),
        *((name, value) for name, value in image.labels.items() if name.startswith("io.gpuenv.") and verbose),
    )
    for label, value in rows:
        if value:
            yield TextLine(f"  {label:<{_INDENT - 2}}{value}", hang=_INDENT)


def _machine_lines(machine: MachineVerdict, *, verbose: bool) -> Iterator[TextLine]:
    yield TextLine(f"{machine.machine}: {_verdict(machine)}", _STYLES.get(machine.status, Style.BAD), 2)
    level = f", up to CUDA {machine.driver_cuda}" if machine.driver_cuda else ""
    yield TextLine(f"  {'driver':<{_INDENT - 2}}{machine.driver or 'unknown'}{level}", hang=_INDENT)
    for text in _counted(machine.gpus) or ["none known"]:
        yield TextLine(f"  {'GPU':<{_INDENT - 2}}{text}", hang=_INDENT)
    shown = [entry for entry in machine.requirements if verbose or entry.status is not ImageRequirementStatus.MET]
    for entry in dict.fromkeys(shown):  # one of several GPUs that are the same
        of_gpu = f" for {entry.gpu}" if entry.gpu else ""
        yield TextLine(f"  {entry.variable}{of_gpu}: {entry.status.value}", Style.QUIET, 4)
    for finding in machine.findings:
        yield from _finding(finding)
    if machine.changes:
        yield TextLine("  What would have to change:", Style.HEADING)
        for text in machine.changes:
            yield TextLine(f"    {text}", hang=6)
    for text in machine.unknown if machine.status is not Status.UNFIT or verbose else ():
        yield TextLine(f"  not known: {text}", Style.WARNING, 4)


def _counted(texts: Sequence[str]) -> list[str]:
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return [f"{count} x {text}" if count > 1 else text for text, count in counts.items()]


def _file_lines(report: ImageReport) -> Iterator[TextLine]:
    for finding in report.findings:
        if finding.file is None:
            continue
        yield TextLine()
        yield TextLine(f"{finding.file}:{finding.line}: {finding.severity.value}", Style.HEADING, 2)
        yield from _finding(finding)


def _finding(finding: ImageFinding) -> Iterator[TextLine]:
    """As everywhere, with long evidence shortened."""
    return finding_lines(
        replace(finding, evidence=tuple(e._replace(value=_shortened(e.value)) for e in finding.evidence))
    )


def _shortened(value: str, most: int = 300) -> str:
    return value if len(value) <= most else f"{value[:most]}..."


def _closing(report: ImageReport) -> str:
    if report.kind == "image":
        return f"From manifest and configuration alone; no layer was looked at. Exit code {report.exit_code}."
    files = ", ".join(report.files)
    return f"Read: {files}. Exit code {report.exit_code}."
