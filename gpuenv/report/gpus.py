"""The GPUs of a machine in a few words each."""

from __future__ import annotations

from gpuenv.model.identity import NVIDIA
from gpuenv.model.snapshot import Gpu, Snapshot, SourceState
from gpuenv.model.visible import CONTROL_GROUP
from gpuenv.report.lines import counted

_MIB = 1024 * 1024


def gpu_texts(snapshot: Snapshot) -> list[str]:
    """Each kind of GPU with how many there are of it; what was not given to this process comes last."""
    if not snapshot.gpus:
        on_bus = [gpu for gpu in snapshot.pci_gpus or () if gpu.vendor == NVIDIA]
        none = "none" if was_asked(snapshot, "kernel", "gpus") else "unknown, not asked"
        return [f"{gpu.name or 'NVIDIA ' + gpu.device} at {gpu.pci}, not driven" for gpu in on_bus] or [none]
    grouped: dict[str, int] = {}
    given_first = sorted(snapshot.gpus, key=_is_not_given)
    for gpu in given_first:
        text = _not_given(snapshot) if _is_not_given(gpu) else _gpu(gpu)
        grouped[text] = grouped.get(text, 0) + 1
    return [f"{count} x {text}" if count > 1 else text for text, count in grouped.items()]


def _is_not_given(gpu: Gpu) -> bool:
    """Whether nothing is known of it since a control group keeps it from this process."""
    return not gpu.name.known and (gpu.hidden_by.value or "").startswith(CONTROL_GROUP)


def _not_given(snapshot: Snapshot) -> str:
    return f"not given to this {'job' if snapshot.grant.by.known else 'process'}"


def _gpu(gpu: Gpu) -> str:
    parts = [gpu.name.value or "unknown"]
    if gpu.compute_capability.known:
        parts.append(f"compute capability {gpu.compute_capability.value}")
    if gpu.memory_total.value:
        parts.append(f"{gpu.memory_total.value // _MIB} MiB")
    if gpu.mig.value:
        instances = len(gpu.mig_instances)
        parts.append(f"MIG with {counted(instances, 'instance')}" if instances else "in MIG mode")
    return ", ".join(parts)


def was_asked(snapshot: Snapshot, source: str, path: str) -> bool:
    """Whether an absence was seen or told; else nobody knows."""
    return path in snapshot.assumed or snapshot.source(source).state is not SourceState.NOT_ASKED
