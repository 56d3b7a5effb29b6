"""Runs the checks of other packages side by side, each in a child with a deadline: what one does harms no other."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from gpuenv.doctor.diagnose import UNKNOWN
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.finding import CheckRun, CheckStatus, Finding
from gpuenv.model.snapshot import Snapshot
from gpuenv.plugins.check_result import CheckResult
from gpuenv.plugins.discovery import Plugin
from gpuenv.probe.children import ChildGroup, ChildResult, Ending, run_child
from gpuenv.probe.protocol import last_line, parse_facts

MOST_SECONDS = 10.0  # that one check may take
_LONGEST = 500  # characters of a text of theirs that are shown
_LONGEST_DOC = 8000  # characters of a docstring of theirs that are shown
_SIDE_BY_SIDE = 8
_CHILD = (sys.executable, "-B", os.path.join(os.path.dirname(__file__), "child.py"))  # noqa: PTH118, PTH120


class Description(NamedTuple):
    """What the check of another package says of itself: its docstring; or why it could not be asked."""

    text: str
    complaint: str | None


class PluginResult(NamedTuple):
    """What the check of another package found, and how it went."""

    findings: tuple[Finding, ...]
    run: CheckRun


def run_plugins(
    plugins: Sequence[Plugin], snapshot: Snapshot, environment: Mapping[str, str], seconds: float = MOST_SECONDS
) -> tuple[PluginResult, ...]:
    """Runs every check, in the order given, each within some seconds."""
    if not plugins:
        return ()
    group = ChildGroup()
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as folder:
        path = Path(folder, "snapshot.json")
        path.write_text(json.dumps(encode(snapshot)), encoding="utf-8")
        try:
            with ThreadPoolExecutor(min(_SIDE_BY_SIDE, len(plugins))) as pool:
                jobs = [pool.submit(_run, plugin, path, environment, seconds, group) for plugin in plugins]
                return tuple(job.result() for job in jobs)
        finally:
            group.close()


def _run(
    plugin: Plugin, snapshot: Path, environment: Mapping[str, str], seconds: float, group: ChildGroup
) -> PluginResult:
    if plugin.fault is not None:
        return _broken(plugin, plugin.fault, 0.0)
    result = run_child([*_CHILD, str(snapshot), plugin.function], environment, time.monotonic() + seconds, group)
    facts = parse_facts(result.stdout)
    seconds, complaint = result.duration, _complaint(result, facts, "answer")
    if complaint is not None:
        return _broken(plugin, complaint, seconds)
    try:
        answer = decode(CheckResult, facts["answer"])
    except DecodeError as error:
        return _broken(plugin, f"its answer cannot be understood: {error}", seconds)
    findings = tuple(
        Finding(
            code=plugin.code,
            cause=symptom.cause,
            severity=symptom.severity,
            primary=False,
            follows_from=None,
            title=symptom.title[:_LONGEST].rstrip("."),
            evidence=symptom.evidence,
            # What somebody else's check would run is for the user to run.
            fix=tuple(fix._replace(safe=False) for fix in symptom.fix),
            docs=f"{plugin.package}: {answer.title or plugin.function}",
        )
        for symptom in answer.symptoms
        if symptom.cause is not None
    )
    if findings:
        return PluginResult(findings, CheckRun(plugin.code, CheckStatus.FOUND, None, seconds))
    if answer.unknown:
        reason = f"{UNKNOWN}{answer.unknown[0].reason[:_LONGEST]}"
        return PluginResult((), CheckRun(plugin.code, CheckStatus.SKIPPED, reason, seconds))
    return PluginResult((), CheckRun(plugin.code, CheckStatus.CLEAN, None, seconds))


def describe(plugin: Plugin, environment: Mapping[str, str], seconds: float = MOST_SECONDS) -> Description:
    """What a check says of itself, asked in a child with a deadline in seconds; or why it could not be asked."""
    if plugin.fault is not None:
        return Description("", plugin.fault)
    group = ChildGroup()
    try:
        result = run_child([*_CHILD, "-", plugin.function], environment, time.monotonic() + seconds, group)
    finally:
        group.close()
    facts = parse_facts(result.stdout)
    text = facts.get("doc")
    return Description(text[:_LONGEST_DOC] if isinstance(text, str) else "", _complaint(result, facts, "doc"))


def _complaint(result: ChildResult, facts: Mapping[str, object], wanted: str) -> str | None:
    """Why there is no answer, in a few words."""
    step = {"import": "while it was imported", "run": "while it ran"}.get(str(facts.get("asking")), "at its start")
    if result.ending is Ending.TIMED_OUT:
        return f"did not end within {result.duration:.0f} s, {step}"
    if result.ending is Ending.CRASHED:
        return f"ended by {result.signal_name}, {step}"
    if result.ending is Ending.NOT_STARTED:
        return f"could not be started: {result.error}"
    if result.exit_code != 0:
        return f"failed {step}: {last_line(result.stderr)}"
    return None if wanted in facts else f"ended {step}, without an answer"


def _broken(plugin: Plugin, why: str, seconds: float) -> PluginResult:
    return PluginResult((), CheckRun(plugin.code, CheckStatus.CRASHED, f"plug-in of {plugin.package}: {why}", seconds))
