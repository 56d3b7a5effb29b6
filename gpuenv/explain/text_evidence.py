"""Evidence in a text about its machine and program, from the signatures found in it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.explain.explanation_types import Hit

# What a part of the text seems to show, and what elsewhere in it shows that it is not so: a listing goes on in further
# lines, no branch for old cards is the one of a card of a new generation (evidence_gpu_models), and what fails in a
# container that was started after the build does not fail in the build; graphics of another maker may be beside a card.
_REFUTED = {
    "uvm-absent": "uvm-there",
    "legacy-named": "card-in-support",
    "during-image-build": "started-without-gpu",
    "graphics-of-another": "nvidia-card",
}
LIBRARY_THERE = "library-there"


def text_evidence(hits: Sequence[Hit]) -> frozenset[str]:
    """The evidence that the text itself shows."""
    shown = {hit.signature.evidence for hit in hits if hit.signature.evidence}
    valid = shown - {name for name, refuting in _REFUTED.items() if refuting in shown}
    if LIBRARY_THERE in valid and not _is_there(hits):
        valid.discard(LIBRARY_THERE)
    return frozenset(valid)


def _is_there(hits: Sequence[Hit]) -> bool:
    """Whether the text shows the path of a library that the loader does not find, in the same major version."""
    shown = {_major(hit.value("there")) for hit in hits if hit.signature.evidence == LIBRARY_THERE}
    missed = {_major(hit.value("file") or hit.value("any")) for hit in hits if hit.signature.causes}
    return bool((shown & missed) - {()})


def _major(file: str | None) -> tuple[str, ...]:
    return tuple(file.strip(".").split(".")[:3]) if file else ()
