"""Which file of the build context stands at a path of the image: by COPY, ADD, bind mounts, and from other stages."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from gpuenv.image.check.installs import Listed
from gpuenv.image.check.project_commands import Generated, generated
from gpuenv.image.check.scripts import commands_of
from gpuenv.image.check.stages import Stage, Step, joined
from gpuenv.image.check.variables import replaced

_LARGEST, _MOST_FILES, _DEEPEST = 1 << 20, 50, 8
_GLOB = ("*", "?", "[")


@dataclass(slots=True)
class Context:
    """A build context.

    Attributes:
        folder: where it is.
        read: the files that were read, as they are named below it.
        passed_over: files that are outside or too large, with the reason.
        missing: what is installed from and is not there, by the file and line that say so.
    """

    folder: Path
    read: list[str] = field(default_factory=list)
    passed_over: dict[str, str] = field(default_factory=dict)
    missing: dict[tuple[str, int], str] = field(default_factory=dict)

    def text(self, name: str, largest: int = _LARGEST) -> str | None:
        """A file of the context of so many bytes at most; none where it has no such file, or it lies outside."""
        root = self.folder.resolve()
        try:
            path = (self.folder / name).resolve()
            if not path.is_relative_to(root):
                self.passed_over[name] = "it lies outside of the build context"
                return None
            if not path.is_file():
                return None
            if path.stat().st_size > largest or len(self.read) >= _MOST_FILES:
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

    def has(self, name: str) -> bool:
        """Whether there is such a file, be it outside, of which ``text`` then says so."""
        try:
            return (self.folder / name).is_file()
        except (OSError, ValueError):
            return False


@dataclass(frozen=True, slots=True)
class Where:
    """A point of a build: a stage up to a step, and the folder that is in force there.

    Attributes:
        stages: every stage of the Dockerfile.
        stage: the one that is meant.
        before: how many of its steps have been done.
        folder: the folder; null where nobody knows.
        file: the Dockerfile, as it is shown.
        moved: whether the command has gone there from the folder of its step.
    """

    stages: tuple[Stage, ...]
    stage: Stage
    before: int
    folder: str | None
    file: str
    moved: bool = False

    def path(self, path: str) -> str | None:
        """A path of the image in full; none where nobody knows."""
        if path.startswith("/"):
            return joined("/", path)
        return None if self.folder is None else joined(self.folder, path)


def at(stages: tuple[Stage, ...], stage: Stage, step: Step, folder: str | None, file: str) -> Where:
    """The point of a command: its step, and the folder that it has gone to from the step's own."""
    inside = None if folder is None else joined(step.workdir, folder)
    return Where(stages, stage, stage.steps.index(step) + 1, inside, file, moved=folder != "")


@dataclass(frozen=True, slots=True)
class Made:
    """A file that is no file of the context: what it is made from, and where that is named from."""

    listed: tuple[Listed, ...]
    where: Where


@dataclass(frozen=True, slots=True)
class Inline:
    """A file that stands in the Dockerfile itself.

    Attributes:
        text: of the file.
        above: how many lines of the Dockerfile stand above it.
        file: the Dockerfile, as it is shown.
    """

    text: str
    above: int
    file: str


Source: TypeAlias = "str | Made | Inline"


def source_of(path: str, where: Where, context: Context) -> Source | None:
    """The file of the context that stands at a path of the image, or what the file there is made from."""
    wanted = where.path(path)
    if wanted is None:
        return None
    if (found := _stage_source(wanted, where, context, 0)) is not None:
        return found
    # A Dockerfile that copies nothing may be used with its folder mounted in place of the image's.
    bare = not (where.moved or path.startswith("/") or _copies_anything(where))
    return path if bare and context.has(path) else None


def _copies_anything(where: Where) -> bool:
    steps = where.stage.steps[: where.before]
    return any(next(iter((*_mounted(step), *_copied(step))), None) is not None for step in steps)


def _stage_source(wanted: str, where: Where, context: Context, depth: int) -> Source | None:
    if depth > _DEEPEST:
        return None
    for number in _worth_a_look(wanted, where):
        step = where.stage.steps[number - 1]
        if step.instruction.keyword == "RUN":
            found = _by_run(wanted, step, number, where, context)
        elif step.instruction.keyword in ("COPY", "ADD"):
            found = _by_copy(wanted, step, where, context, depth)
        else:
            continue
        if found is not None:
            return found
    parent = where.stage.parent
    return None if parent is None else _stage_source(wanted, _end_of(where, parent), context, depth + 1)


def _worth_a_look(wanted: str, where: Where) -> list[int]:
    """The steps that may bring a file, the last first: of thousands of copies most go elsewhere."""
    by_folder, others = _bringing(where.stage, where.file)
    folders = [wanted]
    while folders[-1] not in ("", "/"):
        folders.append(posixpath.dirname(folders[-1]))
    numbers = {where.before, *others, *(number for folder in folders for number in by_folder.get(folder, ()))}
    return sorted(numbers.intersection(range(1, where.before + 1)), reverse=True)


@lru_cache(maxsize=64)
def _bringing(stage: Stage, file: str) -> tuple[dict[str, list[int]], tuple[int, ...]]:
    """The steps that copy, by what they copy to; and those of which that is not told so: RUN, and heredocs."""
    by_folder: dict[str, list[int]] = {}
    for number, step in enumerate(stage.steps, 1):
        for _, target in _copied(step):
            by_folder.setdefault(target.rstrip("/") or "/", []).append(number)
    others = (number for number, step in enumerate(stage.steps, 1) if step.instruction.heredocs)
    return by_folder, (*others, *_written(stage, file))


