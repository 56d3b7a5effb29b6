"""Asks the kernel and the driver's libraries, each in a child of its own, and makes typed facts of what it printed."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.model.codes import Nvml
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.probe.asking import Asking, folder_of, run_own
from gpuenv.probe.outcome import each, source_of, typed
from gpuenv.probe.protocol import nested, parse_facts
from gpuenv.probe.raw import CudaDevice, CudaFacts, KernelFacts, NvmlFacts, NvmlGpu


def ask_kernel(asking: Asking) -> tuple[KernelFacts, Source]:
    """The kernel's files and the file system."""
    result = run_own(asking, "kernel.py", asking.root)
    facts = parse_facts(result.stdout)
    return typed(KernelFacts, facts), source_of("kernel", result, facts)


def ask_nvml(asking: Asking) -> tuple[NvmlFacts, Source]:
    """NVML, through nvidia-ml-py."""
    result = run_own(asking, "nvml.py", folder_of("pynvml"))
    facts = parse_facts(result.stdout)
    for whole in nested(facts, "library"):
        facts = {**whole, **facts}
    nvml = replace(typed(NvmlFacts, facts), gpus=each(NvmlGpu, nested(facts, "gpu"), "index"))
    source = source_of("nvml", result, facts, finished="init" in facts and (nvml.init != 0 or "done" in facts))
    if nvml.init == Nvml.LIBRARY_NOT_FOUND:
        return nvml, replace(source, state=SourceState.ABSENT, detail=nvml.message)
    if nvml.init and source.state is SourceState.ANSWERED:
        return nvml, replace(source, state=SourceState.FAILED, detail=f"nvmlInit: {nvml.message} ({nvml.init})")
    return nvml, source


def ask_cuda(asking: Asking) -> tuple[CudaFacts, Source]:
    """Libcuda, as this process would see it."""
    result = run_own(asking, "cuda.py")
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
