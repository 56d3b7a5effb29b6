"""Unusable GPUs: one that nvidia-smi could not open, one with a prohibiting compute mode."""

from __future__ import annotations

import pytest

from tests.paste.test_reported import primary

PACKAGES = "$ pip list\nPackage      Version\n------------ -------\ncupy-cuda12x 14.2.0\nnumpy        2.3.4\n"
TABLE = """\
| NVIDIA-SMI 550.163.01             Driver Version: 550.163.01     CUDA Version: 12.4     |
|-----------------------------------------+------------------------+----------------------+
|   0  NVIDIA L4                      On  |   00000000:31:00.0 Off |                    0 |
| N/A   41C    P8             13W /   72W |       4MiB /  23034MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""
SECOND = """\
|   1  NVIDIA L4                      On  |   00000000:65:00.0 Off |                    0 |
| N/A   39C    P8             13W /   72W |       4MiB /  23034MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
"""


@pytest.mark.parametrize(
    "line",
    [
        "Unable to determine the device handle for GPU 0000:01:00.0: GPU is lost.  Reboot the system to recover this GPU",
        "Unable to determine the device handle for GPU0000:01:00.0: Unknown Error",
        "Unable to determine the device handle for GPU0: 0000:01:00.0: Unknown Error\nNo devices were found",
    ],
)
def test_a_gpu_that_cannot_be_opened_is_a_hardware_fault(line: str) -> None:
    finding = primary(f"$ nvidia-smi\n{line}\n{PACKAGES}")
    assert finding is not None
    assert finding.cause.value == "gpu-hardware-fault"
    assert any("0000:01:00.0" in evidence.fact for evidence in finding.evidence)


def test_an_index_without_a_gpu_is_not_a_fault() -> None:
    assert primary(f"$ nvidia-smi -i 7\nUnable to determine the device handle for GPU 7: Not Found\n{PACKAGES}") is None


def test_a_prohibiting_compute_mode_is_the_cause() -> None:
    finding = primary(TABLE.replace("   Default", "Prohibited") + PACKAGES)
    assert finding is not None
    assert finding.cause.value == "compute-mode-exclusive"


@pytest.mark.parametrize(
    "table", [TABLE, TABLE.replace("   Default", "E. Process"), TABLE.replace("   Default", "Prohibited") + SECOND]
)
def test_a_usable_gpu_is_not_an_error(table: str) -> None:
    assert primary(table + PACKAGES) is None
