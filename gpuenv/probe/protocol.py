"""What a probing script prints: one fact a line, ``gpuenv:{"key": value}``; every other line is somebody else's.

The scripts print each fact as soon as they have it, so a child that hangs or crashes half-way has not spoken in vain;
``done`` is the last line of one that came to its end.
"""

from __future__ import annotations

import json
from typing import Any

_MARK = "gpuenv:"


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
