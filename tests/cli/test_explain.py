"""``gpuenv explain`` as a process: codes, causes and texts; exit codes, formats and sizes; no probing by default."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from gpuenv.doctor.checks import all_checks
from gpuenv.image.rule_registry import all_rules
from gpuenv.model.causes import Cause
from gpuenv.report.catalogue import cause_lines
from tests.cli.program import LIMIT, MINIMAL, PROGRAM, gpuenv, run_gpuenv
from tests.support.memory import peak_memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MISMATCH = "Failed to initialize NVML: Driver/library version mismatch"
NO_DEVICE = "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected"
MIB = 1 << 20


def explain(text: str | bytes, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Explains a text on standard input."""
    data = text.encode() if isinstance(text, str) else text
    return run_gpuenv(["explain", *arguments, "-"], MINIMAL, LIMIT, text=data)


def explain_json(text: str | bytes, *arguments: str | Path) -> Any:  # noqa: ANN401 - JSON
    result = explain(text, "--format", "json", *arguments)
    assert result.returncode in (0, 1), result.stderr
    return json.loads(result.stdout)


def test_a_known_cause_ends_in_0_and_an_unknown_one_in_1() -> None:
    result = explain(MISMATCH)
    assert result.returncode == 0
    assert result.stdout.startswith("driver-library-version-mismatch (almost certainly, ")
    assert "$ sudo reboot" in result.stdout
    assert result.stderr == ""
    result = explain("ValueError: operands could not be broadcast together")
    assert result.returncode == 1
    assert result.stdout.startswith("No known cause")


def test_piped_text_needs_no_argument() -> None:
    def run(text: str) -> subprocess.CompletedProcess[str]:
        command = [*PROGRAM, "explain"]
        return subprocess.run(command, input=text, text=True, capture_output=True, check=False, env=MINIMAL, timeout=60)

    assert run(MISMATCH).stdout == explain(MISMATCH).stdout
    empty = run(" \n")
    assert (empty.returncode, empty.stdout) == (2, "")
    assert "the text is empty" in empty.stderr


def test_the_json_conforms_to_its_schema() -> None:
    schema = json.loads(gpuenv("schema", "explanation").stdout)
    Draft202012Validator.check_schema(schema)
    assert schema["properties"]["schema"] == {"const": "gpuenv.explanation/1"}
    for text in (MISMATCH, NO_DEVICE, "nothing", ""):
        Draft202012Validator(schema).validate(explain_json(text))
    first = explain_json(f"one\ntwo\n{NO_DEVICE}")["causes"][0]
    assert set(first) >= {"cause", "code", "confidence", "lines", "title", "fix", "would_decide"}
    assert first["lines"] == [{"number": 3, "text": NO_DEVICE}]
    assert 0 < first["confidence"] < 0.8
    assert first["would_decide"]
    assert explain_json("nothing")["causes"] == []


