"""The pytest plug-in as its users meet it: real runs of pytest on simulated machines."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from gpuenv.model.gpus import RUNS_NO_KERNEL, VARIABLE

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


def test_on_a_fit_machine_a_test_runs_if_its_requirements_are_met(lab: Labs) -> None:
    here = lab(FIT)
    done = here.pytest(TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert outcomes(done.stdout) == {"passed": 3, "skipped": 2}
    assert "gpuenv: FIT: CuPy can use the GPU here. [GPU NVIDIA H200, compute capability 9.0" in done.stdout
    assert re.search(r"SKIPPED .*gpuenv: cc>=10.0 is required, found GPU 0: 9.0", done.stdout)
    assert re.search(r"SKIPPED .*gpuenv: gpu>=2 is required, found 1", done.stdout)
    assert "GPU tests: 2 ran, 2 skipped" in done.stdout
    assert here.askings() == 1


def test_on_a_broken_machine_tests_are_skipped_with_the_doctor_s_reason(lab: Labs) -> None:
    here = lab(BROKEN)
    done = here.pytest(TESTS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert outcomes(done.stdout) == {"passed": 1, "skipped": 4}
    assert "driver-library-version-mismatch: " in done.stdout
    assert "gpuenv: UNFIT: " in done.stdout
    assert here.askings() == 1


def test_without_a_gpu_too(lab: Labs) -> None:
    done = lab(ABSENT).pytest(TESTS, "--gpu-fail-if-all-skipped")
    assert done.returncode == 1
    assert outcomes(done.stdout) == {"passed": 1, "skipped": 4}
    assert "no-nvidia-gpu: This machine has no NVIDIA GPU" in done.stdout
    assert "[GPU none, CuPy " in done.stdout, "a value without its name tells nothing"


def test_required_gpus_fail_with_the_report_attached(lab: Labs) -> None:
    done = lab(BROKEN).pytest(TESTS, "--gpu-required")
    assert done.returncode == 1
    assert outcomes(done.stdout) == {"passed": 1, "errors": 4}
    assert done.stdout.count("gpuenv doctor") == 4
    assert "Fix this first" in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("machine", "options", "code"),
    [(BROKEN, ["--gpu-fail-if-all-skipped"], 1), (FIT, ["--gpu-fail-if-all-skipped"], 0), (BROKEN, [], 0)],
)
@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_a_run_that_skipped_every_gpu_test_is_not_green_on_request(
    lab: Labs, machine: str, options: list[str], code: int, workers: list[str]
) -> None:
    done = lab(machine).pytest(TESTS, *options, *workers)
    assert done.returncode == code, done.stdout
    assert ("All GPU tests were skipped" in done.stdout) == (code == 1)


def test_the_workers_of_xdist_share_one_asking(lab: Labs) -> None:
    here = lab(FIT)
    many = TESTS + "".join(f"\n@pytest.mark.gpuenv\ndef test_{n}(): pass\n" for n in range(20))
    done = here.pytest(many, "-n", "3")
    assert done.returncode == 0, done.stdout
    assert outcomes(done.stdout) == {"passed": 23, "skipped": 2}
    assert "gpuenv: FIT: CuPy can use the GPU here." in done.stdout
    assert "GPU tests: 22 ran, 2 skipped" in done.stdout
    assert here.askings() == 1


IMPORTED = """
import sys
def test_plain():
    ours = [name for name in sys.modules if name.startswith("gpuenv")]
    assert sorted(ours) == ["gpuenv", "gpuenv.pytest_plugin"], ours
