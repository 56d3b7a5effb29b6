"""The files that a Dockerfile installs from, read inside its build context and nowhere else."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from gpuenv.files import LARGEST_DOCUMENT, parse_toml
from gpuenv.image.dockerfile import legacy_projects, pixi
from gpuenv.image.dockerfile.build_context import BuildContext
from gpuenv.image.dockerfile.build_point import BuildPoint, GeneratedSource, Inline
from gpuenv.image.dockerfile.file_sources import file_source
from gpuenv.image.dockerfile.indexes import index_cuda
from gpuenv.image.dockerfile.install_requests import (
    LONGEST,
    DependencyFile,
    FileKind,
    Install,
    InstallRequest,
    Manager,
    SourceLocation,
    conda_spec,
    requirement,
)
from gpuenv.image.dockerfile.locks import versions_of
from gpuenv.image.dockerfile.projects import (
    EVERY,
    Selection,
    dependencies,
    has_dynamic_dependencies,
    of_pipfile,
    sources,
)
from gpuenv.image.dockerfile.variables import is_known
from gpuenv.model.versions import CudaVersion

_DEEPEST = 5
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_PROJECT = "pyproject.toml"
_NESTED = re.compile(r"(-r|--requirement|-c|--constraint)(?:\s*=\s*|\s+|(?<=-[rc]))(\S+)")
_INDEX = re.compile(r"(?:-i|-f|--index-url|--extra-index-url|--find-links)\b")


def follow(listed: DependencyFile, point: BuildPoint, context: BuildContext, depth: int = 0) -> InstallRequest:
    """What a file lists; a missing one is recorded."""
    if listed.kind is FileKind.PIXI:
        return _pixi(listed, point, context)
    path = _file_of(listed)
    found = file_source(path, point, context) if is_known(path) else None
    if found is None and listed.kind is FileKind.PROJECT:
        found = _legacy(listed, point, context)
    if isinstance(found, GeneratedSource):
        if depth > _DEEPEST:
            return InstallRequest()
        parts = [follow(entry, found.where, context, depth + 1) for entry in found.listed]
        return InstallRequest(tuple(install for part in parts for install in part.installs))
    if isinstance(found, Inline):
        lists = listed.kind in (FileKind.REQUIREMENTS, FileKind.CONSTRAINTS)
        return InstallRequest(tuple(_listing(found.text, found.file, found.above, context, _Seen())) if lists else ())
    if found is None:
        _note(listed, context)
        return InstallRequest()
    return InstallRequest(tuple(_from_index(install, listed.index_cuda) for install in _read(listed, found, context)))


def _file_of(listed: DependencyFile) -> str:
    """The path of the file itself: of a project, that of its pyproject.toml or Pipfile."""
    if listed.kind is FileKind.PROJECT and not listed.path.endswith(".toml"):
        return posixpath.normpath(posixpath.join(listed.path, _PROJECT))
    if listed.kind is FileKind.PIPFILE:
        return posixpath.normpath(posixpath.join(listed.path, "Pipfile"))
    return listed.path


def _legacy(listed: DependencyFile, point: BuildPoint, context: BuildContext) -> str | None:
    """The setup.cfg or setup.py of a project that has no pyproject.toml."""
    paths = (posixpath.normpath(posixpath.join(listed.path, name)) for name in legacy_projects.FILES)
    found = [file_source(path, point, context) for path in paths if is_known(path)]
    return next((name for name in found if isinstance(name, str) and _states(name, context)), None)


def _states(name: str, context: BuildContext) -> bool:
    text = context.text(name) or ""
    return any(legacy_projects.dependencies_of(name, text, Selection(frozenset({EVERY}))))


def _note(listed: DependencyFile, context: BuildContext) -> None:
    """Records a list that is named and missing; a project may have its list elsewhere."""
    if listed.kind not in (FileKind.PROJECT, FileKind.CONSTRAINTS):
        context.missing.append((listed.location.file, listed.location.line, _file_of(listed)))


def _read(listed: DependencyFile, name: str, context: BuildContext) -> Iterator[Install]:
    if listed.kind is FileKind.PROJECT:
        return _project(listed, name, context)
    if listed.kind is FileKind.PIPFILE:
        return _pipfile(listed, name, context)
    if listed.kind is FileKind.ENVIRONMENT:
        return _environment(name, context)
    if listed.kind is FileKind.PACKAGES:
        return _packages(name, context)
    return iter(_requirements(name, context, _Seen()))


@dataclass(frozen=True, slots=True)
class _Seen:
    """The lists that were read, as requirements and as constraints: each is read once."""

    lists: set[str] = field(default_factory=set)
    constraints: set[str] = field(default_factory=set)


def _requirements(name: str, context: BuildContext, seen: _Seen) -> list[Install]:
    """A file of requirements, with those that it names; nothing for one that was read."""
    if name in seen.lists:
        return []
    seen.lists.add(name)
    text = context.text(name)
    return [] if text is None else _listing(text, name, 0, context, seen)


def _listing(text: str, name: str, above: int, context: BuildContext, seen: _Seen) -> list[Install]:
    """The text of such a file, with so many lines above it; its constraints and its index are for all in it."""
    found: list[Install] = []
    limits: list[Install] = []
    index: CudaVersion | None = None
    for line, entry in _logical_lines(text):
        if not context.may_list(name):
            break
        nested = _NESTED.match(entry)
        if nested:
            limiting = "c" in nested[1][:3]
            lists = _Seen(seen.constraints, seen.constraints) if limiting else seen
            inner = _requirements(posixpath.normpath(path_from_file(name, nested[2])), context, lists)
            (limits if limiting else found).extend(inner)
        elif entry.startswith("-"):
            index = index_cuda(entry) if _INDEX.match(entry) else index
        else:
            if len(entry.split(" --", maxsplit=1)[0]) > LONGEST:
                context.passed_over[name] = f"line {line + above} has more than {LONGEST} characters"
            entry_install = requirement(entry, SourceLocation(name, line + above))
            found += [replace(entry_install, locked="--hash=" in text)] if entry_install is not None else []
    return apply_constraints([_from_index(install, index) for install in found], limits)


def _from_index(install: Install, index: CudaVersion | None) -> Install:
    return replace(install, index_cuda=index) if install.index_cuda is None else install


def path_from_file(name: str, other: str) -> str:
    """A path that is named in a file, from that file's folder."""
    return posixpath.join(posixpath.dirname(name), other)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending: list[str] = []
    first = 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(?:^|\s)#.*$", "", raw).strip()
        first = first if pending else number
        if line.endswith("\\"):
            pending.append(line[:-1])
            continue
        whole = " ".join((*pending, line)).strip()
        pending = []
        if whole:
            yield first, whole


