"""Asks the kernel, the driver's libraries and its programs, each in a child of its own.

Apart from starting our scripts: a child is started before this module is imported.
"""

from __future__ import annotations

import shutil
import time
from typing import Any

from gpuenv.model.nvidia import Nvml
from gpuenv.model.secrets import for_the_driver
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.model.strings import pattern
from gpuenv.probe import smi
from gpuenv.probe.children import ChildResult, Ending, run_child
from gpuenv.probe.context import ProbeContext
from gpuenv.probe.protocol import first_words, nested, parse_facts, source_of, worse
from gpuenv.probe.raw import Raw, SmiFacts
from gpuenv.probe.scripts.shared import make_none

_WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"
_NVCC_COURTESY = 2.0  # seconds for all compilers together: files tell the same, and a sound one answers in 0.1 s
_NVCC_RELEASE = pattern(r"\brelease (\d{1,2}\.\d{1,2})\b")


def kernel_facts(result: ChildResult) -> tuple[Raw, Source]:
    """The facts that the kernel's child printed, and how it ended."""
    facts = parse_facts(result.stdout)
    return Raw(facts), source_of("kernel", result, facts)


def nvml_facts(result: ChildResult) -> tuple[Raw, Source]:
    """The facts that NVML's child printed, and how it ended."""
    facts = parse_facts(result.stdout)
    nvml = Raw({**facts, "gpus": _with_number(nested(facts, "gpu"), "index")})
    init, message = nvml.get("init", int), nvml.text("message")
    source = source_of("nvml", result, facts, finished="init" in facts and (init != 0 or "done" in facts))
    if init == Nvml.LIBRARY_NOT_FOUND and _is_absence(message):
        return nvml, source._replace(state=SourceState.ABSENT, detail=message)
    if init and source.state is SourceState.ANSWERED:
        return nvml, source._replace(state=SourceState.FAILED, detail=f"nvmlInit: {message} ({init})")
    return nvml, source


def _with_number(entries: list[dict[str, Any]], number: str) -> list[dict[str, Any]]:
    """The GPUs that tell their number."""
    return [entry for entry in entries if Raw(entry).get(number, int) is not None]


def _is_absence(message: str | None) -> bool:
    """NVML's code is the same for a library that is missing and for one that the loader refuses; its words are not.

    One that is there may need another that is not: glibc names the missing one, musl that and then who needs it.
    """
    if message is None or ".so" not in message:
        return True
    return "No such file" in message and "libnvidia-ml.so.1" in message.partition("(needed by")[0]


def cuda_facts(result: ChildResult) -> tuple[Raw, Source]:
    """The facts that libcuda's child printed, and how it ended."""
    facts = parse_facts(result.stdout)
    cuda = Raw({**facts, "devices": _with_number(nested(facts, "device"), "ordinal")})
    source = source_of("libcuda", result, facts)
    absent, unloadable, init = cuda.text("absent"), cuda.text("unloadable"), cuda.get("init", int)
    if absent is not None:
        return cuda, source._replace(state=SourceState.ABSENT, detail=absent)
    if unloadable is not None:
        return cuda, source._replace(state=SourceState.FAILED, detail=unloadable)
    if init and source.state is SourceState.ANSWERED:
        named = cuda.text("init_name") or "an error"
        return cuda, source._replace(state=SourceState.FAILED, detail=f"cuInit: {named} ({init})")
    return cuda, source


def ask_nvcc(ctx: ProbeContext, kernel: Raw) -> tuple[dict[str, str], Source]:
    """The compiler of each toolkit, for its version; none of another root, whose programs are not for this one."""
    compilers = [kit.text("path") for kit in kernel.parts("toolkits") if kit.get("nvcc", bool)]
    if not compilers or ctx.root.rstrip("/"):
        return {}, Source("nvcc", SourceState.ABSENT, "no toolkit with a compiler")
    deadline = min(ctx.deadline, time.monotonic() + _NVCC_COURTESY)
    releases: dict[str, str] = {}
    worst = Source("nvcc", SourceState.ANSWERED)
    for path in filter(None, compilers):
        program = f"{path}/bin/nvcc"
        result = run_child([program, "--version"], for_the_driver(ctx.environment), deadline, ctx.group)
        release = _NVCC_RELEASE.search(result.stdout) if result.exit_code == 0 else None
        source = source_of("nvcc", result, {}, finished=True)
        detail = program
        if source.state is not SourceState.ANSWERED:
            detail = f"{program}: {source.detail}"
        elif release is None:
            detail = f"{program}: no release in what it printed"
            source = source._replace(state=SourceState.FAILED)
        if release:
            releases[path] = release[1]
        source = source._replace(detail=detail) if worst.state is SourceState.ANSWERED else worst
        worst = source._replace(duration=worst.duration + result.duration)
    return releases, worst


def ask_smi(ctx: ProbeContext) -> tuple[SmiFacts, Source]:
    """The banner of nvidia-smi, then its list of GPUs.

    The calling thread can make no device nodes afterwards, nor can its children: without a driver, nvidia-smi would.
    """
    in_wsl = ctx.root.rstrip("/") + _WSL_SMI
    path = shutil.which("nvidia-smi", path=ctx.environment.get("PATH")) or shutil.which(in_wsl)
    if path is None:
        return SmiFacts(), Source("nvidia-smi", SourceState.ABSENT, "not on PATH")
    make_none()

    def run(*arguments: str) -> ChildResult:
        return run_child([path, *arguments], for_the_driver(ctx.environment), ctx.deadline, ctx.group)

    banner = run()
    driver, cuda = smi.parse_banner(banner.stdout)
    if not _whole(banner):
        complaint = banner.error or first_words(banner.stdout, banner.stderr)
        source = source_of("nvidia-smi", banner, {}, finished=True)
        facts = SmiFacts(path, driver, cuda, None, complaint)
        return facts, worse(source, f"exit code {banner.exit_code}: {complaint}")
    listing = run("--query-gpu=" + ",".join(smi.QUERY), "--format=csv,noheader,nounits")
    if _whole(listing):
        detail = path if driver else f"{path}: no driver version in what it printed"
        duration = banner.duration + listing.duration
        facts = SmiFacts(path, driver, cuda, smi.parse_gpus(listing.stdout))
        return facts, Source("nvidia-smi", SourceState.ANSWERED, detail, duration, banner.started)
    complaint = first_words(listing.stdout, listing.stderr)
    facts = SmiFacts(path, driver, cuda, None, complaint)
    if listing.ending is not Ending.EXITED:
        return facts, source_of("nvidia-smi", listing, {}, finished=True)
    # A release that refuses the short query gives the long answer in XML.
    from gpuenv.probe.smi_xml import parse_xml  # noqa: PLC0415 - few releases need it

    longer = run("-q", "-x")
    found = parse_xml(longer.stdout) if _whole(longer) else None
    state, detail = SourceState.FAILED, f"exit code {listing.exit_code} to a query: {complaint}"
    if found is not None:
        facts = SmiFacts(path, driver or found.driver_version, cuda or found.cuda, found.gpus)
        state, detail = SourceState.ANSWERED, f"{path}: by its XML"
    return facts, Source("nvidia-smi", state, detail, listing.duration + longer.duration, listing.started)


def _whole(result: ChildResult) -> bool:
    """Whether nvidia-smi gave a whole answer, perhaps with a warning."""
    return result.ending is Ending.EXITED and result.exit_code in (0, smi.WARNING_ONLY)