"""
UNUSED = "import pytest\n@pytest.mark.gpuenv\ndef test_gpu(): raise SystemExit\n"


@pytest.mark.parametrize("options", [[], ["--gpu-required", "--gpu-fail-if-all-skipped"], ["-n", "1"]], ids=" ".join)
def test_without_gpu_tests_the_doctor_does_not_run(lab: Labs, options: list[str]) -> None:
    here = lab(FIT)
    done = here.pytest(IMPORTED, *options)
    assert done.returncode == 0, done.stdout
    assert "gpuenv:" not in done.stdout
    assert here.askings() == 0


@pytest.mark.parametrize("options", [["-m", "not gpuenv"], ["-k", "plain"], ["--collect-only"]], ids=" ".join)
def test_a_deselected_gpu_test_does_not_run_the_doctor(lab: Labs, options: list[str]) -> None:
    here = lab(FIT)
    done = here.pytest(IMPORTED + UNUSED, *options)
    assert done.returncode == 0, done.stdout
    assert here.askings() == 0


def test_the_mark_can_be_selected_by_m(lab: Labs) -> None:
    done = lab(FIT).pytest(TESTS, "-m", "gpuenv", "--strict-markers")
    assert outcomes(done.stdout) == {"passed": 2, "skipped": 2, "deselected": 1}


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        ('memroy=">=1GiB"', "did you mean memory"),
        ('cc=">=banana"', "no compute capability"),
        ('"a100"', "takes no 'a100'"),
        ("count=-1", "expected a whole number"),
        ('nvlink="perhaps"', "nvlink"),
    ],
)
def test_wrong_arguments_of_a_mark_are_an_error_of_that_test_alone(lab: Labs, mark: str, expected: str) -> None:
    text = f"import pytest\n@pytest.mark.gpuenv({mark})\ndef test_it(): pass\ndef test_plain(): pass\n"
    done = lab(FIT).pytest(text)
    assert done.returncode == 1, done.stdout
    assert outcomes(done.stdout) == {"passed": 1, "error": 1}
    assert "ERROR test_them.py::test_it" in done.stdout
    assert expected in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


FAILING = """
import pytest

@pytest.mark.gpuenv
def test_machine(): raise RuntimeError("cudaErrorSystemNotReady: system not yet initialized")

@pytest.mark.gpuenv
def test_code(): assert [1, 2] == [1, 3]

def test_unmarked(): raise RuntimeError("cudaErrorSystemNotReady: system not yet initialized")
"""


LOSING = """
import pytest

@pytest.mark.gpuenv
def test_first(): raise RuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")

@pytest.mark.gpuenv
def test_own(): assert [1, 2] == [1, 3]

@pytest.mark.gpuenv
def test_next(): raise RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered")
"""


def test_a_failure_after_a_lost_context_names_the_first_test(lab: Labs) -> None:
    done = lab(FIT).pytest(LOSING)
    assert outcomes(done.stdout) == {"failed": 3}
    assert done.stdout.count("gpuenv: the CUDA context was lost before this test") == 1
    assert "test_them.py::test_first was the first test with such an error in this process" in done.stdout


def test_a_failure_caused_by_the_machine_comes_with_the_report(lab: Labs) -> None:
    done = lab(FIT).pytest(FAILING)
    assert outcomes(done.stdout) == {"failed": 3}
    assert done.stdout.count("gpuenv doctor: the machine caused this error, not the test") == 1
    section = done.stdout.split("gpuenv doctor: the machine caused this error")[1].split("\n")
    assert section[1] == "FIT: CuPy can use the GPU here."


def test_a_fork_after_cuda_s_start_is_the_test_s_own_fault(lab: Labs) -> None:
    text = "import pytest\n@pytest.mark.gpuenv\ndef test_pool(): raise RuntimeError('cudaErrorInitializationError')\n"
    done = lab(FIT).pytest(text)
    assert outcomes(done.stdout) == {"failed": 1}
    assert "gpuenv doctor" not in done.stdout


def test_on_a_simulated_machine_no_test_runs_that_needs_a_gpu(lab: Labs) -> None:
    here = lab(FIT)
    text = TESTS + '@pytest.mark.gpuenv(count="==0")\ndef test_without(): pass\n'
    done = here.pytest(text, more={VARIABLE: FIT})
    assert outcomes(done.stdout) == {"passed": 1, "skipped": 5}
    assert done.stdout.count(f"gpuenv: {RUNS_NO_KERNEL}") == 1, done.stdout
    assert re.search(r"SKIPPED \[2\] .*a simulated GPU runs no kernel", done.stdout)
    assert re.search(r"SKIPPED .*gpuenv: gpu>=2 is required, found 1", done.stdout), "a requirement goes first"
    required = here.pytest(text, "--gpu-required", more={VARIABLE: FIT})
    assert outcomes(required.stdout) == {"passed": 1, "errors": 5}


def test_the_way_without_a_gpu_can_be_tried_on_a_simulated_machine(lab: Labs) -> None:
    text = 'import pytest\n@pytest.mark.gpuenv(count="==0")\ndef test_fallback(): pass\n'
    assert outcomes(lab(ABSENT).pytest(text, more={VARIABLE: ABSENT}).stdout) == {"passed": 1}


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "4000", "soon"])
def test_a_slip_in_the_time_is_a_usage_error(lab: Labs, seconds: str) -> None:
    here = lab(FIT)
    done = here.pytest(TESTS, f"--gpu-timeout={seconds}")
    assert done.returncode == 4, done.stdout
    assert f"--gpu-timeout: expected seconds from 0.1 to 3600, found {seconds}" in done.stderr
    assert here.askings() == 0


FOREIGN = """
import pytest

