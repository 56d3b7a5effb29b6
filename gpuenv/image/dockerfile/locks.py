"""The versions in a lock file: uv.lock, poetry.lock, pdm.lock, pylock.toml, Pipfile.lock.

A lock is much larger than what is looked for in it, so that it is searched, not parsed: in the TOML ones a package's
name and version stand on neighbouring lines. Seen written, on 2026-11-22, for a project with cupy-cuda12x: uv.lock and
pylock.toml by uv, poetry.lock by poetry 2.5.1, Pipfile.lock by pipenv 2026.10.3. That pdm.lock is alike is assumed.
"""

from __future__ import annotations

import json
import re

from packaging.utils import canonicalize_name

_PACKAGE = re.compile(r"^\[\[packages?\]\]\s*^name = \"([^\"\n]+)\"\s*^version = \"([^\"\n]+)\"", re.MULTILINE)


def versions_of(text: str) -> dict[str, str]:
    """Each package's version, of those that have one and not several."""
    found: dict[str, set[str]] = {}
    for name, version in _pairs(text):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return {name: next(iter(versions)) for name, versions in found.items() if len(versions) == 1}


def _pairs(text: str) -> list[tuple[str, str]]:
    return _of_json(text) if text.lstrip().startswith("{") else _PACKAGE.findall(text)


def _of_json(text: str) -> list[tuple[str, str]]:
    """Those of a Pipfile.lock."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return []
    tables = [data.get(key) for key in ("default", "develop")] if isinstance(data, dict) else []
    entries = [entry for table in tables if isinstance(table, dict) for entry in table.items()]
    return [
        (name, table["version"].removeprefix("=="))
        for name, table in entries
        if isinstance(table, dict) and isinstance(table.get("version"), str)
    ]
