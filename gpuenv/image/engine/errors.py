"""Maps the failures of an engine to a message and a remedy: by the exception's cause, else by the engine's text.

The patterns are rows of data/build_failures.csv, of four kinds:

* ``failed step``: a builder's report that a command of the build (a RUN) failed. It has no message of its own.
* ``command``: output of such a command. It is tried if a step failed.
* ``engine``: an error of the engine itself. It is tried if no step failed.
* ``any``: output of either.

The first row that matches decides. ``seen`` names the programs that printed the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from gpuenv.doctor.fixes.table import read_rows
from gpuenv.model.redaction import hide_secrets
from gpuenv.model.strings import Lines

_LONGEST = 1500
_OUTPUT = re.compile(r"(?:#\d+ )?\d+\.\d+ (.*\S.*)")
# What the classic builder and Podman print between the output of the commands themselves.
_BUILDERS_OWN = re.compile(
    r"Step \d|STEP \d|--->|Removing intermediate container|The command '|# Executing \d+ build|Error: building at STEP"
    r"|building at STEP|time=\"|exit status \d"
)
_CAUSES: tuple[tuple[type[BaseException], str, str], ...] = (
    (PermissionError, "this user may not use the engine's socket", "Join the group docker, or use a rootless engine."),
    (
        FileNotFoundError,
        "no engine runs there: the socket does not exist",
        "Start Docker or Podman, or set DOCKER_HOST.",
    ),
    (ConnectionRefusedError, "no engine answers on the socket", "Start Docker or Podman, or set DOCKER_HOST."),
    (TimeoutError, "the engine does not answer in time", "Look at the engine's log, or restart it."),
)


class _Failure(NamedTuple):
    """A row of the table."""

    kind: str
    pattern: re.Pattern[str]
    message: str
    remedy: str | None


@lru_cache(maxsize=1)
def _failures() -> tuple[_Failure, ...]:
    return tuple(
        _Failure(kind, re.compile(pattern, re.IGNORECASE | re.MULTILINE), message, remedy or None)
        for kind, pattern, message, remedy, _ in read_rows("build_failures.csv")[1:]
    )


class EngineError(Exception):
    """A failure of the engine; ``remedy`` is the fix, if known."""

    def __init__(self, message: str, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def engine_error(error: BaseException, doing: str) -> EngineError:
    """The error for an exception of the SDK, while ``doing`` something."""
    for root in _roots(error):
        for kind, message, remedy in _CAUSES:
            if isinstance(root, kind):
                return EngineError(f"{doing}: {message}", remedy)
    return error_from_text(str(getattr(error, "explanation", None) or error), doing)


def error_from_text(text: str, doing: str) -> EngineError:
    """The error that an engine's output describes; the output itself follows the message."""
    shown = tidy_text(text)
    # A broken connection, a missing file or a refused login in a command's output is not the engine's own.
    step_failed = _step_failed(text)
    printed_by = "command" if step_failed else "engine"
    for row in _failures():
        if row.kind in (printed_by, "any") and row.pattern.search(text):
            return EngineError(Lines((f"{doing}: {row.message}", *shown.split("\n"))), row.remedy)
    first, *rest = shown.split("\n")
    last = (_last_line(shown) if step_failed else None) or (rest[-1] if rest else None)
    return EngineError(Lines((f"{doing}: {last}", first, *rest) if last else (f"{doing}: {first}",)))


def _step_failed(text: str) -> bool:
    """Whether a builder reports that a command of the build failed."""
    return any(row.kind == "failed step" and row.pattern.search(text) for row in _failures())


def _last_line(log: str) -> str | None:
    """The last line of output of the failed command of a build; None if it cannot be identified."""
    lines = [line.strip() for line in log.splitlines()]
    timed = [match[1] for line in lines if (match := _OUTPUT.fullmatch(line))]
    if timed or any(line.startswith("#") for line in lines):  # BuildKit marks the output of commands with seconds
        return timed[-1] if timed else None
    output = [line for line in lines if line and not (_BUILDERS_OWN.match(line) or _step_failed(line))]
    return output[-1] if output else None


def tidy_text(text: str) -> str:
    """An engine's output in ASCII, without colours and secrets; only the end of a long one."""
    plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).replace("\r", "\n")
    plain = re.sub(r"[\x00-\x09\x0b-\x1f\x7f]", " ", plain)
    # Secrets first: in a cut address, the beginning of a password is no longer recognisable.
    return hide_secrets(plain.strip().encode("ascii", "replace").decode())[-_LONGEST:]


def _roots(error: BaseException, depth: int = 0) -> Iterator[BaseException]:
    """An exception with its causes, contexts and inner exceptions."""
    yield error
    if depth < 8:  # noqa: PLR2004 - deeper than any library nests them
        inside = [entry for entry in error.args if isinstance(entry, BaseException)]
        for entry in (error.__cause__, error.__context__, getattr(error, "reason", None), *inside):
            if isinstance(entry, BaseException) and entry is not error:
                yield from _roots(entry, depth + 1)
