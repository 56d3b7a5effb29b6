"""Facts that a text states in prose, and errors in programs' own words."""

from __future__ import annotations

import pytest

from gpuenv.explain.match import scan
from tests.eval.near_misses import WITHOUT_FACTS
from tests.explain.test_score import causes, first


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("I run this on a CPU-only node of the cluster", ("gpu=none",)),
        ("My laptop does not have an NVIDIA GPU", ("gpu=none",)),
        ("the server has no physical GPU at all", ("gpu=none",)),
        ("I only have an AMD GPU here", ("gpu=none",)),
        ("If you do not have an NVIDIA GPU, install the CPU package", ()),
        ("Please check whether the machine has no GPU", ()),
        ("01:00.0 VGA compatible controller: NVIDIA Corporation GM204 (rev a1)", ("compute-capability=5.2",)),
        ("nouveau 0000:01:00.0: NVIDIA GP107 (137000a1)", ("compute-capability=6.1",)),
        ("this is a Pascal card", ("compute-capability=6.1",)),
        ("we use CUDA 13 here", ("toolkit=13.0",)),
        ("we moved to CUDA 12.4.", ("toolkit=12.4",)),
        ("a node with Tesla V100-SXM2-32GB", ("gpu=Tesla V100-SXM2-32GB",)),
        ("the tests run on an A100", ("gpu=A100",)),
        ("a V100 here, an A100 there, and an H100", ()),
        ("x = table_a100_v100", ()),
        ("My laptop has an AMD GPU.\nThe server has an RTX 3090.", ("gpu=RTX 3090",)),
        ("It works on a CPU-only machine and fails on the server", ()),
        ("My colleague's laptop does not have an NVIDIA GPU", ()),
        ("Users that have no NVIDIA GPU see it too", ()),
        ("01:00.0 VGA compatible controller: NVIDIA Corporation GF110 (rev a1)", ("compute-capability=2.0",)),
    ],
)
def test_facts_are_extracted_from_prose(text: str, facts: tuple[str, ...]) -> None:
    assert scan(text.encode()).stated.facts == facts


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("torch 2.1.0+cpu; torch.cuda.is_available() returns False", "cpu-only-framework"),
        ("torch.version.cuda is None", "cpu-only-framework"),
        ("/usr/bin/ld: cannot find -lcublas: No such file or directory", "cuda-library-missing"),
        ("foo.o: undefined reference to `cublasCreate_v2@libcublas.so.11'", "library-path-conflict"),
        ("cupy-cuda11x 12.3.0 cupy-cuda12x 13.0.0", "multiple-cupy-packages"),
        ("triton: out of resource: shared memory, Required: 147456, Hardware limit: 101376", "invalid-kernel-launch"),
        ("OOM when allocating tensor with shape[64,512,512,64]", "out-of-memory"),
    ],
)
def test_errors_in_a_programs_own_words_are_recognized(text: str, cause: str) -> None:
    assert first(text).value == cause


@pytest.mark.parametrize(
    "text",
    WITHOUT_FACTS,
)
def test_an_unrelated_line_yields_no_cause(text: str) -> None:
    assert causes(text) == ()
