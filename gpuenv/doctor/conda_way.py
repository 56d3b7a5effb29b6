"""Conda's own way to a CuPy that fits, where nothing on the channel fits the environment as it is. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuenv.doctor.registry import Facts
from gpuenv.matrix.alternatives import conda_candidates, conda_choice
from gpuenv.matrix.candidates import WheelCandidate
from gpuenv.matrix.explanation import changes_text
from gpuenv.matrix.resolve import judge
from gpuenv.model.finding import Fix
from gpuenv.model.resolution import CandidateKind, Change, CondaChoice, Reachable

_BY_CONDA = frozenset({"target.numpy"})  # what conda moves in the same command
_IN_A_NEW_ONE = frozenset({*_BY_CONDA, "target.python"})  # what another environment has otherwise
_USUAL_PYTHON = "3.12"


@dataclass(frozen=True, slots=True)
class _Way:
    """A build that would fit, and what has to change for it."""

    choice: CondaChoice
    reachable: Reachable

    @property
    def facts(self) -> frozenset[str]:
        """What has to change."""
        return frozenset(change.fact for change in self.reachable.changes)

    @property
    def order(self) -> tuple[int, int]:
        """What one command does before what a new environment takes, and both before a change of the machine."""
        return 0 if self.facts <= _BY_CONDA else 1, sum(1 for fact in self.facts if not _is_new(fact))

    @property
    def in_a_new_one(self) -> bool:
        """Whether an environment of its own is enough."""
        return all(map(_is_new, self.facts))


def _is_new(fact: str) -> bool:
    """Whether a new environment has it otherwise: its Python and NumPy, and no packages that stand against CuPy."""
    return fact in _IN_A_NEW_ONE or fact.startswith("target.packages.")


def conda_way(facts: Facts, text: str, prefix: tuple[str, ...]) -> tuple[Fix, ...]:
    """What conda can do where no build fits as things are; the honest word where it can do nothing.

    Args:
        facts: what is known.
        text: what the cure is for, as a sentence.
        prefix: conda's words for the environment.
    """
    ways = sorted(_ways(facts), key=lambda way: way.order)
    told = text.removesuffix(".")
    if not ways:
        why = next((entry for entry in facts.resolution.rejected if entry.candidate.kind is CandidateKind.CONDA), None)
        because = f": it needs {why.needed}, found {why.found}" if why else ""
        return (
            Fix(
                f"No build of CuPy on conda-forge that the matrix has fits here{because}. conda lists older ones.",
                ("conda", "search", "--channel=conda-forge", "cupy"),
            ),
        )
    way = ways[0]
    specs, channel = way.choice.specs, f"--channel={way.choice.channel}"
    if way.facts <= _BY_CONDA:
        moved = tuple(f"{change.fact.removeprefix('target.')}{change.needed}" for change in way.reachable.changes)
        said = f"{told}, with what it needs (mamba takes the same words): {' '.join((*specs, *moved))}"
        return (Fix(said, ("conda", "install", *prefix, channel, *specs, *moved), safe=True),)
    if way.in_a_new_one:
        python = next((_python(change) for change in way.reachable.changes if change.fact == "target.python"), None)
        words = (f"python={python or _USUAL_PYTHON}", *specs)
        said = f"{told}, in an environment of its own (mamba takes the same words): {' '.join(words)}"
        return (Fix(said, ("conda", "create", "--name=ENVIRONMENT", channel, *words)),)
    return (
        Fix(f"With {changes_text(way.reachable)}, conda's build fits: {' '.join(specs)} from {way.choice.channel}."),
    )


def _ways(facts: Facts) -> Iterator[_Way]:
    for wheel in conda_candidates(facts.matrix):
        judged = judge(wheel, facts.needs, facts.matrix)
        if judged.changes:
            yield _Way(_choice(wheel, facts), Reachable(wheel.candidate, judged.changes))


def _choice(wheel: WheelCandidate, facts: Facts) -> CondaChoice:
    return conda_choice(wheel, (), replace(facts.needs, numpy=None), facts.matrix)


def _python(change: Change) -> str:
    """One of those that would do: the usual one, else the last that is no special build."""
    offered = [word for word in change.needed.split(", ") if not word.endswith("t")]
    return _USUAL_PYTHON if _USUAL_PYTHON in offered else offered[-1]
