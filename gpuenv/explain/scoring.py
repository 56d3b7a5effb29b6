"""Hits, marks and the doctor's word to ranked causes with a confidence. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from gpuenv.explain.classifier_blend import MOST_GUESSES, UNDECIDED, swayed, with_guesses
from gpuenv.explain.disambiguation import told_apart
from gpuenv.explain.explanation_types import Hit, Level, Signature
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix

_LEAST, _LITTLE = 0.05, 0.01  # a cause below it is not worth a line
_SURE = 0.97
_CERTAIN = 0.8  # what a message says of its cause with as much weight, no other fact decides
_WARNING = 0.6  # what a warning's odds are multiplied with where an error speaks too
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
class Word:
    """What the doctor says of a cause on the machine at hand: its check's code, the finding in words, and its cure."""

    code: str
    title: str
    fix: tuple[Fix, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The doctor's word on the machine: what it finds there, and what it looked for and did not find."""

    found: Mapping[Cause, Word]
    ruled_out: frozenset[Cause] = frozenset()


@dataclass(frozen=True, slots=True)
class Ranked:
    """A cause with its confidence and the hits that speak for it, the strongest first."""

    cause: Cause
    confidence: float
    hits: tuple[Hit, ...]


_Voice = tuple[Hit, dict[Cause, float]]
NOTHING_KNOWN = Verdict({})
_NOTHING_LIKELY: Mapping[Cause, float] = {}


def weigh(
    hits: Sequence[Hit],
    marks: Collection[str],
    verdict: Verdict = NOTHING_KNOWN,
    likely: Mapping[Cause, float] = _NOTHING_LIKELY,
    *,
    words_decide: bool = False,
) -> tuple[Ranked, ...]:
    """Ranks the causes; the confidences add up to 1 at most.

    Args:
        hits: what was found in the text.
        marks: of the text and of the machine.
        verdict: what the doctor says of the machine.
        likely: what the text is like by its words, the likeliest first: causes that no hit names share what the hits
            leave open.
        words_decide: whether the text says enough for its words to decide between causes that the hits leave open,
            where the doctor has found none of them.
    """
    speaking = _speaking(hits, marks)
    voices = [(hit, _told(hit, marks)) for hit in speaking]
    errors = any(hit.signature.level is Level.ERROR for hit in speaking)
    chances: dict[Cause, float] = {}
    for hit, weights in _each_once(voices):
        quiet = errors and hit.signature.level is Level.WARNING
        for cause, weight in weights.items():
            chance = _scaled(weight, _WARNING if quiet else 1.0)
            low, high = sorted((chances.get(cause, 0.0), chance))
            chances[cause] = high + (1 - high) * low * _CORROBORATION
    words_decide = words_decide and not chances.keys() & verdict.found.keys()
    chances = swayed(chances, likely) if words_decide else with_guesses(chances, likely)
    chances = _updated(chances, {cause: _doctor(cause, verdict) * _likely_there(cause, marks) for cause in chances})
    chances = _without_consequences(chances)
    total = max(1.0, sum(chances.values()))
    ranked = [
        Ranked(cause, round(min(_SURE, chance) / total, 3), _hits_for(cause, voices))
        for cause, chance in sorted(chances.items(), key=lambda item: -item[1])
    ]
    return tuple(entry for place, entry in enumerate(ranked) if entry.confidence >= _worth(ranked[0], place))


def _worth(first: Ranked, place: int) -> float:
    """How likely the cause at a place has to be: where nothing is clear, little is enough for the first three."""
    if place == 0:
        return 0.0
    return _LITTLE if place < MOST_GUESSES and first.confidence < UNDECIDED else _LEAST


def _speaking(hits: Sequence[Hit], marks: Collection[str]) -> list[Hit]:
    """The first hit of each signature that names causes and has the company that it needs.

    Where its values decide (an Xid, a size), each hit has a voice of its own.
    """
    seen: set[object] = set()
    kept: list[Hit] = []
    for hit in hits:
        signature = hit.signature
        if not signature.causes or (signature.needs and not set(signature.needs) & set(marks)):
            continue
        key = (signature.name, hit.values) if signature.judge else signature.name
        if key not in seen:
            seen.add(key)
            kept.append(hit)
    return kept


def _each_once(voices: Sequence[_Voice]) -> list[_Voice]:
    """Without what a signature says a second time of other values: it is no further witness."""
    told = [(hit.signature.name, weights) for hit, weights in voices]
    return [voice for place, voice in enumerate(voices) if told.index(told[place]) == place]


def _told(hit: Hit, marks: Collection[str]) -> dict[Cause, float]:
    """What a message says beside what the rest of the text shows."""
    said = _said(hit)
    is_open = max(said.values(), default=0.0) < _CERTAIN
    return told_apart(dict(_weights(hit, said, marks)), marks, is_open=is_open)


def _said(hit: Hit) -> dict[Cause, float]:
    """What a message says by itself."""
    signature = hit.signature
    return dict(signature.judge(dict(hit.values)) if signature.judge and hit.values else signature.causes)


def _weights(hit: Hit, said: Mapping[Cause, float], marks: Collection[str]) -> list[tuple[Cause, float]]:
    signature, causes = hit.signature, dict(said)
    for sway in signature.sways:
        if sway.factor > 1 and _holds(sway.mark, marks):
            causes.setdefault(sway.cause, 0.02)
    told = _updated(causes, {cause: _factor(signature, cause, marks) for cause in causes})
    return [(cause, weight) for cause, weight in told.items() if weight]


def _factor(signature: Signature, cause: Cause, marks: Collection[str]) -> float:
    """By how much the marks make a cause of this signature more likely, or less."""
    return prod(sway.factor for sway in signature.sways if sway.cause is cause and _holds(sway.mark, marks))


def _holds(mark: str, marks: Collection[str]) -> bool:
    return mark[1:] not in marks if mark.startswith("!") else mark in marks


def _updated(chances: Mapping[Cause, float], factors: Mapping[Cause, float]) -> dict[Cause, float]:
    """Chances of causes that exclude each other, each made likelier by its factor: what one gains the others lose."""
    rest = max(1 - sum(chances.values()), 1 - _SURE)
    before = rest + sum(chances.values())
    after = rest + sum(chance * factors[cause] for cause, chance in chances.items())
    return {cause: min(_SURE, chance * factors[cause] * before / after) for cause, chance in chances.items()}


def _scaled(chance: float, factor: float) -> float:
    """A chance whose odds are multiplied."""
    if factor == 1.0 or chance <= 0:
        return chance
    odds = min(chance, _SURE) / (1 - min(chance, _SURE)) * factor
    return odds / (1 + odds)


def _doctor(cause: Cause, verdict: Verdict) -> float:
    if cause in verdict.found:
        return _SUPPORTED
    return _RULED_OUT if cause in verdict.ruled_out else 1.0


def _likely_there(cause: Cause, marks: Collection[str]) -> float:
    """How likely a cause is in a place that the marks show; 1 where they say nothing of it."""
    likely = 1.0
    for mark, rows in _UNLIKELY.items():
        if mark in marks:
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


def _hits_for(cause: Cause, voices: Sequence[tuple[Hit, Mapping[Cause, float]]]) -> tuple[Hit, ...]:
    speaking = [(weights[cause], hit) for hit, weights in voices if weights.get(cause)]
    return tuple(hit for _, hit in sorted(speaking, key=lambda item: -item[0]))
