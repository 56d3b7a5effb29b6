"""The messages that ``gpuenv explain`` knows, one YAML file for each program in ``gpuenv/data/messages``.

The build compiles them to JSON (``hatch_build.py``); the JSON has the checksum of the files and is used for those only.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from gpuenv.data import COMPILED_MESSAGES, DATA
from gpuenv.explain.patterns import compiled
from gpuenv.model.causes import Cause, Fix, find_cause

MESSAGES = DATA / "messages"
Weights = Mapping[Cause, float]
_REQUIRED = {"id": str, "causes": dict, "source": str, "example": str}
_OPTIONAL: Mapping[str, type | tuple[type, ...]] = {
    "text": (str, list),
    "pattern": str,
    "literals": list,
    "unless": str,
    "needs": list,
    "lacks": list,
    "replaces": list,
    "by": list,
    "warning": bool,
    "late": bool,
    "title": str,
    "decided_by": str,
    "code": str,
    "fix": list,
}
_FIX_KEYS = {"text", "command", "shell_line"}
_NUMBER = re.compile(r"[01](?:\.\d+)?")
_SHORTEST = 3  # characters of a literal: a shorter one is in nearly every line


class MessageError(Exception):
    """A file of messages is invalid; the message names the file and the entry."""


@dataclass(frozen=True, slots=True)
class ByValue:
    """Causes that a captured value decides.

    Attributes:
        group: the name of the group in the pattern; ``any`` for each of them.
        pattern: a regular expression that the whole value matches.
        causes: each with its weight.
    """

    group: str
    pattern: str
    causes: Weights


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a program prints, and the causes it can have.

    Attributes:
        id: stable, such as ``nvml.version-mismatch``.
        program: the program that prints it: the name of its file.
        literals: lower-case texts; the line contains at least one.
        pattern: a regular expression over the line, if a literal alone does not suffice; a space in it matches any
            white space, a named group is a captured value.
        unless: a regular expression over the line; if it matches, the line is advice or reports success.
        needs: lower-case words; the whole text contains at least one. For a message that other programs print too.
        lacks: lower-case words; the whole text contains none of them.
        replaces: ids of messages; where this one is in the text too, they have its causes.
        causes: each with its weight, 0 to 1, without other evidence.
        by: causes by a captured value; the first that matches replaces ``causes``.
        warning: whether the program goes on; an error in the same text outweighs it.
        late: whether the error is asynchronous: an earlier call than the reporting one caused it.
        title: a sentence for the user with ``{captured}`` values; without one, the sentence of the cause.
        decided_by: the fact that would settle which cause it is.
        code: the check of the doctor that finds it on a machine, if it is not the cause's own.
        fix: what to do about it, instead of the fixes of its main cause, which are for every message of that cause: a
            text, or a mapping with a text and a command, or with a text and a line for the user's own shell.
        source: the binary, package or document that has the message.
        example: a line that has the message.
    """

    id: str
    program: str
    literals: tuple[str, ...]
    causes: Weights
    source: str
    example: str
    pattern: str | None = None
    unless: str | None = None
    needs: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    by: tuple[ByValue, ...] = ()
    warning: bool = False
    late: bool = False
    title: str | None = None
    decided_by: str | None = None
    code: str | None = None
    fix: tuple[Fix, ...] = ()

    def weights(self, values: Mapping[str, str]) -> Weights:
        """The causes with their weights, for these captured values."""
        for rule in self.by:
            named = values.values() if rule.group == "any" else filter(None, (values.get(rule.group),))
            if any(compiled(rule.pattern).fullmatch(value) for value in named):
                return rule.causes
        return self.causes


@cache
def all_messages() -> tuple[Message, ...]:
    """All messages, in the order of their files.

    Raises:
        MessageError: when a file in a checkout is invalid.
        FileNotFoundError: when the installation is broken.
    """
    texts = _texts()  # none in a wheel
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):  # missing, or built by another release
        built = json.loads(COMPILED_MESSAGES.read_text(encoding="utf-8"))
        if not texts or built["crc32"] == _checksum(texts):
            return tuple(map(_message, built["messages"]))
    if not texts:
        raise FileNotFoundError(f"{COMPILED_MESSAGES.name} is missing from this installation of gpuenv; reinstall it")
    return tuple(map(_message, _rows(texts)))


def compile_messages() -> str:
    """The JSON of all files, with their checksum.

    Raises:
        MessageError: when one is invalid.
    """
    texts = _texts()
    return json.dumps({"crc32": _checksum(texts), "messages": list(_rows(texts))}, separators=(",", ":"))


def _texts() -> dict[str, str]:
    return {file.stem: file.read_text(encoding="utf-8") for file in sorted(MESSAGES.glob("*.yaml"))}


