"""What each source said of the GPUs, put together GPU by GPU: by UUID, else by PCI address. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from gpuenv.model.nvidia import Cuda, Nvml, pci_key, uuid_key
from gpuenv.model.reading import Answer, Reading, known, missing, settle
from gpuenv.model.snapshot import Gpu, MigInstance
from gpuenv.model.text import pattern
from gpuenv.model.versions import ComputeCapability
from gpuenv.probe.assemble_health import (
    compute_mode,
    health,
    pcie,
    persistence,
    processes,
    told,
    virtualization,
    why_not,
)
from gpuenv.probe.assemble_links import architecture, fabric, nvlink_count, nvlinks, peers, users
from gpuenv.probe.brand import brand
from gpuenv.probe.hidden import hidden_by
from gpuenv.probe.parse import NO_SOURCE, parsed, said
from gpuenv.probe.raw import CudaDevice, NvmlGpu, RawFacts, SmiGpu
from gpuenv.probe.raw_kernel import DriverGpu

_MIG_NAME = pattern(r" MIG \d+g\.\d+gb")
_MIG_MODE = "nvmlDeviceGetMigMode"
_TOTAL_AND_FREE = 2
_HIDDEN = "this process does not see the GPU"
T = TypeVar("T")


class _Identified(Protocol):
    @property
    def uuid(self) -> str | None: ...
    @property
    def pci(self) -> str | None: ...


E = TypeVar("E", bound=_Identified)


def assemble_gpus(raw: RawFacts) -> tuple[Gpu, ...]:
    """One record a GPU, in the order of the first that lists any: NVML, libcuda, the kernel module, nvidia-smi."""
    listings: Sequence[Sequence[_Identified]] = (
        raw.nvml.gpus,
        raw.cuda.devices,
        raw.kernel.driver_gpus,
        raw.smi.gpus or (),
    )
    first = next((listing for listing in listings if listing), ())
    return tuple(_gpu(raw, entry) for entry in _one_a_gpu(first))


def _one_a_gpu(entries: Sequence[_Identified]) -> list[_Identified]:
    """MIG instances of one GPU are several CUDA devices at one PCI address."""
    seen: set[str] = set()
    kept = []
    for entry in entries:
        key = pci_key(entry.pci)
        if key is None or key not in seen:
            kept.append(entry)
        if key:
            seen.add(key)
    return kept


def _gpu(raw: RawFacts, entry: _Identified) -> Gpu:
    nvml = _same(entry, raw.nvml.gpus)
    cuda = _same(entry, raw.cuda.devices)
    kernel = _same(entry, raw.kernel.driver_gpus) or _left_over(entry, raw)
    smi = _same(entry, raw.smi.gpus or ())
    mig = _mig(nvml)
    # In MIG mode libcuda describes an instance, not the GPU.
    whole = None if mig.value or (cuda and _MIG_NAME.search(cuda.name or "")) else cuda
    total, free = nvml.memory if nvml and nvml.memory and len(nvml.memory) == _TOTAL_AND_FREE else (None, None)
    failed = nvml.failures.get("nvmlDeviceGetHandleByIndex") if nvml and not _refused(nvml) else None
    return Gpu(
        index=_reading(said("nvml", nvml.index if nvml else None), said("nvidia-smi", smi.index if smi else None)),
        ordinal=known(cuda.ordinal, "libcuda") if cuda else missing(_HIDDEN),
        hidden_by=hidden_by(raw, nvml, cuda),
        uuid=_reading(*_texts("uuid", nvml, whole, kernel, smi)),
        pci=_reading(*_texts("pci", nvml, cuda, kernel, smi)),
        name=_reading(*_texts("name", nvml, whole, kernel, smi)),
        compute_capability=_capability(nvml, cuda, smi),
        architecture=architecture(nvml, cuda),
        brand=brand(nvml),
        memory_total=_memory_total(nvml, whole, smi, total),
        memory_free=told(nvml, "nvmlDeviceGetMemoryInfo", free),
        mig=mig,
        mig_instances=tuple(MigInstance(i.uuid, i.name, i.memory_total) for i in nvml.mig_instances) if nvml else (),
        fault=missing("NVML opened the GPU") if failed is None else known(failed, "nvml"),
        compute_mode=compute_mode(nvml),
        persistence=persistence(nvml),
        processes=processes(nvml),
        users=users(nvml),
        virtualization=virtualization(nvml),
        health=health(nvml),
        pcie=pcie(nvml),
        nvlinks=nvlinks(nvml),
        nvlink_count=nvlink_count(nvml),
        fabric=fabric(nvml),
        peers=peers(nvml),
    )


def _capability(nvml: NvmlGpu | None, cuda: CudaDevice | None, smi: SmiGpu | None) -> Reading[ComputeCapability]:
    given = (("nvml", nvml), ("libcuda", cuda), ("nvidia-smi", smi))
    answers = [parsed(ComputeCapability.parse, gpu.compute_capability, source) for source, gpu in given if gpu]
    return settle(answers, "neither NVML nor libcuda told")


def _memory_total(
    nvml: NvmlGpu | None, cuda: CudaDevice | None, smi: SmiGpu | None, by_nvml: int | None
) -> Reading[int]:
    answers = [
        said("nvml", by_nvml),
        said("libcuda", cuda.memory_total if cuda else None),
        said("nvidia-smi", smi.memory_total if smi else None),
    ]
    return settle(answers, why_not(nvml, "nvmlDeviceGetMemoryInfo"))


def _mig(nvml: NvmlGpu | None) -> Reading[bool]:
    if nvml and nvml.mig is None and nvml.failures.get(_MIG_MODE) in (Nvml.NOT_SUPPORTED, Nvml.FUNCTION_NOT_FOUND):
        return missing("the GPU or its driver has no MIG mode")
    return told(nvml, _MIG_MODE, nvml.mig if nvml else None)


def _same(entry: _Identified, others: Sequence[E]) -> E | None:
    """The same GPU in another source's list."""
    for other in others:
        if other is entry:
            return other
    uuid, pci = uuid_key(entry.uuid), pci_key(entry.pci)
    for other in others:
        if (uuid and uuid_key(other.uuid) == uuid) or (pci and pci_key(other.pci) == pci):
            return other
    return None