@pytest.mark.gpu
def test_fails(): assert False

@pytest.mark.gpu("a100", vendor="amd")
def test_passes(): pass
"""


@pytest.mark.parametrize("machine", [FIT, BROKEN, ABSENT])
def test_the_mark_gpu_of_another_project_is_left_alone(lab: Labs, machine: str) -> None:
    here = lab(machine)
    done = here.pytest(FOREIGN, "--strict-markers", ini="markers = gpu: needs torch.cuda\n")
    assert done.returncode == 1
    assert outcomes(done.stdout) == {"passed": 1, "failed": 1}
    assert "gpuenv" not in done.stdout.partition("collected")[2]
    assert here.askings() == 0


def test_the_mark_s_name_is_a_setting(lab: Labs) -> None:
    here = lab(BROKEN)
    done = here.pytest(TESTS.replace("mark.gpuenv", "mark.gpu"), "--strict-markers", ini="gpuenv_mark = gpu\n")
    assert outcomes(done.stdout) == {"passed": 1, "skipped": 4}


def test_the_plug_in_can_be_turned_off(lab: Labs) -> None:
    here = lab(BROKEN)
    assert outcomes(here.pytest(TESTS, "-p", "no:gpuenv").stdout)["passed"] == 5
    assert outcomes(here.pytest(TESTS, ini="gpuenv_mark =\n").stdout)["passed"] == 5
    assert here.askings() == 0


def test_a_hanging_driver_does_not_block_the_run(lab: Labs) -> None:
    done = lab("hung-nvml").pytest(TESTS, "--gpu-timeout", "3")
    assert done.returncode == 0, done.stdout
    assert outcomes(done.stdout) == {"passed": 1, "skipped": 4}
    assert "driver-unresponsive" in done.stdout


def test_a_test_for_machines_without_a_gpu_runs_there(lab: Labs) -> None:
    text = 'import pytest\n@pytest.mark.gpuenv(count="==0")\ndef test_fallback(): pass\n'
    assert outcomes(lab(ABSENT).pytest(text).stdout) == {"passed": 1}


def test_a_skip_gives_one_reason(lab: Labs) -> None:
    done = lab(BROKEN).pytest(TESTS)
    reasons = Counter(re.findall(r"^SKIPPED \[(\d)\] .*? gpuenv: (\S+)", done.stdout, re.MULTILINE))
    assert [code for _, code in reasons] == ["DRV107"]
