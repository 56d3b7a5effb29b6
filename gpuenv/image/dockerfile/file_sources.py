"""Which file of the build context is at a path of the image: by COPY, ADD, bind mounts, and from other stages."""

from __future__ import annotations

import posixpath
from functools import lru_cache

from gpuenv.image.dockerfile.build_context import BuildContext
from gpuenv.image.dockerfile.build_point import BuildPoint, FileSource, end_of
from gpuenv.image.dockerfile.provenance import (
    DEEPEST,
    OfContext,
    OfStage,
    PathSource,
    copied_paths,
    files_of_mounts,
    files_of_stage,
    mounted_paths,
)
from gpuenv.image.dockerfile.stages import Stage, join_image_path


def file_source(path: str, point: BuildPoint, context: BuildContext) -> FileSource | None:
    """The file of the context that stands at a path of the image, or what the file there is made from."""
    wanted = point.path(path)
    if wanted is None:
        return None
    known = len(context.held_back)
    found = _mounted_source(wanted, point, context) or _stage_source(wanted, point, context, 0)
    if found is not None:
        return found
    if len(context.held_back) > known:  # nothing else makes it
        return context.held_back[known]
    # A Dockerfile that copies nothing may be used with its folder mounted in place of the image's.
    bare = not (point.moved or path.startswith("/") or point.before >= _first_copy(point.stage))
    return path if bare and context.sends(path) else None


@lru_cache(maxsize=64)
def _first_copy(stage: Stage) -> int:
    """The number of the first step that copies or mounts anything; one more than there are, where none does."""
    steps = enumerate(stage.steps, 1)
    bringing = (number for number, step in steps if any(True for _ in (*mounted_paths(step), *copied_paths(step))))
    return next(bringing, len(stage.steps) + 1)


def _mounted_source(wanted: str, point: BuildPoint, context: BuildContext) -> FileSource | None:
    """The file of a bind mount, which is there for its own step alone."""
    step = point.stage.steps[point.before - 1]
    path_sources = files_of_mounts(step, context).of(wanted) if step.instruction.keyword == "RUN" else ()
    found = (_source(path_source, wanted, point, context, 0) for path_source in path_sources)
    return next((source for source in found if source is not None), None)


def _stage_source(wanted: str, point: BuildPoint, context: BuildContext, depth: int) -> FileSource | None:
    if depth > DEEPEST or not context.may_look():
        return None
    for path_source in files_of_stage(point.stages, point.stage, point.file, context).of(wanted, point.before):
        if (found := _source(path_source, wanted, point, context, depth)) is not None:
            return found
    parent = point.stage.parent
    return None if parent is None else _stage_source(wanted, end_of(point, parent), context, depth + 1)


def _source(source: PathSource, wanted: str, point: BuildPoint, context: BuildContext, depth: int) -> FileSource | None:
    what = source.what
    if isinstance(what, OfContext):
        name = posixpath.normpath(source.behind(wanted, what.name))
        if context.has(name) and not context.sends(name):
            context.held_back.append(name)
        return name if context.sends(name) else None
    if isinstance(what, OfStage):
        inner = join_image_path("/", source.behind(wanted, what.path))
        return _stage_source(inner, end_of(point, what.number), context, depth + 1)
    return what
