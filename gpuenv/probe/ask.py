"""Asks each source in a child of its own and turns what it printed into typed facts."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, TypeVar

from gpuenv.model.codec import DecodeError, decode
from gpuenv.model.codes import Nvml
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.probe import smi
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, run_child
from gpuenv.probe.protocol import nested, parse_facts
from gpuenv.probe.raw import CudaDevice, CudaFacts, KernelFacts, NvmlFacts, NvmlGpu, SmiFacts
from gpuenv.probe.smi_xml import parse_xml

F = TypeVar("F")

_TELL_START = ("nvml", "libcuda")
_NVCC_COURTESY = 2.0  # seconds for all compilers together: files tell the same, and a sound one answers in 0.1 s
_NVCC_RELEASE = re.compile(r"\brelease (\d{1,2}\.\d{1,2})\b")
_WSL_SMI = "/usr/lib/wsl/lib/nvidia-smi"


@dataclass(frozen=True, slots=True)
class Asking:
    """What every asking needs: the caller's environment, the driver root and the time by which to answer.

    Attributes:
        environment: the caller's environment variables, handed to every child as they are.
        root: folder under which ``/proc``, ``/sys``, ``/dev`` and the toolkits are looked for.
        deadline: reading of ``time.monotonic``.
        group: the children that are ended when nobody waits for them any longer.
    """

    environment: Mapping[str, str]
    root: str
    deadline: float
    group: ChildGroup = field(default_factory=ChildGroup)


def script(name: str) -> str:
    """The path of a probing script."""
    # Not importlib.resources: it costs 60 ms at start, and an interpreter needs a real file in any case.
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "scripts", name)  # noqa: PTH100, PTH118, PTH120


def ask_kernel(asking: Asking) -> tuple[KernelFacts, Source]:
    """The kernel's files and the file system."""
    result = _own(asking, "kernel.py", asking.root)
    facts = parse_facts(result.stdout)
    return _typed(KernelFacts, facts), _source("kernel", result, facts)


def ask_nvcc(asking: Asking, kernel: KernelFacts) -> tuple[dict[str, str], Source]:
    """The compiler of each toolkit, for its version; none of another root, whose programs are not for this one."""
    compilers = [kit.path for kit in kernel.toolkits if kit.nvcc] if asking.root.rstrip("/") == "" else []
    if not compilers:
        return {}, Source("nvcc", SourceState.ABSENT, "no toolkit with a compiler")
    deadline = min(asking.deadline, time.monotonic() + _NVCC_COURTESY)
    told: dict[str, str] = {}
    worst = Source("nvcc", SourceState.ANSWERED)
    for path in compilers:
        result = run_child([f"{path}/bin/nvcc", "--version"], asking.environment, deadline, asking.group)
        release = _NVCC_RELEASE.search(result.stdout) if result.exit_code == 0 else None
        if release:
            told[path] = release[1]
        source = _nvcc_source(path, result, answered=release is not None)
        worst = replace(
            source if worst.state is SourceState.ANSWERED else worst, duration=worst.duration + result.duration
        )
    return told, worst


def _nvcc_source(path: str, result: ChildResult, *, answered: bool) -> Source:
    source = _source("nvcc", result, {}, finished=True)
    program = f"{path}/bin/nvcc"
    if source.state is not SourceState.ANSWERED:
        return replace(source, detail=f"{program}: {source.detail}")
    if not answered:
        return replace(source, state=SourceState.FAILED, detail=f"{program}: no release in what it printed")
    return replace(source, detail=program)


def ask_nvml(asking: Asking) -> tuple[NvmlFacts, Source]:
    """NVML, through nvidia-ml-py."""
    result = _own(asking, "nvml.py", _folder_of("pynvml"))
    facts = parse_facts(result.stdout)
    for whole in nested(facts, "library"):
        facts = {**whole, **facts}
    nvml = replace(_typed(NvmlFacts, facts), gpus=_each(NvmlGpu, nested(facts, "gpu"), "index"))
    source = _source("nvml", result, facts, finished="init" in facts and (nvml.init != 0 or "done" in facts))
    if nvml.init == Nvml.LIBRARY_NOT_FOUND:
        return nvml, replace(source, state=SourceState.ABSENT, detail=nvml.message)
    if nvml.init and source.state is SourceState.ANSWERED:
        return nvml, replace(source, state=SourceState.FAILED, detail=f"nvmlInit: {nvml.message} ({nvml.init})")
    return nvml, source


def ask_cuda(asking: Asking) -> tuple[CudaFacts, Source]:
    """Libcuda, as this process would see it."""
    result = _own(asking, "cuda.py")
    facts = parse_facts(result.stdout)
    cuda = replace(_typed(CudaFacts, facts), devices=_each(CudaDevice, nested(facts, "device"), "ordinal"))
    source = _source("libcuda", result, facts)
    if cuda.absent is not None:
        return cuda, replace(source, state=SourceState.ABSENT, detail=cuda.absent)
    if cuda.unloadable is not None:
        return cuda, replace(source, state=SourceState.FAILED, detail=cuda.unloadable)
    if cuda.init and source.state is SourceState.ANSWERED:
        named = cuda.init_name or "an error"
        return cuda, replace(source, state=SourceState.FAILED, detail=f"cuInit: {named} ({cuda.init})")
    return cuda, source


