"""Facts that a text states: which ones take precedence, and which causes they decide."""

from __future__ import annotations

import pytest

from gpuenv.explain.scan import scan
from gpuenv.model.causes import Cause
from tests.explain.test_scoring import INVALID_ARCH, causes, first

SHOWN = """OS                           : Linux-6.8.0-60-generic-x86_64-with-glibc2.39
Python Version               : 3.12.3
CuPy Version                 : 13.4.1
NumPy Version                : 2.2.6
CUDA Build Version           : 12080
CUDA Driver Version          : 12080
NVRTC Version                : {nvrtc}
Device 0 Name                : NVIDIA GeForce RTX 5070 Ti
Device 0 Compute Capability  : 120
"""


def test_a_pasted_nvrtc_and_gpu_decide_the_cause() -> None:
    result = causes(INVALID_ARCH + "\n" + SHOWN.format(nvrtc="(12, 2)"))
    assert (result[0].cause, result[0].code) == (Cause.GPU_TOO_NEW_FOR_TOOLKIT, "LIB610")
    assert result[0].confidence > 0.9
    assert causes(INVALID_ARCH + "\n" + SHOWN.format(nvrtc="(12, 8)"))[0].confidence < 0.8


def test_facts_are_extracted_from_the_text() -> None:
    table = "| NVIDIA-SMI 535.104.05   Driver Version: 535.104.05   CUDA Version: 12.2     |"
    scanner = scan(f"{table}\nCuda compilation tools, release 8.0, V8.0.61\n{INVALID_ARCH}\n".encode())
    assert "driver=535.104.05" in scanner.stated.facts
    assert "toolkit=8.0" in scanner.stated.facts
    gpu = "|   0  Tesla V100-SXM2-16GB           On  | 00000000:00:1E.0 Off |                    0 |"
    assert first(f"{table}\n{gpu}\nCuda compilation tools, release 13.0, V13.0.88\n{INVALID_ARCH}") is (
        Cause.GPU_REMOVED_FROM_TOOLKIT
    )


def test_contradicting_facts_are_dropped() -> None:
    scanner = scan(b"Driver Version: 535.104.05\nDriver Version: 550.54.14\n")
    assert scanner.stated.facts == ()


def test_assumptions_override_facts_of_the_text() -> None:
    text = f"Cuda compilation tools, release 13.0, V13.0.88\n{INVALID_ARCH}"
    assert first(text, "gpu=RTX 5090", "toolkit=12.4") is Cause.GPU_TOO_NEW_FOR_TOOLKIT


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)\nmy card is an rtx 5080, cuda is 12.4", "new"),
        ("nvrtc: error: invalid value for --gpu-architecture (-arch)\nGTX 970, CUDA\u7248\u672c\uff1a13.0", "removed"),
        ("cuFFT error: CUFFT_INTERNAL_ERROR\nRTX 4080 SUPER, torch==1.13.1+cu116", "new"),
        ("cuFFT error: CUFFT_INTERNAL_ERROR\nGeForce RTX 4060 Ti and cudatoolkit=11.3", "new"),
    ],
)
def test_facts_in_prose_decide_the_cause(text: str, cause: str) -> None:
    wanted = {"new": Cause.GPU_TOO_NEW_FOR_TOOLKIT, "removed": Cause.GPU_REMOVED_FROM_TOOLKIT}[cause]
    assert first(text) is wanted


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
            "Please NOTE: device: 0, Driver API Version: 11.4, Runtime API Version: 11.6",
            ("toolkit=11.6", "driver-cuda=11.4"),
        ),
    ],
)
def test_printed_facts_override_facts_in_prose(text: str, facts: tuple[str, ...]) -> None:
    assert scan(text.encode()).stated.facts == facts


@pytest.mark.parametrize("amount", ["...", "2..0", "20.00", "0"])
def test_an_allocation_without_numbers_is_read(amount: str) -> None:
    text = f"CUDA out of memory. Tried to allocate {amount} GiB. GPU 0 has a total capacity of ... GiB of which ..."
    assert first(text) is Cause.OUT_OF_MEMORY


def test_zero_allocated_bytes_are_read() -> None:
    """The memory of other processes is read where torch itself holds none."""
    text = (
        "Tried to allocate 20.00 MiB (GPU 0; 7.79 GiB total capacity; 0 bytes already allocated; 17.31 MiB free; "
        "0 bytes reserved in total by PyTorch)"
    )
    assert first(f"RuntimeError: CUDA out of memory. {text}") is Cause.GPU_BUSY
