"""Printed JSON matches the printed schema."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator

from gpuenv.doctor.diagnose import DiagnosisOptions, diagnose
from gpuenv.matrix.assume import assume
from gpuenv.model.codec import decode, encode
from gpuenv.model.json_schema import json_schema
from gpuenv.model.reading import known
from gpuenv.model.resolution import ConstraintName, Resolution
from gpuenv.model.snapshot import KernelMessage, Snapshot
from gpuenv.preflight.evaluate import evaluate
from gpuenv.preflight.requirements import parse_requirement
from gpuenv.report.report import Report, make_report
from tests.support.matrix import MATRIX


def _report(*assumptions: str) -> Report:
    snapshot = assume(Snapshot(), assumptions, MATRIX)
    return make_report(diagnose(snapshot, MATRIX, lambda: 0.0), snapshot, 0.5)


@pytest.mark.parametrize(
    "assumptions", [(), ("driver=none",), ("driver=580.95.05", "gpu=V100", "python=3.12", "cupy=cupy-cuda13x==14.2.0")]
)
def test_a_report_matches_its_schema(assumptions: tuple[str, ...]) -> None:
    report = _report(*assumptions)
    schema = json_schema(Report, "gpuenv.report/1")
    Draft202012Validator.check_schema(schema)
    Draft202012Validator(schema).validate(json.loads(json.dumps(encode(report))))


def test_readings_of_different_lists_have_separate_schemas() -> None:
    """The lines of the kernel's log are records, the folders of headers are texts."""
    snapshot = assume(Snapshot(), ("driver=580.95.05", "gpu=V100"), MATRIX)
    lines: tuple[KernelMessage, ...] = (KernelMessage("NVRM: Xid (PCI:0000:01:00): 79", 79, "0000:01:00.0"),)
    log = known(lines, "/dev/kmsg")
    target = snapshot.target._replace(headers=known(("/usr/local/cuda/include",), "CuPy"))
    data = json.loads(json.dumps(encode(snapshot._replace(kernel_log=log, target=target))))
    validator = Draft202012Validator(json_schema(Snapshot, "gpuenv.snapshot/1"))
    validator.validate(data)
    data["kernel_log"]["value"] = ["a line"]
    assert not validator.is_valid(data)


def test_a_preflight_report_matches_the_schema() -> None:
    snapshot = assume(Snapshot(), ("driver=580.95.05", "gpu=V100", "python=3.12"), MATRIX)
    requirements = [parse_requirement(text) for text in ("gpu>=1", "cc>=8.0", "nvlink")]
    results = evaluate(requirements, snapshot)
    diagnosis = diagnose(snapshot, MATRIX, lambda: 0.0, DiagnosisOptions(requirements=results))
    report = make_report(diagnosis, snapshot, 0.5, DiagnosisOptions(requirements=results))
    data = json.loads(json.dumps(encode(report)))
    Draft202012Validator(json_schema(Report, "gpuenv.report/1")).validate(data)
    assert [entry["status"] for entry in data["requirements"]] == ["met", "violated", "unknown"]
    assert decode(Report, data) == report


def test_the_schema_rejects_other_documents() -> None:
    data = encode(_report())
    del data["findings"]
    assert not Draft202012Validator(json_schema(Report, "gpuenv.report/1")).is_valid(data)


def test_the_schema_lists_all_constraints() -> None:
    text = json.dumps(json_schema(Resolution, "gpuenv.resolution/1"))
    assert all(f'"{name.value}"' in text for name in ConstraintName)
