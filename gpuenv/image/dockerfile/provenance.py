"""Where the files of an image come from: COPY, ADD, mounts, and what a RUN is known to write.

Indexed by destination path, so that a lookup does not scan thousands of COPY steps.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from gpuenv.image.dockerfile.build_context import BuildContext
from gpuenv.image.dockerfile.build_point import BuildPoint, GeneratedSource, Inline, at, end_of
from gpuenv.image.dockerfile.project_commands import generated_file
from gpuenv.image.dockerfile.run_commands import commands_of
from gpuenv.image.dockerfile.stages import Stage, Step, join_image_path
from gpuenv.image.dockerfile.variables import substitute

_GLOB = ("*", "?", "[")
DEEPEST = 8  # stages behind each other
_FEW = 1000  # entries of a folder that are indexed one by one


@dataclass(frozen=True, slots=True)
class OfContext:
    """A file or folder of the context, by its name there."""

    name: str


@dataclass(frozen=True, slots=True)
class OfStage:
    """A file or folder of an earlier stage, by its path there."""

    number: int
    path: str


@dataclass(frozen=True, slots=True)
class PathSource:
    """The source of a path, from one step.

    Attributes:
        step: its number, from 1.
        order: among all sources of the stage.
        path: its path in the image; null for a list of any name.
        holds: whether it is or may be a folder, for what lies below its path; else it is for its path alone.
        what: the source itself.
    """

    step: int
    order: int
    path: str | None
    holds: bool
    what: OfContext | OfStage | GeneratedSource | Inline

    def behind(self, wanted: str, origin: str) -> str:
        """The origin of a path of the image, given the origin of the whole source."""
        if not self.holds or self.path is None:
            return origin
        return posixpath.join(origin, posixpath.relpath(wanted, self.path))


@dataclass(frozen=True, slots=True)
class StageFiles:
    """The sources of a stage's files.

    Attributes:
        files: by the path of the file.
        folders: by the path of the folder, for those whose entries were not listed.
        entries: other folders, by the path of each entry.
        lists: that may have any name.
        above: every folder with something of all that below it.
    """

    files: Mapping[str, Sequence[PathSource]]
    folders: Mapping[str, Sequence[PathSource]]
    entries: Mapping[str, Sequence[PathSource]]
    lists: Sequence[PathSource]
    above: frozenset[str]

    def of(self, wanted: str, before: int = 1) -> list[PathSource]:
        """The sources that may have the file at a path, after some steps; the last first."""
        lists = self.lists if wanted.endswith(".txt") else ()
        found = (*self.files.get(wanted, ()), *self.over(wanted), *lists)
        return sorted(
            (source for source in found if source.step <= before), key=lambda source: (-source.step, source.order)
        )

    def over(self, path: str) -> Iterator[PathSource]:
        """The folders that a path may lie in."""
        for folder in path_and_parents(path):
            yield from self.folders.get(folder, ())
            yield from self.entries.get(folder, ())


def path_and_parents(path: str) -> Iterator[str]:
    """A path of the image, and every folder above it."""
    yield path
    while path not in ("", "/"):
        path = posixpath.dirname(path)
        yield path


@lru_cache(maxsize=64)
def files_of_stage(stages: tuple[Stage, ...], stage: Stage, file: str, context: BuildContext) -> StageFiles:
    """The sources of a stage's files; of other stages only those that may have a file of the context inside."""
    own = _own_files(stages, stage, file, context)
    here = BuildPoint(stages, stage, len(stage.steps), stage.workdir, file)
    folders = {
        path: [source for source in sources if _may_hold_context(source, here, context)]
        for path, sources in own.folders.items()
    }
    return replace(own, folders=folders)


def _may_hold_context(source: PathSource, point: BuildPoint, context: BuildContext) -> bool:
    if not isinstance(source.what, OfStage):
        return True
    return _may_hold(source.what.path, end_of(point, source.what.number), context, 0)


def _may_hold(path: str, point: BuildPoint, context: BuildContext, depth: int) -> bool:
    """Whether a known source may lie below a path at the end of a stage."""
    own = _own_files(point.stages, point.stage, point.file, context)
    if depth > DEEPEST or own.lists or path in own.above or not context.may_look():
        return True
    for source in own.over(path):
        what = source.what
        if isinstance(what, OfContext) and context.is_folder(source.behind(path, what.name)):
            return True
        if isinstance(what, OfStage):
            inner = join_image_path("/", source.behind(path, what.path))
            if _may_hold(inner, end_of(point, what.number), context, depth + 1):
                return True
    parent = point.stage.parent
    return parent is not None and _may_hold(path, end_of(point, parent), context, depth + 1)


def files_of_mounts(step: Step, context: BuildContext) -> StageFiles:
    """The sources that a RUN has mounted from the context for its own commands."""
    found = (each for source, target in mounted_paths(step) for each in _of_context(source, target, context))
    return _by_place((PathSource(1, order, *each) for order, each in enumerate(found)), context)


@lru_cache(maxsize=64)
def _own_files(stages: tuple[Stage, ...], stage: Stage, file: str, context: BuildContext) -> StageFiles:
    """The sources from a stage's own steps, without other stages."""
    found = _path_entries(stages, stage, file, context)
    return _by_place((PathSource(number, order, *each) for order, (number, each) in enumerate(found)), context)


