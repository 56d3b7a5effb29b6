"""Asks each source in a child of its own and turns what it printed into typed facts."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any, TypeVar

from packaging.version import InvalidVersion, Version

from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.codes import Nvml
from gpuenv.model.lines import cuda_major_of, is_cupy
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.probe import smi
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, run_child
from gpuenv.probe.cuda_libraries import WANTED
from gpuenv.probe.protocol import numbered, parse_facts
from gpuenv.probe.raw import CudaFacts, KernelFacts, LibraryFact, NvmlFacts, SmiFacts, TargetFacts

F = TypeVar("F")

_FIRST_WITH_PATHFINDER = Version("14")  # cupy/_environment.py of 13.6.0 has none, that of 14.0.0 has
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
    facts["gpus"] = numbered(facts, "gpu")
    nvml = _typed(NvmlFacts, facts)
    source = _source("nvml", result, facts, finished="init" in facts and (nvml.init != 0 or "done" in facts))
    if nvml.init == Nvml.LIBRARY_NOT_FOUND:
        return nvml, Source("nvml", SourceState.ABSENT, nvml.message, source.duration)
    if nvml.init and source.state is SourceState.ANSWERED:
        return nvml, Source("nvml", SourceState.FAILED, f"nvmlInit: {nvml.message} ({nvml.init})", source.duration)
    return nvml, source


def ask_cuda(asking: Asking) -> tuple[CudaFacts, Source]:
    """Libcuda, as this process would see it."""
    result = _own(asking, "cuda.py")
    facts = parse_facts(result.stdout)
    facts["devices"] = numbered(facts, "device")
    cuda = _typed(CudaFacts, facts)
    source = _source("libcuda", result, facts)
    if cuda.absent is not None:
        return cuda, Source("libcuda", SourceState.ABSENT, cuda.absent, source.duration)
    if cuda.unloadable is not None:
        return cuda, Source("libcuda", SourceState.FAILED, cuda.unloadable, source.duration)
    if cuda.init and source.state is SourceState.ANSWERED:
        named = cuda.init_name or "an error"
        return cuda, Source("libcuda", SourceState.FAILED, f"cuInit: {named} ({cuda.init})", source.duration)
    return cuda, source


def ask_smi(asking: Asking) -> tuple[SmiFacts, Source]:
    """nvidia-smi, the last to be believed: its banner, then its list of GPUs."""
    path = shutil.which("nvidia-smi", path=asking.environment.get("PATH")) or shutil.which(_WSL_SMI)
    if path is None:
        return SmiFacts(), Source("nvidia-smi", SourceState.ABSENT, "not on PATH")
    banner = run_child([path], asking.environment, asking.deadline, asking.group)
    driver, cuda = smi.parse_banner(banner.stdout)
    if banner.ending is not Ending.EXITED or banner.exit_code != 0:
        complaint = banner.error or first_words(banner.stdout, banner.stderr)
        source = _source("nvidia-smi", banner, {}, finished=True)
        return SmiFacts(path, driver, cuda, None, complaint), _worse(
            source, f"exit code {banner.exit_code}: {complaint}"
        )
    command = [path, "--query-gpu=" + ",".join(smi.QUERY), "--format=csv,noheader,nounits"]
    listing = run_child(command, asking.environment, asking.deadline, asking.group)
    gpus = smi.parse_gpus(listing.stdout) if listing.exit_code == 0 else None
    source = _source("nvidia-smi", listing, {}, finished=True)
    if source.state is not SourceState.ANSWERED:
        complaint = first_words(listing.stdout, listing.stderr)
        detail = f"exit code {listing.exit_code} to a query: {complaint}"
        return SmiFacts(path, driver, cuda, gpus, complaint), _worse(source, detail)
    detail = path if driver else f"{path}: no driver version in what it printed"
    duration = banner.duration + listing.duration
    return SmiFacts(path, driver, cuda, gpus), Source("nvidia-smi", SourceState.ANSWERED, detail, duration)


def ask_target(asking: Asking, interpreter: str) -> tuple[TargetFacts, Source]:
    """The target's own interpreter, with the caller's environment."""
    result = run_child([interpreter, "-B", script("interpreter.py")], asking.environment, asking.deadline, asking.group)
    facts = parse_facts(result.stdout)
    target = _typed(TargetFacts, facts)
    source = _source("target", result, facts)
    if source.state is SourceState.FAILED and result.ending is not Ending.NOT_STARTED:
        return target, _worse(source, f"exit code {result.exit_code}: {_last_line(result.stderr)}")
    return target, source


def ask_libraries(
    asking: Asking, interpreter: str, target: TargetFacts
) -> tuple[tuple[LibraryFact, ...] | None, Source]:
    """The CUDA libraries that the target's CuPy would load; of several, the one that an import meets first."""
    found_cupy = next((entry for entry in target.distributions if is_cupy(entry.name)), None)
    major = cuda_major_of(found_cupy.name, target.conda_packages) if found_cupy else None
    if found_cupy is None or major not in WANTED:
        return None, Source("libraries", SourceState.NOT_ASKED, "no CuPy there of which the CUDA version is known")
    wanted = WANTED[major]
    finder = "pathfinder" if _uses_pathfinder(found_cupy.release) else "loader"
    command = [interpreter, "-B", script("libraries.py"), finder, json.dumps([encode(entry) for entry in wanted])]
    result = run_child(command, asking.environment, asking.deadline, asking.group)
    facts = parse_facts(result.stdout)
    found = tuple(_typed(LibraryFact, entry) for entry in numbered(facts, "library"))
    return found, _source("libraries", result, facts)


