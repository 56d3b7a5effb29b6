"""A resolution in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.matrix.needs import Needs
from gpuenv.model.cupy import cuda_major
from gpuenv.model.resolution import (
    AS_TOLD,
    Candidate,
    CandidateKind,
    Change,
    ConstraintName,
    Reachable,
    Rejection,
    Resolution,
    WheelChoice,
)

_WORDS = {
    "driver.version": "driver",
    "target.python": "Python",
    "target.numpy": "NumPy",
    "gpus": "a GPU",
    "driver.cuda": "libcuda of CUDA",
}
_GPU_CONSTRAINTS = (ConstraintName.NVRTC_COMPILES_FOR_GPU, ConstraintName.WHEEL_HAS_CODE_FOR_GPU)


def explain(needs: Needs, resolution: Resolution, fitting: Sequence[Candidate]) -> str:
    """What was chosen for which machine, what was not and why, and what would change it.

    Args:
        needs: the machine.
        resolution: everything but this text.
        fitting: the candidates that nothing stands against, the best first.
    """
    wheel, reachable, better = resolution.wheel, resolution.reachable, resolution.next_better
    lines = [_headline(wheel), f"Decided for {_machine(needs)}."]
    lines += _also(wheel, fitting)
    wheels = [entry for entry in resolution.rejected if entry.candidate.kind is CandidateKind.WHEEL]
    lines += _refused(wheels, {candidate.name for candidate in fitting})
    unknown = [entry for entry in resolution.assumptions if entry.value != AS_TOLD]
    if unknown:
        lines.append("Assumed for want of a fact: " + "; ".join(f"{a.fact} is {a.value}" for a in unknown) + ".")
    lines += _elsewhere(resolution)
    for entry in resolution.experimental:
        rests = " and ".join(f"{told.fact} is {told.value}" for told in entry.assumptions)
        lines.append(f"Experimental: {entry.candidate.label}, if {rests}.")
    if wheel is None:
        lines += [f"{entry.candidate.label} would fit with {changes_text(entry)}." for entry in reachable]
    if better is not None:
        kind = "Smallest change" if wheel is None else "Next better"
        lines.append(f"{kind}: {better.candidate.label} with {changes_text(better)}.")
    return "\n".join(lines)


def _elsewhere(resolution: Resolution) -> Iterator[str]:
    """What fits of conda's packages and of container images."""
    conda, image = resolution.conda, resolution.image
    if conda is not None:
        yield f"With conda: {' '.join(conda.specs)} from {conda.channel}."
    if image is not None:
        then = f", and in it {' '.join(image.requirements)}" if image.requirements else ""
        yield f"In a container: {image.reference}{then}."


def changes_text(entry: Reachable) -> str:
    """``driver >= 580.65.06 and NumPy >=2.0``."""
    return " and ".join(map(change_text, entry.changes))


def change_text(change: Change) -> str:
    """``driver >= 580.65.06``."""
    return f"{_WORDS.get(change.fact, change.fact.removeprefix('target.packages.'))} {change.needed}"


def _headline(wheel: WheelChoice | None) -> str:
    if wheel is None:
        return "No wheel of CuPy fits."
    extra = f"[{wheel.extra}]" if wheel.extra else ""
    return f"{wheel.distribution}{extra} {wheel.version} fits best."


def _machine(needs: Needs) -> str:
    driver = "no driver" if needs.driver_absent else f"driver {needs.driver or 'unknown'}"
    level = f" (CUDA {needs.driver_cuda})" if needs.driver_cuda else ""
    facts = (f"{driver}{level}", needs.gpus_label, f"Python {needs.python or 'unknown'}", needs.platform, needs.libc)
    return ", ".join(str(fact) for fact in facts if fact is not None)


def _also(wheel: WheelChoice | None, fitting: Sequence[Candidate]) -> Iterator[str]:
    """The best fitting release of each other line."""
    seen = {wheel.distribution} if wheel else set()
    for candidate in fitting:
        if candidate.name not in seen:
            seen.add(candidate.name)
            yield f"Also fits: {candidate.label}."


def _refused(rejected: Sequence[Rejection], fitting: set[str]) -> Iterator[str]:
    """For each CUDA major above those that fit, and for all where none does, the reasons against its newest release."""
    seen = {cuda_major(name) for name in fitting}
    for rejection in rejected:
        candidate = rejection.candidate
        major = cuda_major(candidate.name)
        if major in seen or (fitting and major is not None and major < max(told for told in seen if told is not None)):
            continue
        seen.add(major)
        reasons = [entry for entry in rejected if entry.candidate == candidate]
        said = "; ".join(f"needs {entry.needed}, found {entry.found}" for entry in _without_repetition(reasons))
        yield f"Not {candidate.name} {candidate.version}: {said}."


def _without_repetition(reasons: Sequence[Rejection]) -> list[Rejection]:
    """One reason about the GPU is enough in words; JSON has them all."""
    of_gpu = [entry for entry in reasons if entry.constraint in _GPU_CONSTRAINTS]
    return [entry for entry in reasons if entry not in of_gpu[1:]]
