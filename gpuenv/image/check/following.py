"""The files that a Dockerfile installs from, read inside its build context and nowhere else."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuenv.image.check import pixi
from gpuenv.image.check.installs import (
    Asked,
    FileKind,
    Install,
    Listed,
    Manager,
    Place,
    conda_spec,
    requirement,
)
from gpuenv.image.check.stages import Step, joined

_LARGEST, _MOST_FILES, _DEEPEST = 1 << 20, 50, 5
_LOCKS = ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml")
_GLOB = ("*", "?", "[")


@dataclass(slots=True)
class Context:
    """A build context.

    Attributes:
        folder: where it is.
        read: the files that were read, as they are named below it.
        passed_over: files that are outside, too large or not there, with the reason.
    """

    folder: Path
    read: list[str] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """A file of the context; none where it has no such file, or it lies outside."""
        root = self.folder.resolve()
        try:
            path = (self.folder / name).resolve()
            if not path.is_relative_to(root):
                self.passed_over[name] = "it lies outside of the build context"
                return None
            if not path.is_file():
                return None
            if path.stat().st_size > _LARGEST or len(self.read) >= _MOST_FILES:
                self.passed_over[name] = "it is larger than such files are, or one of too many"
                return None
            found = path.read_text(encoding="utf-8", errors="replace")
        except (OSError, ValueError) as error:
            self.passed_over[name] = str(getattr(error, "strerror", None) or error)
            return None
        if name not in self.read:
            self.read.append(name)
        return found

    def names(self, pattern: str) -> list[str]:
        """The files in the context's folders that a pattern of COPY names."""
        folder, base = posixpath.split(pattern)
        try:
            entries = sorted(entry.name for entry in (self.folder / folder).iterdir())
        except (OSError, ValueError):
            return []
        return [posixpath.join(folder, name) for name in entries if fnmatch.fnmatchcase(name, base)]


def copies(steps: tuple[Step, ...]) -> list[tuple[str, str]]:
    """What COPY, ADD and bind mounts put where: a path of the context, and a path of the image (a folder ends in /)."""
    found = []
    for step in steps:
        instruction = step.instruction
        mount = instruction.flag("mount") or ""
        if instruction.keyword == "RUN" and "type=bind" in mount and "from=" not in mount:
            parts = dict(part.partition("=")[::2] for part in mount.split(","))
            source, target = (parts.get("source") or parts.get("src") or "."), parts.get("target") or parts.get("dst")
            if target:
                found.append((source, joined(step.workdir, target)))
        if instruction.keyword not in ("COPY", "ADD") or instruction.flag("from") is not None:
            continue
        words = instruction.exec_form or instruction.body.text.split()
        *sources, target = words if len(words) > 1 else ("", "")
        folder = target.endswith("/") or len(sources) > 1 or target in (".", "./")
        place = joined(step.workdir, target) + ("/" if folder and joined(step.workdir, target) != "/" else "")
        found += [(source, place) for source in sources if source and not source.startswith("<<")]
    return found


def in_context(path: str, step: Step, placed: list[tuple[str, str]], context: Context) -> str | None:
    """The file of the context that stands at a path of the image."""
    wanted = joined(step.workdir, path)
    for source, target in reversed(placed):
        bare = source.lstrip("/") or "."
        for candidate in context.names(bare) if any(mark in bare for mark in _GLOB) else [bare]:
            found = _behind(candidate, target, wanted, context)
            if found is not None:
                return posixpath.normpath(found)
    return path if not placed and not path.startswith("/") and (context.folder / path).is_file() else None


def _behind(source: str, target: str, wanted: str, context: Context) -> str | None:
    folder = target.rstrip("/") or "/"
    if (context.folder / source).is_dir():
        inside = posixpath.relpath(wanted, folder)
        return None if inside.startswith("..") else posixpath.normpath(posixpath.join(source, inside))
    if not target.endswith("/") and target != "/" and wanted == target:
        return source
    return source if wanted == posixpath.join(folder, posixpath.basename(source)) else None


def follow(listed: Listed, step: Step, placed: list[tuple[str, str]], context: Context) -> Asked:
    """What a file lists, as far as it is there."""
    if listed.kind is FileKind.PROJECT:
        return _project(listed, step, placed, context)
    if listed.kind is FileKind.PIXI:
        return _pixi(listed, step, placed, context)
    name = in_context(listed.path, step, placed, context)
    if name is None:
        return Asked()
    if listed.kind is FileKind.ENVIRONMENT:
        return _environment(name, context)
    return Asked(tuple(_requirements(name, context, 0)))


def _requirements(name: str, context: Context, depth: int) -> Iterator[Install]:
    text = context.text(name)
    if text is None or depth > _DEEPEST:
        return
    locked = "--hash=" in text
    for line, entry in _logical_lines(text):
        nested = re.match(r"(?:-r|--requirement|-c|--constraint)[ =]?\s*(\S+)", entry)
        if nested:
            yield from _requirements(posixpath.normpath(joined_in(name, nested[1])), context, depth + 1)
            continue
        found = None if entry.startswith("-") else requirement(entry, Place(name, line))
        if found is not None:
            yield replace(found, locked=locked)


def joined_in(name: str, other: str) -> str:
    """A path that is named in a file, from that file's folder."""
    return posixpath.join(posixpath.dirname(name), other)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending, first = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(?:^|\s)#.*$", "", raw).strip()
        first = first if pending else number
        if line.endswith("\\"):
            pending += line[:-1] + " "
            continue
        whole = (pending + line).strip()
        pending = ""
        if whole:
            yield first, whole


