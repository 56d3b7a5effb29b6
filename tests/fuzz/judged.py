"""What must hold of every machine, however odd: it is judged, told in every form, and all forms say the same."""

from __future__ import annotations

import json
import time
import zlib
from functools import cache
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from gpuenv.data import data_path
from gpuenv.doctor.diagnose import DEFAULT_OPTIONS, DiagnosisOptions, diagnose
from gpuenv.matrix.load import load
from gpuenv.matrix.resolve import resolve
from gpuenv.model.codec import decode, encode
from gpuenv.model.finding import CheckStatus
from gpuenv.model.snapshot import Snapshot
from gpuenv.report.github import render as annotations_text
from gpuenv.report.gitlab import render as code_quality_text
from gpuenv.report.html import html_text
from gpuenv.report.junit import render as junit_text
from gpuenv.report.markdown import render as markdown_text
from gpuenv.report.prometheus import render as metrics_text
from gpuenv.report.redact import Identity, redact, sanitize_report
from gpuenv.report.report import Report, Status, make_report, verdict
from gpuenv.report.resolution_text import explanation_lines
from gpuenv.report.sarif import render as sarif_text
from gpuenv.report.snapshot_text import fact_lines
from gpuenv.report.text import report_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from gpuenv.matrix.tables import Matrix

SOMEBODY = Identity(home="/home/somebody", user="somebody", host="node17")
CODES = {Status.FIT: 0, Status.DEGRADED: 0, Status.UNFIT: 1, Status.UNKNOWN: 8}
WORDS = {
    Status.FIT: "FIT",
    Status.DEGRADED: "FIT, with warnings",
    Status.UNFIT: "UNFIT",
    Status.UNKNOWN: "UNKNOWN",
}
_FORMS: dict[str, Callable[[Report], str]] = {
    "github": annotations_text,
    "gitlab": code_quality_text,
    "html": html_text,
    "junit": junit_text,
    "markdown": markdown_text,
    "prometheus": metrics_text,
    "sarif": sarif_text,
}


@cache
def shipped() -> Matrix:
    """The matrix that travels with the program."""
    return load(data_path("matrix.yaml"))


def judge(snapshot: Snapshot, options: DiagnosisOptions = DEFAULT_OPTIONS) -> Report:
    """The whole way from a machine to its report; a check that crashed is a failure here."""
    resolution = resolve(snapshot, shipped())
    list(explanation_lines(resolution, verbose=True))
    diagnosis = diagnose(snapshot, shipped(), resolution, time.monotonic, options)
    crashed = [(run.code, run.reason) for run in diagnosis.checks if run.status is CheckStatus.CRASHED]
    assert not crashed, crashed
    report = make_report(diagnosis, resolution, snapshot, 0.5, options)
    assert report.exit_code == CODES[report.status]
    primary = [finding for finding in report.findings if finding.primary]
    assert len(primary) == (report.status is Status.UNFIT)
    return report


def tell(report: Report) -> None:
    """Text and JSON are of one mind; of every fourth report all other forms are written too, which takes longer."""
    word, sentence = verdict(report)
    lines = [line.text for line in report_lines(report, verbose=True)]
    assert lines[0] == f"{word}: {sentence}"
    assert lines[-1].endswith(f"exit code {report.exit_code}.")
    list(fact_lines(report.snapshot))
    told = json.loads(json.dumps(encode(report), allow_nan=False))
    assert (told["status"], told["exit_code"]) == (report.status.value, report.exit_code)
    assert word == WORDS[report.status]
    if zlib.crc32("".join(lines).encode("utf-8", "surrogatepass")) % 4 == 0:
        tell_others(report)


def tell_others(report: Report) -> None:
    """Every other form is written without a fault, and readable by its readers."""
    hidden = redact(encode(report), SOMEBODY)
    assert (hidden["status"], hidden["exit_code"]) == (report.status.value, report.exit_code)
    clean = sanitize_report(report, SOMEBODY)
    for name, render in _FORMS.items():
        text = render(clean)
        text.encode("utf-8", "backslashreplace")
        if name in ("gitlab", "sarif"):
            json.loads(text)
        elif name == "junit":
            ET.fromstring(text)  # noqa: S314 - our own


def whole(snapshot: Snapshot) -> None:
    """A machine survives the way to JSON and back, is judged and told."""
    assert decode(Snapshot, json.loads(json.dumps(encode(snapshot), allow_nan=False))) == snapshot
    tell(judge(snapshot))