def _left_over(entry: _Identified, raw: RawFacts) -> DriverGpu | None:
    """A GPU that NVML lists and cannot open has no identity there; the kernel knows it, if it is the only one left."""
    if entry.uuid or entry.pci:
        return None
    left = [gpu for gpu in raw.kernel.driver_gpus if _same(gpu, raw.nvml.gpus) is None]
    return left[0] if len(left) == 1 else None


def _texts(
    field: str, nvml: NvmlGpu | None, cuda: CudaDevice | None, kernel: DriverGpu | None, smi: SmiGpu | None
) -> list[Answer[str] | None]:
    named = (("nvml", nvml), ("libcuda", cuda), ("/proc/driver/nvidia/gpus", kernel), ("nvidia-smi", smi))
    return [said(source, _normal(field, getattr(entry, field))) for source, entry in named if entry is not None]


def _normal(field: str, text: str | None) -> str | None:
    """One spelling for what each source spells its own way."""
    if text is None:
        return None
    if field == "pci":
        return pci_key(text) or text
    if field == "uuid" and not text.startswith(("GPU-", "MIG-")):
        return f"GPU-{text}"
    return text


def _reading(*answers: Answer[T] | None) -> Reading[T]:
    return settle(answers, NO_SOURCE)


def count_gpus(raw: RawFacts) -> Reading[int]:
    """How many GPUs the driver has for this process, as each source counts them."""
    kernel = len(raw.kernel.driver_gpus) if raw.kernel.driver_gpus else None
    listed = len(raw.smi.gpus) if raw.smi.gpus is not None else None
    own = None if raw.nvml.count is None else raw.nvml.count - sum(_refused(gpu) for gpu in raw.nvml.gpus)
    return settle(
        [said("nvml", own), said("/proc/driver/nvidia/gpus", kernel), said("nvidia-smi", listed)],
        _why_not_counted(raw),
    )


def _why_not_counted(raw: RawFacts) -> str:
    name = "nvmlDeviceGetCount"
    if name in raw.nvml.remarks:
        return f"{name} {raw.nvml.remarks[name]}"
    return f"{name} answered with return code {raw.nvml.failures[name]}" if name in raw.nvml.failures else NO_SOURCE


def _refused(gpu: NvmlGpu) -> bool:
    """Whether NVML counts a GPU that this process may not use, under a job's control group, say."""
    return gpu.failures.get("nvmlDeviceGetHandleByIndex") == Nvml.NO_PERMISSION


def count_visible(raw: RawFacts) -> Reading[int]:
    """How many CUDA devices this process sees."""
    if raw.cuda.count is not None:
        return known(raw.cuda.count, "libcuda")
    if raw.cuda.init == Cuda.NO_DEVICE:
        return known(0, "libcuda")
    return missing(raw.cuda.absent or raw.cuda.init_name or "libcuda did not tell")