def _by_place(sources: Iterable[PathSource], context: BuildContext) -> StageFiles:
    files: dict[str, list[PathSource]] = {}
    folders: dict[str, list[PathSource]] = {}
    entries: dict[str, list[PathSource]] = {}
    lists: list[PathSource] = []
    for source in sources:
        if source.path is None:
            lists.append(source)
        elif not source.holds:
            files.setdefault(source.path, []).append(source)
        elif isinstance(source.what, OfContext) and len(names := context.entries(source.what.name)) <= _FEW:
            for name in names:
                entries.setdefault(posixpath.join(source.path, name), []).append(source)
        else:
            folders.setdefault(source.path, []).append(source)
    above = frozenset(up for path in (*files, *folders, *entries) for up in path_and_parents(posixpath.dirname(path)))
    return StageFiles(files, folders, entries, lists, above)


_PathEntry: TypeAlias = "tuple[str | None, bool, OfContext | OfStage | GeneratedSource | Inline]"


def _path_entries(
    stages: tuple[Stage, ...], stage: Stage, file: str, context: BuildContext
) -> Iterator[tuple[int, _PathEntry]]:
    names = {key: each.number for each in stages[: stage.number] for key in (each.name, str(each.number)) if key}
    for number, step in enumerate(stage.steps, 1):
        if step.instruction.keyword == "RUN":
            yield from ((number, found) for found in _by_run(stages, stage, step, file))
        elif step.instruction.keyword in ("COPY", "ADD"):
            yield from ((number, found) for found in _by_copy(step, names, file, context))


def _by_run(stages: tuple[Stage, ...], stage: Stage, step: Step, file: str) -> Iterator[_PathEntry]:
    """The files that commands write; printed output is taken to go to the requested file, if that is a .txt."""
    for command in commands_of(step):
        generated = generated_file(command, file, step.instruction.end_line)
        if generated is None:
            continue
        here = at(stages, stage, step, command.folder, file)
        path = None if generated.path is None else here.path(generated.path)
        if path is not None or generated.path is None:
            yield path, False, GeneratedSource(generated.listed, here)


def _by_copy(step: Step, names: Mapping[str, int], file: str, context: BuildContext) -> Iterator[_PathEntry]:
    origin = step.instruction.flag("from")
    if origin is not None:
        if origin.lower() in names:
            yield from _by_copy_from(step, names[origin.lower()])
        return
    for heredoc in step.instruction.heredocs:
        text = Inline(heredoc.body.text, heredoc.body.line_at(0) - 1, file)
        yield from ((path, False, text) for path in _written_to(heredoc.name, step))
    for source, target in copied_paths(step):
        yield from _of_context(source, target, context)


def _by_copy_from(step: Step, number: int) -> Iterator[_PathEntry]:
    """What is copied from another stage may be a file or a folder."""
    for source, target in copied_paths(step):
        what = OfStage(number, join_image_path("/", source))
        yield from ((path, False, what) for path in _places(source, target))
        yield target.rstrip("/") or "/", True, what


def _of_context(source: str, target: str, context: BuildContext) -> Iterator[_PathEntry]:
    """Where the files and folders of the context go that a source names."""
    bare = source.lstrip("/") or "."
    for name in context.names(bare) if any(mark in bare for mark in _GLOB) else [bare]:
        if context.is_folder(name):
            yield target.rstrip("/") or "/", True, OfContext(name)
        else:
            yield from ((path, False, OfContext(name)) for path in _places(name, target))


def _places(source: str, target: str) -> tuple[str, ...]:
    """Where a file may come to stand: at the target, or in it."""
    folder = target.rstrip("/") or "/"
    below = posixpath.join(folder, posixpath.basename(source))
    return (below,) if target.endswith("/") else (target, below)


def _written_to(name: str, step: Step) -> tuple[str, ...]:
    """Where a file may be put that stands in its instruction under a name."""
    target = substitute(step.instruction.body.text.split()[-1], step.lookup).strip("\"'")
    path = join_image_path(step.workdir, target)
    return (posixpath.join(path, name),) if target.endswith("/") else (path, posixpath.join(path, name))


def copied_paths(step: Step) -> Iterator[tuple[str, str]]:
    """What a COPY puts where; a folder ends in /."""
    if step.instruction.keyword not in ("COPY", "ADD"):
        return
    words = step.instruction.exec_form or step.instruction.body.text.split()
    *sources, target = [substitute(word, step.lookup).strip("\"'") for word in words] if len(words) > 1 else [""]
    path = join_image_path(step.workdir, target)
    folder = target.endswith("/") or len(sources) > 1 or target in (".", "./")
    for source in sources:
        if source and not source.startswith("<<"):
            yield source, path + ("/" if folder and path != "/" else "")


def mounted_paths(step: Step) -> Iterator[tuple[str, str]]:
    """What of the context a RUN has mounted where, for its own commands."""
    for mount in step.instruction.flags_of("mount"):
        parts = dict(part.partition("=")[::2] for part in mount.split(","))
        target = parts.get("target") or parts.get("dst") or parts.get("destination")
        if parts.get("type") == "bind" and "from" not in parts and target:
            source = parts.get("source") or parts.get("src") or "."
            yield substitute(source, step.lookup), join_image_path(step.workdir, substitute(target, step.lookup))
