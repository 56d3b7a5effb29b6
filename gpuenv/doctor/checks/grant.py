"""What a scheduler has granted, against what this process sees."""

from __future__ import annotations

from gpuenv.doctor.evidence import evidence_of
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity


@check(
    "GPU212",
    Cause.VISIBLE_DEVICES_HIDE_GPU,
    Cause.SOURCES_DISAGREE,
    requires=("DRV100", "GPU201", "GPU202", "GPU203", "CTR301", "CTR305"),
)
def other_than_granted(facts: Facts) -> Outcome:
    """This process sees another number of GPUs than it was granted.

    What it means: with fewer, a variable that was set in a profile or a script hides a part of what the job waited and
    pays for. With more, nothing keeps the job to its own: it computes on GPUs that were granted to others.
    How it is seen: the scheduler's or the container engine's own word (its variables) against the number of devices
    that libcuda shows.
    What to do: take CUDA_VISIBLE_DEVICES out of profiles and scripts, since the scheduler sets it; with more, ask for
    its device control groups to be turned on.
    """
    snapshot = facts.snapshot
    granted, seen = snapshot.grant.gpus, snapshot.visible_count
    if not granted.value or seen.value is None or not seen.value or snapshot.driver.cuda_init.value:
        return
    if granted.value == seen.value or any(gpu.mig.value for gpu in snapshot.gpus):
        return  # of a GPU in MIG mode a process sees one instance, whatever was granted
    fewer = seen.value < granted.value
    if fewer and snapshot.environment.get("SLURM_STEP_NUM_TASKS", "1") != "1":
        return  # the tasks of a step share what the step was granted
    told = snapshot.environment.get("CUDA_VISIBLE_DEVICES")
    by = snapshot.grant.by.value or "the scheduler"
    yield Symptom(
        f"{granted.value} GPUs were granted by {by}, and this process sees {seen.value}",
        evidence_of(snapshot, "grant.gpus", "grant.devices", "visible_count")
        + (Evidence("environment.CUDA_VISIBLE_DEVICES", told if told is not None else "not set", "the environment"),),
        (_cure(fewer=fewer, by_variable=told is not None),),
        Severity.WARNING,
        cause=None if fewer and told is not None else Cause.SOURCES_DISAGREE,
    )


def _cure(*, fewer: bool, by_variable: bool) -> Fix:
    if not fewer:
        return Fix("Let CUDA_VISIBLE_DEVICES name those that were granted; ask for device control groups.")
    if by_variable:
        return Fix("Leave CUDA_VISIBLE_DEVICES as the scheduler has set it.")
    return Fix("Ask for all of them in the job's step as well, as with srun --gpus.")
