"""Runs of the probe scripts as in the program, with only the given variables."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from gpuenv.probe import driver_probes
from gpuenv.probe.children import ChildGroup
from gpuenv.probe.context import ProbeContext, run_nvml, run_script, run_target, working_folder
from gpuenv.probe.driver_probes import cuda_facts, kernel_facts, nvml_facts
from gpuenv.probe.startup_failure import diagnose_startup
from gpuenv.probe.target_probes import probe_files as probe_target_files
from gpuenv.probe.target_probes import probe_libraries as probe_target_libraries
from gpuenv.probe.target_probes import target_facts
from tests.probe.raw_facts import CudaFacts, FileFacts, KernelFacts, LibraryFacts, NvmlFacts, TargetFacts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from gpuenv.model.snapshot import Source
    from gpuenv.probe.raw import Raw, SmiFacts

LONG = 20.0  # a deadline that no test may reach
MINIMAL = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def probe_context(environment: Mapping[str, str] | None = None, root: str = "/", limit: float = LONG) -> ProbeContext:
    """A context with only PATH, the locale and the given variables."""
    return ProbeContext({**MINIMAL, **(environment or {})}, root, time.monotonic() + limit, ChildGroup())


def probe_kernel(ctx: ProbeContext) -> tuple[KernelFacts, Source]:
    """The kernel's files and the file system."""
    raw, source = kernel_facts(run_script(ctx, "kernel", ctx.root))
    return KernelFacts.of(raw), source


def probe_nvml(ctx: ProbeContext) -> tuple[NvmlFacts, Source]:
    """NVML, through nvidia-ml-py."""
    raw, source = nvml_facts(run_nvml(ctx))
    return NvmlFacts.of(raw), source


def probe_cuda(ctx: ProbeContext) -> tuple[CudaFacts, Source]:
    """Libcuda, as this process would see it."""
    raw, source = cuda_facts(run_script(ctx, "cuda"))
    return CudaFacts.of(raw), source


def probe_target(ctx: ProbeContext, interpreter: str) -> tuple[TargetFacts, Source]:
    """The target's interpreter."""
    raw, source = target_facts(run_target(ctx, interpreter, "interpreter", *working_folder(ctx.environment)))
    return TargetFacts.of(raw), source


def probe_libraries(ctx: ProbeContext, interpreter: str, target: Raw) -> tuple[LibraryFacts, Source]:
    """The libraries that the target's CuPy would load."""
    raw, source = probe_target_libraries(ctx, interpreter, target)
    return LibraryFacts.of(raw), source


def probe_startup(ctx: ProbeContext, interpreter: str, target: Raw, source: Source) -> TargetFacts:
    """The diagnosis of an interpreter that does not start."""
    return TargetFacts.of(diagnose_startup(ctx, interpreter, target, source))


def probe_files_of(ctx: ProbeContext, target: Raw, source: Source, *, deep: bool) -> tuple[FileFacts, Source]:
    """The installed files of a target that has answered."""
    raw, ended = probe_target_files(ctx, target, source, deep=deep)
    return FileFacts.of(raw), ended


def probe_files(ctx: ProbeContext, interpreter: str, *, deep: bool) -> tuple[FileFacts, Source]:
    """The installed files."""
    return probe_files_of(ctx, *probe_target(ctx, interpreter), deep=deep)


def target_of(
    interpreter: Path, environment: Mapping[str, str] | None = None, limit: float = LONG
) -> tuple[TargetFacts, Source]:
    """The facts that an interpreter reports on its environment."""
    return probe_target(probe_context(environment, limit=limit), str(interpreter))


def kernel_of(root: Path, environment: Mapping[str, str] | None = None) -> KernelFacts:
    """The facts of the kernel script below a driver root; none may be missing."""
    facts, source = probe_kernel(probe_context(environment, str(root)))
    assert source.state.value == "answered", source.detail
    return facts


def probe_smi(ctx: ProbeContext) -> tuple[SmiFacts, Source]:
    """Probes nvidia-smi in a thread, since the thread then loses the permission to create device nodes."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(driver_probes.probe_smi, ctx).result()