def _checksum(texts: Mapping[str, str]) -> int:
    return zlib.crc32("".join(texts.values()).encode())


def _rows(texts: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    from gpuenv.matrix.strict_yaml import YamlError, parse  # noqa: PLC0415 - only the build and a changed checkout need it

    seen: set[str] = set()
    for program, text in texts.items():
        try:
            entries: Any = parse(text).value
        except YamlError as error:
            raise MessageError(f"{program}.yaml: {error}") from error
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise MessageError(f"{program}.yaml: expected a list of entries, each with its keys")
        for entry in entries:
            plain: Any = _typed(entry)
            row = {**plain, "program": program}
            problem = "the id is used twice" if row.get("id") in seen else next(_problems(row), None)
            if problem:
                raise MessageError(f"{program}.yaml: {row.get('id', 'an entry without an id')}: {problem}")
            seen.add(row["id"])
            yield row


def _typed(value: object, key: str = "") -> object:
    """A value of YAML, which is text, with numbers for weights and booleans."""
    if isinstance(value, dict):
        return {name: _typed(part, "weight" if key == "causes" else name) for name, part in value.items()}
    if isinstance(value, list):
        return [_typed(part) for part in value]
    if key == "weight" and isinstance(value, str) and _NUMBER.fullmatch(value):
        return float(value)
    return True if key in ("warning", "late") and value == "true" else value


def _problems(row: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an entry, the first fault first."""
    types = {**_REQUIRED, **_OPTIONAL, "program": str}
    yield from (f"{key} is missing" for key in _REQUIRED if key not in row)
    yield from (f"{key} is unknown; expected one of {', '.join(types)}" for key in row if key not in types)
    for key, value in row.items():
        if not isinstance(value, types[key]):
            yield f"{key}: expected {types[key]}, found {value!r:.40}"
    if ("text" in row) == ("pattern" in row) or ("pattern" in row) != ("literals" in row):
        yield "expected either text, or pattern and literals (texts; a line with the pattern has at least one)"
    try:
        message = _message(row)
        for pattern in filter(None, (message.pattern, message.unless, *(rule.pattern for rule in message.by))):
            compiled(pattern)
    except KeyError as error:
        yield f"{error} is not a cause"
        return
    except (re.error, ValueError, TypeError) as error:
        yield str(error)
        return
    if any(len(literal) < _SHORTEST or literal != literal.lower() for literal in message.literals):
        yield f"expected literals in lower case, of {_SHORTEST} characters or more"
    for weights in (message.causes, *(rule.causes for rule in message.by)):
        numbers: list[Any] = list(weights.values())  # a weight that is no number is still text
        if any(not isinstance(number, float) or number <= 0 for number in numbers) or sum(numbers) > 1:
            yield "expected weights above 0 that add up to 1 at most"


def _message(row: Mapping[str, Any]) -> Message:
    text = row.get("text", ())
    texts = (text,) if isinstance(text, str) else text
    return Message(
        id=row["id"],
        program=row["program"],
        literals=tuple(row.get("literals") or (part.lower() for part in texts)),
        causes=_weights(row["causes"]),
        source=row["source"],
        example=row["example"],
        pattern=row.get("pattern"),
        unless=row.get("unless"),
        needs=tuple(row.get("needs", ())),
        lacks=tuple(row.get("lacks", ())),
        replaces=tuple(row.get("replaces", ())),
        by=tuple(_by_value(rule) for rule in row.get("by", ())),
        warning=row.get("warning", False),
        late=row.get("late", False),
        title=row.get("title"),
        decided_by=row.get("decided_by"),
        code=row.get("code"),
        fix=tuple(map(_fix, row.get("fix", ()))),
    )


def _fix(step: str | Mapping[str, str]) -> Fix:
    if isinstance(step, str):
        return Fix(step)
    if "text" not in step or not step.keys() <= _FIX_KEYS or len(step) > 2:  # noqa: PLR2004 - a text and what it runs
        raise ValueError(f"fix: expected a text, or a text with a command or a shell_line; found {', '.join(step)}")
    return Fix(step["text"], tuple(shlex.split(step.get("command", ""))) or None, shell_line=step.get("shell_line"))


def _by_value(rule: Mapping[str, Any]) -> ByValue:
    if "causes" not in rule:
        raise ValueError("by: causes are missing")
    ((group, pattern),) = ((key, value) for key, value in rule.items() if key != "causes")
    return ByValue(group, str(pattern), _weights(rule["causes"]))


def _weights(causes: Mapping[str, float]) -> Weights:
    return {find_cause(name): weight for name, weight in causes.items()}