def _uses_pathfinder(release: str) -> bool:
    try:
        return Version(release) >= _FIRST_WITH_PATHFINDER
    except InvalidVersion:
        return True


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


def _typed(kind: type[F], facts: dict[str, Any]) -> F:
    """The facts that have the record's form; a source that answers rubbish for one keeps the others."""
    try:
        return decode(kind, facts)
    except DecodeError:
        good = {key: value for key, value in facts.items() if _decodes(kind, {key: value})}
        return decode(kind, good)


def _decodes(kind: type[Any], facts: dict[str, Any]) -> bool:
    try:
        decode(kind, facts)
    except DecodeError:
        return False
    return True


def _source(name: str, result: ChildResult, facts: Mapping[str, object], *, finished: bool | None = None) -> Source:
    """How the asking ended, from how the child ended and whether it came to its end."""
    finished = "done" in facts if finished is None else finished
    if result.ending is Ending.TIMED_OUT and name in _TELL_START and "started" not in facts:
        return Source(name, SourceState.NOT_ASKED, "the time was too short even to start asking", result.duration)
    if result.ending is Ending.TIMED_OUT:
        return Source(name, SourceState.TIMED_OUT, f"no answer within {result.duration:.1f} s", result.duration)
    if result.ending is Ending.CRASHED:
        return Source(name, SourceState.CRASHED, f"ended by {result.signal_name}", result.duration)
    if result.ending is Ending.NOT_STARTED:
        return Source(name, SourceState.FAILED, f"could not be started: {result.error}", result.duration)
    if result.exit_code != 0 or not finished:
        last = _last_line(result.stderr)
        return Source(name, SourceState.FAILED, f"exit code {result.exit_code}: {last}", result.duration)
    return Source(name, SourceState.ANSWERED, None, result.duration)


def _worse(source: Source, detail: str) -> Source:
    """A failed asking with a better word on why; a timeout or a crash keeps its own."""
    if source.state in (SourceState.TIMED_OUT, SourceState.CRASHED):
        return source
    return Source(source.name, SourceState.FAILED, detail, source.duration)


def _last_line(text: str) -> str:
    lines: Sequence[str] = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def first_words(stdout: str, stderr: str) -> str:
    """The first lines that say why a program failed."""
    lines = [line.strip() for line in (stdout + "\n" + stderr).splitlines() if line.strip()]
    return " ".join(lines[:2])[:300] or "it said nothing"
