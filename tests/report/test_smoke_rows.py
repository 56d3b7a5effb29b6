"""Results of GPU tests in every form that has a place for them, whatever a test has measured."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import prometheus_client.parser
import pytest
from junitparser import JUnitXml

from gpuenv.report.github import annotations_text
from gpuenv.report.gitlab import code_quality_text
from gpuenv.report.html import html_text
from gpuenv.report.junit import junit_text
from gpuenv.report.markdown import markdown_text
from gpuenv.report.prometheus import metrics_text
from gpuenv.report.sarif import sarif_text
from gpuenv.report.smoke_rows import Measured, smoke_rows
from tests.cli.recorded import FIT
from tests.report.made import SMOKE, report
from tests.report.readers import commands

if TYPE_CHECKING:
    from gpuenv.report.report import Report


@pytest.fixture(scope="module")
def tested() -> Report:
    return replace(report(FIT), smoke=SMOKE)  # type: ignore[arg-type]


def test_a_report_without_gpu_tests_has_none() -> None:
    assert smoke_rows(report(FIT)) == ()
    assert "GPU tests" not in html_text(report(FIT))


def test_what_was_measured_is_told_or_drawn(tested: Report) -> None:
    matmul, copy, fft = smoke_rows(tested)
    assert matmul.measured == (
        Measured("tflops", "48.2"),
        Measured("clock", "1200 to 1800", (1200.0, 1500.0, 1800.0, 1790.0, 1795.0)),
    )
    assert copy.measured == (Measured("bandwidth", "1.9e+12"),)
    assert (fft.status, fft.measured) == ("timed-out", ())


def test_junit_has_a_case_a_test(tested: Report) -> None:
    (suite,) = list(JUnitXml.fromstring(junit_text(tested).encode()))
    cases = {case.name: case.result for case in suite if case.classname.startswith("gpuenv.smoke.")}
    kinds = {name: [type(result).__name__ for result in results] for name, results in cases.items()}
    assert kinds == {"matmul on GPU-1": [], "copy on GPU-1": ["Failure"], "fft on GPU-1": ["Failure"]}


def test_the_other_forms_name_the_tests_that_failed(tested: Report) -> None:
    titles = [properties["title"] for _, properties, _ in commands(annotations_text(tested))]
    assert titles[:2] == ["gpuenv smoke: copy failed", "gpuenv smoke: fft timed-out"]
    issues = [issue["check_name"] for issue in json.loads(code_quality_text(tested))]
    assert issues == ["smoke/copy", "smoke/fft"]
    results = json.loads(sarif_text(tested))["runs"][0]["results"]
    assert [result["message"]["text"] for result in results] == [
        "GPU test copy failed: values differ",
        "GPU test fft timed-out: no answer",
    ]
    families = prometheus_client.parser.text_string_to_metric_families(metrics_text(tested))
    (passed,) = [family for family in families if family.name == "gpuenv_smoke_test_passed"]
    assert {sample.labels["test"]: sample.value for sample in passed.samples} == {"matmul": 1, "copy": 0, "fft": 0}
    assert "| failed | `copy` | `GPU-1` | 0.40 s | `values differ; bandwidth 1.9e+12` |" in markdown_text(tested)
