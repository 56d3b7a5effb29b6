"""The report of check-image: its data, which is also its JSON, its text, and its SARIF.

SARIF: Static Analysis Results Interchange Format Version 2.1.0, OASIS Standard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, ClassVar

from gpuenv import __version__
from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.registry import DocumentedCheck
from gpuenv.image.inspect.image_facts import ImageFacts
from gpuenv.image.rule_registry import all_rules
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.redaction import cut_text
from gpuenv.report.findings import fingerprint
from gpuenv.report.report import Status
from gpuenv.report.sarif import LEVELS, log_of, tool_of, uri_of
from gpuenv.report.text import finding_lines
from gpuenv.report.text_line import Style, TextLine, counted

SCHEMA = "gpuenv.image/1"
_STYLES = {Status.FIT: Style.GOOD, Status.DEGRADED: Style.WARNING, Status.UNKNOWN: Style.WARNING}
_CODES = {Status.UNFIT: ExitCode.UNFIT, Status.UNKNOWN: ExitCode.COULD_NOT_CHECK}
_INDENT = 12
_MAX_EVIDENCE = 300
_DEFAULT_FILE = "Dockerfile"  # the location of a finding without a file: code review systems require one


@dataclass(frozen=True, slots=True)
class ImageFinding(Finding):
    """A finding with its machine or its location in a file.

    Attributes:
        machine: the machine that has it; null if it does not depend on the machine.
        file: the file that contains it; null for an image.
        end_line: the last line of its instruction.
    """

    allowed: ClassVar[None] = None  # type: ignore[misc]  # no configuration of check-image accepts a finding
    machine: str | None = None
    file: str | None = None
    line: int | None = None
    end_line: int | None = None


def at_location(finding: Finding, **location: str | int | None) -> ImageFinding:
    """The finding at a location: the keyword arguments are ``machine``, ``file``, ``line`` and ``end_line``."""
    shared: dict[str, Any] = {name: getattr(finding, name) for name in Finding.__match_args__ if name != "allowed"}
    return ImageFinding(**{**shared, **location})


def exit_code_of(status: Status) -> int:
    """The contract's code for a verdict."""
    return int(_CODES.get(status, ExitCode.OK))


class ImageRequirementStatus(str, Enum):
    """Whether a requirement of the image is met; the container runtime refuses to start an ``invalid`` one."""

    MET = "met"
    UNMET = "unmet"
    UNKNOWN = "unknown"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class RequirementVerdict:
    """One NVIDIA_REQUIRE_* variable, evaluated for one GPU of a machine.

    Attributes:
        variable: the variable; CUDA_VERSION for an image without NVIDIA_REQUIRE_CUDA.
        gpu: the GPU; null if no GPU of the machine is known.
        failed: for each alternative, the conditions that do not hold.
    """

    variable: str
    gpu: str | None
    status: ImageRequirementStatus
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MachineVerdict:
    """Whether the image runs on a machine.

    Attributes:
        machine: its name: the file of the snapshot, or ``this machine``.
        platform: the platform of the image that it would run.
        changes: the changes after which the image would run there.
        unknown: the open questions.
        uses_gpu: whether the image is known to use a GPU; if false, only its start is certain; null if the image is
            unknown.
    """

    machine: str
    status: Status
    driver: str | None
    driver_cuda: str | None
    gpus: tuple[str, ...]
    platform: str | None
    requirements: tuple[RequirementVerdict, ...]
    findings: tuple[ImageFinding, ...]
    changes: tuple[str, ...]
    unknown: tuple[str, ...]
    uses_gpu: bool | None = None


@dataclass(frozen=True, slots=True)
class ImageReport:
    """The whole report of check-image.

    Attributes:
        subject: the reference or the file that was checked.
        kind: ``image``, ``dockerfile``, ``compose``, ``kubernetes`` or ``devcontainer``.
        status: the worst status of the machines and of the files.
        exit_code: 0, 1 or 8.
        runs_on: the machines that can run it.
        images: the facts of the image, one entry for each platform.
        machines: the verdict for each machine; empty without machines.
        findings: all findings, each with its machine or its location.
        cuda: the CUDA of the image by platform, if known.
    """

    subject: str
    kind: str
    status: Status
    exit_code: int
    runs_on: tuple[str, ...] = ()
    images: tuple[ImageFacts, ...] = ()
    machines: tuple[MachineVerdict, ...] = ()
    findings: tuple[ImageFinding, ...] = ()
    files: tuple[str, ...] = ()
    gpuenv_version: str = __version__
    matrix_revision: str = ""
    duration: float = 0.0
    cuda: Mapping[str, str] = field(default_factory=dict)
    schema: str = SCHEMA


