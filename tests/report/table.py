"""Sets of requirements, and checks that the report of a machine agrees in every format."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gpuenv.cli.commands.preflight import with_retry_code
from gpuenv.cli.output import FORMATS, OutputSpec, RenderOptions, emit_report
from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.matrix.resolve import resolve
from gpuenv.preflight.evaluate import evaluate, no_cupy_expected, no_gpu_expected
from gpuenv.preflight.requirements import parse_requirement
from gpuenv.report.report import make_report
from tests.report.readers import READERS, ParsedReport
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.model.resolution import Resolution
    from gpuenv.model.snapshot import Snapshot
REQUIRED = {
    "none": (),
    "usual": ("gpu>=1", "cc>=8.0", "memory>=40GiB", "driver>=535", "name~=H100|H200"),
    "links": ("gpu>=2", "nvlink", "p2p", "mig==off", "ecc==on"),
    "packages": ("cupy>=14,<15", "line==cupy-cuda12x", "driver-cuda>=12.4", "numpy>=2", "python>=3.10"),
    "quiet": ("gpu>=1", "no-other-processes", "free-memory>=1GiB"),
    "absent": ("gpu==0", "cupy==none"),
}
STATUS_OF = {0: ("fit", "degraded"), 1: ("unfit",), 8: ("unknown",), 75: ("unfit",)}


@dataclass(frozen=True, slots=True)
class Row:
    """One run: its exit code, its report, and the report parsed from every format."""

    code: int
    report: dict[str, Any]
    forms: dict[str, ParsedReport]


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and its resolution, shared by all sets of requirements."""

    snapshot: Snapshot
    resolution: Resolution


def resolve_machine(snapshot: Snapshot) -> Machine:
    return Machine(snapshot, resolve(snapshot, MATRIX))


def run_preflight(machine: Machine, name: str, folder: Path, *, retry: bool = False) -> Row:
    """Runs preflight on a machine, writes every format and parses it."""
    requirements = tuple(parse_requirement(text) for text in REQUIRED[name])
    terms = DiagnosisOptions(
        requirements=evaluate(requirements, machine.snapshot),
        no_gpu=no_gpu_expected(requirements),
        no_cupy=no_cupy_expected(requirements),
    )
    diagnosis = diagnose(machine.snapshot, MATRIX, lambda: 0.0, terms, resolution=machine.resolution)
    report = make_report(diagnosis, machine.snapshot, 0.5, terms)
    report = with_retry_code(report) if retry else report
    outputs = [OutputSpec(form, folder / form) for form in FORMATS]
    emit_report(report, outputs, RenderOptions(verbose=False, color=False, redacted=True))
    forms = {form: READERS[form](folder / form) for form in FORMATS}
    return Row(report.exit_code, json.loads((folder / "json").read_text(encoding="utf-8")), forms)


def required(name: str) -> list[str]:
    """The options of a set of requirements."""
    return [part for text in REQUIRED[name] for part in ("--require", text)]


def assert_formats_agree(row: Row) -> None:
    """Verdict, findings, requirements and machine are the same in every format, and the exit code matches them."""
    expected, report = row.forms["json"], row.report
    assert row.code == report["exit_code"]
    assert expected.status in STATUS_OF[row.code]
    for form, parsed in row.forms.items():
        assert parsed.findings == expected.findings, form
        assert parsed.status in (None, expected.status), form
        assert parsed.exit_code in (None, row.code), form
        assert parsed.primary in (None, expected.primary), form
        assert parsed.requirements in (None, expected.requirements), form
        if form != "gitlab":
            assert_the_machine_is_named(parsed, report["snapshot"], form)
    assert_the_code_follows(report)


def assert_the_code_follows(report: dict[str, Any]) -> None:
    """An error means unfit, a violated requirement is an error, and with an unknown one the machine is not fit."""
    errors = [finding for finding in report["findings"] if finding["severity"] == "error"]
    statuses = {entry["status"] for entry in report["requirements"]}
    assert (report["exit_code"] in (1, 75)) == bool(errors)
    assert sum(finding["primary"] for finding in report["findings"]) == bool(errors)
    if "violated" in statuses:
        assert [finding for finding in errors if finding["cause"] == "requirement-not-met"]
    elif "unknown" in statuses and not errors:
        assert report["exit_code"] == 8


def assert_the_machine_is_named(parsed: ParsedReport, snapshot: dict[str, Any], form: str) -> None:
    names = {gpu["name"]["value"] for gpu in snapshot["gpus"]} - {None}
    version = snapshot["driver"]["version"]["value"]
    assert [name for name in (*names, version) if name and name not in parsed.text] == [], form
