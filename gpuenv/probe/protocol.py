"""Parses the facts that a child printed, and how it ended.

A probe script prints one fact per line, ``gpuenv:{"key": value}``; other lines are ignored. It prints each fact as soon
as it is known, so that a hang or a crash does not lose the earlier ones; ``done`` is the last fact of a script that ran
to its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuenv.model.redaction import cut_text
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.probe.children import ChildResult, Ending

_MARK = "gpuenv:"
_THREAD_LINES = ("Current thread 0x", "Thread 0x", "<no Python frame>", "Extension modules: ")
_WITH_STARTED_FACT = ("nvml", "libcuda")
# Sent by the kernel when memory is short or a control group's limit is reached, or by a person.
KILLED = "SIGKILL"
_LONGEST = 300  # characters shown of what a child printed
_NOT_FOUND = 127  # of a shell, and of pyenv, which gives advice after the error


def parse_facts(output: str) -> dict[str, Any]:
    """The facts by key, later ones replacing earlier ones; truncated lines are dropped."""
    facts: dict[str, Any] = {}
    for line in output.splitlines():
        # A library's output without a newline may precede the mark.
        _, mark, body = line.partition(_MARK)
        if not mark:
            continue
        try:
            entry = json.loads(body)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            facts.update(entry)
    return facts


def numbered(facts: dict[str, Any], prefix: str) -> list[Any]:
    """The values of ``prefix.0``, ``prefix.1`` and so on, in printed order."""
    return [value for key, value in facts.items() if key.startswith(prefix + ".")]


def nested(facts: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The facts ``prefix.0.name`` grouped by their number, in printed order.

    ``prefix.0.name.key`` is an entry of the mapping ``name``.
    """
    found: dict[str, dict[str, Any]] = {}
    for path, value in facts.items():
        head, number, name, key = (*path.split(".", 3), "", "", "")[:4]
        if head != prefix or not number.isdecimal() or not name:
            continue
        record = found.setdefault(number, {})
        if not key:
            record[name] = value
        elif isinstance(record.setdefault(name, {}), dict):
            record[name][key] = value
    return list(found.values())


def source_of(name: str, result: ChildResult, facts: Mapping[str, object], *, finished: bool | None = None) -> Source:
    """How a probe ended; its ``started`` is still a reading of ``time.monotonic``."""
    finished = "done" in facts if finished is None else finished
    call = f" {facts['calling']}" if "calling" in facts and "done" not in facts else ""  # the call that did not return
    state, detail = SourceState.ANSWERED, None
    if result.ending is Ending.TIMED_OUT and name in _WITH_STARTED_FACT and "started" not in facts:
        state, detail = SourceState.NOT_ASKED, "the timeout was too short to start the queries"
    elif result.ending is Ending.TIMED_OUT:
        state, detail = SourceState.TIMED_OUT, f"no answer within {result.duration:.1f} s{call and ' from' + call}"
    elif result.ending is Ending.CRASHED and result.signal_name == KILLED:
        detail = f"killed by {KILLED}, mostly for lack of memory{call and ' in' + call}"
        state = SourceState.FAILED
    elif result.ending is Ending.CRASHED:
        state, detail = SourceState.CRASHED, f"ended by {result.signal_name}{call and ' in' + call}"
    elif result.ending is Ending.NOT_STARTED:
        state, detail = SourceState.FAILED, f"could not be started: {result.error}"
    elif result.exit_code != 0 or not finished:
        text = result.stderr.lstrip().partition("\n")[0] if result.exit_code == _NOT_FOUND else result.stderr
        state, detail = SourceState.FAILED, f"exit code {result.exit_code}: {last_line(text)}"
    return Source(name, state, detail, result.duration, result.started)


def last_line(text: str) -> str:
    """The last line that is not blank, where a traceback names the error.

    The lines on threads, which Python prints after a fatal error at its start, are skipped.
    """
    stripped = (line.strip() for line in text.splitlines())
    lines = [line for line in stripped if line and not line.startswith(_THREAD_LINES)]
    return cut_text(lines[-1], _LONGEST) if lines else "it printed nothing"


def first_lines(stdout: str, stderr: str) -> str:
    """The first two lines of a failed program's output."""
    lines = [line.strip() for line in (stdout + "\n" + stderr).splitlines() if line.strip()]
    return cut_text(" ".join(lines[:2]), _LONGEST) or "it printed nothing"