def _project(listed: DependencyFile, name: str, context: BuildContext) -> Iterator[Install]:
    text = context.text(name) or ""
    if name.endswith(legacy_projects.FILES):
        yield from _named(legacy_projects.dependencies_of(name, text, listed.selection), name, text, None, context)
        return
    data = _toml(name, text, context)
    if has_dynamic_dependencies(data):
        yield from _beside(listed, name, context)
    lock = next((path for path in (path_from_file(name, lock) for lock in _LOCKS) if context.has(path)), None)
    indexes = sources(data)
    for entry in _named(dependencies(data, listed.selection), name, text, _locked(lock, context), context):
        yield replace(entry, index_cuda=indexes.get(entry.name, entry.index_cuda))


def _beside(listed: DependencyFile, name: str, context: BuildContext) -> Iterator[Install]:
    """Requirements in setup.cfg or setup.py, for a pyproject.toml that leaves them to setuptools."""
    for other in (path_from_file(name, file) for file in legacy_projects.FILES):
        text = context.text(other) if context.has(other) else None
        if text is not None:
            entries = legacy_projects.dependencies_of(other, text, listed.selection)
            yield from _named(entries, other, text, None, context)


def _pipfile(listed: DependencyFile, name: str, context: BuildContext) -> Iterator[Install]:
    text = context.text(name) or ""
    entries = of_pipfile(_toml(name, text, context), development=EVERY in listed.selection.groups)
    lock = f"{name}.lock" if context.has(f"{name}.lock") else None
    return _named(entries, name, text, _locked(lock, context), context)


def _locked(lock: str | None, context: BuildContext) -> dict[str, str] | None:
    """The versions of a lock; none where there is no lock."""
    return None if lock is None else versions_of(context.text(lock, LARGEST_DOCUMENT) or "")


def _named(
    entries: Iterable[str], name: str, text: str, locked: dict[str, str] | None, context: BuildContext
) -> Iterator[Install]:
    for entry in entries:
        if not context.may_list(name):
            break
        found = requirement(entry, SourceLocation(name, _line_of(entry, text)))
        if found is None:
            continue
        version = (locked or {}).get(found.name)
        if version is not None and found.specifier is not None:
            found = replace(found, specifier=_exactly(version))
        yield replace(found, locked=locked is not None)


