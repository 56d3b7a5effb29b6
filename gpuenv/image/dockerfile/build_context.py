"""The build context, and the files in it that a Dockerfile installs from. Nothing else reads the user's files.

pip, "Requirements File Format"; Python Packaging User Guide, "pyproject.toml specification" and "Dependency Groups";
uv, "Development dependencies" (all read 2026-11-22).
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from gpuenv.files import is_file, is_folder, parse_toml, read_regular
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
from gpuenv.image.dockerfile.stages import Stage, Step, join_image_path
from gpuenv.image.dockerfile.variables import is_known, substitute
from gpuenv.model.dependencies import logical_lines
from gpuenv.model.strings import error_reason
from gpuenv.model.versions import CudaVersion

_LARGEST, _MOST_FILES = 1 << 20, 50
_MAX_LOCATIONS = 200  # stages and paths that a file is searched in
_MOST_COPIES = 50_000  # sources of COPY, and mounts, that all files together are compared with
_NESTED = re.compile(r"(-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+|(?<=-[rc]))(\S+)")
_INDEX = re.compile(r"(?:-i|-f|--index-url|--extra-index-url|--find-links)\b")
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_DEEPEST = 5  # groups that include each other
_MOST = 5000  # entries of a file
_MOST_ENTRIES = 100_000  # of all files, each as often as it is installed from


@dataclass(slots=True, eq=False)
class BuildContext:
    """A build context: the names of the files that were read, and why others could not be read.

    Attributes:
        compared: the number of sources of COPY, and of mounts, that files were compared with.
        entries: the number of entries of files that were installed from.
        listings: the installs that each file lists, and why files that it includes could not be read.
    """

    folder: Path
    read: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    compared: int = 0
    entries: int = 0
    listings: dict[object, tuple[list[Install], dict[str, str]]] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether no further file is read: commands install from too many, or from long ones too often."""
        return self.entries > _MOST_ENTRIES

    @property
    def is_exhausted(self) -> bool:
        """Whether no further file is searched for: there are too many, in too many instructions."""
        return self.compared > _MOST_COPIES

    def text(self, name: str) -> str | None:
        """The text of a file; None if it is missing, too large or outside of the context."""
        try:
            path = (self.folder / name).resolve()
            if not path.is_relative_to(self.folder.resolve()):
                self.unread[name] = "it is outside of the build context"
                return None
            if not path.is_file():
                return None
            if len({*self.read, name}) > _MOST_FILES:
                self.unread[name] = f"the limit of {_MOST_FILES} files is reached"
                return None
            found = read_regular(path, _LARGEST).decode("utf-8", "replace").replace("\r\n", "\n")
        except (OSError, ValueError) as error:
            self.unread[name] = error_reason(error)
            return None
        if name not in self.read:
            self.read.append(name)
        return found

    def names(self, pattern: str) -> list[str]:
        """The files and folders that match a source of COPY."""
        if not any(mark in pattern for mark in "*?["):
            return [pattern]
        folder, base = posixpath.split(pattern)
        try:
            entries = sorted(entry.name for entry in (self.folder / folder).iterdir())
        except (OSError, ValueError):
            return []
        return [posixpath.join(folder, name) for name in fnmatch.filter(entries, base)]

    def has(self, name: str) -> bool:
        """Whether a file exists, even outside of the context (``text`` reports that)."""
        return is_file(self.folder / name)


def find_source(
    path: str, folder: str | None, step: Step, stage: Stage, build: tuple[Stage, ...], context: BuildContext
) -> str | None:
    """The file of the context at a path of a build step; None if no COPY put one there.

    ``folder`` is the current one, relative to the working directory of the step; None if unknown.
    """
    if not is_known(path) or "://" in path or (folder is None and not path.startswith("/")):
        return None
    wanted = join_image_path(join_image_path(step.workdir, folder or ""), path)
    for mount in step.instruction.flags_of("mount") if not context.is_exhausted else ():
        context.compared += 1
        parts = dict(part.partition("=")[::2] for part in mount.split(","))
        target = parts.get("target") or parts.get("dst") or parts.get("destination")
        if parts.get("type") == "bind" and "from" not in parts and target:
            source = substitute(parts.get("source") or parts.get("src") or ".", step.lookup)
            found = _in_context(wanted, source, join_image_path(step.workdir, substitute(target, step.lookup)), context)
            if found is not None:
                return found
    return _in_stage(wanted, stage, stage.steps.index(step), build, context, set())


