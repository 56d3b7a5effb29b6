"""The error in a paste is a finding in addition to those of the pasted facts."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuenv.doctor.diagnose import diagnose
from gpuenv.explain.explainer import with_pasted_error
from gpuenv.model.causes import Cause
from tests.cli.program import gpuenv
from tests.cli.snapshots import UNFIT
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from pathlib import Path

MACHINE = """$ pip list
Package        Version
-------------- -------
cupy-cuda12x   13.4.1
numpy          2.2.6
$ nvidia-smi
| NVIDIA-SMI 570.86.10              Driver Version: 570.86.10      CUDA Version: 12.8     |
|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:00:04.0 Off |                    0 |
"""
FULL = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: 512 bytes)."


def report_of(text: str, folder: Path) -> tuple[int, dict[str, Any]]:
    paste = folder / "paste.txt"
    paste.write_text(text, encoding="utf-8")
    result = gpuenv("doctor", "--no-config", "--paste", paste, "--format", "json")
    return result.returncode, json.loads(result.stdout)


def test_an_error_that_no_check_finds_is_the_primary_finding(tmp_path: Path) -> None:
    code, report = report_of(f"{MACHINE}$ python a.py\n{FULL}\n", tmp_path)
    first = report["findings"][0]
    assert code == 1
    assert (first["cause"], first["primary"], first["severity"]) == ("out-of-memory", True, "error")
    assert FULL in first["evidence"][0]["value"]
    assert gpuenv(*first["docs"].split()[1:]).returncode == 0


def test_a_pasted_gpu_whose_memory_others_use_is_found(tmp_path: Path) -> None:
    row = "| N/A   31C    P0              45W / 400W |  39800MiB / 40960MiB |      0%      Default |\n"
    _, report = report_of(f"{MACHINE}{row}$ python a.py\n{FULL}\n", tmp_path)
    busy = next(entry for entry in report["findings"] if entry["code"] == "GPU208")
    assert busy["title"] == "GPU 0 (NVIDIA A100-SXM4-40GB): 1160 of 40960 MiB are free"
    _, report = report_of(f"{MACHINE}{row.replace('39800', ' 3980')}$ python a.py\n{FULL}\n", tmp_path)
    assert "GPU208" not in [entry["code"] for entry in report["findings"]]


def test_a_finding_with_the_cause_of_the_error_comes_first() -> None:
    diagnosis = diagnose(UNFIT, MATRIX, lambda: 0.0)
    first = diagnosis.findings[0]
    other = replace(first, code="GPU208", cause=Cause.OUT_OF_MEMORY, primary=False)
    both = diagnosis._replace(findings=(*diagnosis.findings, other))
    found = with_pasted_error(both, UNFIT, FULL).findings
    assert [entry.code for entry in found if entry.primary] == ["GPU208"]
    assert {entry.code for entry in found} == {entry.code for entry in both.findings}


def test_a_paste_without_an_error_is_judged_by_its_facts(tmp_path: Path) -> None:
    _, report = report_of(MACHINE, tmp_path)
    assert [finding for finding in report["findings"] if finding["severity"] == "error"] == []


def test_a_table_of_nvidia_smi_is_no_error(tmp_path: Path) -> None:
    _, report = report_of(f"{MACHINE}$ python a.py\nall tests passed, no CUDA errors\n", tmp_path)
    assert [finding for finding in report["findings"] if finding["severity"] == "error"] == []
