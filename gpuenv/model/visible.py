"""What CUDA_VISIBLE_DEVICES leaves visible. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuenv.model.gpu import Gpu
from gpuenv.model.pattern import pattern

# How hidden_by begins where the kernel keeps a GPU's device node from this process: CUDA does not count it then.
CONTROL_GROUP, DEVICE_NODE, PERMISSION = "control group", "device node", "permission"
_OLD_INSTANCE = pattern(r"MIG-(GPU-[0-9a-f-]+)/\d+/\d+")


@dataclass(frozen=True, slots=True)
class Listed:
    """What the variable's list comes to.

    Attributes:
        entries: the entries that count: ordinals as they are, UUIDs in full.
        invalid: the entry at which the list ends, where it names nothing.
        twice: an entry that is there a second time, where one is.
    """

    entries: tuple[str, ...]
    invalid: str | None = None
    twice: str | None = None


def listed(value: str, count: int, uuids: Sequence[str]) -> Listed:
    """Reads the list up to the first entry that names nothing.

    Entries are ordinals, or UUIDs of GPUs or MIG instances, which may be shortened to a unique beginning; before R470
    a MIG instance was written ``MIG-GPU-<uuid>/<GPU instance>/<compute instance>`` (CUDA Programming Guide, CUDA
    Environment Variables, read November 2026). Of the old form only the GPU can be looked up.

    Args:
        value: the variable's value.
        count: how many GPUs there are.
        uuids: those of the GPUs and of their MIG instances.
    """
    found: list[str] = []
    for entry in map(str.strip, value.split(",")):
        named = _named(entry, count, uuids)
        if named is None:
            return Listed(tuple(found), invalid=entry)
        if named in found:
            return Listed((), twice=entry)
        found.append(named)
    return Listed(tuple(found))


def visible_entries(value: str, gpus: Sequence[Gpu]) -> int:
    """How many entries of the variable name a GPU that is there; the list ends at the first that does not."""
    counted = to_be_opened(gpus)
    return len(listed(value, len(counted), uuids_of(counted)).entries)


def is_old_instance(value: str) -> bool:
    """Whether the list begins with a MIG instance in the form of before R470, of which the GPU alone is looked up."""
    return _OLD_INSTANCE.fullmatch(value.split(",", maxsplit=1)[0].strip()) is not None


def to_be_opened(gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """Those that this process may open: CUDA gives ordinals to them alone, from zero."""
    return tuple(
        gpu for gpu in gpus if not (gpu.hidden_by.value or "").startswith((CONTROL_GROUP, DEVICE_NODE, PERMISSION))
    )


def uuids_of(gpus: Sequence[Gpu]) -> tuple[str, ...]:
    """Those of GPUs and of their MIG instances."""
    instances = (instance.uuid for gpu in gpus for instance in gpu.mig_instances)
    return (*(gpu.uuid.value or "" for gpu in gpus), *instances)


def _named(entry: str, count: int, uuids: Sequence[str]) -> str | None:
    """The entry in full, or None where it names nothing."""
    if entry.isdecimal() and entry.isascii():
        return str(int(entry)) if len(entry) <= len(str(count)) + 1 and int(entry) < count else None
    if not entry.startswith(("GPU-", "MIG-")):
        return None
    if old := _OLD_INSTANCE.fullmatch(entry):
        return entry if old[1] in uuids else None
    fitting = [uuid for uuid in uuids if uuid.lower().startswith(entry.lower())]
    return fitting[0] if len(fitting) == 1 else None
