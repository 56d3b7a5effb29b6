"""Probes the kernel, the driver's libraries and its programs: runs programs, and parses the output of all children.

``context.py`` starts the probe scripts, so that they run while this module is imported.
"""

from __future__ import annotations

import shutil
import time
from typing import Any

from gpuenv.model.nvidia import Nvml
from gpuenv.model.secrets import for_the_driver
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.model.strings import pattern
from gpuenv.probe import nvidia_smi
from gpuenv.probe.children import ChildResult, Ending
from gpuenv.probe.context import ProbeContext
from gpuenv.probe.interpreters import run_tool
from gpuenv.probe.protocol import first_lines, nested, parse_facts, source_of
from gpuenv.probe.raw import Raw, SmiFacts
from gpuenv.probe.scripts.shared import forbid_device_nodes, is_absence

_WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"
_NVCC_SECONDS = 2.0  # for all compilers together: files have the same versions, and nvcc takes 0.1 s
_NVCC_RELEASE = pattern(r"\brelease (\d{1,2}\.\d{1,2})\b")


def kernel_facts(result: ChildResult) -> tuple[Raw, Source]:
    """The facts printed by the kernel's child, and how it ended."""
    facts = parse_facts(result.stdout)
    return Raw(facts), source_of("kernel", result, facts)


def nvml_facts(result: ChildResult) -> tuple[Raw, Source]:
    """The facts printed by NVML's child, and how it ended."""
    facts = parse_facts(result.stdout)
    nvml = Raw({**facts, "gpus": _with_number(nested(facts, "gpu"), "index")})
    init, message = nvml.get("init", int), nvml.text("message")
    source = source_of("nvml", result, facts, finished="init" in facts and (init != 0 or "done" in facts))
    # NVML's code is the same for a library that cannot be loaded; some of its messages do not name the library.
    is_missing = message is None or ".so" not in message or is_absence(message, "libnvidia-ml.so.1")
    if init == Nvml.LIBRARY_NOT_FOUND and is_missing:
        return nvml, source._replace(state=SourceState.ABSENT, detail=message)
    if init and source.state is SourceState.ANSWERED:
        return nvml, source._replace(state=SourceState.FAILED, detail=f"nvmlInit: {message} ({init})")
    return nvml, source


def _with_number(entries: list[dict[str, Any]], number: str) -> list[dict[str, Any]]:
    """The entries that have a valid number."""
    return [entry for entry in entries if Raw(entry).get(number, int) is not None]


def cuda_facts(result: ChildResult) -> tuple[Raw, Source]:
    """The facts printed by libcuda's child, and how it ended."""
    facts = parse_facts(result.stdout)
    cuda = Raw({**facts, "devices": _with_number(nested(facts, "device"), "ordinal")})
    source = source_of("libcuda", result, facts)
    absent, unloadable, init = cuda.text("absent"), cuda.text("unloadable"), cuda.get("init", int)
    if absent is not None:
        return cuda, source._replace(state=SourceState.ABSENT, detail=absent)
    if unloadable is not None:
        return cuda, source._replace(state=SourceState.FAILED, detail=unloadable)
    if init and source.state is SourceState.ANSWERED:
        error = cuda.text("init_name") or "an error"
        return cuda, source._replace(state=SourceState.FAILED, detail=f"cuInit: {error} ({init})")
    return cuda, source


def probe_nvcc(ctx: ProbeContext, kernel: Raw) -> tuple[dict[str, str], Source]:
    """Reads the version of each toolkit's compiler; none below another root, whose programs may not run here."""
    compilers = [kit.text("path") for kit in kernel.parts("toolkits") if kit.get("nvcc", bool)]
    if not compilers or ctx.root.rstrip("/"):
        return {}, Source("nvcc", SourceState.ABSENT, "no toolkit with a compiler")
    deadline = min(ctx.deadline, time.monotonic() + _NVCC_SECONDS)
    releases: dict[str, str] = {}
    worst = Source("nvcc", SourceState.ANSWERED)
    for path in filter(None, compilers):
        program = f"{path}/bin/nvcc"
        result = run_tool([program, "--version"], for_the_driver(ctx.environment), deadline, ctx.group)
        release = _NVCC_RELEASE.search(result.stdout) if result.exit_code == 0 else None
        source = source_of("nvcc", result, {}, finished=True)
        detail = program
        if source.state is not SourceState.ANSWERED:
            detail = f"{program}: {source.detail}"
        elif release is None:
            detail = f"{program}: no release in its output"
            source = source._replace(state=SourceState.FAILED)
        if release:
            releases[path] = release[1]
        source = source._replace(detail=detail) if worst.state is SourceState.ANSWERED else worst
        worst = source._replace(duration=worst.duration + result.duration)
    return releases, worst


def probe_smi(ctx: ProbeContext) -> tuple[SmiFacts, Source]:
    """Reads the banner of nvidia-smi, then its list of GPUs.

    Afterwards the calling thread and its children cannot create device nodes; without a driver, nvidia-smi would.
    """
    wsl_path = ctx.root.rstrip("/") + _WSL_SMI
    path = shutil.which("nvidia-smi", path=ctx.environment.get("PATH")) or shutil.which(wsl_path)
    if path is None:
        return SmiFacts(), Source("nvidia-smi", SourceState.ABSENT, "not on PATH")
    forbid_device_nodes()

    def run(*arguments: str) -> ChildResult:
        return run_tool([path, *arguments], for_the_driver(ctx.environment), ctx.deadline, ctx.group)

    banner = run()
    driver, cuda = nvidia_smi.parse_banner(banner.stdout)
    if not _is_complete(banner):
        source = source_of("nvidia-smi", banner, {}, finished=True)
        if banner.ending is Ending.EXITED:
            complaint = first_lines(banner.stdout, banner.stderr)
            source = source._replace(detail=f"exit code {banner.exit_code}: {complaint}")
        return SmiFacts(driver, cuda), source
    listing = run("--query-gpu=" + ",".join(nvidia_smi.QUERY), "--format=csv,noheader,nounits")
    if _is_complete(listing):
        detail = path if driver else f"{path}: no driver version in its output"
        duration = banner.duration + listing.duration
        facts = SmiFacts(driver, cuda, nvidia_smi.parse_gpus(listing.stdout))
        return facts, Source("nvidia-smi", SourceState.ANSWERED, detail, duration, banner.started)
    facts = SmiFacts(driver, cuda)
    if listing.ending is not Ending.EXITED:
        return facts, source_of("nvidia-smi", listing, {}, finished=True)
    # Releases that reject the query still print the long XML.
    from gpuenv.probe.nvidia_smi_xml import parse_xml  # noqa: PLC0415 - few releases need it

    xml = run("-q", "-x")
    found = parse_xml(xml.stdout) if _is_complete(xml) else None
    complaint = first_lines(listing.stdout, listing.stderr)
    state, detail = SourceState.FAILED, f"exit code {listing.exit_code} on a query: {complaint}"
    if found is not None:
        facts = SmiFacts(driver or found.driver_version, cuda or found.cuda, found.gpus)
        state, detail = SourceState.ANSWERED, f"{path}: from its XML"
    return facts, Source("nvidia-smi", state, detail, listing.duration + xml.duration, listing.started)


def _is_complete(result: ChildResult) -> bool:
    """Whether nvidia-smi succeeded, perhaps with a warning."""
    return result.ending is Ending.EXITED and result.exit_code in (0, nvidia_smi.WARNING_ONLY)
