"""Pastes made from public reports: the doctor finds the cause that the thread found.

A file is named after the cause and the report; its outputs are assembled from the report.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuenv.data import data_path
from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.load import load
from gpuenv.model.finding import Finding
from gpuenv.paste.partial_snapshot import to_snapshot
from gpuenv.paste.reader import read_paste

MATRIX = load(data_path("matrix.yaml"))
REPORTED = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "reported").glob("*.txt")}
TABLE = REPORTED["container-driver-capabilities--weaviate-helm-101"]


def primary(text: str) -> Finding | None:
    snapshot = to_snapshot(read_paste(text), MATRIX)
    findings = diagnose(snapshot, MATRIX, lambda: 0.0).findings
    return next((finding for finding in findings if finding.primary), None)


@pytest.mark.parametrize("name", sorted(REPORTED))
def test_a_paste_leads_to_the_cause_of_its_report(name: str) -> None:
    finding = primary(REPORTED[name])
    assert (finding and finding.cause.value) == name.partition("--")[0]


# Also outputs of public reports and documents; those of two machines are combined from several.
HEALTHY = {path.stem: path.read_text(encoding="utf-8") for path in (Path(__file__).parent / "healthy").glob("*.txt")}


@pytest.mark.parametrize("name", sorted(HEALTHY))
def test_a_healthy_machine_has_no_error(name: str) -> None:
    snapshot = to_snapshot(read_paste(HEALTHY[name]), MATRIX)
    findings = diagnose(snapshot, MATRIX, lambda: 0.0).findings
    assert [(finding.code, finding.title) for finding in findings] == []


def test_without_evidence_of_a_container_its_fix_is_listed_too() -> None:
    finding = primary(TABLE.replace("NVIDIA_VISIBLE_DEVICES=all", ""))
    assert finding is not None
    assert finding.code == "DRV108"
    assert any("NVIDIA_DRIVER_CAPABILITIES" in fix.text for fix in finding.fix)


@pytest.mark.parametrize("level", ["12.4", ""])
def test_only_na_as_the_cuda_version_shows_a_missing_library(level: str) -> None:
    version = f"CUDA Version: {level}" if level else ""
    assert primary(TABLE.replace("CUDA Version: N/A", version)) is None
