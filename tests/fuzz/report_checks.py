"""Properties of the report of any machine: no check crashes, and all output formats agree."""

from __future__ import annotations

import importlib
import json
import time
import zlib
from functools import cache
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from gpuenv.cli.output import FORMATS, RECORD_FORMATS
from gpuenv.data import data_path
from gpuenv.doctor.diagnose import DEFAULT_OPTIONS, DiagnosisOptions, diagnose
from gpuenv.matrix.load import load
from gpuenv.matrix.resolve import resolve
from gpuenv.model.codec import decode, encode
from gpuenv.model.finding import CheckStatus
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.html import html_text
from gpuenv.report.redact import Identity, redact, sanitize_report
from gpuenv.report.report import Report, Status, make_report, verdict
from gpuenv.report.resolution_text import explanation_lines
from gpuenv.report.snapshot_text import fact_lines
from gpuenv.report.text import report_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuenv.matrix.tables import Matrix

IDENTITY = Identity(home="/home/testuser", user="testuser", hosts=("node17",))
CODES = {Status.FIT: 0, Status.DEGRADED: 0, Status.UNFIT: 1, Status.UNKNOWN: 8}
WORDS = {
    Status.FIT: "FIT",
    Status.DEGRADED: "FIT, with warnings",
    Status.UNFIT: "UNFIT",
    Status.UNKNOWN: "UNKNOWN",
}
_RENDERERS: dict[str, Callable[[Report], str]] = {
    name: html_text if name == "html" else importlib.import_module(f"gpuenv.report.{name}").render
    for name in FORMATS
    if name not in RECORD_FORMATS
}


@cache
def shipped_matrix() -> Matrix:
    """The matrix shipped with gpuenv."""
    return load(data_path("matrix.yaml"))


def report_of(snapshot: Snapshot, options: DiagnosisOptions = DEFAULT_OPTIONS) -> Report:
    """The report of a machine; fails if a check has crashed."""
    resolution = resolve(snapshot, shipped_matrix())
    list(explanation_lines(resolution, verbose=True))
    diagnosis = diagnose(snapshot, shipped_matrix(), time.monotonic, options, resolution=resolution)
    crashed = [(run.code, run.reason) for run in diagnosis.checks if run.status is CheckStatus.CRASHED]
    assert not crashed, crashed
    report = make_report(diagnosis, snapshot, 0.5, options)
    assert report.exit_code == CODES[report.status]
    primary = [finding for finding in report.findings if finding.primary]
    assert len(primary) == (report.status is Status.UNFIT)
    return report


def check_formats(report: Report) -> None:
    """Text and JSON agree; for every fourth report the other formats, which take longer, are checked too."""
    word, sentence = verdict(report)
    lines = [line.text for line in report_lines(report, verbose=True)]
    assert lines[0] == f"{word}: {sentence}"
    assert lines[-1].endswith(f"exit code {report.exit_code}.")
    list(fact_lines(report.snapshot))
    data = json.loads(json.dumps(encode(report), allow_nan=False))
    assert (data["status"], data["exit_code"]) == (report.status.value, report.exit_code)
    assert word == WORDS[report.status]
    if zlib.crc32("".join(lines).encode("utf-8", "surrogatepass")) % 4 == 0:
        check_other_formats(report)


def check_other_formats(report: Report) -> None:
    """Every other format is rendered and can be parsed."""
    hidden = redact(encode(report), IDENTITY)
    assert (hidden["status"], hidden["exit_code"]) == (report.status.value, report.exit_code)
    clean = sanitize_report(report, IDENTITY)
    for name, render in _RENDERERS.items():
        text = render(clean)
        text.encode("utf-8", "backslashreplace")
        if name in ("gitlab", "sarif"):
            json.loads(text)
        elif name == "junit":
            ET.fromstring(text)  # noqa: S314 - our own


def check_machine(snapshot: Snapshot) -> None:
    """A machine survives a JSON round trip and has a consistent report."""
    assert decode(Snapshot, json.loads(json.dumps(encode(snapshot), allow_nan=False))) == snapshot
    check_formats(report_of(snapshot))
