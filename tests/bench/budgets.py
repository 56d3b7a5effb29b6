"""What gpuenv may cost beside others: each budget is a ratio of two commands measured in one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tests.bench.measure import Measured

TOLERANCE = 1.2  # a ratio that grows by more than this over the recorded one is a loss


@dataclass(frozen=True, slots=True)
class Budget:
    """A ratio and the most that it may be."""

    of: str
    to: str
    most: float

    @property
    def name(self) -> str:
        """How the recorded ratio is found again."""
        return f"{self.of} / {self.to}"


BUDGETS = (
    Budget("gpuenv --version", "bare interpreter", 8.0),
    Budget("gpuenv doctor", "cuda-doctor", 0.75),
    Budget("gpuenv doctor", "env-doctor check", 0.6),
)
MOST_DISTRIBUTIONS = 14


@dataclass(frozen=True, slots=True)
class Verdict:
    """A budget held against what was measured; ``recorded`` is the ratio of an earlier run."""

    budget: Budget
    ratio: float
    recorded: float | None

    @property
    def kept(self) -> bool:
        """Whether the ratio is within its budget, and no worse than recorded by more than the tolerance."""
        return self.ratio <= self.budget.most and (self.recorded is None or self.ratio <= self.recorded * TOLERANCE)


def verdicts(measured: Mapping[str, Measured], recorded: Mapping[str, float]) -> list[Verdict]:
    """Every budget of which both commands were measured."""
    return [
        Verdict(budget, measured[budget.of].ratio(measured[budget.to]), recorded.get(budget.name))
        for budget in BUDGETS
        if budget.of in measured and budget.to in measured
    ]
