"""``gpuenv explain``: an error as an argument, the doctor's finding first, and fixes for the program that failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cli.program import gpuenv
from tests.cli.snapshots import WITHOUT_GPU, write_snapshot

if TYPE_CHECKING:
    from pathlib import Path

NO_DEVICE = "cudaErrorNoDevice: no CUDA-capable device is detected"
OWN_MISTAKE = (
    "TypeError: Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array "
    "explicitly."
)
TORCH = """Traceback (most recent call last):
  File "/opt/env/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 116, in forward
    return F.linear(input, self.weight, self.bias)
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB
"""


def explained(*arguments: str | Path) -> dict[str, Any]:
    result = gpuenv("explain", *arguments, "--format", "json")
    assert result.returncode in (0, 1), result.stderr
    found: dict[str, Any] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize(
    ("arguments", "cause"),
    [
        (["CUDA_ERROR_NO_DEVICE"], "visible-devices-hide-gpu"),
        (["cudaErrorInsufficientDriver"], "driver-too-old-for-cuda"),
        (["Xid 79"], "gpu-hardware-fault"),
        (["Xid", "79"], "gpu-hardware-fault"),
        (["RuntimeError: CUDA error: no kernel image is available for execution on the device"], "no-kernel-image"),
    ],
)
def test_an_error_is_explained_from_the_command_line(arguments: list[str], cause: str) -> None:
    assert explained(*arguments)["causes"][0]["cause"] == cause


def test_a_text_without_a_known_message_has_no_causes() -> None:
    result = gpuenv("explain", "RuntimeError: no such thing")
    assert (result.returncode, result.stderr) == (1, "")


def test_the_finding_of_the_machine_comes_first(tmp_path: Path) -> None:
    machine = write_snapshot(WITHOUT_GPU, tmp_path / "machine.json")
    first = explained(NO_DEVICE, "--snapshot", machine)["causes"][0]
    assert first["cause"] == "no-nvidia-gpu"
    assert first["supported_by"]
    assert first["would_decide"] is None
    assert explained(NO_DEVICE)["causes"][0]["cause"] != "no-nvidia-gpu"


def test_a_text_about_another_cause_refutes_the_finding(tmp_path: Path) -> None:
    machine = write_snapshot(WITHOUT_GPU, tmp_path / "machine.json")
    causes = explained(OWN_MISTAKE, "--snapshot", machine)["causes"]
    assert causes[0]["cause"] == "implicit-host-device-conversion"
    illegal = explained("cudaErrorIllegalAddress: an illegal memory access was encountered", "--snapshot", machine)
    assert illegal["causes"][0]["cause"] in {"illegal-memory-access", "async-error-surfaced-late"}


def test_the_fixes_are_those_of_the_program(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(TORCH, encoding="utf-8")
    first = explained(log)["causes"][0]
    steps = json.dumps(first["fix"])
    assert first["cause"] == "out-of-memory"
    assert "PYTORCH_CUDA_ALLOC_CONF" in steps
    assert "mempool" not in steps
    assert "mempool" in json.dumps(explained("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8 bytes"))


def test_the_commands_for_a_paste_examine_the_paste(tmp_path: Path) -> None:
    """This machine is not the one that was pasted."""
    paste = tmp_path / "issue.txt"
    smi = "| NVIDIA-SMI 570.86.10      Driver Version: 570.86.10      CUDA Version: 12.8     |\n"
    error = "ImportError: libnvrtc.so.12: cannot open shared object file: No such file or directory\n"
    paste.write_text(f"$ nvidia-smi\n{smi}$ python -c 'import cupy'\n{error}", encoding="utf-8")
    commands = [fix["command"] for cause in explained(paste)["causes"] for fix in cause["fix"] if fix["command"]]
    examining = [command for command in commands if command[:2] in (["gpuenv", "resolve"], ["gpuenv", "doctor"])]
    assert examining
    assert [command[-2:] for command in examining] == [["--paste", str(paste)]] * len(examining)


def test_the_deciding_question_comes_before_the_fix() -> None:
    text = gpuenv("explain", NO_DEVICE).stdout
    assert 0 < text.index("To settle this, check: ") < text.index("  > ")


def test_a_guess_about_an_examined_machine_asks_for_nothing_more(tmp_path: Path) -> None:
    machine = write_snapshot(WITHOUT_GPU, tmp_path / "machine.json")
    text = "My Jupyter notebook cannot see the GPU of this computer, torch runs on the CPU only, and nothing helps."
    assert explained(text, "--snapshot", machine)["guess"]["would_decide"] is None
    assert "check: None" not in gpuenv("explain", text, "--snapshot", machine).stdout
