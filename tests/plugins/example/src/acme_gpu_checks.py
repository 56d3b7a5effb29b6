"""A check of another package: a function of the machine that yields what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.doctor.registry import NotKnown, Symptom
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix, Severity
from gpuenv.model.snapshot import Snapshot

NEEDED = 40 * 1024**3  # bytes: what the smallest of our models takes


def enough_memory(snapshot: Snapshot) -> Iterator[Symptom | NotKnown]:
    """A GPU has less memory than our smallest model takes.

    What it means: the job would end with an error of memory after an hour of loading.
    How it is seen: the memory of each GPU, as NVML reports it.
    What to do: take a machine with larger GPUs.
    """
    for place, gpu in enumerate(snapshot.gpus):
        memory = gpu.memory_total
        if memory.value is None:
            yield NotKnown(f"the memory of GPU {place} is not known")
        elif memory.value < NEEDED:
            yield Symptom(
                f"{gpu.name.value} has {memory.value >> 30} GiB, and our smallest model takes {NEEDED >> 30}",
                (Evidence(f"gpus[{place}].memory_total", str(memory.value), memory.source or ""),),
                (Fix("Take a machine of the pool gpu-large."),),
                Severity.WARNING,
                Cause.OUT_OF_MEMORY,
            )