def _end_of(where: Where, number: int) -> Where:
    stage = where.stages[number]
    return Where(where.stages, stage, len(stage.steps), stage.workdir, where.file)


def _by_run(wanted: str, step: Step, number: int, where: Where, context: Context) -> Source | None:
    if number == where.before:  # a mount is there for its own step alone
        for source, target in _mounted(step):
            found = _in_context(source, target, wanted, context)
            if found is not None:
                return found
    for made, folder in _written(where.stage, where.file).get(number, ()):
        here = at(where.stages, where.stage, step, folder, where.file)
        if _writes(made, wanted, here):
            return Made(made.listed, here)
    return None


@lru_cache(maxsize=64)  # every list that is looked for may lie behind every RUN before it
def _written(stage: Stage, file: str) -> dict[int, list[tuple[Generated, str | None]]]:
    """What the commands of a stage write, by the number of the step, each with the folder that it is run in."""
    found: dict[int, list[tuple[Generated, str | None]]] = {}
    for number, step in enumerate(stage.steps, 1):
        for command in commands_of(step) if step.instruction.keyword == "RUN" else ():
            made = generated(command, file, step.instruction.end_line)
            if made is not None:
                found.setdefault(number, []).append((made, command.folder))
    return found


def _writes(made: Generated, wanted: str, here: Where) -> bool:
    """Whether a command writes the file; what it prints is taken to go to the file that is asked for, if to a .txt."""
    return wanted.endswith(".txt") if made.path is None else here.path(made.path) == wanted


def _by_copy(wanted: str, step: Step, where: Where, context: Context, depth: int) -> Source | None:
    origin = step.instruction.flag("from")
    if origin is None:
        for heredoc in step.instruction.heredocs:
            if wanted in _places(heredoc.name, step):
                return Inline(heredoc.body.text, heredoc.body.line_at(0) - 1, where.file)
        found = (_in_context(source, target, wanted, context) for source, target in _copied(step))
        return next((name for name in found if name is not None), None)
    names = {key: stage.number for stage in where.stages for key in (stage.name, str(stage.number)) if key}
    number = names.get(origin.lower())
    if number is None or number >= where.stage.number:
        return None
    for source, target in _copied(step):
        other = _end_of(where, number)
        for inner in _behind(source, target, wanted):
            told = _stage_source(joined("/", inner), other, context, depth + 1)
            if told is not None:
                return told
    return None


def _places(name: str, step: Step) -> tuple[str, ...]:
    """Where a file may be put that stands in its instruction under a name."""
    target = replaced(step.instruction.body.text.split()[-1], step.lookup).strip("\"'")
    place = joined(step.workdir, target)
    return (posixpath.join(place, name),) if target.endswith("/") else (place, posixpath.join(place, name))


def _behind(source: str, target: str, wanted: str) -> Iterator[str]:
    """The paths of which a copied one may be: the file itself, one in a folder, or one below a copied folder."""
    folder = target.rstrip("/") or "/"
    if wanted in (target, posixpath.join(folder, posixpath.basename(source))):
        yield source
    inside = posixpath.relpath(wanted, folder)
    if not inside.startswith(".."):
        yield posixpath.join(source, inside)


def _mounted(step: Step) -> Iterator[tuple[str, str]]:
    for mount in step.instruction.flags_of("mount"):
        parts = dict(part.partition("=")[::2] for part in mount.split(","))
        target = parts.get("target") or parts.get("dst") or parts.get("destination")
        if parts.get("type") == "bind" and "from" not in parts and target:
            source = parts.get("source") or parts.get("src") or "."
            yield replaced(source, step.lookup), joined(step.workdir, replaced(target, step.lookup))


def _copied(step: Step) -> Iterator[tuple[str, str]]:
    """What a COPY puts where; a folder ends in /."""
    if step.instruction.keyword not in ("COPY", "ADD"):
        return
    words = step.instruction.exec_form or step.instruction.body.text.split()
    *sources, target = [replaced(word, step.lookup).strip("\"'") for word in words] if len(words) > 1 else [""]
    place = joined(step.workdir, target)
    folder = target.endswith("/") or len(sources) > 1 or target in (".", "./")
    for source in sources:
        if source and not source.startswith("<<"):
            yield source, place + ("/" if folder and place != "/" else "")


def _in_context(source: str, target: str, wanted: str, context: Context) -> str | None:
    """The file of the context, where what is copied to a target is or has the one that is wanted."""
    bare = source.lstrip("/") or "."
    for candidate in context.names(bare) if any(mark in bare for mark in _GLOB) else [bare]:
        folder = target.rstrip("/") or "/"
        if (context.folder / candidate).is_dir():
            inside = posixpath.relpath(wanted, folder)
            found = None if inside.startswith("..") else posixpath.join(candidate, inside)
        elif not target.endswith("/") and target != "/" and wanted == target:
            found = candidate
        else:
            found = candidate if wanted == posixpath.join(folder, posixpath.basename(candidate)) else None
        if found is not None and context.has(found):
            return posixpath.normpath(found)
    return None
