"""What the children that asked the kernel and the driver's libraries printed, made into typed facts. Pure.

Apart from starting them: a child is started before this module is imported.
"""

from __future__ import annotations

from dataclasses import replace

from gpuenv.model.nvidia import Nvml
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.probe.children import ChildResult
from gpuenv.probe.outcome import each, source_of, typed
from gpuenv.probe.protocol import nested, parse_facts
from gpuenv.probe.raw import CudaDevice, CudaFacts, NvmlFacts, NvmlGpu
from gpuenv.probe.raw_kernel import KernelFacts


def kernel_facts(result: ChildResult) -> tuple[KernelFacts, Source]:
    """What the kernel's child said, and how it ended."""
    facts = parse_facts(result.stdout)
    return typed(KernelFacts, facts), source_of("kernel", result, facts)


def nvml_facts(result: ChildResult) -> tuple[NvmlFacts, Source]:
    """What NVML's child said, and how it ended."""
    facts = parse_facts(result.stdout)
    for whole in nested(facts, "library"):
        facts = {**whole, **facts}
    nvml = replace(typed(NvmlFacts, facts), gpus=each(NvmlGpu, nested(facts, "gpu"), "index"))
    source = source_of("nvml", result, facts, finished="init" in facts and (nvml.init != 0 or "done" in facts))
    if nvml.init == Nvml.LIBRARY_NOT_FOUND and _is_absence(nvml.message):
        return nvml, replace(source, state=SourceState.ABSENT, detail=nvml.message)
    if nvml.init and source.state is SourceState.ANSWERED:
        return nvml, replace(source, state=SourceState.FAILED, detail=f"nvmlInit: {nvml.message} ({nvml.init})")
    return nvml, source


def _is_absence(message: str | None) -> bool:
    """NVML's code is the same for a library that is missing and for one that the loader refuses; its words are not.

    One that is there may need another that is not: glibc names the missing one, musl that and then who needs it.
    """
    if message is None or ".so" not in message:
        return True
    return "No such file" in message and "libnvidia-ml.so.1" in message.partition("(needed by")[0]


def cuda_facts(result: ChildResult) -> tuple[CudaFacts, Source]:
    """What libcuda's child said, and how it ended."""
    facts = parse_facts(result.stdout)
    cuda = replace(typed(CudaFacts, facts), devices=each(CudaDevice, nested(facts, "device"), "ordinal"))
    source = source_of("libcuda", result, facts)
    if cuda.absent is not None:
        return cuda, replace(source, state=SourceState.ABSENT, detail=cuda.absent)
    if cuda.unloadable is not None:
        return cuda, replace(source, state=SourceState.FAILED, detail=cuda.unloadable)
    if cuda.init and source.state is SourceState.ANSWERED:
        named = cuda.init_name or "an error"
        return cuda, replace(source, state=SourceState.FAILED, detail=f"cuInit: {named} ({cuda.init})")
    return cuda, source