def _project(listed: Listed, step: Step, placed: list[tuple[str, str]], context: Context) -> Asked:
    name = in_context(posixpath.normpath(posixpath.join(listed.path, "pyproject.toml")), step, placed, context)
    text = context.text(name) if name else None
    if name is None or text is None:
        return Asked()
    data = _toml(name, text, context)
    locked = any((context.folder / joined_in(name, lock)).is_file() for lock in _LOCKS)
    found = (requirement(entry, Place(name, _line_of(entry, text))) for entry in _dependencies(data, listed.extras))
    return Asked(tuple(replace(entry, locked=locked) for entry in found if entry is not None))


def _toml(name: str, text: str, context: Context) -> dict[str, Any]:
    from gpuenv.toml_text import parse_toml  # noqa: PLC0415 - only where such a file is followed

    try:
        return parse_toml(text)
    except (ValueError, RecursionError) as error:
        context.passed_over[name] = f"is no TOML: {str(error)[:80]}"
        return {}


def _pixi(listed: Listed, step: Step, placed: list[tuple[str, str]], context: Context) -> Asked:
    """The manifest of pixi's that is named, or the first of a folder; of pyproject.toml the project's own besides."""
    paths = [listed.path] if listed.path.endswith(".toml") else [f"{listed.path}/{name}" for name in pixi.MANIFESTS]
    for path in paths:
        name = in_context(posixpath.normpath(path), step, placed, context)
        text = context.text(name) if name else None
        if name is None or text is None:
            continue
        data = _toml(name, text, context)
        manifest = pixi.manifest_of(data, name)
        if manifest is None:
            continue
        own = _dependencies({"project": data.get("project")}, frozenset()) if manifest is not data else ()
        project = (requirement(entry, Place(name, _line_of(entry, text))) for entry in own)
        found = (*pixi.installs(manifest, listed.extras, name, text), *project)
        locked = (context.folder / joined_in(name, "pixi.lock")).is_file()
        return Asked(tuple(replace(entry, locked=locked) for entry in found if entry is not None))
    return Asked()


def _dependencies(data: dict[str, Any], extras: frozenset[str]) -> Iterator[str]:
    project = data.get("project")
    if isinstance(project, dict):
        yield from _texts(project.get("dependencies"))
        optional = project.get("optional-dependencies")
        for name, entries in optional.items() if isinstance(optional, dict) else ():
            if name in extras or "*" in extras:
                yield from _texts(entries)
    tool = data.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    table = poetry.get("dependencies") if isinstance(poetry, dict) else None
    for name, value in table.items() if isinstance(table, dict) else ():
        yield _of_poetry(name, value)


def _of_poetry(name: str, value: object) -> str:
    version = value.get("version") if isinstance(value, dict) else value
    named = value.get("extras") if isinstance(value, dict) else None
    extras = f"[{','.join(_texts(named))}]" if named else ""
    text = version if isinstance(version, str) else ""
    if text.startswith("^"):
        return f"{name}{extras}>={text[1:]},<{int(re.split(r'[^0-9]', text[1:])[0] or 0) + 1}"
    if text[:1].isdigit():
        return f"{name}{extras}=={text}"
    return f"{name}{extras}{text if text != '*' else ''}"


def _texts(value: object) -> list[str]:
    return [entry for entry in value if isinstance(entry, str)] if isinstance(value, list) else []


def _line_of(entry: str, text: str) -> int:
    """The line in which a dependency stands: TOML's reader tells none."""
    name = re.split(r"[\s\[=<>!~;]", entry)[0]
    lines = text.splitlines()
    whole = next((number for number, line in enumerate(lines, 1) if entry in line), None)
    return whole or next((number for number, line in enumerate(lines, 1) if name in line), 1)


def _environment(name: str, context: Context) -> Asked:
    """``environment.yml``: packages of conda, and below pip those of pip."""
    text = context.text(name)
    if text is None:
        return Asked()
    from gpuenv.matrix.strict_yaml import YamlError, parse  # noqa: PLC0415 - only where such a file is followed

    try:
        document = parse(text)
    except YamlError as error:
        context.passed_over[name] = str(error)
        return Asked()
    listed = document.value.get("dependencies") if isinstance(document.value, dict) else None
    found: list[Install | None] = []
    entries: list[Any] = listed if isinstance(listed, list) else []
    for number, entry in enumerate(entries):
        path = f"dependencies[{number}]"
        if isinstance(entry, str):
            found.append(conda_spec(entry, Place(name, document.lines.get(path, 1))))
        elif isinstance(entry, dict) and isinstance(entry.get("pip"), list):
            for position, inner in enumerate(entry["pip"]):
                line = document.lines.get(f"{path}.pip[{position}]", 1)
                found.append(requirement(inner, Place(name, line)) if isinstance(inner, str) else None)
    return Asked(tuple(entry for entry in found if entry is not None))


def constrained(installs: list[Install], constraints: list[Install]) -> list[Install]:
    """The installs, with what constraints say of their versions."""
    told = {entry.name: entry for entry in constraints if entry.manager is Manager.PIP}
    return [_narrowed(entry, told.get(entry.name)) for entry in installs]


def _narrowed(install: Install, limit: Install | None) -> Install:
    if limit is None or limit.specifier is None or install.specifier is None:
        return install
    return replace(install, specifier=install.specifier & limit.specifier)
