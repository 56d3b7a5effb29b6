"""Readings: the most trusted source wins, other answers are kept, and a missing value has a reason."""

from __future__ import annotations

from gpuenv.model.reading import Answer, Reading, settle


def test_the_most_trusted_answer_wins_and_the_others_are_kept() -> None:
    reading = settle([None, Answer(2, "nvml"), Answer(1, "nvidia-smi"), Answer(2, "libcuda")], "no answer")
    assert (reading.value, reading.source) == (2, "nvml")
    assert [answer.source for answer in reading.others] == ["nvidia-smi", "libcuda"]
    assert [answer.source for answer in reading.dissent] == ["nvidia-smi"]


def test_a_reading_without_an_answer_has_a_reason() -> None:
    reading: Reading[int] = settle([None, None], "the bus is not visible")
    assert not reading.known
    assert reading.reason == "the bus is not visible"
