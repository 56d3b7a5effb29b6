"""Values in messages are read in any case and size; garbage in their place is accepted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.match import scan
from gpuenv.model.causes import Cause
from tests.eval.messages import MESSAGES

_FULL = (
    "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 80 GiB"
    " of which 9.00 MiB is free. Including non-PyTorch memory, this process has 500.00 MiB memory in use."
)


@pytest.mark.parametrize(
    "text",
    [
        "nvcc: Unknown CUDA arch (.) or GPU not supported",
        "Out of memory allocating , bytes (allocated so far: , bytes, limit set to: , bytes)",
        f"Out of memory allocating {'9' * 5000} bytes (allocated so far: 1 bytes)",
        f"failed\n|  0%   30C  P8  9W / 70W | {'9' * 5000}MiB /  16000MiB |  0%   E. Process |",
        f"ptxas does not support CC {'9' * 5000}.0",
        f"CUDA capability sm_{'9' * 5000} is not compatible with the current PyTorch installation",
        "NVIDIA \u212aepler card",  # the Kelvin sign is a k in a comparison without case
        "turing Tur\u0131ng card",
        "NVIDIA Corporation G\u212a104",
        _FULL.replace("K", "\u212a").replace("GiB", "G\u0131B"),
    ],
)
def test_garbage_in_place_of_a_value_is_accepted(text: str) -> None:
    explanation(scan(text.encode()))


@pytest.mark.parametrize("form", [str.lower, str.upper])
def test_the_sizes_of_a_message_are_read_in_any_case(form: Callable[[str], str]) -> None:
    (first, *_) = explanation(scan(form(_FULL).encode())).causes
    assert first.cause is Cause.GPU_BUSY


@pytest.mark.parametrize("form", [str.lower, str.upper, str.swapcase])
def test_a_message_is_read_in_any_case(form: Callable[[str], str]) -> None:
    for messages in MESSAGES.values():
        for text in messages:
            explanation(scan(form(text).encode()))