def _exactly(version: str) -> SpecifierSet | None:
    try:
        return SpecifierSet(f"=={version}")
    except InvalidSpecifier:
        return None


def _toml(name: str, text: str, context: BuildContext) -> dict[str, Any]:
    try:
        return parse_toml(text)
    except (ValueError, RecursionError) as error:
        context.passed_over[name] = f"is no TOML: {str(error)[:80]}"
        return {}


def _pixi(listed: DependencyFile, point: BuildPoint, context: BuildContext) -> InstallRequest:
    """The manifest of pixi's that is named, or the first of a folder; of pyproject.toml the project's own besides."""
    paths = [listed.path] if listed.path.endswith(".toml") else [f"{listed.path}/{name}" for name in pixi.MANIFESTS]
    for path in paths:
        name = file_source(posixpath.normpath(path), point, context)
        text = context.text(name) if isinstance(name, str) else None
        if not isinstance(name, str) or text is None:
            continue
        data = _toml(name, text, context)
        manifest = pixi.manifest_of(data, name)
        if manifest is None:
            continue
        own = dependencies({"project": data.get("project")}, Selection()) if manifest is not data else ()
        locked = context.has(path_from_file(name, "pixi.lock"))
        listing = (
            *pixi.installs(manifest, listed.selection.extras, name, text),
            *_named(own, name, text, None, context),
        )
        return InstallRequest(tuple(replace(entry, locked=locked) for entry in listing))
    return InstallRequest()


def _line_of(entry: str, text: str) -> int:
    """The line in which a dependency stands: TOML's reader tells none."""
    name = re.escape(re.split(r"[\s\[=<>!~;@]", entry)[0])
    as_key = rf"\s*(?:[\[{{(,]\s*)?[\"']?{name}(?![\w.-])"
    for pattern in (re.escape(entry), rf"^{as_key}", name):
        found = re.search(pattern, text, re.IGNORECASE | re.MULTILINE)
        if found is not None:
            return text.count("\n", 0, found.end()) + 1
    return 1


def _environment(name: str, context: BuildContext) -> Iterator[Install]:
    """``environment.yml``: packages of conda, and below pip those of pip."""
    text = context.text(name)
    if text is None:
        return
    from gpuenv.matrix.strict_yaml import YamlError, parse_shared  # noqa: PLC0415 - only where such a file is followed

    try:
        document = parse_shared(text)
    except YamlError as error:
        context.passed_over[name] = str(error)
        return
    listed = document.value.get("dependencies") if isinstance(document.value, dict) else None
    entries: list[Any] = listed if isinstance(listed, list) else []
    for number, entry in enumerate(entries):
        path = f"dependencies[{number}]"
        if isinstance(entry, str):
            found = conda_spec(entry, SourceLocation(name, document.lines.get(path, 1)))
            if found is not None:
                yield found
        elif isinstance(entry, dict) and isinstance(entry.get("pip"), list):
            yield from _pip_part(entry["pip"], name, f"{path}.pip", document.lines, context)


def _pip_part(
    entries: list[Any], name: str, path: str, lines: dict[str, int], context: BuildContext
) -> Iterator[Install]:
    seen = _Seen()
    for position, entry in enumerate(entries):
        if not isinstance(entry, str):
            continue
        nested = re.match(r"(?:-r|--requirement)[ =]?\s*(\S+)", entry)
        if nested:
            yield from _requirements(posixpath.normpath(path_from_file(name, nested[1])), context, seen)
            continue
        found = requirement(entry, SourceLocation(name, lines.get(f"{path}[{position}]", 1)))
        if found is not None:
            yield found


def _packages(name: str, context: BuildContext) -> Iterator[Install]:
    """A plain list of conda's packages, as ``conda install --file`` takes it."""
    for line, entry in _logical_lines(context.text(name) or ""):
        found = None if entry.startswith(("@", "http")) else conda_spec(entry, SourceLocation(name, line))
        if found is not None:
            yield found


def apply_constraints(installs: list[Install], constraints: list[Install]) -> list[Install]:
    """The installs, with what constraints say of their versions."""
    limits = {entry.name: entry for entry in constraints if entry.manager is Manager.PIP}
    return [_narrowed(entry, limits.get(entry.name)) for entry in installs]


def _narrowed(install: Install, limit: Install | None) -> Install:
    if limit is None or limit.specifier is None or install.specifier is None:
        return install
    return replace(install, specifier=install.specifier & limit.specifier)