def test_a_file_is_explained_as_standard_input_is(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(NO_DEVICE, encoding="utf-8")
    result = gpuenv("explain", log, "--format", "json", "--assume", "wsl=yes")
    assert result.returncode == 0
    assert json.loads(result.stdout)["causes"][0]["cause"] == "wsl-libcuda"
    assert json.loads(result.stdout) == explain_json(NO_DEVICE, "--assume", "wsl=yes")


def test_the_result_can_be_written_to_a_file(tmp_path: Path) -> None:
    result = explain(MISMATCH, "--format", "json", "-o", tmp_path / "answer.json")
    assert (result.returncode, result.stdout) == (0, "")
    assert json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))["causes"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no-such-thing"], "no-such-thing is not a code, a cause, a file or a known error"),
        (["nodriver"], "did you mean no-driver?"),
        (["/"], "/: cannot be read: Is a directory"),
        (["-", "--assume", "driver"], "expected KEY=VALUE"),
        (["-", "--snapshot", "/nonexistent.json"], "/nonexistent.json: No such file or directory"),
        (["x" * 5000], "is not a code"),
    ],
)
def test_an_unknown_subject_or_unreadable_file_ends_in_2(arguments: list[str], message: str) -> None:
    result = gpuenv("explain", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stdout == ""


def test_a_file_without_permission_ends_in_2(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    secret = tmp_path / "secret.log"
    secret.write_text(MISMATCH, encoding="utf-8")
    secret.chmod(0)
    assert gpuenv("explain", secret).returncode == 2


def test_codes_causes_and_messages_are_explained() -> None:
    assert gpuenv("explain", "DRV106").stdout.startswith("DRV106: ")
    assert gpuenv("explain", "no-driver").stdout.startswith("no-driver: ")
    assert "source: " in gpuenv("explain", "nvml.version-mismatch").stdout


def test_a_cause_without_a_check_is_explained_with_its_fix() -> None:
    checked = [check.causes for check in all_checks()] + [rule.causes for rule in all_rules()]
    unchecked = [cause for cause in Cause if not any(cause in causes for causes in checked)]
    assert Cause.STREAM_RACE in unchecked
    for cause in unchecked:
        lines = [line.text for line in cause_lines(cause, (*all_checks(), *all_rules()))]
        assert any(line.startswith("  > ") for line in lines), cause


def test_the_machine_is_probed_only_with_the_probe_option(tmp_path: Path) -> None:
    """The driver root is an empty folder, since a hanging driver would delay the test."""
    (tmp_path / "proc").mkdir()
    assert explain_json(NO_DEVICE)["causes"] == explain_json(NO_DEVICE, "--no-probe")["causes"]
    probed = explain_json(NO_DEVICE, "--probe", "--driver-root", tmp_path, "--timeout", "20")
    assert probed["causes"]


def test_the_facts_of_a_snapshot_decide(tmp_path: Path) -> None:
    probed = gpuenv("probe", "--no-probe", "--assume", "driver=none", "-o", tmp_path / "machine.json")
    assert probed.returncode == 0, probed.stderr
    causes = explain_json(NO_DEVICE, "--snapshot", tmp_path / "machine.json")["causes"]
    assert causes[0]["cause"] == "no-driver"
    assert causes[0]["supported_by"]


def test_quoted_text_is_redacted_and_without_control_characters() -> None:
    result = explain(f"\x1b]0;evil\x07 from https://me:hunter2@host/x?token=abcdef {MISMATCH}\x07")
    assert "\x1b" not in result.stdout
    assert "hunter2" not in result.stdout
    assert "abcdef" not in result.stdout


def test_explaining_a_text_without_facts_imports_no_matrix() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "gpuenv", "explain", "-"]
    result = subprocess.run(
        command, input=MISMATCH, capture_output=True, text=True, check=False, env=MINIMAL, timeout=60
    )
    assert result.returncode == 0
    loaded = {line.rpartition("|")[2].strip() for line in result.stderr.splitlines()}
    assert not loaded & {"yaml", "rich", "rich.console", "pynvml", "gpuenv.matrix.load"}


def _log(mib: int) -> Iterator[bytes]:
    line = "2026-11-21T13:05:45Z trainer-1  | step {:09d} of cuda device {} gpu memory 31 GiB loss {:.6f} {}\n"
    for part in range(mib):
        block = "".join(line.format(part * 8000 + n, n % 8, 1 / (n + 1), "x" * (n % 40)) for n in range(9000))
        yield block.encode()[:MIB].rpartition(b"\n")[0] + b"\n"


def _explain_log(path: Path, mib: int) -> tuple[int, Any]:
    """The peak memory in KiB, and the explanation of a log with one error in the middle."""
    with path.open("wb") as file:
        for number, block in enumerate(_log(mib)):
            file.write(block)
            if number == mib // 2:
                file.write(NO_DEVICE.encode() + b"\n")
    with (path.parent / "answer.json").open("wb") as answer:
        used = peak_memory([*PROGRAM, "explain", "--format", "json", path], MINIMAL, output=answer)
    return used // 1024, json.loads((path.parent / "answer.json").read_text(encoding="utf-8"))


@pytest.mark.long
def test_a_large_log_takes_bounded_memory(tmp_path: Path) -> None:
    small, _ = _explain_log(tmp_path / "small.log", 2)
    large, answer = _explain_log(tmp_path / "large.log", 24)
    assert [entry["lines"][0]["text"] for entry in answer["causes"]][:1] == [NO_DEVICE]
    assert large < small + 40 * 1024


@pytest.mark.slow
def test_a_log_of_200_megabytes_takes_bounded_memory(tmp_path: Path) -> None:
    used, answer = _explain_log(tmp_path / "huge.log", 200)
    assert answer["causes"][0]["lines"][0]["text"] == NO_DEVICE
    assert answer["lines_read"] > 1_000_000
    assert used < 200 * 1024


def test_an_error_message_is_not_also_a_fact() -> None:
    """The message of nvidia-smi is the error itself, so it does not support the cause as a fact."""
    text = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    (first, *_) = explain_json(text)["causes"]
    assert (first["cause"], first["supported_by"]) == ("driver-module-not-loaded", [])
    assert first["confidence"] < 0.8