def report_lines(report: ImageReport, *, verbose: bool = False) -> Iterator[TextLine]:
    """The report as lines of text, in ASCII."""
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
    source = f"Read: {', '.join(report.files)}."
    if report.kind == "image":
        source = "Only the manifest and the configuration were read, no layers."
    yield TextLine(f"{source} Exit code {report.exit_code}.", Style.QUIET)


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
    """The number of findings in the file itself."""
    own = [entry for entry in report.findings if entry.file is not None]
    errors = sum(entry.severity is Severity.ERROR for entry in own)
    return f"{counted(errors, 'error')}, {counted(len(own) - errors, 'other finding')}" if own else "nothing found"


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
        (
            "size",
            f"{image.size / 1e6:.0f} MB in {counted(image.layers, 'layer') if image.layers else '? layers'}"
            if image.size
            else "",
        ),
        *((name, value) for name, value in image.labels.items() if name.startswith("io.gpuenv.") and verbose),
    )


def _rows(*rows: tuple[str, str]) -> Iterator[TextLine]:
    """Labels and values, without empty ones."""
    return (TextLine(f"  {label:<{_INDENT - 2}}{value}", hang=_INDENT) for label, value in rows if value)


def _machine_lines(machine: MachineVerdict, *, verbose: bool) -> Iterator[TextLine]:
    yield TextLine(f"{machine.machine}: {_verdict(machine)}", _STYLES.get(machine.status, Style.BAD), 2)
    level = f", up to CUDA {machine.driver_cuda}" if machine.driver_cuda else ""
    counts = Counter(machine.gpus or ("none known",))
    gpus = [f"{count} x {text}" if count > 1 else text for text, count in counts.items()]
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


def _finding_lines(finding: ImageFinding) -> Iterator[TextLine]:
    """The lines of a finding as in every report, with long evidence shortened."""
    evidence = (entry._replace(value=cut_text(entry.value, _MAX_EVIDENCE)) for entry in finding.evidence)
    return finding_lines(replace(finding, evidence=tuple(evidence)))


def sarif_text(report: ImageReport) -> str:
    """The report as a SARIF log."""
    every: tuple[DocumentedCheck, ...] = (*all_checks(), *all_rules())
    run = {
        "tool": tool_of(every, report.findings),
        "automationDetails": {"id": "gpuenv/check-image/"},
        "invocations": [_invocation(report)],
        "results": [_result(finding, report) for finding in report.findings],
        "properties": {
            "status": report.status.value,
            "runs_on": list(report.runs_on),
            "matrix_revision": report.matrix_revision,
        },
    }
    return log_of(run)


def _invocation(report: ImageReport) -> dict[str, Any]:
    unknown = [f"{machine.machine}: not known: {text}" for machine in report.machines for text in machine.unknown]
    return {
        "executionSuccessful": report.status is not Status.UNKNOWN,
        "exitCode": report.exit_code,
        "toolExecutionNotifications": [{"level": "warning", "message": {"text": text}} for text in unknown],
    }


def _result(finding: ImageFinding, report: ImageReport) -> dict[str, Any]:
    path = finding.file or _DEFAULT_FILE
    region: dict[str, int] = {"startLine": finding.line or 1}
    if finding.end_line is not None and finding.end_line > region["startLine"]:
        region["endLine"] = finding.end_line
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": {"uri": uri_of(path)}, "region": region}}
    if finding.file is None:
        location["logicalLocations"] = [{"fullyQualifiedName": report.subject, "kind": "image"}]
    lines = [f"{finding.title}.", *(fix.text for fix in finding.fix)]
    return {
        "ruleId": finding.code,
        "level": LEVELS[finding.severity],
        "message": {"text": "\n".join(lines)},
        "locations": [location],
        "partialFingerprints": {
            "gpuenv/1": fingerprint(f"{finding.code} {finding.file} {finding.machine} {finding.title}")
        },
        "properties": {
            "cause": finding.cause.value,
            "primary": finding.primary,
            "follows_from": finding.follows_from,
            "machine": finding.machine,
        },
    }
