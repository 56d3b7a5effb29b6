"""Requirements of the user, beyond what CuPy needs."""

from __future__ import annotations

from gpuenv.doctor.registry import CheckContext, NotKnown, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, RequirementStatus

REQUIREMENT_CHECK = "REQ801"
_CHANGES = {True: "Run this on a machine that has it", False: "Change the environment so that it has it"}


@check("REQ801", Cause.REQUIREMENT_NOT_MET, follows=("DRV", "GPU", "CTR"))
def requirement_not_met(ctx: CheckContext) -> Outcome:
    """A requirement is not met.

    What it means: the machine may work, but it is not what you require: too few GPUs, too little memory, another driver
    or wheel line. Each unmet requirement is a finding of its own.
    How it is seen: gpuenv preflight compares the requirements of --require, gpuenv.toml and pyproject.toml with the
    facts. If a fact is unknown, the requirement is undetermined, neither met nor violated.
    What to do: run the job on a machine that meets the requirement, change the environment, or change the requirement.
    """
    for result in ctx.requirements:
        if result.status is RequirementStatus.VIOLATED:
            yield Symptom(
                f"{result.text} is required, found {result.found}",
                (*result.evidence, Evidence("required", result.text, result.source)),
                (Fix(f"{_CHANGES[result.of_host]}, or change the requirement."),),
                independent=not result.by_absence,
            )
    undetermined = [entry for entry in ctx.requirements if entry.status is RequirementStatus.UNKNOWN]
    if undetermined:
        yield NotKnown("; ".join(f"{entry.text} needs {entry.missing}" for entry in undetermined))
