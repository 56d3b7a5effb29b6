"""Probes the target environment: its interpreter, its CUDA libraries and its files, each in a child of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from packaging.version import Version

from gpuenv.model.codec import encode
from gpuenv.model.cupy import cuda_major_of, is_cupy, is_rocm
from gpuenv.model.nvidia import CUDA_LIBRARIES, OPTIONAL_LIBRARIES
from gpuenv.model.snapshot import CupyInstallation, Source, SourceState
from gpuenv.probe.children import ChildResult, Ending
from gpuenv.probe.context import ProbeContext, run_script, run_target
from gpuenv.probe.protocol import KILLED, last_line, numbered, parse_facts, source_of
from gpuenv.probe.raw import Raw
from gpuenv.probe.transactions import journals_folder, open_transaction, prefix_of

_FIRST_WITH_PATHFINDER = Version("14")  # cupy/_environment.py of 13.6.0 has none, that of 14.0.0 has
_SHARE = 0.6  # of the remaining time for one library, so that those after a hung one are still tried
_ALARM = "SIGALRM"
_HANGS = "hangs"


def target_facts(result: ChildResult) -> tuple[Raw, Source]:
    """The facts printed by the target's interpreter, and how it ended."""
    facts = parse_facts(result.stdout)
    return Raw(facts), source_of("target", result, facts)


def with_transactions(target: Raw, interpreter: str) -> Raw:
    """Adds the interrupted transaction of the environment, or why its transactions cannot be read."""
    folder = journals_folder(prefix_of(interpreter), target.text("prefix"))
    try:
        found = open_transaction(folder) if folder is not None else None
    except OSError as error:
        return target.plus(open_transaction=None, unread_transactions=f"{folder}: {error.strerror or error}")
    return target.plus(open_transaction=encode(found) if found else None, unread_transactions=None)


def probe_files(ctx: ProbeContext, target: Raw, source: Source, *, deep: bool) -> tuple[Raw, Source]:
    """The faults of the target's files, and how the probe ended; ``source`` is how that of the interpreter did.

    With ``deep``, also checks the digests of the files.
    """
    path = target.all("path", str)
    if not path:
        state = SourceState.FAILED if source.state is SourceState.ANSWERED else source.state
        return Raw(), Source("files", state, source.detail or "the target's import path is unknown")
    prefixes = [entry for name in ("prefix", "exec_prefix") if (entry := target.text(name))]
    request = {"path": path, "prefixes": prefixes, "identity": target.all("prefix_identity", int), "deep": deep}
    result = run_script(ctx, "files", stdin=json.dumps(request) + "\n")
    facts = parse_facts(result.stdout)
    ended = source_of("files", result, facts)
    if ended.state is SourceState.FAILED and result.stderr:
        ended = ended._replace(detail=last_line(result.stderr))
    return Raw(facts), ended


def probe_libraries(ctx: ProbeContext, interpreter: str, target: Raw) -> tuple[Raw, Source]:
    """The CUDA libraries that the target's CuPy would load; of several CuPys, the one that an import finds first.

    After a library that crashes or hangs, the others are tried again without it.
    """
    found = next(
        (entry for entry in target.all("distributions", CupyInstallation) if is_cupy(entry.distribution)), None
    )
    if found is None or is_rocm(found.distribution):
        return Raw(), Source("libraries", SourceState.NOT_ASKED, "no CuPy for CUDA is installed")
    packages = target.get("conda_packages", dict[str, str]) or {}
    major = cuda_major_of(found.distribution, packages, found.cuda_major)
    facts, failed, source = _run_until_complete(partial(_run_libraries_script, ctx, interpreter, found, major))
    # Other failed steps appear only in the source's detail.
    sonames = {entry.name: entry.soname for entry in CUDA_LIBRARIES.get(major or 0, ())}
    ended = [
        {"name": step, "soname": sonames[step], "error": f"loading it {how}"}
        for step, how in failed.items()
        if step in sonames
    ]
    return Raw({**facts, "libraries": [*numbered(facts, "library"), *ended]}), source


def _run_until_complete(run: Callable[[list[str]], ChildResult]) -> tuple[dict[str, Any], dict[str, str], Source]:
    """Runs the script until it completes, each time without the steps that ended earlier runs.

    Returns:
        The facts, the steps that ended a run with how they did, and how the probe ended.
    """
    failed: dict[str, str] = {}
    facts: dict[str, Any] = {}
    started = time.monotonic()
    while True:
        result = run(list(failed))
        printed = parse_facts(result.stdout)
        culprit, since = printed.pop("trying", None), printed.pop("since", None)
        facts |= printed
        is_complete = result.ending is not Ending.CRASHED or result.signal_name == KILLED
        if is_complete or not isinstance(culprit, str) or culprit in failed:
            source = source_of("libraries", result, facts)
            if failed:  # the worst of all runs
                state = SourceState.TIMED_OUT if {*failed.values()} == {_HANGS} else SourceState.CRASHED
                detail = "; ".join(f"{step}: {how}" for step, how in failed.items())
                source = Source("libraries", state, detail, time.monotonic() - started)
            elif not _had_enough_time(result, since):
                detail = f"only {source.duration:.1f} s were left, which is too short; give more with --timeout"
                source = source._replace(state=SourceState.NOT_ASKED, detail=detail)
            return facts, failed, source
        failed[culprit] = _HANGS if result.signal_name == _ALARM else f"crashed with {result.signal_name}"


def _run_libraries_script(
    ctx: ProbeContext, interpreter: str, cupy: CupyInstallation, major: int | None, without: list[str]
) -> ChildResult:
    """Runs the script on all libraries except those in ``without``."""
    request = json.dumps(
        {
            "finder": "pathfinder" if _uses_pathfinder(cupy.release) else "loader",
            "cupy": cupy.location,
            "libraries": [encode(entry) for entry in CUDA_LIBRARIES.get(major or 0, ())],
            "optional": OPTIONAL_LIBRARIES,
            "limit": max(0.1, _SHARE * (ctx.deadline - time.monotonic())),
            "without": without,
        }
    )
    return run_target(ctx, interpreter, "libraries", request)


def _had_enough_time(result: ChildResult, since: object) -> bool:
    """Whether the step killed at the deadline had as much time as its alarm allows.

    An interpreter that is slow to start, as from a cold network file system, leaves little or none.
    """
    if result.ending is not Ending.TIMED_OUT:
        return True
    return isinstance(since, float) and time.monotonic() - since >= _SHARE * result.duration


def _uses_pathfinder(release: str) -> bool:
    try:
        return Version(release) >= _FIRST_WITH_PATHFINDER
    except ValueError:  # InvalidVersion, or too many digits for int
        return True
