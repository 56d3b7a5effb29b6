"""The pytest plug-in: real runs of pytest on simulated machines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.gpus import RUNS_NO_KERNEL, SIMULATED

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.plugin.conftest import Lab

    Labs = Callable[[str], Lab]

FIT, BROKEN, ABSENT = "h200-580", "mismatch-535", "no-gpu"
TESTS = """
import pytest

@pytest.mark.gpuenv
def test_any(): pass

@pytest.mark.gpuenv(cc=">=9.0", memory=">=100GiB", count=1, name="H100|H200", driver=580)
def test_fits(): pass

@pytest.mark.gpuenv(cc="10.0")
def test_newer(): pass

@pytest.mark.gpuenv(count=2)
def test_two(): pass

def test_plain(): pass
"""


def outcomes(text: str) -> dict[str, int]:
    last = text.strip().splitlines()[-1]
    return {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|skipped|errors?|deselected)", last)}


def test_a_test_runs_on_a_fit_machine_if_its_requirements_are_met(lab: Labs) -> None:
    fixed_lab = lab(FIT)
    result = fixed_lab.pytest(TESTS)
    assert result.returncode == 0, result.stdout + result.stderr
    assert outcomes(result.stdout) == {"passed": 3, "skipped": 2}
    assert "gpuenv: FIT: CuPy can use the GPU here. [GPU NVIDIA H200, compute capability 9.0" in result.stdout
    assert re.search(r"SKIPPED .*gpuenv: cc>=10.0 is required, found GPU 0: 9.0", result.stdout)
    assert re.search(r"SKIPPED .*gpuenv: gpu>=2 is required, found 1", result.stdout)
    assert "GPU tests: 2 ran, 2 skipped" in result.stdout
    assert fixed_lab.probe_count() == 1


def test_tests_on_a_broken_machine_are_skipped_for_the_doctor_s_reason(lab: Labs) -> None:
    fixed_lab = lab(BROKEN)
    result = fixed_lab.pytest(TESTS)
    assert result.returncode == 0, result.stdout + result.stderr
    assert outcomes(result.stdout) == {"passed": 1, "skipped": 4}
    assert "driver-library-version-mismatch: " in result.stdout
    assert "gpuenv: UNFIT: " in result.stdout
    codes = re.findall(r"^SKIPPED \[\d\] .*? gpuenv: (\S+)", result.stdout, re.MULTILINE)
    assert codes == ["DRV107"], "a skip gives one reason"
    assert fixed_lab.probe_count() == 1


def test_tests_on_a_machine_without_a_gpu_are_skipped(lab: Labs) -> None:
    result = lab(ABSENT).pytest(TESTS, "--gpu-fail-if-all-skipped")
    assert result.returncode == 1
    assert "All GPU tests were skipped" in result.stdout
    assert outcomes(result.stdout) == {"passed": 1, "skipped": 4}
    assert "no-nvidia-gpu: This machine has no NVIDIA GPU" in result.stdout
    assert "[GPU none, CuPy " in result.stdout, "each value is shown with its name"


def test_gpu_required_makes_tests_fail_and_attaches_the_report_to_the_first(lab: Labs) -> None:
    result = lab(BROKEN).pytest(TESTS, "--gpu-required")
    assert result.returncode == 1
    assert outcomes(result.stdout) == {"passed": 1, "errors": 4}
    assert result.stdout.count("gpuenv doctor") == 4
    assert result.stdout.count("Fix this first") == 1
    assert result.stdout.count("The report is that of test_them.py::test_any.") == 3
    assert "Traceback" not in result.stdout


@pytest.mark.parametrize(("machine", "code"), [(BROKEN, 1), (FIT, 0)])
def test_gpu_fail_if_all_skipped_counts_the_tests_of_all_workers(lab: Labs, machine: str, code: int) -> None:
    result = lab(machine).pytest(TESTS, "--gpu-fail-if-all-skipped", "-n", "2")
    assert result.returncode == code, result.stdout
    assert ("All GPU tests were skipped" in result.stdout) == (code == 1)


EXPECTED_FAILURE = "import pytest\n@pytest.mark.gpuenv\n@pytest.mark.xfail{}\ndef test_gpu(): assert False\n"


@pytest.mark.parametrize(
    ("options", "code", "counts"), [("", 0, "1 ran, 0 skipped"), ("(run=False)", 1, "0 ran, 1 skipped")]
)
def test_an_expected_failure_counts_as_run_if_the_test_ran(lab: Labs, options: str, code: int, counts: str) -> None:
    result = lab(FIT).pytest(EXPECTED_FAILURE.format(options), "--gpu-fail-if-all-skipped")
    assert result.returncode == code, result.stdout
    assert f"GPU tests: {counts}" in result.stdout


def test_the_workers_of_xdist_share_one_probe(lab: Labs) -> None:
    fixed_lab = lab(FIT)
    many = TESTS + "".join(f"\n@pytest.mark.gpuenv\ndef test_{n}(): pass\n" for n in range(20))
    result = fixed_lab.pytest(many, "-n", "3")
    assert result.returncode == 0, result.stdout
    assert outcomes(result.stdout) == {"passed": 23, "skipped": 2}
    assert "gpuenv: FIT: CuPy can use the GPU here." in result.stdout
    assert "GPU tests: 22 ran, 2 skipped" in result.stdout
    assert fixed_lab.probe_count() == 1


IMPORTS_NOTHING = """
import sys
def test_plain():
    ours = [name for name in sys.modules if name.startswith("gpuenv")]
    assert sorted(ours) == ["gpuenv", "gpuenv.pytest_plugin"], ours
