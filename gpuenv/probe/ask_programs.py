"""Asks programs that are not ours: nvidia-smi and the compilers of toolkits, each in a child of its own."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace

from gpuenv.model.secrets import for_the_driver
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.model.text import pattern
from gpuenv.probe import smi
from gpuenv.probe.asking import Asking
from gpuenv.probe.children import ChildResult, Ending, run_child
from gpuenv.probe.outcome import first_words, source_of, worse
from gpuenv.probe.raw import SmiFacts
from gpuenv.probe.raw_kernel import KernelFacts
from gpuenv.probe.scripts.device_nodes import make_none
from gpuenv.probe.smi_xml import parse_xml

_WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"
_NVCC_COURTESY = 2.0  # seconds for all compilers together: files tell the same, and a sound one answers in 0.1 s
_NVCC_RELEASE = pattern(r"\brelease (\d{1,2}\.\d{1,2})\b")


def ask_nvcc(asking: Asking, kernel: KernelFacts) -> tuple[dict[str, str], Source]:
    """The compiler of each toolkit, for its version; none of another root, whose programs are not for this one."""
    compilers = [kit.path for kit in kernel.toolkits if kit.nvcc] if asking.root.rstrip("/") == "" else []
    if not compilers:
        return {}, Source("nvcc", SourceState.ABSENT, "no toolkit with a compiler")
    deadline = min(asking.deadline, time.monotonic() + _NVCC_COURTESY)
    told: dict[str, str] = {}
    worst = Source("nvcc", SourceState.ANSWERED)
    for path in compilers:
        result = run_child(
            [f"{path}/bin/nvcc", "--version"], for_the_driver(asking.environment), deadline, asking.group
        )
        release = _NVCC_RELEASE.search(result.stdout) if result.exit_code == 0 else None
        if release:
            told[path] = release[1]
        source = _nvcc_source(path, result, answered=release is not None)
        worst = replace(
            source if worst.state is SourceState.ANSWERED else worst, duration=worst.duration + result.duration
        )
    return told, worst


def _nvcc_source(path: str, result: ChildResult, *, answered: bool) -> Source:
    source = source_of("nvcc", result, {}, finished=True)
    program = f"{path}/bin/nvcc"
    if source.state is not SourceState.ANSWERED:
        return replace(source, detail=f"{program}: {source.detail}")
    if not answered:
        return replace(source, state=SourceState.FAILED, detail=f"{program}: no release in what it printed")
    return replace(source, detail=program)


def ask_smi(asking: Asking) -> tuple[SmiFacts, Source]:
    """The banner of nvidia-smi, then its list of GPUs.

    The calling thread can make no device nodes afterwards, nor can its children: without a driver, nvidia-smi would.
    """
    in_wsl = asking.root.rstrip("/") + _WSL_SMI
    path = shutil.which("nvidia-smi", path=asking.environment.get("PATH")) or shutil.which(in_wsl)
    if path is None:
        return SmiFacts(), Source("nvidia-smi", SourceState.ABSENT, "not on PATH")
    make_none()
    banner = run_child([path], for_the_driver(asking.environment), asking.deadline, asking.group)
    driver, cuda = smi.parse_banner(banner.stdout)
    if not _whole(banner):
        complaint = banner.error or first_words(banner.stdout, banner.stderr)
        source = source_of("nvidia-smi", banner, {}, finished=True)
        return SmiFacts(path, driver, cuda, None, complaint), worse(
            source, f"exit code {banner.exit_code}: {complaint}"
        )
    command = [path, "--query-gpu=" + ",".join(smi.QUERY), "--format=csv,noheader,nounits"]
    listing = run_child(command, for_the_driver(asking.environment), asking.deadline, asking.group)
    if _whole(listing):
        detail = path if driver else f"{path}: no driver version in what it printed"
        duration = banner.duration + listing.duration
        facts = SmiFacts(path, driver, cuda, smi.parse_gpus(listing.stdout))
        return facts, Source("nvidia-smi", SourceState.ANSWERED, detail, duration, banner.started)
    facts = SmiFacts(path, driver, cuda, None, first_words(listing.stdout, listing.stderr))
    if listing.ending is not Ending.EXITED:
        return facts, source_of("nvidia-smi", listing, {}, finished=True)
    return _ask_smi_at_length(asking, facts, listing)


def _ask_smi_at_length(asking: Asking, facts: SmiFacts, listing: ChildResult) -> tuple[SmiFacts, Source]:
    """The long answer in XML, where a release refuses the short query."""
    longer = run_child(
        [facts.path or "", "-q", "-x"], for_the_driver(asking.environment), asking.deadline, asking.group
    )
    found = parse_xml(longer.stdout) if _whole(longer) else None
    duration = listing.duration + longer.duration
    if found is None:
        detail = f"exit code {listing.exit_code} to a query: {facts.complaint}"
        return facts, Source("nvidia-smi", SourceState.FAILED, detail, duration, listing.started)
    driver, cuda = facts.driver_version or found.driver_version, facts.cuda or found.cuda
    whole = SmiFacts(facts.path, driver, cuda, found.gpus)
    return whole, Source("nvidia-smi", SourceState.ANSWERED, f"{facts.path}: by its XML", duration, listing.started)


def _whole(result: ChildResult) -> bool:
    """Whether nvidia-smi gave a whole answer, perhaps with a warning."""
    return result.ending is Ending.EXITED and result.exit_code in (0, smi.WARNING_ONLY)
