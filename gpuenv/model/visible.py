"""What CUDA_VISIBLE_DEVICES leaves visible. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.model.snapshot import Gpu


def visible_entries(value: str, gpus: Sequence[Gpu]) -> int:
    """How many entries of the variable name a GPU that is there; the list ends at the first that does not.

    Entries are ordinals, or UUIDs of GPUs or MIG instances, which may be shortened to a unique beginning (CUDA C++
    Programming Guide, CUDA Environment Variables).
    """
    count = 0
    for entry in value.split(","):
        if not _names_one(entry.strip(), gpus):
            break
        count += 1
    return count


def _names_one(entry: str, gpus: Sequence[Gpu]) -> bool:
    if entry.isdigit():
        return int(entry) < len(gpus)
    if not entry.startswith(("GPU-", "MIG-")):
        return False
    uuids = [gpu.uuid.value or "" for gpu in gpus]
    uuids += [instance.uuid for gpu in gpus for instance in gpu.mig_instances]
    return sum(uuid.lower().startswith(entry.lower()) for uuid in uuids) == 1