"""
WITH_GPU_TEST = "import pytest\n@pytest.mark.gpuenv\ndef test_gpu(): raise SystemExit\n"


@pytest.mark.parametrize("options", [[], ["--gpu-required", "--gpu-fail-if-all-skipped", "-n", "1"]], ids=" ".join)
def test_a_run_without_gpu_tests_does_not_run_the_doctor(lab: Labs, options: list[str]) -> None:
    fixed_lab = lab(FIT)
    result = fixed_lab.pytest(IMPORTS_NOTHING, *options)
    assert result.returncode == 0, result.stdout
    assert "gpuenv:" not in result.stdout
    assert fixed_lab.probe_count() == 0


@pytest.mark.parametrize("options", [["-m", "not gpuenv", "--strict-markers"], ["--collect-only"]], ids=" ".join)
def test_a_deselected_gpu_test_does_not_run_the_doctor(lab: Labs, options: list[str]) -> None:
    fixed_lab = lab(FIT)
    result = fixed_lab.pytest(IMPORTS_NOTHING + WITH_GPU_TEST, *options)
    assert result.returncode == 0, result.stdout
    assert fixed_lab.probe_count() == 0


INVALID = {
    'memroy=">=1GiB"': "did you mean memory",
    'cc=">=banana"': "no compute capability",
    '"a100"': "takes no 'a100'",
    "count=-1": "expected a whole number",
    'nvlink="perhaps"': "expected on or off",
}


def test_invalid_arguments_of_a_mark_are_an_error_of_only_that_test(lab: Labs) -> None:
    tests = (f"@pytest.mark.gpuenv({mark})\ndef test_{number}(): pass\n" for number, mark in enumerate(INVALID))
    result = lab(FIT).pytest("import pytest\n" + "".join(tests) + "def test_plain(): pass\n")
    assert result.returncode == 1, result.stdout
    assert outcomes(result.stdout) == {"passed": 1, "errors": len(INVALID)}
    assert [expected for expected in INVALID.values() if expected not in result.stdout] == []
    assert "above exception" not in result.stdout
    assert "Traceback" not in result.stdout + result.stderr


FAILING = """
import pytest

@pytest.mark.gpuenv
def test_machine(): raise RuntimeError("cudaErrorSystemNotReady: system not yet initialized")

@pytest.mark.gpuenv
def test_code(): assert [1, 2] == [1, 3]

@pytest.mark.gpuenv
def test_fork(): raise RuntimeError("cudaErrorInitializationError")

def test_unmarked(): raise RuntimeError("cudaErrorSystemNotReady: system not yet initialized")
"""


LOST_CONTEXT = """
import pytest

@pytest.mark.gpuenv
def test_first(): raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

@pytest.mark.gpuenv
def test_own(): assert [1, 2] == [1, 3]

