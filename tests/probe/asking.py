"""Asks the probing scripts as the program itself does, in an environment of the test's own."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING

from gpuenv.probe.ask_programs import smi_facts
from gpuenv.probe.ask_target import ask_files as ask_target_files
from gpuenv.probe.ask_target import target_facts
from gpuenv.probe.asking import Asking, start_cuda, start_files, start_interpreter, start_kernel, start_nvml, start_smi
from gpuenv.probe.children import ChildResult
from gpuenv.probe.driver_facts import cuda_facts, kernel_facts, nvml_facts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuenv.model.snapshot import Source
    from gpuenv.probe.raw import CudaFacts, NvmlFacts, SmiFacts
    from gpuenv.probe.raw_kernel import KernelFacts
    from gpuenv.probe.raw_target import FileFacts, TargetFacts

LONG = 20.0  # a deadline that no test may wait for
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def asking(environment: Mapping[str, str] | None = None, root: str = "/", limit: float = LONG) -> Asking:
    """An asking with PATH and locale alone, and what is given besides."""
    return Asking({**MINIMAL, **(environment or {})}, root, time.monotonic() + limit)


def ask_kernel(asked: Asking) -> tuple[KernelFacts, Source]:
    """The kernel's files and the file system."""
    return kernel_facts(start_kernel(asked)())


def ask_nvml(asked: Asking) -> tuple[NvmlFacts, Source]:
    """NVML, through nvidia-ml-py."""
    return nvml_facts(start_nvml(asked)())


def ask_cuda(asked: Asking) -> tuple[CudaFacts, Source]:
    """Libcuda, as this process would see it."""
    return cuda_facts(start_cuda(asked)())


def ask_smi(asked: Asking) -> tuple[SmiFacts, Source]:
    """nvidia-smi: its banner, then its list of GPUs."""
    return smi_facts(asked, start_smi(asked))


def ask_target(asked: Asking, interpreter: str) -> tuple[TargetFacts, Source]:
    """The target's own interpreter."""
    talk = start_interpreter(asked, interpreter)
    if isinstance(talk, ChildResult):
        return target_facts(talk)
    with closing(talk):
        return target_facts(talk.first())


def ask_files(asked: Asking, interpreter: str, *, deep: bool) -> tuple[FileFacts, Source]:
    """The installed files."""
    ask = start_files(asked)
    return ask_target_files(ask, *ask_target(asked, interpreter), deep=deep)


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
