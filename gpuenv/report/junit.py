"""A report as JUnit XML: the verdict, each requirement, each check and each GPU test is a test case."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from xml.etree import ElementTree as ET

from gpuenv import __version__
from gpuenv.doctor.checks import all_checks
from gpuenv.doctor.checks.requirement import REQUIREMENT_CHECK
from gpuenv.model.finding import CheckRun, CheckStatus, Finding, RequirementResult, RequirementStatus, Severity
from gpuenv.model.smoke import BROKEN, TestResult, TestStatus
from gpuenv.report.findings import (
    detail_lines,
    machine_texts,
    requirement_text,
    suppression_text,
    title_text,
    wheel_text,
)
from gpuenv.report.report import Report, Status, verdict
from gpuenv.report.smoke_text import measured_texts, test_label

_OUTCOMES = ("failure", "error", "skipped")


def render(report: Report) -> str:
    """The document; ``report`` must be sanitized."""
    attributes = {"hostname": report.host_name, "timestamp": report.snapshot.taken_at}
    return document(list(_cases(report)), report.duration, dict(_properties(report)), attributes)


def document(
    cases: Sequence[ET.Element],
    seconds: float,
    properties: Mapping[str, str],
    attributes: Mapping[str, str | None] = MappingProxyType({}),
) -> str:
    """The document of one suite of cases; without the attributes that are None."""
    counts = {kind: sum(entry.find(kind) is not None for entry in cases) for kind in _OUTCOMES}
    totals = {
        "tests": str(len(cases)),
        "failures": str(counts["failure"]),
        "errors": str(counts["error"]),
        "time": f"{seconds:.3f}",
    }
    root = ET.Element("testsuites", {"name": "gpuenv", **totals})
    suite = ET.SubElement(root, "testsuite", {"name": "gpuenv", **totals, "skipped": str(counts["skipped"])})
    for name, value in attributes.items():
        if value:
            suite.set(name, value)
    parent = ET.SubElement(suite, "properties")
    for name, value in properties.items():
        ET.SubElement(parent, "property", {"name": name, "value": value})
    suite.extend(cases)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


def _properties(report: Report) -> Iterator[tuple[str, str]]:
    yield "status", report.status.value
    yield "exit_code", str(report.exit_code)
    yield "retry_elsewhere", report.retry_elsewhere or ""
    yield "wheel", wheel_text(report)
    for number, text in enumerate(machine_texts(report)):
        yield f"machine.{number}", text
    for number, entry in enumerate(report.allow_list):
        yield f"allowed.{number}", suppression_text(entry)
    yield "gpuenv_version", __version__
    yield "matrix_revision", report.matrix_revision


def _cases(report: Report) -> Iterator[ET.Element]:
    yield _verdict(report)
    for result in report.requirements:
        yield _requirement(result)
    titles = {check.code: check.title for check in all_checks()}
    for run in report.checks:
        if run.code != REQUIREMENT_CHECK or run.status is CheckStatus.CRASHED:
            findings = [finding for finding in report.findings if finding.code == run.code]
            yield _check(run, titles.get(run.code, ""), findings)
    for test in report.smoke.tests if report.smoke else ():
        yield _smoke(test)


def test_case(classname: str, name: str, seconds: float) -> ET.Element:
    """A test case, which has passed unless an outcome is added."""
    return ET.Element("testcase", {"classname": classname, "name": name, "time": f"{seconds:.3f}"})


def add_outcome(case: ET.Element, tag: str, message: str, outcome: str, text: str) -> None:
    """Adds a failure, an error or a skip."""
    ET.SubElement(case, tag, {"message": message, "type": outcome}).text = text


def _verdict(report: Report) -> ET.Element:
    case = test_case("gpuenv", "verdict", report.duration)
    status, sentence = verdict(report)
    text = "\n".join([f"{status}: {sentence}", f"exit code {report.exit_code}", *machine_texts(report)])
    if report.status is Status.UNFIT:
        add_outcome(case, "failure", sentence, "unfit", text)
    elif report.status is Status.UNKNOWN:
        add_outcome(case, "error", sentence, "unknown", text)
    else:
        ET.SubElement(case, "system-out").text = text
    return case


def _requirement(result: RequirementResult) -> ET.Element:
    case = test_case("gpuenv.requirement", result.text, 0.0)
    text = f"{requirement_text(result)} [{result.source}]"
    if result.status is RequirementStatus.VIOLATED:
        add_outcome(case, "failure", text, "requirement-not-met", text)
    elif result.status is RequirementStatus.UNKNOWN:
        add_outcome(case, "error", text, "unknown", text)
    else:
        ET.SubElement(case, "system-out").text = text
    return case


def _check(run: CheckRun, title: str, findings: Sequence[Finding]) -> ET.Element:
    case = test_case(f"gpuenv.check.{run.code[:3]}", f"{run.code} {title}", run.duration)
    if run.status is CheckStatus.CRASHED:
        add_outcome(case, "error", run.reason or "", "crashed", f"Check {run.code} crashed")
    elif run.status is CheckStatus.SKIPPED:
        ET.SubElement(case, "skipped", {"message": run.reason or ""})
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    for finding in errors[:1]:  # not every reader supports several outcomes of one case
        text = "\n".join(_finding(entry) for entry in errors)
        add_outcome(case, "failure", finding.title, finding.cause.value, text)
    others = [finding for finding in findings if finding not in errors]
    if others:
        ET.SubElement(case, "system-out").text = "\n".join(_finding(finding) for finding in others)
    return case


def _finding(finding: Finding) -> str:
    heading = f"{finding.code} {finding.cause} ({finding.severity.value}): {title_text(finding)}"
    return "\n".join([heading, *detail_lines(finding)])


def _smoke(test: TestResult) -> ET.Element:
    label, detail = test_label(test), test.detail or ""
    case = test_case(f"gpuenv.smoke.{test.group}", f"{label} on {test.gpu}" if test.gpu else label, test.duration)
    text = "\n".join([detail, *measured_texts(test)]).strip()
    if test.status in BROKEN:
        add_outcome(case, "failure", detail or test.status.value, test.status.value, text)
    elif test.status is TestStatus.BUSY:
        add_outcome(case, "error", detail, test.status.value, text)
    elif test.status is TestStatus.SKIPPED:
        ET.SubElement(case, "skipped", {"message": detail})
    elif text:
        ET.SubElement(case, "system-out").text = text
    return case
