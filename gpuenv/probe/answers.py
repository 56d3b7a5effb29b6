"""The answers of all sources, and of those that gave none, as one set of raw facts, and the Snapshot made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gpuenv.model.snapshot import Snapshot, Source, SourceState
from gpuenv.probe.assemble import assemble
from gpuenv.probe.raw import CudaFacts, NvmlFacts, RawFacts, SmiFacts
from gpuenv.probe.raw_kernel import KernelFacts
from gpuenv.probe.raw_target import FileFacts, LibraryFacts, TargetFacts
from gpuenv.probe.request import Request
from gpuenv.probe.target import named_by

_VARIABLES = (
    "CUDA", "NVIDIA_", "CUPY_", "NVCC", "NUMBA_", "LD_LIBRARY_PATH", "LD_PRELOAD", "CONDA_PREFIX", "VIRTUAL_ENV",
    "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS",
    "SLURM_GPUS_ON_NODE", "SLURM_STEP_NUM_TASKS", "GPU_DEVICE_ORDINAL", "_CONDOR_AssignedGPUs",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
)  # fmt: skip


def snapshot_of(answers: Mapping[str, Any], request: Request, interpreter: str | None, began: float) -> Snapshot:
    """The machine.

    Args:
        answers: by the name of the source, what it was made of; a source that is late is missing.
        request: what was asked.
        interpreter: the target's, if there is one.
        began: reading of ``time.monotonic`` when the asking began.
    """
    raw = _raw(answers, request, interpreter)
    sources = tuple(replace(source, started=max(0.0, source.started - began)) for source in raw.sources)
    return assemble(replace(raw, sources=sources), request.taken_at)


def _raw(answers: Mapping[str, Any], request: Request, interpreter: str | None) -> RawFacts:
    nobody = Source("", SourceState.TIMED_OUT, "no answer in time", request.timeout)

    def answer(name: str, empty: object) -> tuple[Any, Source]:
        given = answers.get(name)
        if given is None:
            return empty, Source(name, nobody.state, nobody.detail, nobody.duration)
        return given[0], given[1]

    kernel, kernel_source = answer("kernel", KernelFacts())
    nvcc, nvcc_source = _nvcc_answer(answers, nobody)
    nvml, nvml_source = answer("nvml", NvmlFacts())
    cuda, cuda_source = answer("libcuda", CudaFacts())
    smi, smi_source = answer("nvidia-smi", SmiFacts())
    target, target_source, libraries, libraries_source = _target_answer(answers, interpreter, nobody)
    files, files_source = _files_answer(answers, interpreter, nobody)
    return RawFacts(
        kernel=kernel,
        nvcc=nvcc,
        nvml=nvml,
        cuda=cuda,
        smi=smi,
        target=target,
        target_path=interpreter,
        target_named_by=named_by(request.python, request.environment),
        target_reason=target_source.detail,
        libraries=libraries,
        files=files,
        environment=relevant(request.environment),
        sources=(
            *(kernel_source, nvcc_source, nvml_source, cuda_source, smi_source),
            *(target_source, libraries_source, files_source),
        ),
    )


def _nvcc_answer(answers: Mapping[str, Any], nobody: Source) -> tuple[dict[str, str], Source]:
    if "kernel" not in answers:
        return {}, Source("nvcc", nobody.state, nobody.detail, nobody.duration)
    told: tuple[dict[str, str], Source] = answers["kernel"][2:]
    return told


def _target_answer(
    answers: Mapping[str, Any], interpreter: str | None, nobody: Source
) -> tuple[TargetFacts, Source, LibraryFacts, Source]:
    not_asked = Source("libraries", SourceState.NOT_ASKED, "the target was not to be asked")
    if interpreter is None:
        return TargetFacts(), Source("target", SourceState.ABSENT, "no Python on PATH"), LibraryFacts(), not_asked
    if "target" not in answers:
        return TargetFacts(), Source("target", nobody.state, nobody.detail, nobody.duration), LibraryFacts(), not_asked
    found: tuple[TargetFacts, Source, LibraryFacts, Source] = answers["target"]
    return found


def _files_answer(answers: Mapping[str, Any], interpreter: str | None, nobody: Source) -> tuple[FileFacts, Source]:
    if interpreter is None:
        return FileFacts(), Source("files", SourceState.NOT_ASKED, "the target was not to be asked")
    found: tuple[FileFacts, Source] | None = answers.get("files")  # none, too, where the target did not tell in time
    return found or (FileFacts(), Source("files", nobody.state, nobody.detail, nobody.duration))


def relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide which GPU, CUDA and Python are used."""
    return {name: environment[name] for name in sorted(environment) if name.startswith(_VARIABLES)}
