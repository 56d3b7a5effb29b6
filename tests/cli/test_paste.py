"""``--paste``: verdicts on pasted output without probing this machine, and output pasted with an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.assertions import assert_refused
from tests.cli.program import LIMIT, MINIMAL, answer, gpuenv, run_gpuenv

TEXTS = Path(__file__).parents[1] / "paste" / "texts"
CONFIG = TEXTS / "show_config_and_smi.txt"


def test_the_doctor_diagnoses_a_paste_instead_of_this_machine() -> None:
    code, report = answer("doctor", "--paste", TEXTS / "conda_list_and_smi_q.txt")
    assert code == 1
    assert [entry["cause"] for entry in report["findings"] if entry["primary"]] == ["driver-too-old-for-cuda"]
    assert [entry["detail"] for entry in report["snapshot"]["sources"]] == ["pasted conda list"]
    assert report["snapshot"]["driver"]["version"]["value"] == "470.256.02"


def test_missing_facts_are_listed_with_the_commands_that_print_them() -> None:
    result = gpuenv("doctor", "--paste", TEXTS / "freeze_smi_l_musl.txt")
    assert "this machine is not probed" in result.stderr
    assert "does not contain the driver, " in result.stderr
    assert result.stderr.rstrip().endswith("; uname -a")
    completed = gpuenv("doctor", "--paste", TEXTS / "freeze_smi_l_musl.txt", "--assume", "driver=580.95.05")
    assert "does not contain the driver" not in completed.stderr


def test_a_paste_with_too_few_facts_ends_in_8() -> None:
    assert gpuenv("doctor", "--paste", CONFIG).returncode == 8


def test_contradictions_are_reported_with_their_lines(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text("Python Version : 3.12.4\nPython 3.10.12\n| NVIDIA-SMI 550.54.15  Driver Version: 550.54.15  |\n")
    result = gpuenv("resolve", "--paste", paste)
    assert "contradicts itself on python: 3.12.4 (cupy.show_config(), line 1) and 3.10.12 (" in result.stderr
    assert "the first value is used" in result.stderr


def test_the_chosen_one_of_two_environments_is_reported() -> None:
    result = gpuenv("resolve", "--paste", TEXTS / "contradicting.txt")
    message = (
        "the text has 2 environments: using the one at line 1 (host) (the first, since the error names none of them)"
    )
    assert f"{message}, not the one at line 6 (container)" in result.stderr


def test_resolve_selects_a_wheel_for_a_paste() -> None:
    code, resolution = answer("resolve", "--paste", TEXTS / "conda_list_and_smi_q.txt")
    assert code == 0
    assert resolution["wheel"]["distribution"] == "cupy-cuda11x"  # the driver supports CUDA 11.4


def test_a_paste_is_read_from_standard_input() -> None:
    result = run_gpuenv(["resolve", "--paste", "-"], MINIMAL, LIMIT, text=CONFIG.read_bytes())
    assert result.returncode == 0
    assert result.stdout.startswith("cupy-cuda12x")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--paste", "nowhere.txt"), "nowhere.txt: cannot be read: No such file"),
        (("--paste", CONFIG, "--no-probe"), "--paste excludes"),
        (("--paste", CONFIG, "--snapshot", "x.json"), "--paste excludes"),
        (("--paste", CONFIG, "--python", "python3"), "--paste excludes"),
        (("--paste", "-"), "no known output found"),
    ],
)
def test_an_unusable_paste_ends_in_2(arguments: tuple[str | Path, ...], message: str) -> None:
    for command in ("doctor", "resolve"):
        result = gpuenv(command, *arguments)
        assert result.returncode == 2
        assert message in result.stderr
        assert result.stdout == ""


def test_a_pasted_error_without_facts_is_referred_to_explain(tmp_path: Path) -> None:
    error = tmp_path / "what it says.txt"
    error.write_text("ImportError: libnvrtc.so.12: cannot open shared object file\n", encoding="utf-8")
    assert f"gpuenv explain '{error}'" in gpuenv("doctor", "--paste", error).stderr


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["", "dry"])
def test_fix_and_paste_exclude_each_other(dry: tuple[str, ...]) -> None:
    assert_refused("doctor", "--fix", "--yes", *dry, "--paste", CONFIG, names=["--fix", "--paste"])


def test_explain_uses_facts_pasted_with_the_error(tmp_path: Path) -> None:
    """The table shows a driver older than the CUDA of the installed CuPy, which leaves one cause of the error."""
    error = "cudaErrorInsufficientDriver: CUDA driver version is insufficient for CUDA runtime version\n"
    error_only, with_facts = tmp_path / "error.txt", tmp_path / "with-facts.txt"
    error_only.write_text(error, encoding="utf-8")
    with_facts.write_text(error + (TEXTS / "conda_list_and_smi_q.txt").read_text(encoding="utf-8"), encoding="utf-8")
    first, second = (
        json.loads(gpuenv("explain", path, "--format", "json").stdout)["causes"] for path in (error_only, with_facts)
    )
    assert second[0]["cause"] == "driver-too-old-for-cuda"
    assert second[0]["confidence"] > first[0]["confidence"] - 0.01
    assumed = gpuenv("explain", with_facts, "--assume", "driver=580.95.05", "--format", "json")
    assert assumed.returncode == 0


_NO_DEVICE = "CUDARuntimeError: cudaErrorNoDevice: no CUDA-capable device is detected\n"


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (
            (
                f"{_NO_DEVICE}\n    | NVIDIA-SMI 550.90.07  Driver Version: 550.90.07  CUDA Version: 12.4 |\n"
                "    |   0  Tesla T4   Off |   00000000:00:04.0 Off | 0 |\n$ env | grep CUDA\nCUDA_VISIBLE_DEVICES=-1\n"
            ),
            "visible-devices-hide-gpu",
        ),
        (f"{_NO_DEVICE}\nGPU models and configuration: AMD Radeon RX 7900 XTX\n", "no-nvidia-gpu"),
        (
            (
                "ERROR: No matching distribution found for cupy-cuda12x==14.2.0\n"
                "ERROR: Could not find a version that satisfies the requirement cupy-cuda12x==14.2.0"
                " (from versions: 10.0.0, 13.6.0)\n\n$ python --version\nPython 3.9.2\n"
            ),
            "python-unsupported",
        ),
    ],
)
def test_explain_uses_the_facts_of_a_bug_report(tmp_path: Path, text: str, cause: str) -> None:
    report = tmp_path / "report.md"
    report.write_text(text, encoding="utf-8")
    causes = json.loads(gpuenv("explain", report, "--format", "json").stdout)["causes"]
    assert causes[0]["cause"] == cause


def test_the_markdown_reply_lists_assumed_facts(tmp_path: Path) -> None:
    """The fix uses pip: a partly pasted environment does not show that pip is missing."""
    paste = tmp_path / "paste.txt"
    paste.write_text(
        "| NVIDIA-SMI 550.90.07  Driver Version: 550.90.07   CUDA Version: 12.4 |\nGPU 0: NVIDIA L4 (UUID: GPU-1)\n"
        "$ pip list | grep cupy\ncupy-cuda11x   13.6.0\ncupy-cuda12x   13.6.0\nPython 3.12.4\n",
        encoding="utf-8",
    )
    reply = gpuenv("doctor", "--paste", paste, "--format", "markdown").stdout
    assert "- Assumed \\(unknown\\): host.os and host.arch is linux-x86\\_64\n" in reply
    assert "`python -m pip uninstall -y cupy-cuda11x cupy-cuda12x`" in reply
