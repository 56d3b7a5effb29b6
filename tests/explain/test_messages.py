"""Each cause is named for at least three messages that libraries and tools print."""

from __future__ import annotations

import pytest

from gpuenv.explain.explainer import explanation
from gpuenv.explain.explanation_types import LikelyCause
from gpuenv.explain.scan import scan
from gpuenv.model.causes import Cause
from tests.eval.messages import MESSAGES

# Of no program's text, or only behind another one by its numbers.
WITHOUT = {
    Cause.INSTALL_INTERRUPTED,  # found in the files of the environment
    Cause.SOURCES_DISAGREE,
    Cause.GPU_TEST_FAILED,
    Cause.GPU_TOO_OLD_FOR_ANY_DRIVER,
    Cause.REQUIREMENT_NOT_MET,
}
PAIRS = [(cause, text) for cause, texts in MESSAGES.items() for text in texts]


def causes(text: str) -> tuple[LikelyCause, ...]:
    return explanation(scan(text.encode())).causes


def test_the_cause_of_a_message_is_named_first() -> None:
    named = [(text, cause, [entry.cause.value for entry in causes(text)]) for cause, text in PAIRS]
    assert [(text, cause, found) for text, cause, found in named if found[:1] != [cause]] == []


def test_every_cause_has_three_messages() -> None:
    assert set(MESSAGES) == {cause.value for cause in set(Cause) - WITHOUT}
    assert [cause for cause, texts in MESSAGES.items() if len(set(texts)) < 3] == []


def test_an_asynchronous_error_is_labelled_as_one() -> None:
    (first, *_) = causes("CUDARuntimeError: cudaErrorLaunchFailure: unspecified launch failure")
    assert first.surfaced_late
    (first, *_) = causes("cudaErrorInvalidDevice: invalid device ordinal")
    assert not first.surfaced_late


def test_a_doubt_comes_with_the_fact_that_would_settle_it() -> None:
    for text in ("CUDA_ERROR_NO_DEVICE", "cudaErrorInsufficientDriver", "NVRTC_ERROR_INVALID_OPTION (5)"):
        (first, *_) = causes(text)
        assert first.confidence < 0.8
        assert first.would_decide
    (first, *_) = causes("NVRM: API mismatch: the client has the version 535.183.01")
    assert first.would_decide is None


def test_the_captured_values_are_in_the_title() -> None:
    (first, *_) = causes("version `GLIBCXX_3.4.30' not found")
    assert "GLIBCXX_3.4.30" in first.title
    (first, *_) = causes("fatal   : Unsupported .version 8.7; current version is '8.4'")
    assert "8.7" in first.title


def test_an_unmaintained_legacy_branch_is_named() -> None:
    result = causes("NVRM:  supported through the NVIDIA 340.xx Legacy drivers. Please")
    assert [entry.cause for entry in result] == [Cause.GPU_REMOVED_FROM_DRIVER, Cause.GPU_TOO_OLD_FOR_ANY_DRIVER]


@pytest.mark.parametrize(
    ("number", "cause"),
    [(79, Cause.GPU_HARDWARE_FAULT), (31, Cause.ILLEGAL_MEMORY_ACCESS), (119, Cause.DRIVER_UNRESPONSIVE)],
)
def test_the_number_of_an_xid_decides_its_cause(number: int, cause: Cause) -> None:
    (first, *_) = causes(f"kernel: NVRM: Xid (PCI:0000:01:00): {number}, pid=1, name=python3")
    assert first.cause is cause


def test_a_pool_limit_differs_from_a_full_gpu() -> None:
    text = "Out of memory allocating 800 bytes (allocated so far: 500 bytes{})."
    assert causes(text.format(", limit set to: 1,000 bytes"))[0].cause is Cause.MEMORY_POOL_RETENTION
    assert causes(text.format(", limit set to: 600 bytes"))[0].cause is Cause.OUT_OF_MEMORY
    assert causes(text.format(""))[0].cause is Cause.OUT_OF_MEMORY


def test_each_xid_is_read_among_many_of_another() -> None:
    lines = [f"NVRM: Xid (PCI:0000:01:00): 45, pid={number}, Ch 1" for number in range(20)]
    result = causes("\n".join([*lines, "NVRM: Xid (PCI:0000:01:00): 48, pid=1, DBE"]))
    assert result[0].cause is Cause.GPU_HARDWARE_FAULT
    assert result[0].confidence > 0.6
