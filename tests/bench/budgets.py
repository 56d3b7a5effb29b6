"""Budgets: the largest allowed ratios of two commands measured in one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.bench.measure import Measured

TOLERANCE = 1.2  # growth over the baseline beyond this factor is a regression


@dataclass(frozen=True, slots=True)
class Budget:
    """The largest allowed ratio of two commands."""

    command: str
    reference: str
    most: float

    @property
    def name(self) -> str:
        """The key of the ratio in the baseline."""
        return f"{self.command} / {self.reference}"


BUDGETS = (
    Budget("gpuenv --version", "bare interpreter", 8.0),
    Budget("gpuenv doctor", "cuda-doctor", 0.75),
    Budget("gpuenv doctor", "env-doctor check", 0.6),
)
MOST_DISTRIBUTIONS = 14


@dataclass(frozen=True, slots=True)
class Verdict:
    """A budget and the measured ratio; ``baseline`` is the ratio of an earlier run."""

    budget: Budget
    ratio: float
    baseline: float | None

    @property
    def passed(self) -> bool:
        """Whether the ratio is within its budget, and within the tolerance of the baseline."""
        return self.ratio <= self.budget.most and (self.baseline is None or self.ratio <= self.baseline * TOLERANCE)


def verdicts(measured: Mapping[str, Measured], baseline: Mapping[str, float]) -> list[Verdict]:
    """Returns a verdict for every budget whose commands were measured."""
    return [
        Verdict(budget, measured[budget.command].ratio(measured[budget.reference]), baseline.get(budget.name))
        for budget in BUDGETS
        if budget.command in measured and budget.reference in measured
    ]
