"""Ranks causes with a confidence, from hits, evidence and the doctor's verdict."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from gpuenv.explain.classifier_blend import MOST_GUESSES, UNDECIDED, add_guesses, blend
from gpuenv.explain.disambiguation import disambiguate
from gpuenv.explain.explanation_types import Hit, Level, Signature
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix

_LEAST, _LITTLE = 0.05, 0.01  # a cause below it is not worth a line
_SURE = 0.97
_CERTAIN = 0.8  # what a message says of its cause with as much weight, no other fact decides
_WARNING = 0.6  # odds multiplier for warnings when an error also matched
_CORROBORATION = 0.25  # how much of the doubt that is left another signature of the same cause takes away
_SUPPORTED, _RULED_OUT = 5.0, 0.35
_CONSEQUENCE = 0.25
# What a text shows of its place, and what is hardly to be there: Windows knows no fork and no device nodes; where
# nvidia-smi prints its table there are a driver and a GPU; under WSL the driver is the one of Windows.
_UNLIKELY: Mapping[str, tuple[tuple[tuple[Cause, ...], float], ...]] = {
    "windows": (
        (
            (
                Cause.FORK_AFTER_CUDA_INIT,
                Cause.NOUVEAU_LOADED,
                Cause.DRIVER_KERNEL_INCOMPATIBLE,
                Cause.DEVICE_NODE_MISSING,
                Cause.DEVICE_NODE_PERMISSION,
                Cause.LIBSTDCXX_MISMATCH,
                Cause.FABRIC_MANAGER_NOT_RUNNING,
                Cause.JETSON_TEGRA,
            ),
            0.15,
        ),
    ),
    "smi-table": (((Cause.NO_DRIVER, Cause.NO_NVIDIA_GPU, Cause.DRIVER_MODULE_NOT_LOADED, Cause.NOUVEAU_LOADED), 0.2),),
    "wsl": (
        (
            (
                Cause.DRIVER_MODULE_NOT_LOADED,
                Cause.NOUVEAU_LOADED,
                Cause.DRIVER_KERNEL_INCOMPATIBLE,
                Cause.DEVICE_NODE_MISSING,
            ),
            0.2,
        ),
        ((Cause.NO_DRIVER, Cause.NO_NVIDIA_GPU), 0.35),
    ),
    "aarch64": (((Cause.WSL_LIBCUDA,), 0.3),),
    "darwin": (((Cause.WINDOWS_DLL_LOAD_FAILURE, Cause.NOUVEAU_LOADED, Cause.CONTAINER_CGROUP_LOST_GPU), 0.1),),
}
_EXPLAINING = 0.6  # how likely a cause must be to explain others away


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The doctor's finding about a cause on the machine at hand: code of the check, title and fixes."""

    code: str
    title: str
    fix: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class DoctorVerdict:
    """The doctor's verdict on the machine: the causes that it finds there, and those that it rules out."""

    found: Mapping[Cause, DoctorFinding]
    ruled_out: frozenset[Cause] = frozenset()


@dataclass(frozen=True, slots=True)
class Ranked:
    """A cause with its confidence and the hits that speak for it, the strongest first."""

    cause: Cause
    confidence: float
    hits: tuple[Hit, ...]


_Vote = tuple[Hit, dict[Cause, float]]
NOTHING_KNOWN = DoctorVerdict({})
_NOTHING_LIKELY: Mapping[Cause, float] = {}


def rank_causes(
    hits: Sequence[Hit],
    evidence: Collection[str],
    verdict: DoctorVerdict = NOTHING_KNOWN,
    likely: Mapping[Cause, float] = _NOTHING_LIKELY,
    *,
    words_decide: bool = False,
) -> tuple[Ranked, ...]:
    """Ranks the causes; the confidences add up to 1 at most.

    Args:
        hits: what was found in the text.
        evidence: of the text and of the machine.
        verdict: the doctor's verdict on the machine.
        likely: what the text is like by its words, the likeliest first: causes that no hit names share what the hits
            leave open.
        words_decide: whether the text says enough for its words to decide between causes that the hits leave open,
            where the doctor has found none of them.
    """
    relevant = _relevant_hits(hits, evidence)
    votes = [(hit, _disambiguated(hit, evidence)) for hit in relevant]
    errors = any(hit.signature.level is Level.ERROR for hit in relevant)
    chances: dict[Cause, float] = {}
    for hit, weights in _distinct_votes(votes):
        quiet = errors and hit.signature.level is Level.WARNING
        for cause, weight in weights.items():
            chance = _scaled(weight, _WARNING if quiet else 1.0)
            low, high = sorted((chances.get(cause, 0.0), chance))
            chances[cause] = high + (1 - high) * low * _CORROBORATION
    words_decide = words_decide and not chances.keys() & verdict.found.keys()
    chances = blend(chances, likely) if words_decide else add_guesses(chances, likely)
    chances = _updated(
        chances, {cause: _doctor_factor(cause, verdict) * _plausibility(cause, evidence) for cause in chances}
    )
    chances = _without_consequences(chances)
    total = max(1.0, sum(chances.values()))
    ranked = [
        Ranked(cause, round(min(_SURE, chance) / total, 3), _hits_for(cause, votes))
        for cause, chance in sorted(chances.items(), key=lambda item: -item[1])
    ]
    return tuple(
        entry for index, entry in enumerate(ranked) if entry.confidence >= _minimum_confidence(ranked[0], index)
    )


