"""The files that a Dockerfile installs from: requirements.txt, environment.yml, pyproject.toml.

pip, "Requirements File Format"; Python Packaging User Guide, "pyproject.toml specification" and "Dependency Groups";
uv, "Development dependencies" (all read 2026-11-22).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpuenv.files import parse_toml
from gpuenv.image.dockerfile.build_context import BuildContext
from gpuenv.image.dockerfile.requirements import (
    DependencyFile,
    FileKind,
    Install,
    Manager,
    SourceLocation,
    index_cuda,
    parse_conda_spec,
    parse_requirement,
)
from gpuenv.model.dependencies import logical_lines
from gpuenv.model.versions import CudaVersion

_NESTED = re.compile(r"(-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+|(?<=-[rc]))(\S+)")
_INDEX = re.compile(r"(?:-i|-f|--index-url|--extra-index-url|--find-links)\b")
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_DEEPEST = 5  # groups that include each other
_MOST = 5000  # entries of a file


def path_of(listed: DependencyFile) -> str:
    """The path of the file; for a project, of its pyproject.toml."""
    if listed.kind is FileKind.PROJECT and not listed.path.endswith(".toml"):
        return posixpath.normpath(posixpath.join(listed.path, "pyproject.toml"))
    return listed.path


def read_dependencies(listed: DependencyFile, name: str, context: BuildContext) -> list[Install]:
    """The installs that a file lists.

    Args:
        listed: the file, as a command names it.
        name: its name in the build context.
        context: the build context.
    """
    if listed.kind is FileKind.PROJECT:
        found = _project(listed, name, context)
    elif listed.kind is FileKind.ENVIRONMENT:
        found = _environment(name, context)
    else:
        found = _requirements(name, context, set())
    return [replace(each, index_cuda=each.index_cuda or listed.index_cuda) for each in found[:_MOST]]


def apply_constraints(installs: list[Install], constraints: list[Install]) -> list[Install]:
    """The installs, limited to the versions that constraints allow."""
    limits = {each.name: each.specifier for each in constraints if each.specifier is not None}
    return [
        replace(each, specifier=each.specifier & limits[each.name])
        if each.specifier is not None and each.name in limits and each.manager is Manager.PIP
        else each
        for each in installs
    ]


def _requirements(
    name: str, context: BuildContext, seen: set[tuple[str, bool]], *, limits: bool = False
) -> list[Install]:
    """The installs of a requirements file and its includes; each file is read once."""
    text = None if (name, limits) in seen else context.text(name)
    seen.add((name, limits))
    found: list[Install] = []
    constraints: list[Install] = []
    index: CudaVersion | None = None
    for line, entry in logical_lines(text or ""):
        nested = _NESTED.match(entry)
        if nested is not None:
            of_limits = limits or "c" in nested[1][:3]
            other = posixpath.normpath(posixpath.join(posixpath.dirname(name), nested[2]))
            (constraints if of_limits else found).extend(_requirements(other, context, seen, limits=of_limits))
        elif entry.startswith("-"):
            index = index_cuda(entry) if _INDEX.match(entry) else index
        else:
            read = parse_requirement(entry, SourceLocation(name, line))
            found += [read] if read is not None else []
        if len(found) > _MOST:
            context.unread[name] = f"it has more than {_MOST} entries"
            break
    placed = [replace(each, index_cuda=each.index_cuda or index) for each in found]
    return [*placed, *constraints] if limits else apply_constraints(placed, constraints)


def _project(listed: DependencyFile, name: str, context: BuildContext) -> list[Install]:
    text = context.text(name) or ""
    try:
        data = parse_toml(text)
    except (ValueError, RecursionError) as error:
        context.unread[name] = f"it is not valid TOML: {str(error)[:80]}"
        return []
    found = []
    is_locked = any(context.has(posixpath.join(posixpath.dirname(name), lock)) for lock in _LOCKS)
    indexes = _uv_indexes(data)
    project = _table(data, "project")
    if listed.project and (not project or "dependencies" in _texts(project.get("dynamic"))):
        context.unread[name] = "its dependencies are listed elsewhere"
    for entry in _project_dependencies(listed, data):
        read = parse_requirement(entry, SourceLocation(name, _line_of(entry, text)))
        if read is not None:
            specifier = None if is_locked and read.exact is None else read.specifier  # the lock has the version
            found.append(replace(read, specifier=specifier, index_cuda=indexes.get(read.name)))
    return found


def _project_dependencies(listed: DependencyFile, data: Mapping[str, Any]) -> Iterator[str]:
    project, groups = _table(data, "project"), _table(data, "dependency-groups")
    if listed.project:
        yield from _texts(project.get("dependencies"))
    for extra, entries in _table(project, "optional-dependencies").items():
        if {extra, "*"} & listed.extras:
            yield from _texts(entries)
    for group in groups:
        if {group, "*"} & listed.groups:
            yield from _group(groups, group, 0)


def _group(groups: Mapping[str, Any], name: str, depth: int) -> Iterator[str]:
    entries = groups.get(name)
    for entry in entries if isinstance(entries, list) and depth < _DEEPEST else ():
        if isinstance(entry, str):
            yield entry
        elif isinstance(entry, dict) and isinstance(entry.get("include-group"), str):
            yield from _group(groups, entry["include-group"], depth + 1)


def _uv_indexes(data: Mapping[str, Any]) -> dict[str, CudaVersion | None]:
    """The CUDA of the index that ``tool.uv.sources`` names for a package."""
    uv = _table(_table(data, "tool"), "uv")
    listed = uv.get("index")
    indexes = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    known = {str(entry.get("name")): index_cuda(str(entry.get("url", ""))) for entry in indexes}
    found: dict[str, CudaVersion | None] = {}
    for name, value in _table(uv, "sources").items():
        for entry in value if isinstance(value, list) else [value]:
            if isinstance(entry, dict) and "index" in entry:
                found[name] = known.get(str(entry["index"]))
    return found


def _table(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = data.get(key)
    return found if isinstance(found, Mapping) else {}


def _texts(value: object) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _line_of(entry: str, text: str) -> int:
    """The line of a dependency; tomllib reports no lines."""
    at = text.find(entry)
    return text.count("\n", 0, at) + 1 if at >= 0 else 1


def _environment(name: str, context: BuildContext) -> list[Install]:
    """``environment.yml``: packages of conda, and below ``pip`` those of pip."""
    from gpuenv.matrix.strict_yaml import YamlError, parse_shared  # noqa: PLC0415 - to explain a rule needs no YAML

    try:
        document = parse_shared(context.text(name) or "")
    except YamlError as error:
        context.unread[name] = str(error)
        return []
    listed = document.value.get("dependencies") if isinstance(document.value, dict) else None
    found: list[Install | None] = []
    for number, entry in enumerate(listed if isinstance(listed, list) else ()):
        path = f"dependencies[{number}]"
        if isinstance(entry, str):
            found.append(parse_conda_spec(entry, SourceLocation(name, document.lines.get(path, 1))))
        for position, text in enumerate(_texts(entry.get("pip")) if isinstance(entry, dict) else ()):
            nested = _NESTED.match(text)
            if nested is not None:
                other = posixpath.normpath(posixpath.join(posixpath.dirname(name), nested[2]))
                found += _requirements(other, context, set())
                continue
            location = SourceLocation(name, document.lines.get(f"{path}.pip[{position}]", 1))
            found.append(parse_requirement(text, location))
    return [each for each in found if each is not None]
