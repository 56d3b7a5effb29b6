"""Facts that a text states: which ones take precedence."""

from __future__ import annotations

import pytest

from gpuenv.explain.match import scan
from gpuenv.model.causes import Cause
from tests.explain.test_score import INVALID_ARCH, first

SHOWN = """OS                           : Linux-6.8.0-60-generic-x86_64-with-glibc2.39
CUDA Driver Version          : 12080
Device 0 Name                : NVIDIA GeForce RTX 5070 Ti
"""


def test_facts_are_extracted_from_the_text() -> None:
    table = "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |"
    gpu = "|   0  Tesla V100-SXM2-16GB           On  | 00000000:00:1E.0 Off |                    0 |"
    scanner = scan(f"{table}\n{gpu}\nCuda compilation tools, release 8.0, V8.0.61\n{INVALID_ARCH}\n".encode())
    assert set(scanner.stated.facts) >= {"driver=535.104.05", "toolkit=8.0", "gpu=Tesla V100-SXM2-16GB"}
    assert scan(SHOWN.encode()).stated.facts == ("gpu=NVIDIA GeForce RTX 5070 Ti", "driver-cuda=12.8")


def test_what_the_doctor_finds_by_a_fact_of_the_text_decides() -> None:
    listed = "$ pip list\ncupy-cuda13x       14.2.0\nGPU 0: Tesla V100-SXM2-16GB (UUID: GPU-1)"
    assert first(INVALID_ARCH) is Cause.GPU_TOO_NEW_FOR_TOOLKIT
    assert first(f"{listed}\n{INVALID_ARCH}") is Cause.GPU_REMOVED_FROM_TOOLKIT


def test_contradicting_facts_are_dropped() -> None:
    scanner = scan(b"Driver Version: 535.104.05\nDriver Version: 550.54.14\n")
    assert scanner.stated.facts == ()


def test_assumptions_override_facts_of_the_text() -> None:
    text = "CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\nDriver Version: 535.104.05"
    assert first(text, "driver=none") is Cause.NO_DRIVER


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("I have CUDA 11.8 here\nCuda compilation tools, release 12.4, V12.4.131", ("toolkit=12.4",)),
        ("this needs at least CUDA 12.0", ()),
        (
            "| NVIDIA-SMI 550.54.14   Driver Version: 550.54.14   CUDA Version: 12.4 |",
            ("driver=550.54.14", "driver-cuda=12.4"),
        ),
        ("CUDA 11.8 on one node\nCUDA 12.1 on the other", ()),
        ("cupy-cuda11x       12.3.0", ("cupy=cupy-cuda11x==12.3.0",)),
        (
            "Collecting cupy-cuda12x==13.6.0\n  Using cached cupy_cuda12x-13.6.0-py3-none-any.whl",
            ("cupy=cupy-cuda12x==13.6.0",),
        ),
        (
            "Please NOTE: device: 0, Driver API Version: 11.4, Runtime API Version: 11.6",
            ("toolkit=11.6", "driver-cuda=11.4"),
        ),
    ],
)
def test_printed_facts_override_facts_in_prose(text: str, facts: tuple[str, ...]) -> None:
    assert scan(text.encode()).stated.facts == facts