def _minimum_confidence(first: Ranked, index: int) -> float:
    """The confidence that the cause at an index needs: little for the first three if none is clear."""
    if index == 0:
        return 0.0
    return _LITTLE if index < MOST_GUESSES and first.confidence < UNDECIDED else _LEAST


def _relevant_hits(hits: Sequence[Hit], evidence: Collection[str]) -> list[Hit]:
    """The first hit of each signature that names causes and whose required evidence is shown.

    Where its values decide (an Xid, a size), each hit has a vote of its own.
    """
    seen: set[object] = set()
    kept: list[Hit] = []
    for hit in hits:
        signature = hit.signature
        if not signature.causes or (signature.requires and not set(signature.requires) & set(evidence)):
            continue
        key = (signature.name, hit.values) if signature.weights_fn else signature.name
        if key not in seen:
            seen.add(key)
            kept.append(hit)
    return kept


def _distinct_votes(votes: Sequence[_Vote]) -> list[_Vote]:
    """Without votes that a signature repeats for other values: they are no further evidence."""
    keys = [(hit.signature.name, weights) for hit, weights in votes]
    return [vote for index, vote in enumerate(votes) if keys.index(keys[index]) == index]


def _disambiguated(hit: Hit, evidence: Collection[str]) -> dict[Cause, float]:
    """The weights of a message, with the evidence in the rest of the text."""
    own = _own_weights(hit)
    is_open = max(own.values(), default=0.0) < _CERTAIN
    return disambiguate(dict(_modified(hit, own, evidence)), evidence, is_open=is_open)


def _own_weights(hit: Hit) -> dict[Cause, float]:
    """The weights of a message by itself."""
    signature = hit.signature
    return dict(signature.weights_fn(dict(hit.values)) if signature.weights_fn and hit.values else signature.causes)


def _modified(hit: Hit, own: Mapping[Cause, float], evidence: Collection[str]) -> list[tuple[Cause, float]]:
    signature, causes = hit.signature, dict(own)
    for modifier in signature.modifiers:
        if modifier.factor > 1 and _holds(modifier.evidence, evidence):
            causes.setdefault(modifier.cause, 0.02)
    updated = _updated(causes, {cause: _factor(signature, cause, evidence) for cause in causes})
    return [(cause, weight) for cause, weight in updated.items() if weight]


def _factor(signature: Signature, cause: Cause, evidence: Collection[str]) -> float:
    """By how much the evidence makes a cause of this signature more likely, or less."""
    return prod(
        modifier.factor
        for modifier in signature.modifiers
        if modifier.cause is cause and _holds(modifier.evidence, evidence)
    )


def _holds(name: str, evidence: Collection[str]) -> bool:
    return name[1:] not in evidence if name.startswith("!") else name in evidence


def _updated(chances: Mapping[Cause, float], factors: Mapping[Cause, float]) -> dict[Cause, float]:
    """Chances of causes that exclude each other, each made likelier by its factor: what one gains the others lose."""
    rest = max(1 - sum(chances.values()), 1 - _SURE)
    before = rest + sum(chances.values())
    after = rest + sum(chance * factors[cause] for cause, chance in chances.items())
    return {cause: min(_SURE, chance * factors[cause] * before / after) for cause, chance in chances.items()}


def _scaled(chance: float, factor: float) -> float:
    """A chance with its odds multiplied by a factor."""
    if factor == 1.0 or chance <= 0:
        return chance
    odds = min(chance, _SURE) / (1 - min(chance, _SURE)) * factor
    return odds / (1 + odds)


def _doctor_factor(cause: Cause, verdict: DoctorVerdict) -> float:
    if cause in verdict.found:
        return _SUPPORTED
    return _RULED_OUT if cause in verdict.ruled_out else 1.0


def _plausibility(cause: Cause, evidence: Collection[str]) -> float:
    """How likely a cause is in a place that the evidence shows; 1 where it says nothing of it."""
    likely = 1.0
    for name, rows in _UNLIKELY.items():
        if name in evidence:
            likely *= min((factor for causes, factor in rows if cause in causes), default=1.0)
    return likely


def _without_consequences(chances: Mapping[Cause, float]) -> dict[Cause, float]:
    explained = {
        effect
        for cause, chance in chances.items()
        if chance >= _EXPLAINING
        for effect in cause.explains
        if chances.get(effect, 0.0) <= chance
    }
    return {cause: _scaled(chance, _CONSEQUENCE) if cause in explained else chance for cause, chance in chances.items()}


def _hits_for(cause: Cause, votes: Sequence[tuple[Hit, Mapping[Cause, float]]]) -> tuple[Hit, ...]:
    supporting = [(weights[cause], hit) for hit, weights in votes if weights.get(cause)]
    return tuple(hit for _, hit in sorted(supporting, key=lambda item: -item[0]))
