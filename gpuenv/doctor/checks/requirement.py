"""What the caller asked for, beyond what CuPy needs."""

from __future__ import annotations

from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, RequirementStatus

REQUIREMENT_CHECK = "REQ801"
_CHANGES = {True: "Run this on a machine that has it", False: "Change the environment so that it has it"}


@check(REQUIREMENT_CHECK, Cause.REQUIREMENT_NOT_MET, follows=("DRV", "GPU", "CTR"))
def requirement_not_met(ctx: CheckContext) -> Outcome:
    """A requirement of the caller is not met.

    What it means: the machine may be sound, but it is not what was asked for: too few GPUs, too little memory, another
    driver or wheel line. Each requirement that is not met is a finding of its own.
    How it is seen: gpuenv preflight holds the requirements of --require, gpuenv.toml and pyproject.toml against the
    facts. A fact that no source could tell leaves a requirement open, which is neither met nor violated.
    What to do: run the job on a machine that has what is required, change the environment where that is meant, or
    change the requirement where it stands.
    """
    for result in ctx.requirements:
        if result.status is RequirementStatus.VIOLATED:
            yield Symptom(
                f"{result.text} is required, found {result.found}",
                (*result.evidence, Evidence("required", result.text, result.source)),
                (Fix(f"{_CHANGES[result.of_host]}, or change the requirement."),),
                independent=not result.by_absence,
            )
    open_ones = [entry for entry in ctx.requirements if entry.status is RequirementStatus.UNKNOWN]
    if open_ones:
        told = "; ".join(f"{entry.text} needs {entry.missing}" for entry in open_ones)
        yield NotKnown(told)
