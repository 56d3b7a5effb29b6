"""What a child printed as facts by name, and how it ended.

A probing script prints one fact a line, ``gpuenv:{"key": value}``; every other line is somebody else's. It prints each
fact as soon as it has it, so that one which hangs or crashes half-way has not spoken in vain; ``done`` is the last fact
of one that came to its end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpuenv.model.snapshot import Source, SourceState
from gpuenv.probe.children import ChildResult, Ending

_MARK = "gpuenv:"
_OF_THREADS = ("Current thread 0x", "Thread 0x", "<no Python frame>", "Extension modules: ")
_TELL_START = ("nvml", "libcuda")
# No program ends itself so: the kernel does where memory is short, or a control group's limit is reached, or a person.
KILLED = "SIGKILL"


def parse_facts(output: str) -> dict[str, Any]:
    """The facts by key, a later one replacing an earlier one; a line cut short is dropped."""
    facts: dict[str, Any] = {}
    for line in output.splitlines():
        # A library that printed without a newline may stand before the mark.
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
    """The values of ``prefix.0``, ``prefix.1`` and so on, in the order they were told."""
    return [value for key, value in facts.items() if key.startswith(prefix + ".")]


def nested(facts: dict[str, Any], prefix: str) -> list[dict[str, Any]]:
    """The facts ``prefix.0.name`` gathered by their number, in the order in which the numbers were first told.

    ``prefix.0.name.key`` are the entries of one fact ``name``.
    """
    found: dict[str, dict[str, Any]] = {}
    for told, value in facts.items():
        head, number, name, key = (*told.split(".", 3), "", "", "")[:4]
        if head != prefix or not number.isdecimal() or not name:
            continue
        record = found.setdefault(number, {})
        if not key:
            record[name] = value
        elif isinstance(record.setdefault(name, {}), dict):
            record[name][key] = value
    return list(found.values())


def source_of(name: str, result: ChildResult, facts: Mapping[str, object], *, finished: bool | None = None) -> Source:
    """How a probe ended; ``started`` is still a reading of ``time.monotonic``."""
    finished = "done" in facts if finished is None else finished
    call = f" {facts['asking']}" if "asking" in facts and "done" not in facts else ""  # the one that did not come back
    state, detail = SourceState.ANSWERED, None
    if result.ending is Ending.TIMED_OUT and name in _TELL_START and "started" not in facts:
        state, detail = SourceState.NOT_ASKED, "the time was too short even to start asking"
    elif result.ending is Ending.TIMED_OUT:
        state, detail = SourceState.TIMED_OUT, f"no answer within {result.duration:.1f} s{call and ' from' + call}"
    elif result.ending is Ending.CRASHED and result.signal_name == KILLED:
        detail = f"ended by {KILLED} from outside, mostly for want of memory{call and ' in' + call}"
        state = SourceState.FAILED
    elif result.ending is Ending.CRASHED:
        state, detail = SourceState.CRASHED, f"ended by {result.signal_name}{call and ' in' + call}"
    elif result.ending is Ending.NOT_STARTED:
        state, detail = SourceState.FAILED, f"could not be started: {result.error}"
    elif result.exit_code != 0 or not finished:
        state, detail = SourceState.FAILED, f"exit code {result.exit_code}: {last_line(result.stderr)}"
    return Source(name, state, detail, result.duration, result.started)


def worse(source: Source, detail: str) -> Source:
    """A failed probe with a better word on why; a timeout or a crash keeps its own."""
    if source.state in (SourceState.TIMED_OUT, SourceState.CRASHED):
        return source
    return source._replace(state=SourceState.FAILED, detail=detail)


def last_line(text: str) -> str:
    """The last line that says something, which is where a traceback names the error.

    After an error at its very start, Python tells of its threads besides.
    """
    told = (line.strip() for line in text.splitlines())
    lines = [line for line in told if line and not line.startswith(_OF_THREADS)]
    return lines[-1][:300] if lines else "it said nothing"


def first_lines(stdout: str, stderr: str) -> str:
    """The first lines that say why a program failed."""
    lines = [line.strip() for line in (stdout + "\n" + stderr).splitlines() if line.strip()]
    return " ".join(lines[:2])[:300] or "it said nothing"