@pytest.mark.gpuenv
def test_next(): raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")
"""


def test_a_failure_after_a_lost_context_names_the_first_test(lab: Labs) -> None:
    result = lab(FIT).pytest(LOST_CONTEXT)
    assert outcomes(result.stdout) == {"failed": 3}
    assert result.stdout.count("gpuenv: the CUDA context was lost before this test") == 1
    assert "test_them.py::test_first was the first test with such an error in this process" in result.stdout


def test_only_a_failure_caused_by_the_machine_comes_with_the_report(lab: Labs) -> None:
    """A fork after the first use of CUDA fails on a healthy machine too."""
    result = lab(FIT).pytest(FAILING)
    assert outcomes(result.stdout) == {"failed": 4}
    assert result.stdout.count("gpuenv doctor: the machine caused this error, not the test") == 1
    section = result.stdout.split("gpuenv doctor: the machine caused this error")[1].split("\n")
    assert section[1] == "FIT: CuPy can use the GPU here."


def test_gpu_tests_do_not_run_on_a_simulated_machine(lab: Labs) -> None:
    fixed_lab = lab(FIT)
    text = TESTS + '@pytest.mark.gpuenv(count="==0")\ndef test_without(): pass\n'
    result = fixed_lab.pytest(text, variables={SIMULATED: FIT})
    assert outcomes(result.stdout) == {"passed": 1, "skipped": 5}
    assert result.stdout.count(f"gpuenv: {RUNS_NO_KERNEL}") == 1, result.stdout
    assert re.search(r"SKIPPED \[2\] .*a simulated GPU runs no kernel", result.stdout)
    assert re.search(r"SKIPPED .*gpuenv: gpu>=2 is required, found 1", result.stdout), (
        "an unmet requirement is the first reason"
    )
    required = fixed_lab.pytest(text, "--gpu-required", variables={SIMULATED: FIT})
    assert outcomes(required.stdout) == {"passed": 1, "errors": 5}


def test_a_fallback_test_runs_on_a_simulated_machine_without_a_gpu(lab: Labs) -> None:
    text = 'import pytest\n@pytest.mark.gpuenv(count="==0")\ndef test_fallback(): pass\n'
    assert outcomes(lab(ABSENT).pytest(text, variables={SIMULATED: ABSENT}).stdout) == {"passed": 1}


def test_an_invalid_timeout_is_a_usage_error(lab: Labs) -> None:
    fixed_lab = lab(FIT)
    result = fixed_lab.pytest(TESTS, "--gpu-timeout=nan")
    assert result.returncode == 4, result.stdout
    assert "--gpu-timeout: expected seconds from 0.1 to 3600, found nan" in result.stderr
    assert fixed_lab.probe_count() == 0


FOREIGN = """
import pytest

@pytest.mark.gpu
def test_fails(): assert False

@pytest.mark.gpu("a100", vendor="amd")
def test_passes(): pass
"""


def test_the_mark_gpu_of_another_project_is_ignored(lab: Labs) -> None:
    fixed_lab = lab(BROKEN)
    result = fixed_lab.pytest(FOREIGN, "--strict-markers", ini="markers = gpu: needs torch.cuda\n")
    assert result.returncode == 1
    assert outcomes(result.stdout) == {"passed": 1, "failed": 1}
    assert "gpuenv" not in result.stdout.partition("collected")[2]
    assert fixed_lab.probe_count() == 0


def test_the_name_of_the_mark_is_configurable(lab: Labs) -> None:
    fixed_lab = lab(BROKEN)
    result = fixed_lab.pytest(TESTS.replace("mark.gpuenv", "mark.gpu"), "--strict-markers", ini="gpuenv_mark = gpu\n")
    assert outcomes(result.stdout) == {"passed": 1, "skipped": 4}


def test_the_plug_in_can_be_disabled(lab: Labs) -> None:
    fixed_lab = lab(BROKEN)
    assert outcomes(fixed_lab.pytest(TESTS, "-p", "no:gpuenv").stdout)["passed"] == 5
    assert outcomes(fixed_lab.pytest(TESTS, ini="gpuenv_mark =\n").stdout)["passed"] == 5
    assert fixed_lab.probe_count() == 0


def test_a_hanging_driver_does_not_block_the_run(lab: Labs) -> None:
    result = lab("hung-nvml").pytest(TESTS, "--gpu-timeout", "3")
    assert result.returncode == 0, result.stdout
    assert outcomes(result.stdout) == {"passed": 1, "skipped": 4}
    assert "driver-unresponsive" in result.stdout
