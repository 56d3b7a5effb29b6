"""The build context. No other module of the Dockerfile check reads the user's files."""

from __future__ import annotations

import fnmatch
import posixpath
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from gpuenv.files import read_regular
from gpuenv.image.dockerfile.stages import Stage, Step, join_image_path
from gpuenv.image.dockerfile.variables import is_known, substitute
from gpuenv.model.strings import error_reason

_LARGEST, _MOST_FILES = 1 << 20, 50
_MAX_LOCATIONS = 200  # stages and paths that a file is searched in


@dataclass(slots=True, eq=False)
class BuildContext:
    """A build context.

    Attributes:
        folder: its folder.
        read: the names of the files that were read.
        unread: the reason for each file that could not be read, by name.
    """

    folder: Path
    read: list[str] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)

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
        try:
            return (self.folder / name).is_file()
        except (OSError, ValueError):
            return False

    def is_folder(self, name: str) -> bool:
        """Whether a folder exists."""
        try:
            return (self.folder / name).is_dir()
        except (OSError, ValueError):
            return False


def find_source(
    path: str, folder: str | None, step: Step, stage: Stage, build: tuple[Stage, ...], context: BuildContext
) -> str | None:
    """The file of the context at a path of a build step; None if no COPY put one there.

    Args:
        path: the path in the step.
        folder: the current folder, relative to the working directory of the step; null if unknown.
        step: the step.
        stage: its stage.
        build: all stages.
        context: the build context.
    """
    if not is_known(path) or "://" in path or (folder is None and not path.startswith("/")):
        return None
    wanted = join_image_path(join_image_path(step.workdir, folder or ""), path)
    for mount in step.instruction.flags_of("mount"):
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
    if (stage.number, wanted) in seen or len(seen) > _MAX_LOCATIONS:
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
    if not wanted.startswith(target.rstrip("/")):
        return None
    for name in context.names(source):
        if context.is_folder(name):
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
