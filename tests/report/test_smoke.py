"""Results of GPU tests in the formats of a report and in its verdict."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import prometheus_client.parser
import pytest
from junitparser import Failure, JUnitXml

from gpuenv.cli.smoke_baseline import compared
from gpuenv.cli.smoke_run import with_fail_on
from gpuenv.model.codec import decode, encode
from gpuenv.model.finding import Severity
from gpuenv.model.smoke import Quantity, SmokeResult, TestedGpu, TestStatus
from gpuenv.report.github import render as annotations_text
from gpuenv.report.gitlab import render as code_quality_text
from gpuenv.report.html import html_text
from gpuenv.report.junit import render as junit_text
from gpuenv.report.markdown import render as markdown_text
from gpuenv.report.prometheus import render as metrics_text
from gpuenv.report.redact import Identity, redact
from gpuenv.report.report import Status
from gpuenv.report.sarif import render as sarif_text
from gpuenv.report.smoke_text import measured_texts, smoke_lines, smoke_series
from gpuenv.report.text import report_lines
from gpuenv.smoke.baseline import parse_minimum
from tests.cli.snapshots import FIT, UUID
from tests.report.readers import commands
from tests.report.sample_reports import AGAIN, FAULTY, PASSED, SLOW, report, smoke

if TYPE_CHECKING:
    from gpuenv.report.report import Report


@pytest.fixture(scope="module")
def tested() -> Report:
    return report(FIT, tests=FAULTY)


def test_a_report_without_gpu_tests_lists_none() -> None:
    assert "GPU tests" not in html_text(report(FIT))
    assert not [run for run in report(FIT).checks if run.code.startswith("SMK")]


def test_repetitions_are_numbered_in_every_format() -> None:
    """Continuous integration keeps one of several test cases of one name."""
    again = report(FIT, tests=smoke(PASSED, replace(PASSED, repeat=1), replace(PASSED, repeat=2, measured={})))
    suites = [suite for suite in JUnitXml.fromstring(junit_text(again).encode()) if suite]
    cases = [case for suite in suites for case in suite if (case.classname or "").startswith("gpuenv.smoke.")]
    assert [case.name for case in cases] == [f"{PASSED.name}{number} on {UUID}" for number in ("", " #2", " #3")]
    assert [bool(case.system_out) for case in cases] == [True, True, False]
    for text in (html_text(again), markdown_text(again)):
        assert f"{PASSED.name} #3" in text


def test_measurements_are_listed_with_their_references(tested: Report) -> None:
    assert tested.smoke is not None
    assert measured_texts(tested.smoke.tests[0]) == ["matmul_f16 241 TFLOP/s", "matmul_f64 1.1 TFLOP/s"]
    first, second, *_ = smoke_series(tested.smoke)
    assert (first.name, first.text, [entry.worse for entry in first.comparisons]) == (
        "blas.matmul_f16",
        "241 TFLOP/s",
        [False],
    )
    assert [entry.worse for entry in second.comparisons] == [True]
    page = html_text(tested)
    assert "6% of the data sheet" in page
    assert page.count('<rect class="bad"') == 2  # the rate, and its share of the data sheet's


def test_repetitions_are_a_series() -> None:
    series = smoke_series(smoke(AGAIN, AGAIN))
    assert [(entry.name, len(entry.values)) for entry in series] == [
        ("transfer.device_copy", 2),
        ("transfer.h2d_pinned", 2),
    ]


def test_a_saved_baseline_matches_the_same_gpu_by_its_pseudonym() -> None:
    now, earlier = smoke(AGAIN), smoke(replace(AGAIN, measured={"device_copy": Quantity(2e12, "B/s")}))
    saved = decode(SmokeResult, redact(encode(earlier), Identity("", "", ())))
    assert {test.gpu for test in saved.tests} != {UUID}
    (comparison,) = compared(now, saved).compared
    assert (comparison.name, comparison.gpu, comparison.against, comparison.ratio) == (
        "transfer.device_copy",
        UUID,
        "baseline",
        0.855,
    )
    assert compared(now, earlier).compared == (comparison,)


def test_a_baseline_of_another_product_is_not_a_comparison_that_passed() -> None:
    other = smoke(replace(AGAIN, gpu="GPU-9"))._replace(gpus=(TestedGpu("GPU-9", "Tesla T4"),))
    result = compared(smoke(AGAIN), other)
    assert (result.status, result.exit_code) == (TestStatus.PASSED, 5)
    assert result.rejected == ("nothing to compare: the baseline is of Tesla T4, this run of NVIDIA A100-SXM4-80GB",)
    same = smoke(replace(AGAIN, measured={}))
    assert compared(smoke(AGAIN), same).rejected == (
        "nothing to compare: this run and the baseline have no measurement in common; see --level",
    )


def test_a_missed_minimum_is_an_error_with_exit_code_5() -> None:
    result = compared(smoke(AGAIN), None, (parse_minimum("copy=2TB/s"), parse_minimum("f16=80%")))
    assert (result.status, result.exit_code) == (TestStatus.PASSED, 5)
    assert result.rejected == (
        "blas.matmul_f16 was not measured on NVIDIA A100-SXM4-80GB",
        "transfer.device_copy is below the required minimum: 1.71 TB/s of 2 TB/s",
    )
    unmeasured = "The run is not accepted: blas.matmul_f16 was not measured on NVIDIA A100-SXM4-80GB"
    findings = report(FIT, tests=result).findings
    assert {finding.code: finding.severity for finding in findings} == dict.fromkeys(
        ("SMK904", "SMK905"), Severity.ERROR
    )
    assert [finding.title for finding in findings if finding.code == "SMK905"] == [unmeasured]
    printed = "\n".join(line.text for line in smoke_lines(result))
    assert printed.startswith("REJECTED: every test computed correct results, and a requirement is not met.\n  blas.")


def test_why_a_run_is_not_accepted_is_in_every_form_for_ci() -> None:
    rejected = report(FIT, tests=compared(smoke(AGAIN), None, (parse_minimum("f16=80%"),)))
    why = "blas.matmul_f16 was not measured on NVIDIA A100-SXM4-80GB"
    assert rejected.status is Status.UNFIT
    (suite,) = list(JUnitXml.fromstring(junit_text(rejected).encode()))
    failed = [case.result[0].message for case in suite if case.result and isinstance(case.result[0], Failure)]
    assert [why in message for message in failed] == [True, True], "the verdict and the check"
    ((kind, properties, message), *_) = commands(annotations_text(rejected))
    assert (kind, properties["title"], why in message) == ("error", "SMK905 requirement-not-met", True)
    (entry,) = json.loads(sarif_text(rejected))["runs"][0]["results"]
    assert (entry["ruleId"], entry["level"]) == ("SMK905", "error")


@pytest.mark.parametrize("named", ["gpu-throttled", "SMK904", "warning"])
def test_a_named_finding_fails_the_run(named: str) -> None:
    tests = smoke(PASSED, compared=(SLOW,))
    before = report(FIT, tests=tests)
    after = with_fail_on(before, [named])
    assert after.smoke is not None
    assert [finding.severity for finding in after.findings] == [Severity.ERROR]
    assert (tests.exit_code, after.smoke.exit_code, after.exit_code) == (0, 5, 5)
    assert after.smoke.rejected == (f"SMK904 gpu-throttled: {before.findings[0].title}",)
    assert with_fail_on(before, ["gpu-busy"]) == before


@pytest.mark.parametrize("against", ["baseline", "baseline-product", "sisters", "data-sheet", "minimum", "start"])
def test_every_kind_of_reference_has_words(against: str) -> None:
    tests = smoke(PASSED, AGAIN, compared=(SLOW._replace(against=against),))
    for text in (html_text(report(FIT, tests=tests)), "\n".join(line.text for line in smoke_lines(tests))):
        assert "6%" in text


def test_a_failed_test_makes_a_finding(tested: Report) -> None:
    findings = {(f.code, f.cause.value, f.severity) for f in tested.findings}
    assert findings == {
        ("SMK902", "gpu-test-failed", Severity.ERROR),
        ("SMK902", "driver-unresponsive", Severity.ERROR),
        ("SMK904", "gpu-throttled", Severity.WARNING),
    }
    assert (tested.status.value, tested.exit_code) == ("unfit", 1)


def test_a_passed_run_proves_the_machine_fit() -> None:
    fit_report = report(FIT, tests=smoke(PASSED))
    assert (fit_report.status.value, fit_report.exit_code, fit_report.findings) == ("fit", 0, ())


def test_junit_has_a_case_for_each_test(tested: Report) -> None:
    (suite,) = list(JUnitXml.fromstring(junit_text(tested).encode()))
    cases = {case.name: case.result for case in suite if case.classname.startswith("gpuenv.smoke.")}
    result_types = {name: [type(result).__name__ for result in results] for name, results in cases.items()}
    where = f" on {UUID}"
    assert result_types == {
        f"blas.rates{where}": [],
        f"transfer.rates{where}": [],
        f"kernels.atomics{where}": ["Failure"],
        f"fft.complex{where}": ["Failure"],
        "multi.peer": ["Skipped"],
    }


def test_the_other_formats_name_the_failed_tests(tested: Report) -> None:
    titles = [properties["title"] for _, properties, _ in commands(annotations_text(tested))]
    assert titles[:3] == ["SMK902 gpu-test-failed", "SMK902 driver-unresponsive", "SMK904 gpu-throttled"]
    text = "\n".join(line.text for line in report_lines(tested))
    for form in (annotations_text, code_quality_text, sarif_text, markdown_text, html_text):
        text = form(tested)
        assert [name for name in ("kernels.atomics", "fft.complex", "sum: 1 of 1 wrong") if name not in text] == [], (
            form
        )
    assert "kernels.atomics" in text
    results = json.loads(sarif_text(tested))["runs"][0]["results"]
    assert [result["ruleId"] for result in results] == ["SMK902", "SMK902", "SMK904"]
    families = {f.name: f for f in prometheus_client.parser.text_string_to_metric_families(metrics_text(tested))}
    passed = {s.labels["test"]: s.value for s in families["gpuenv_smoke_test_passed"].samples}
    assert passed == {test.name: float(test.status is TestStatus.PASSED) for test in FAULTY.tests}
    rates = {s.labels["name"]: s.value for s in families["gpuenv_smoke_measured"].samples}
    assert rates["blas.matmul_f16"] == 241.2e12
