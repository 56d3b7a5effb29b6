"""A few inputs of each reader that is fuzzed; make fuzz tries as many as there is time for."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_inputs(name: str) -> None:
    target = TARGETS[name]

    @settings(max_examples=12, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(target.inputs)
    def inputs(given: object) -> None:
        target.check(given)

    inputs()


@pytest.mark.parametrize("name", [name for name, target in TARGETS.items() if target.of_bytes])
def test_the_seeds_of_the_coverage_guided_runs(name: str) -> None:
    target = TARGETS[name]
    assert target.of_bytes is not None
    assert target.seeds
    for seed in (b"", b"\xff\xfe", b"\0" * 1000, *target.seeds):
        target.check(target.of_bytes(seed))