def _in_stage(
    wanted: str, stage: Stage, before: int, build: tuple[Stage, ...], context: BuildContext, seen: set[tuple[int, str]]
) -> str | None:
    """The file of the context at a path of a stage, after some of its steps."""
    if (stage.number, wanted) in seen or len(seen) > _MAX_LOCATIONS or context.is_exhausted:
        return None
    seen.add((stage.number, wanted))
    names = {key: each for each in build[: stage.number] for key in (each.name, str(each.number)) if key}
    for step in reversed(stage.steps[:before]):
        origin = step.instruction.flag("from")
        if origin is not None and origin.lower() not in names:
            continue
        for source, target in copied_paths(step):
            if origin is None:
                found = _in_context(wanted, source.lstrip("/") or ".", target, context)
            else:
                other = names[origin.lower()]
                inner = _path_in_source(wanted, join_image_path("/", source), target)
                found = inner and _in_stage(inner, other, len(other.steps), build, context, seen)
            if found:
                return found
    if stage.parent is None:
        return None
    parent = build[stage.parent]
    return _in_stage(wanted, parent, len(parent.steps), build, context, seen)


def _in_context(wanted: str, source: str, target: str, context: BuildContext) -> str | None:
    context.compared += 1
    if not wanted.startswith(target.rstrip("/")):
        return None
    for name in context.names(source):
        if is_folder(context.folder / name):
            folder = target.rstrip("/") or "/"
            inside = wanted.startswith(f"{folder.rstrip('/')}/")
            found = posixpath.normpath(posixpath.join(name, posixpath.relpath(wanted, folder))) if inside else ""
        else:
            found = name if wanted in (target, posixpath.join(target, posixpath.basename(name))) else ""
        if found and context.has(found):
            return posixpath.normpath(found)
    return None


def _path_in_source(wanted: str, source: str, target: str) -> str | None:
    """The path in another stage of a file that COPY puts at ``wanted``: as the target, into it, or with its folder."""
    if wanted in (target, posixpath.join(target, posixpath.basename(source))):
        return source
    folder = target.rstrip("/")
    return posixpath.join(source, posixpath.relpath(wanted, folder or "/")) if wanted.startswith(f"{folder}/") else None


@lru_cache(maxsize=5000)  # for each file that is installed from
def copied_paths(step: Step) -> tuple[tuple[str, str], ...]:
    """The sources of a COPY or ADD, each with its target; a target that is a folder ends in ``/``."""
    if step.instruction.keyword not in ("COPY", "ADD"):
        return ()
    words = step.instruction.exec_form or step.instruction.body.text.split()
    *sources, target = [substitute(word, step.lookup).strip("\"'") for word in words] if len(words) > 1 else [""]
    path = join_image_path(step.workdir, target)
    folder = target.endswith("/") or len(sources) > 1 or target in (".", "./")
    target = path + ("/" if folder and path != "/" else "")
    return tuple((source, target) for source in sources if source and not source.startswith("<<"))


def path_of(listed: DependencyFile) -> str:
    """The path of the file; for a project, of its pyproject.toml."""
    if listed.kind is FileKind.PROJECT and not listed.path.endswith(".toml"):
        return posixpath.normpath(posixpath.join(listed.path, "pyproject.toml"))
    return listed.path


def read_dependencies(
    listed: DependencyFile, name: str, context: BuildContext
) -> tuple[list[Install], Mapping[str, str]]:
    """The installs that a file of this name in the build context lists, and the reasons why some are unknown."""
    key = (listed.kind, name, listed.extras, listed.groups, listed.project)
    if key not in context.listings:
        before, context.unread = context.unread, {}
        if listed.kind is FileKind.PROJECT:
            read = _project(listed, name, context)
        elif listed.kind is FileKind.ENVIRONMENT:
            read = _environment(name, context)
        else:
            read = _requirements(name, context, set())
        context.listings[key] = (read[:_MOST], context.unread)
        context.unread = before | context.unread
    found, unread = context.listings[key]
    context.entries += 1 + len(found)
    return [replace(each, index_cuda=each.index_cuda or listed.index_cuda) for each in found], unread


def apply_constraints(installs: list[Install], constraints: list[Install]) -> list[Install]:
    """The installs, limited to the versions that constraints allow: unknown ones if a constraint has a marker."""
    limits = {each.name: None if each.marker else each.specifier for each in constraints if each.specifier is not None}
    return [
        replace(each, specifier=None if (limit := limits[each.name]) is None else each.specifier & limit)
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
    for entry in islice(_project_dependencies(listed, data), _MOST):
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
