"""Raw facts to assemble from, and short words for what comes of them."""

from __future__ import annotations

from typing import Any

from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Gpu
from gpuenv.probe.assemble import assemble
from gpuenv.probe.raw import NvmlGpu, RawFacts

MIB = 1024 * 1024
ONE, TWO = "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584", "GPU-48aeb943-9458-4282-da24-e5f49e0db44b"
MIG = ("MIG-fb42055e-9e53-5764-9278-438605a3014c", "MIG-3d4db13e-c42d-5555-98f4-8b50389791bc")


def gpus_of(**sources: Any) -> tuple[Gpu, ...]:  # noqa: ANN401 - fields of RawFacts
    return assemble(RawFacts(**sources), None).gpus


def said(reading: Reading[Any]) -> tuple[str, str | None]:
    return str(reading.value), reading.source


def nvml_gpu(index: int, uuid: str, pci: str, **more: Any) -> NvmlGpu:  # noqa: ANN401 - fields of NvmlGpu
    memory = (143771 * MIB, 143000 * MIB)
    return NvmlGpu(index, uuid, "NVIDIA H200", pci, compute_capability="9.0", memory=memory, **more)
