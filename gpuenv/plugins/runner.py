"""Runs the checks of other packages in parallel, each in a child with a deadline."""

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

from gpuenv.doctor.diagnose import UNKNOWN, Diagnosis, DiagnosisOptions, add_plugin_findings, excluded_run
from gpuenv.model.codec import DecodeError, decode, encode
from gpuenv.model.finding import CheckRun, CheckStatus, Finding
from gpuenv.model.redaction import cut_text
from gpuenv.model.snapshot import Snapshot
from gpuenv.plugins.check_result import CheckResult
from gpuenv.plugins.discovery import Plugin
from gpuenv.probe.children import ChildGroup, ChildResult, Ending
from gpuenv.probe.interpreters import run_interpreter
from gpuenv.probe.protocol import last_line, parse_facts

MOST_SECONDS = 10.0  # for one check
_LONGEST = 500  # characters shown of a plug-in's text
_LONGEST_DOC = 8000  # characters shown of a plug-in's docstring
_WORKERS = 8
_CHILD = (sys.executable, "-B", os.path.join(os.path.dirname(__file__), "child.py"))  # noqa: PTH118, PTH120


class Description(NamedTuple):
    """The docstring of a check of another package, or why it is unknown."""

    text: str
    complaint: str | None


class PluginResult(NamedTuple):
    """The findings of a check of another package, and the outcome of its run."""

    findings: tuple[Finding, ...]
    run: CheckRun


def with_plugins(
    diagnosis: Diagnosis,
    plugins: Sequence[Plugin],
    snapshot: Snapshot,
    options: DiagnosisOptions,
    environment: Mapping[str, str],
    seconds: float = MOST_SECONDS,
) -> Diagnosis:
    """The diagnosis with the findings of plug-ins; each may take ``seconds``, and never more than ten."""
    enabled = [plugin for plugin in plugins if plugin.code not in options.excluded]
    results = _run_plugins(enabled, snapshot, environment, min(seconds, MOST_SECONDS))
    runs = [entry.run for entry in results] + [excluded_run(p.code) for p in plugins if p.code in options.excluded]
    return add_plugin_findings(diagnosis, [finding for entry in results for finding in entry.findings], runs, options)


def _run_plugins(
    plugins: Sequence[Plugin], snapshot: Snapshot, environment: Mapping[str, str], seconds: float
) -> tuple[PluginResult, ...]:
    """Runs all checks, each with a deadline in seconds, and returns their results in the same order."""
    if not plugins:
        return ()
    group = ChildGroup()
    with tempfile.TemporaryDirectory(prefix="gpuenv-") as folder:
        path = Path(folder, "snapshot.json")
        path.write_text(json.dumps(encode(snapshot)), encoding="utf-8")
        try:
            with ThreadPoolExecutor(min(_WORKERS, len(plugins))) as pool:
                jobs = [pool.submit(_run, plugin, path, environment, seconds, group) for plugin in plugins]
                return tuple(job.result() for job in jobs)
        finally:
            group.close()


def _run(
    plugin: Plugin, snapshot: Path, environment: Mapping[str, str], seconds: float, group: ChildGroup
) -> PluginResult:
    if plugin.fault is not None:
        return _broken(plugin, plugin.fault, 0.0)
    result = run_interpreter([*_CHILD, str(snapshot), plugin.function], environment, time.monotonic() + seconds, group)
    facts = parse_facts(result.stdout)
    complaint = _complaint(result, facts, "result", seconds)
    if complaint is not None:
        return _broken(plugin, complaint, result.duration)
    try:
        checked = decode(CheckResult, facts["result"])
    except DecodeError as error:
        return _broken(plugin, f"its result is invalid: {error}", result.duration)
    findings = tuple(
        Finding(
            code=plugin.code,
            cause=symptom.cause,
            severity=symptom.severity,
            primary=False,
            follows_from=None,
            title=cut_text(symptom.title.rstrip("."), _LONGEST),
            evidence=symptom.evidence,
            # gpuenv never runs a command that another package suggests.
            fix=tuple(fix._replace(safe=False) for fix in symptom.fix),
            docs=f"{plugin.package}: {checked.title or plugin.function}",
        )
        for symptom in checked.symptoms
        if symptom.cause is not None
    )
    if findings:
        return PluginResult(findings, CheckRun(plugin.code, CheckStatus.FOUND, None, result.duration))
    if checked.unknown:
        reason = f"{UNKNOWN}{cut_text(checked.unknown[0].reason, _LONGEST)}"
        return PluginResult((), CheckRun(plugin.code, CheckStatus.SKIPPED, reason, result.duration))
    return PluginResult((), CheckRun(plugin.code, CheckStatus.CLEAN, None, result.duration))


def describe(plugin: Plugin, environment: Mapping[str, str], seconds: float = MOST_SECONDS) -> Description:
    """Reads a check's docstring in a child with a deadline in seconds."""
    if plugin.fault is not None:
        return Description("", plugin.fault)
    group = ChildGroup()
    try:
        result = run_interpreter([*_CHILD, "-", plugin.function], environment, time.monotonic() + seconds, group)
    finally:
        group.close()
    facts = parse_facts(result.stdout)
    text = facts.get("doc")
    shown = cut_text(text, _LONGEST_DOC) if isinstance(text, str) else ""
    return Description(shown, _complaint(result, facts, "doc", seconds))


def _complaint(result: ChildResult, facts: Mapping[str, object], key: str, seconds: float) -> str | None:
    """Why there is no result within these seconds; None if there is one."""
    step = {"import": "while it was imported", "run": "while it ran"}.get(str(facts.get("step")), "at its start")
    if result.ending is Ending.TIMED_OUT:
        return f"did not end within {seconds:g} s, {step}"
    if result.ending is Ending.CRASHED:
        return f"ended by {result.signal_name}, {step}"
    if result.ending is Ending.NOT_STARTED:
        return f"could not be started: {result.error}"
    if result.exit_code != 0:
        return f"failed {step}: {last_line(result.stderr)}"
    return None if key in facts else f"ended {step}, without a result"


def _broken(plugin: Plugin, why: str, seconds: float) -> PluginResult:
    return PluginResult((), CheckRun(plugin.code, CheckStatus.CRASHED, f"plug-in of {plugin.package}: {why}", seconds))
