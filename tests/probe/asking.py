"""Asks the probing scripts as the program itself does, in an environment of the test's own."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from gpuenv.probe.ask_driver import ask_smi, cuda_facts, kernel_facts, nvml_facts
from gpuenv.probe.ask_start import how_it_starts as how_target_starts
from gpuenv.probe.ask_target import ask_files as ask_target_files
from gpuenv.probe.ask_target import ask_libraries as ask_target_libraries
from gpuenv.probe.ask_target import target_facts
from gpuenv.probe.children import ChildGroup
from gpuenv.probe.context import ProbeContext, run_cuda, run_kernel, run_nvml, run_target
from tests.probe.raw_facts import CudaFacts, FileFacts, KernelFacts, LibraryFacts, NvmlFacts, TargetFacts

__all__ = ["ask_smi"]

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuenv.model.snapshot import Source
    from gpuenv.probe.raw import Raw

LONG = 20.0  # a deadline that no test may wait for
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def asking(environment: Mapping[str, str] | None = None, root: str = "/", limit: float = LONG) -> ProbeContext:
    """An asking with PATH and locale alone, and what is given besides."""
    return ProbeContext({**MINIMAL, **(environment or {})}, root, time.monotonic() + limit, ChildGroup())


def ask_kernel(asked: ProbeContext) -> tuple[KernelFacts, Source]:
    """The kernel's files and the file system."""
    raw, source = kernel_facts(run_kernel(asked))
    return KernelFacts.of(raw), source


def ask_nvml(asked: ProbeContext) -> tuple[NvmlFacts, Source]:
    """NVML, through nvidia-ml-py."""
    raw, source = nvml_facts(run_nvml(asked))
    return NvmlFacts.of(raw), source


def ask_cuda(asked: ProbeContext) -> tuple[CudaFacts, Source]:
    """Libcuda, as this process would see it."""
    raw, source = cuda_facts(run_cuda(asked))
    return CudaFacts.of(raw), source


def ask_target(asked: ProbeContext, interpreter: str) -> tuple[TargetFacts, Source]:
    """The target's own interpreter."""
    raw, source = target_facts(run_target(asked, interpreter, "interpreter"))
    return TargetFacts.of(raw), source


def ask_libraries(asked: ProbeContext, interpreter: str, target: Raw) -> tuple[LibraryFacts, Source]:
    """The libraries that the target's CuPy would load."""
    raw, source = ask_target_libraries(asked, interpreter, target)
    return LibraryFacts.of(raw), source


def how_it_starts(asked: ProbeContext, interpreter: str, target: Raw, source: Source) -> TargetFacts:
    """What keeps the target's interpreter from answering."""
    return TargetFacts.of(how_target_starts(asked, interpreter, target, source))


def ask_files_of(asked: ProbeContext, target: Raw, source: Source, *, deep: bool) -> tuple[FileFacts, Source]:
    """The installed files of a target that has answered."""
    raw, ended = ask_target_files(asked, target, source, deep=deep)
    return FileFacts.of(raw), ended


def ask_files(asked: ProbeContext, interpreter: str, *, deep: bool) -> tuple[FileFacts, Source]:
    """The installed files."""
    return ask_files_of(asked, *ask_target(asked, interpreter), deep=deep)


def target_of(
    interpreter: Path, environment: Mapping[str, str] | None = None, limit: float = LONG
) -> tuple[TargetFacts, Source]:
    """What an interpreter says of its environment."""
    return ask_target(asking(environment, limit=limit), str(interpreter))


def kernel_of(root: Path, environment: Mapping[str, str] | None = None) -> KernelFacts:
    """What the files below a driver root say; every one of the script's facts must be told."""
    facts, source = ask_kernel(asking(environment, str(root)))
    assert source.state.value == "answered", source.detail
    return facts
