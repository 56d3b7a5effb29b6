"""Asks the probing scripts as the program itself does, in an environment of the test's own."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from gpuenv.probe.ask_programs import ask_smi
from gpuenv.probe.ask_target import ask_files as ask_target_files
from gpuenv.probe.ask_target import target_facts
from gpuenv.probe.asking import Asking, run_cuda, run_kernel, run_nvml, run_target
from gpuenv.probe.driver_facts import cuda_facts, kernel_facts, nvml_facts

__all__ = ["ask_smi"]

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuenv.model.snapshot import Source
    from gpuenv.probe.raw import CudaFacts, NvmlFacts
    from gpuenv.probe.raw_kernel import KernelFacts
    from gpuenv.probe.raw_target import FileFacts, TargetFacts

LONG = 20.0  # a deadline that no test may wait for
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def asking(environment: Mapping[str, str] | None = None, root: str = "/", limit: float = LONG) -> Asking:
    """An asking with PATH and locale alone, and what is given besides."""
    return Asking({**MINIMAL, **(environment or {})}, root, time.monotonic() + limit)


def ask_kernel(asked: Asking) -> tuple[KernelFacts, Source]:
    """The kernel's files and the file system."""
    return kernel_facts(run_kernel(asked))


def ask_nvml(asked: Asking) -> tuple[NvmlFacts, Source]:
    """NVML, through nvidia-ml-py."""
    return nvml_facts(run_nvml(asked))


def ask_cuda(asked: Asking) -> tuple[CudaFacts, Source]:
    """Libcuda, as this process would see it."""
    return cuda_facts(run_cuda(asked))


def ask_target(asked: Asking, interpreter: str) -> tuple[TargetFacts, Source]:
    """The target's own interpreter."""
    return target_facts(run_target(asked, interpreter, "interpreter"))


def ask_files(asked: Asking, interpreter: str, *, deep: bool) -> tuple[FileFacts, Source]:
    """The installed files."""
    return ask_target_files(asked, *ask_target(asked, interpreter), deep=deep)


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