def ask_smi(asking: Asking) -> tuple[SmiFacts, Source]:
    """nvidia-smi, the last to be believed: its banner, then its list of GPUs."""
    path = shutil.which("nvidia-smi", path=asking.environment.get("PATH")) or shutil.which(_WSL_SMI)
    if path is None:
        return SmiFacts(), Source("nvidia-smi", SourceState.ABSENT, "not on PATH")
    banner = run_child([path], asking.environment, asking.deadline, asking.group)
    driver, cuda = smi.parse_banner(banner.stdout)
    if not _whole(banner):
        complaint = banner.error or first_words(banner.stdout, banner.stderr)
        source = _source("nvidia-smi", banner, {}, finished=True)
        return SmiFacts(path, driver, cuda, None, complaint), _worse(
            source, f"exit code {banner.exit_code}: {complaint}"
        )
    command = [path, "--query-gpu=" + ",".join(smi.QUERY), "--format=csv,noheader,nounits"]
    listing = run_child(command, asking.environment, asking.deadline, asking.group)
    if _whole(listing):
        detail = path if driver else f"{path}: no driver version in what it printed"
        duration = banner.duration + listing.duration
        facts = SmiFacts(path, driver, cuda, smi.parse_gpus(listing.stdout))
        return facts, Source("nvidia-smi", SourceState.ANSWERED, detail, duration, banner.started)
    facts = SmiFacts(path, driver, cuda, None, first_words(listing.stdout, listing.stderr))
    if listing.ending is not Ending.EXITED:
        return facts, _source("nvidia-smi", listing, {}, finished=True)
    return _ask_smi_at_length(asking, facts, listing)


def _ask_smi_at_length(asking: Asking, facts: SmiFacts, listing: ChildResult) -> tuple[SmiFacts, Source]:
    """The long answer in XML, where a release refuses the short query."""
    longer = run_child([facts.path or "", "-q", "-x"], asking.environment, asking.deadline, asking.group)
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


def _own(asking: Asking, name: str, *arguments: str) -> ChildResult:
    """Runs a script under gpuenv's own interpreter, apart from PYTHONPATH: that is the target's affair."""
    # The scripts import each other: without -B they are compiled once, unless this process was told to write nothing.
    flags = ["-I", "-B"] if sys.dont_write_bytecode else ["-I"]
    command = [sys.executable, *flags, script(name), *arguments]
    return run_child(command, asking.environment, asking.deadline, asking.group)


def _folder_of(module: str) -> str:
    """Where a module of ours lies: a child kept apart from PYTHONPATH and the user site may not find it."""
    spec = find_spec(module)
    return os.path.dirname(spec.origin) if spec and spec.origin else ""  # noqa: PTH120 - for start-up


def _typed(kind: type[F], facts: dict[str, Any], number: str = "") -> F:
    """The facts that have the record's form; a source that answers rubbish for one keeps the others."""
    try:
        return decode(kind, facts)
    except DecodeError:
        needed = {number: facts[number]} if number else {}
        good = {key: value for key, value in facts.items() if _decodes(kind, {**needed, key: value})}
        return decode(kind, good)


def _each(kind: type[F], entries: list[dict[str, Any]], number: str) -> tuple[F, ...]:
    """A record an entry, of those that tell their number."""
    return tuple(_typed(kind, entry, number) for entry in entries if isinstance(entry.get(number), int))


def _decodes(kind: type[Any], facts: dict[str, Any]) -> bool:
    try:
        decode(kind, facts)
    except DecodeError:
        return False
    return True


def _source(name: str, result: ChildResult, facts: Mapping[str, object], *, finished: bool | None = None) -> Source:
    """How the asking ended; ``started`` is still a reading of ``time.monotonic``."""
    finished = "done" in facts if finished is None else finished
    state, detail = _ending(name, result, facts, finished=finished)
    return Source(name, state, detail, result.duration, result.started)


def _ending(
    name: str, result: ChildResult, facts: Mapping[str, object], *, finished: bool
) -> tuple[SourceState, str | None]:
    if result.ending is Ending.TIMED_OUT and name in _TELL_START and "started" not in facts:
        return SourceState.NOT_ASKED, "the time was too short even to start asking"
    if result.ending is Ending.TIMED_OUT:
        return SourceState.TIMED_OUT, f"no answer within {result.duration:.1f} s{_call(facts, 'from')}"
    if result.ending is Ending.CRASHED:
        return SourceState.CRASHED, f"ended by {result.signal_name}{_call(facts, 'in')}"
    if result.ending is Ending.NOT_STARTED:
        return SourceState.FAILED, f"could not be started: {result.error}"
    if result.exit_code != 0 or not finished:
        return SourceState.FAILED, f"exit code {result.exit_code}: {_last_line(result.stderr)}"
    return SourceState.ANSWERED, None


def _call(facts: Mapping[str, object], word: str) -> str:
    """The call in hand, where the script tells it."""
    return f" {word} {facts['asking']}" if "asking" in facts and "done" not in facts else ""


def _worse(source: Source, detail: str) -> Source:
    """A failed asking with a better word on why; a timeout or a crash keeps its own."""
    if source.state in (SourceState.TIMED_OUT, SourceState.CRASHED):
        return source
    return replace(source, state=SourceState.FAILED, detail=detail)


def _last_line(text: str) -> str:
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def first_words(stdout: str, stderr: str) -> str:
    """The first lines that say why a program failed."""
    lines = [line.strip() for line in (stdout + "\n" + stderr).splitlines() if line.strip()]
    return " ".join(lines[:2])[:300] or "it said nothing"
