"""A few inputs of each fuzz target; ``make fuzz`` runs more."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_inputs_of_each_target_find_nothing(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=12, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(target.inputs)
    def check(value: object) -> None:
        target.check(value)

    check()


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.of_bytes])
def test_the_seeds_of_coverage_guided_fuzzing_find_nothing(name: str) -> None:
    target = TARGETS[name]
    assert target.of_bytes is not None
    assert target.seeds
    for seed in (b"", b"\xff\xfe", b"\0" * 1000, *target.seeds):
        target.check(target.of_bytes(seed))
