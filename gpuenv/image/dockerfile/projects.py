"""Requirements of a project: the tables of pyproject.toml, poetry's among them, and of a Pipfile.

Python Packaging User Guide, "pyproject.toml specification" and "Dependency Groups"; uv, "Dependencies", Development
dependencies: the group dev is in by default (tool.uv.default-groups); poetry, "Managing dependencies", groups are in
unless they are optional, and "Dependency specification", caret and tilde requirements; pipenv, "Pipfile" (read
2026-11-22).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuenv.image.dockerfile.indexes import NO_CUDA, index_cuda
from gpuenv.model.versions import CudaVersion

EVERY = "*"  # every extra, every group
_DEEPEST = 5  # groups that include groups


@dataclass(frozen=True, slots=True)
class Selection:
    """Which parts of a project are meant.

    Attributes:
        extras: its extras; ``EVERY`` for all.
        groups: its dependency groups; ``EVERY`` for all.
        without: groups that are left out.
        defaults: whether the groups that its tool installs unasked are meant.
        project: whether the project's own dependencies are.
    """

    extras: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()
    without: frozenset[str] = frozenset()
    defaults: bool = False
    project: bool = True

    def wants(self, group: str, *, unasked: bool) -> bool:
        """Whether a group is meant."""
        named = group in self.groups or EVERY in self.groups
        return group not in self.without and (named or (unasked and self.defaults and EVERY not in self.without))


def dependencies(data: Mapping[str, Any], selection: Selection) -> Iterator[str]:
    """The requirements of a pyproject.toml."""
    project, poetry = _table(data, "project"), _table(data, "tool", "poetry")
    if selection.project:
        yield from _texts(project.get("dependencies"))
        for name, entries in _table(project, "optional-dependencies").items():
            if {name, canonicalize_name(name), EVERY} & selection.extras:
                yield from _texts(entries)
    yield from _of_groups(data, selection)
    if selection.project:
        yield from _of_poetry(_table(poetry, "dependencies"), selection.extras)
    for name, group in _table(poetry, "group").items():
        optional = isinstance(group, dict) and group.get("optional") is True
        if selection.wants(name, unasked=not optional):
            yield from _of_poetry(_table(_table(poetry, "group", name), "dependencies"), selection.extras)
    if selection.wants("dev", unasked=True):
        yield from _of_poetry(_table(poetry, "dev-dependencies"), selection.extras)


def has_dynamic_dependencies(data: Mapping[str, Any]) -> bool:
    """Whether a pyproject.toml states no dependencies, and leaves them to the tool that builds the project."""
    project = _table(data, "project")
    return "dependencies" in _texts(project.get("dynamic")) or not (project or _table(data, "tool"))


def _of_groups(data: Mapping[str, Any], selection: Selection) -> Iterator[str]:
    """PEP 735's groups, and what uv had before them."""
    groups, uv = _table(data, "dependency-groups"), _table(data, "tool", "uv")
    named = uv.get("default-groups", ["dev"])
    unasked = set(groups) if named == "all" else set(_texts(named))
    for name in groups:
        if selection.wants(name, unasked=name in unasked):
            yield from _group(groups, name, 0)
    if selection.wants("dev", unasked="dev" in unasked):
        yield from _texts(uv.get("dev-dependencies"))


def _group(groups: Mapping[str, Any], name: str, depth: int) -> Iterator[str]:
    entries = groups.get(name)
    for entry in entries if isinstance(entries, list) and depth < _DEEPEST else ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict) and isinstance(entry.get("include-group"), str):
            yield from _group(groups, entry["include-group"], depth + 1)


def _of_poetry(table: Mapping[str, Any], extras: frozenset[str]) -> Iterator[str]:
    """What is optional comes with the extras that name it, of which only all of them are looked at."""
    for name, value in table.items():
        for entry in value if isinstance(value, list) else [value]:  # one for each Python or system
            optional = isinstance(entry, dict) and entry.get("optional") is True
            if name != "python" and (not optional or EVERY in extras):
                yield of_table(name, entry)


def sources(data: Mapping[str, Any]) -> dict[str, CudaVersion]:
    """The CUDA major of the index that a project names for a package, by tool.uv.sources or poetry's source; else 0."""
    uv, poetry = _table(data, "tool", "uv"), _table(data, "tool", "poetry")
    named = {
        entry["name"]: index_cuda(str(entry.get("url", ""))) or NO_CUDA
        for entry in (*_tables(uv.get("index")), *_tables(poetry.get("source")))
        if isinstance(entry.get("name"), str)
    }
    found: dict[str, CudaVersion] = {}
    for name, value in _table(uv, "sources").items():
        indexes = {named.get(str(entry.get("index")), NO_CUDA) for entry in _tables(value)}
        found[canonicalize_name(name)] = max(indexes, default=NO_CUDA)
    groups = (_table(poetry, "group", name, "dependencies") for name in _table(poetry, "group"))
    for table in (_table(poetry, "dependencies"), *groups):
        for name, value in table.items():
            for entry in _tables(value):
                if "source" in entry:
                    found[canonicalize_name(name)] = named.get(str(entry["source"]), NO_CUDA)
    return found


def _tables(value: object) -> list[Mapping[str, Any]]:
    """A table, or an array of them."""
    return [entry for entry in (value if isinstance(value, list) else [value]) if isinstance(entry, Mapping)]


def of_pipfile(data: Mapping[str, Any], *, development: bool) -> Iterator[str]:
    """The requirements of a Pipfile."""
    for table in ("packages", "dev-packages") if development else ("packages",):
        for name, value in _table(data, table).items():
            yield of_table(name, value)


def of_table(name: str, value: object) -> str:
    """A requirement that stands in a table: ``cupy-cuda12x = {version = "^13", extras = ["ctk"]}``."""
    table = value if isinstance(value, dict) else {"version": value}
    extras = _texts(table.get("extras"))
    wanted = f"{name}[{','.join(extras)}]" if extras else name
    address = next((table[key] for key in ("url", "git", "path", "file") if isinstance(table.get(key), str)), None)
    if address is not None:
        return f"{wanted} @ {'git+' if 'git' in table else ''}{address}"
    version = table.get("version")
    text = version.strip() if isinstance(version, str) else ""
    markers = table.get("markers") or (f"sys_platform == '{table['platform']}'" if "platform" in table else None)
    marker = f"; {markers}" if isinstance(markers, str) else ""
    return (
        wanted
        + ",".join(_specifier(part.strip()) for part in text.split(",") if part.strip() not in ("", "*"))
        + marker
    )


def _specifier(text: str) -> str:
    """A version as poetry writes it: caret, tilde, a bare number or a star."""
    match = re.match(r"(\^|~(?!=)|=(?!=))?\s*v?(\d{1,20}(?:\.\d{1,20})*)(?!\d)(.*)", text)
    if match is None:
        return text
    sign, version, rest = match[1], match[2], match[3]
    if sign not in ("^", "~"):
        return f"=={version}{rest}"
    parts = Version(version).release
    at = 0 if sign == "^" else min(1, len(parts) - 1)
    if sign == "^":
        at = next((n for n, part in enumerate(parts) if part), len(parts) - 1)
    upper = [*parts[:at], parts[at] + 1]
    return f">={version}{rest},<{'.'.join(map(str, upper))}"


def _table(data: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    found: Any = data
    for key in keys:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _texts(value: object) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []
