"""Readings: the first in the order of trust wins, the others are kept, and an absence has its reason."""

from __future__ import annotations

from gpuenv.model.reading import Answer, Reading, settle


def test_the_most_trusted_wins_and_the_others_are_kept() -> None:
    reading = settle([None, Answer(2, "nvml"), Answer(1, "nvidia-smi"), Answer(2, "libcuda")], "unasked")
    assert (reading.value, reading.source) == (2, "nvml")
    assert [answer.source for answer in reading.others] == ["nvidia-smi", "libcuda"]
    assert [answer.source for answer in reading.dissent] == ["nvidia-smi"]


def test_nobody_answered() -> None:
    reading: Reading[int] = settle([None, None], "the bus is not to be seen")
    assert not reading.known
    assert reading.reason == "the bus is not to be seen"
