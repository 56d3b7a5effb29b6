"""Asks the target environment: its interpreter, its CUDA libraries and its files, each in a child of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from packaging.version import Version

from gpuenv.model.codec import encode
from gpuenv.model.cupy import cuda_major_of, is_cupy, is_rocm
from gpuenv.model.nvidia import OPTIONAL, WANTED
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.probe.asking import Asking, run_own, run_target
from gpuenv.probe.children import ChildResult, Ending
from gpuenv.probe.outcome import KILLED, last_line, source_of, typed, worse
from gpuenv.probe.protocol import numbered, parse_facts
from gpuenv.probe.raw_target import Distribution, FileFacts, LibraryFact, LibraryFacts, TargetFacts

_FIRST_WITH_PATHFINDER = Version("14")  # cupy/_environment.py of 13.6.0 has none, that of 14.0.0 has
_SHARE = 0.6  # of the time left that one library may take, so that those after a hung one are still asked
_ALARM = "SIGALRM"


@dataclass(frozen=True, slots=True)
class Lost:
    """A step that ended the process that took it, and how."""

    step: str
    how: str
    hung: bool


def target_facts(result: ChildResult) -> tuple[TargetFacts, Source]:
    """What the target's interpreter said, and how it ended."""
    facts = parse_facts(result.stdout)
    target = typed(TargetFacts, facts)
    source = source_of("target", result, facts)
    if source.state is SourceState.FAILED and result.ending is not Ending.NOT_STARTED:
        return target, worse(source, f"exit code {result.exit_code}: {last_line(result.stderr)}")
    return target, source


def ask_files(asking: Asking, target: TargetFacts, source: Source, *, deep: bool) -> tuple[FileFacts, Source]:
    """What is wrong with the target's files, and how that was found.

    Args:
        asking: what every probe needs.
        target: the facts of the target's interpreter, with the folders that it imports from.
        source: how that probe ended.
        deep: whether the digests of the files are wanted too.
    """
    if not target.path:
        state = SourceState.FAILED if source.state is SourceState.ANSWERED else source.state
        return FileFacts(), Source("files", state, source.detail or "where to look was not told")
    prefixes = [entry for entry in (target.prefix, target.exec_prefix) if entry]
    asked = {"path": target.path, "prefixes": prefixes, "place": target.prefix_place, "deep": deep}
    result = run_own(asking, "files.py", stdin=json.dumps(asked) + "\n")
    facts = parse_facts(result.stdout)
    ended = source_of("files", result, facts)
    if ended.state is SourceState.FAILED and result.stderr:
        ended = replace(ended, detail=last_line(result.stderr))
    return typed(FileFacts, facts), ended


def ask_libraries(asking: Asking, interpreter: str, target: TargetFacts) -> tuple[LibraryFacts, Source]:
    """The CUDA libraries that the target's CuPy would load; of several, the one that an import meets first.

    A library that ends the process, or does not come back, costs itself: the others are asked again without it.

    Args:
        asking: what every asking needs.
        interpreter: the target's.
        target: the facts of that interpreter.
    """
    found = next((entry for entry in target.distributions if is_cupy(entry.name)), None)
    if found is None or is_rocm(found.name):
        return LibraryFacts(), Source("libraries", SourceState.NOT_ASKED, "there is no CuPy for CUDA")
    major = cuda_major_of(found.name, target.conda_packages, found.cuda_major)
    facts, lost, source = _attempts(partial(_ask_libraries, asking, interpreter, found, major))
    told = typed(LibraryFacts, {**facts, "settings": "cuda_path" in facts, "libraries": numbered(facts, "library")})
    libraries = (*(told.libraries or ()), *_lost_libraries(lost, major))
    return replace(told, libraries=libraries), source


def _attempts(ask: Callable[[list[str]], ChildResult]) -> tuple[dict[str, Any], list[Lost], Source]:
    """Asks until a process comes to its end, each time without what ended the one before."""
    lost: list[Lost] = []
    facts: dict[str, Any] = {}
    started = time.monotonic()
    while True:
        result = ask(_steps(lost))
        told = parse_facts(result.stdout)
        culprit, since = told.pop("trying", None), told.pop("since", None)
        facts |= told
        at_an_end = result.ending is not Ending.CRASHED or result.signal_name == KILLED
        if at_an_end or not isinstance(culprit, str) or culprit in _steps(lost):
            source = _libraries_source(result, facts, lost, time.monotonic() - started)
            return facts, lost, source if lost or _had_its_time(result, since) else _too_short(source)
        hung = result.signal_name == _ALARM
        lost.append(Lost(culprit, "does not come back" if hung else f"ended by {result.signal_name}", hung))


def _ask_libraries(
    asking: Asking, interpreter: str, cupy: Distribution, major: int | None, without: list[str]
) -> ChildResult:
    """Runs the probe of all libraries but those named."""
    question = json.dumps(
        {
            "finder": "pathfinder" if _uses_pathfinder(cupy.release) else "loader",
            "cupy": cupy.location,
            "libraries": [encode(entry) for entry in WANTED.get(major or 0, ())],
            "optional": OPTIONAL,
            "limit": max(0.1, _SHARE * (asking.deadline - time.monotonic())),
            "without": without,
        }
    )
    return run_target(asking, interpreter, "libraries", question)


def _steps(lost: list[Lost]) -> list[str]:
    return [entry.step for entry in lost]


def _lost_libraries(lost: list[Lost], major: int | None) -> list[LibraryFact]:
    """Those that ended a process; of the other steps only the source's detail tells."""
    sonames = {entry.name: entry.soname for entry in WANTED.get(major or 0, ())}
    return [
        LibraryFact(entry.step, sonames[entry.step], error=f"loading it {entry.how}")
        for entry in lost
        if entry.step in sonames
    ]


def _libraries_source(result: ChildResult, facts: dict[str, Any], lost: list[Lost], duration: float) -> Source:
    """How it ended: the worst of all attempts."""
    last = source_of("libraries", result, facts)
    if not lost:
        return last
    state = SourceState.TIMED_OUT if all(entry.hung for entry in lost) else SourceState.CRASHED
    return Source("libraries", state, "; ".join(f"{entry.step}: {entry.how}" for entry in lost), duration)


def _had_its_time(result: ChildResult, since: object) -> bool:
    """Whether what was ended at the deadline had been about one step for as long as its alarm would have let it.

    Where the interpreter is slow to start, as from a cold network file system, little or nothing is left for it.
    """
    if result.ending is not Ending.TIMED_OUT:
        return True
    return isinstance(since, float) and time.monotonic() - since >= _SHARE * result.duration


def _too_short(source: Source) -> Source:
    detail = f"{source.duration:.1f} s were left for it, which is too short; --timeout gives more"
    return replace(source, state=SourceState.NOT_ASKED, detail=detail)


def _uses_pathfinder(release: str) -> bool:
    try:
        return Version(release) >= _FIRST_WITH_PATHFINDER
    except ValueError:  # InvalidVersion, or more digits than int takes
        return True
