"""``take_snapshot``: asks every source side by side and assembles the answers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gpuenv.model.snapshot import Snapshot, Source, SourceState
from gpuenv.probe.ask import ask_cuda, ask_kernel, ask_nvml
from gpuenv.probe.ask_programs import ask_nvcc, ask_smi
from gpuenv.probe.ask_target import ask_files, ask_libraries, ask_target
from gpuenv.probe.asking import Asking
from gpuenv.probe.assemble import assemble
from gpuenv.probe.raw import CudaFacts, KernelFacts, NvmlFacts, RawFacts, SmiFacts
from gpuenv.probe.raw_target import FileFacts, LibraryFacts, TargetFacts
from gpuenv.probe.target import find_interpreter

# The first initialisation on an eight-GPU host without persistence mode takes long.
DEFAULT_TIMEOUT = 30.0
_PATIENCE = 2.0
_LESSER = "nvidia-smi"  # what it says decides nothing that the others have told
_COURTESY = 4.0  # seconds that it is given once they have
_LATE = 0.7  # seconds beyond the deadline in which a killed child is buried

_VARIABLES = (
    "CUDA", "NVIDIA_", "CUPY_", "NVCC", "NUMBA_", "LD_LIBRARY_PATH", "LD_PRELOAD", "CONDA_PREFIX", "VIRTUAL_ENV",
    "PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "SLURM_JOB_ID", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS",
    "SLURM_GPUS_ON_NODE", "SLURM_STEP_NUM_TASKS", "GPU_DEVICE_ORDINAL", "_CONDOR_AssignedGPUs",
    "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
)  # fmt: skip

Announce = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask, and how long.

    Attributes:
        environment: the caller's environment variables.
        python: the target that the caller named; None for the active environment.
        root: the driver root.
        timeout: seconds until every source must have answered.
        taken_at: the time of day to note, ISO 8601.
        deep: also what takes long: the digests of the installed files.
    """

    environment: Mapping[str, str]
    python: str | None = None
    root: str = "/"
    timeout: float = DEFAULT_TIMEOUT
    taken_at: str | None = None
    deep: bool = False


def take_snapshot(request: Request, announce: Announce = lambda _: None) -> Snapshot:
    """Asks the machine and the target, each source in a child of its own, all at the same time.

    Args:
        request: what to ask, and how long.
        announce: told which sources are still awaited, after two seconds.

    Raises:
        TargetError: when the target that the caller named is no environment.
    """
    interpreter = find_interpreter(request.python, request.environment)
    began = time.monotonic()
    asking = Asking(request.environment, request.root, began + request.timeout)
    tasks: dict[str, Callable[[], Any]] = {
        "kernel": lambda: _ask_kernel(asking),
        "nvml": lambda: ask_nvml(asking),
        "libcuda": lambda: ask_cuda(asking),
        "nvidia-smi": lambda: ask_smi(asking),
    }
    if interpreter is not None:
        tasks["target"] = lambda: _ask_environment(asking, interpreter)
        tasks["files"] = lambda: ask_files(asking, interpreter, deep=request.deep)
    answers = _side_by_side(tasks, asking, announce)
    raw = _raw(answers, request, interpreter)
    sources = tuple(replace(source, started=max(0.0, source.started - began)) for source in raw.sources)
    return assemble(replace(raw, sources=sources), request.taken_at)


def _ask_kernel(asking: Asking) -> tuple[KernelFacts, Source, dict[str, str], Source]:
    kernel, source = ask_kernel(asking)
    return kernel, source, *ask_nvcc(asking, kernel)


def _ask_environment(asking: Asking, interpreter: str) -> tuple[TargetFacts, Source, LibraryFacts, Source]:
    target, source = ask_target(asking, interpreter)
    libraries, libraries_source = ask_libraries(asking, interpreter, target)
    return target, source, libraries, libraries_source


def _side_by_side(tasks: Mapping[str, Callable[[], Any]], asking: Asking, announce: Announce) -> dict[str, Any]:
    """Runs each task in a thread; one that is late beyond help is left behind, its answer missing."""
    answers: dict[str, Any] = {}

    def work(name: str, task: Callable[[], Any]) -> None:
        answers[name] = task()

    threads = {name: threading.Thread(target=work, args=(name, task), daemon=True) for name, task in tasks.items()}
    for thread in threads.values():
        thread.start()
    try:
        _join(threads.values(), time.monotonic() + _PATIENCE)
        waiting = [name for name, thread in threads.items() if thread.is_alive()]
        if waiting:
            left = max(0.0, asking.deadline - time.monotonic())
            announce(f"still waiting for {', '.join(waiting)} (at most {left:.0f} s more)")
        _join((thread for name, thread in threads.items() if name != _LESSER), asking.deadline + _LATE)
        _join(threads.values(), min(asking.deadline, time.monotonic() + _COURTESY) + _LATE)
        return dict(answers)
    finally:
        asking.group.close()  # late or interrupted: nothing that was started is left behind


def _join(threads: Iterable[threading.Thread], until: float) -> None:
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))


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
    found: tuple[FileFacts, Source] = answers.get(
        "files", (FileFacts(), Source("files", nobody.state, nobody.detail, nobody.duration))
    )
    return found


def relevant(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide which GPU, CUDA and Python are used."""
    return {name: environment[name] for name in sorted(environment) if name.startswith(_VARIABLES)}
