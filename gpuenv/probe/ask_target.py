"""Asks the target environment: its interpreter, its CUDA libraries and its files, each in a child of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from packaging.version import Version

from gpuenv.model.codec import encode
from gpuenv.model.cupy import cuda_major_of, is_cupy, is_rocm
from gpuenv.model.nvidia import CUDA_LIBRARIES, OPTIONAL_LIBRARIES
from gpuenv.model.snapshot import CupyInstallation, Source, SourceState
from gpuenv.probe.children import ChildResult, Ending
from gpuenv.probe.context import ProbeContext, run_own, run_target
from gpuenv.probe.protocol import KILLED, last_line, numbered, parse_facts, source_of, worse
from gpuenv.probe.raw import Raw

_FIRST_WITH_PATHFINDER = Version("14")  # cupy/_environment.py of 13.6.0 has none, that of 14.0.0 has
_SHARE = 0.6  # of the time left that one library may take, so that those after a hung one are still asked
_ALARM = "SIGALRM"


class Lost(NamedTuple):
    """A step that ended the process that took it, and how."""

    step: str
    how: str
    hung: bool


def target_facts(result: ChildResult) -> tuple[Raw, Source]:
    """The facts that the target's interpreter printed, and how it ended."""
    facts = parse_facts(result.stdout)
    source = source_of("target", result, facts)
    if source.state is SourceState.FAILED and result.ending is not Ending.NOT_STARTED:
        source = worse(source, f"exit code {result.exit_code}: {last_line(result.stderr)}")
    return Raw(facts), source


def ask_files(ctx: ProbeContext, target: Raw, source: Source, *, deep: bool) -> tuple[Raw, Source]:
    """What is wrong with the target's files, and how that was found.

    Args:
        ctx: what every probe needs.
        target: the facts of the target's interpreter, with the folders that it imports from.
        source: how that probe ended.
        deep: whether the digests of the files are wanted too.
    """
    path = target.all("path", str)
    if not path:
        state = SourceState.FAILED if source.state is SourceState.ANSWERED else source.state
        return Raw(), Source("files", state, source.detail or "where to look was not told")
    prefixes = [entry for name in ("prefix", "exec_prefix") if (entry := target.text(name))]
    asked = {"path": path, "prefixes": prefixes, "place": target.all("prefix_place", int), "deep": deep}
    result = run_own(ctx, "files", stdin=json.dumps(asked) + "\n")
    facts = parse_facts(result.stdout)
    ended = source_of("files", result, facts)
    if ended.state is SourceState.FAILED and result.stderr:
        ended = ended._replace(detail=last_line(result.stderr))
    return Raw(facts), ended


def ask_libraries(ctx: ProbeContext, interpreter: str, target: Raw) -> tuple[Raw, Source]:
    """The CUDA libraries that the target's CuPy would load; of several, the one that an import meets first.

    A library that ends the process, or does not come back, costs itself: the others are asked again without it.
    """
    found = next(
        (entry for entry in target.all("distributions", CupyInstallation) if is_cupy(entry.distribution)), None
    )
    if found is None or is_rocm(found.distribution):
        return Raw(), Source("libraries", SourceState.NOT_ASKED, "there is no CuPy for CUDA")
    packages = target.get("conda_packages", dict[str, str]) or {}
    major = cuda_major_of(found.distribution, packages, found.cuda_major)
    facts, lost, source = _attempts(partial(_ask_libraries, ctx, interpreter, found, major))
    # Of the other steps that ended a process only the source's detail tells.
    sonames = {entry.name: entry.soname for entry in CUDA_LIBRARIES.get(major or 0, ())}
    ended = [
        {"name": entry.step, "soname": sonames[entry.step], "error": f"loading it {entry.how}"}
        for entry in lost
        if entry.step in sonames
    ]
    return Raw({**facts, "libraries": [*numbered(facts, "library"), *ended]}), source


def _attempts(ask: Callable[[list[str]], ChildResult]) -> tuple[dict[str, Any], list[Lost], Source]:
    """Asks until a process comes to its end, each time without what ended the one before."""
    lost: list[Lost] = []
    facts: dict[str, Any] = {}
    started = time.monotonic()
    while True:
        steps = [entry.step for entry in lost]
        result = ask(steps)
        told = parse_facts(result.stdout)
        culprit, since = told.pop("trying", None), told.pop("since", None)
        facts |= told
        at_an_end = result.ending is not Ending.CRASHED or result.signal_name == KILLED
        if at_an_end or not isinstance(culprit, str) or culprit in steps:
            source = source_of("libraries", result, facts)
            if lost:  # the worst of all attempts
                state = SourceState.TIMED_OUT if all(entry.hung for entry in lost) else SourceState.CRASHED
                detail = "; ".join(f"{entry.step}: {entry.how}" for entry in lost)
                source = Source("libraries", state, detail, time.monotonic() - started)
            elif not _had_its_time(result, since):
                detail = f"{source.duration:.1f} s were left for it, which is too short; --timeout gives more"
                source = source._replace(state=SourceState.NOT_ASKED, detail=detail)
            return facts, lost, source
        hung = result.signal_name == _ALARM
        lost.append(Lost(culprit, "does not come back" if hung else f"ended by {result.signal_name}", hung))


def _ask_libraries(
    ctx: ProbeContext, interpreter: str, cupy: CupyInstallation, major: int | None, without: list[str]
) -> ChildResult:
    """Runs the probe of all libraries but those named."""
    question = json.dumps(
        {
            "finder": "pathfinder" if _uses_pathfinder(cupy.release) else "loader",
            "cupy": cupy.location,
            "libraries": [encode(entry) for entry in CUDA_LIBRARIES.get(major or 0, ())],
            "optional": OPTIONAL_LIBRARIES,
            "limit": max(0.1, _SHARE * (ctx.deadline - time.monotonic())),
            "without": without,
        }
    )
    return run_target(ctx, interpreter, "libraries", question)


def _had_its_time(result: ChildResult, since: object) -> bool:
    """Whether what was ended at the deadline had been about one step for as long as its alarm would have let it.

    Where the interpreter is slow to start, as from a cold network file system, little or nothing is left for it.
    """
    if result.ending is not Ending.TIMED_OUT:
        return True
    return isinstance(since, float) and time.monotonic() - since >= _SHARE * result.duration


def _uses_pathfinder(release: str) -> bool:
    try:
        return Version(release) >= _FIRST_WITH_PATHFINDER
    except ValueError:  # InvalidVersion, or more digits than int takes
        return True
