"""What a child printed as typed facts, and how its asking ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gpuenv.model.codec import DecodeError, decode
from gpuenv.model.snapshot import Source, SourceState
from gpuenv.probe.children import ChildResult, Ending

F = TypeVar("F")

_OF_THREADS = ("Current thread 0x", "Thread 0x", "<no Python frame>", "Extension modules: ")
_TELL_START = ("nvml", "libcuda")
# No program ends itself so: the kernel does where memory is short, or a control group's limit is reached, or a person.
KILLED = "SIGKILL"


def typed(kind: type[F], facts: dict[str, Any], number: str = "") -> F:
    """The facts that have the record's form; a source that answers rubbish for one keeps the others."""
    try:
        return decode(kind, facts)
    except DecodeError:
        needed = {number: facts[number]} if number else {}
        good = {key: value for key, value in facts.items() if _decodes(kind, {**needed, key: value})}
        return decode(kind, good)


def each(kind: type[F], entries: list[dict[str, Any]], number: str) -> tuple[F, ...]:
    """A record an entry, of those that tell a number that can be one."""
    return tuple(typed(kind, entry, number) for entry in entries if _decodes(kind, {number: entry.get(number)}))


def _decodes(kind: type[Any], facts: dict[str, Any]) -> bool:
    try:
        decode(kind, facts)
    except DecodeError:
        return False
    return True


def source_of(name: str, result: ChildResult, facts: Mapping[str, object], *, finished: bool | None = None) -> Source:
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
        return _ended_by_signal(result.signal_name, _call(facts, "in"))
    if result.ending is Ending.NOT_STARTED:
        return SourceState.FAILED, f"could not be started: {result.error}"
    if result.exit_code != 0 or not finished:
        return SourceState.FAILED, f"exit code {result.exit_code}: {last_line(result.stderr)}"
    return SourceState.ANSWERED, None


def _ended_by_signal(name: str | None, where: str) -> tuple[SourceState, str]:
    if name == KILLED:
        return SourceState.FAILED, f"ended by {name} from outside, mostly for want of memory{where}"
    return SourceState.CRASHED, f"ended by {name}{where}"


def _call(facts: Mapping[str, object], word: str) -> str:
    """The call in hand, where the script tells it."""
    return f" {word} {facts['asking']}" if "asking" in facts and "done" not in facts else ""


def worse(source: Source, detail: str) -> Source:
    """A failed asking with a better word on why; a timeout or a crash keeps its own."""
    if source.state in (SourceState.TIMED_OUT, SourceState.CRASHED):
        return source
    return replace(source, state=SourceState.FAILED, detail=detail)


def last_line(text: str) -> str:
    """The last line that says something, which is where a traceback names the error.

    After an error at its very start, Python tells of its threads besides.
    """
    told = (line.strip() for line in text.splitlines())
    lines: Sequence[str] = [line for line in told if line and not line.startswith(_OF_THREADS)]
    return lines[-1][:300] if lines else "it said nothing"


def first_words(stdout: str, stderr: str) -> str:
    """The first lines that say why a program failed."""
    lines = [line.strip() for line in (stdout + "\n" + stderr).splitlines() if line.strip()]
    return " ".join(lines[:2])[:300] or "it said nothing"
