"""A point of a build, and the source of a file there: the context, the Dockerfile itself, or a command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gpuenv.image.dockerfile.install_requests import DependencyFile
from gpuenv.image.dockerfile.stages import Stage, Step, join_image_path


@dataclass(frozen=True, slots=True)
class BuildPoint:
    """A point of a build: a stage up to a step, and the folder that is in force there.

    Attributes:
        stages: every stage of the Dockerfile.
        stage: the one that is meant.
        before: how many of its steps have been done.
        folder: the folder; null if unknown.
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
        """A path of the image in full; none if unknown."""
        if path.startswith("/"):
            return join_image_path("/", path)
        return None if self.folder is None else join_image_path(self.folder, path)


def at(stages: tuple[Stage, ...], stage: Stage, step: Step, folder: str | None, file: str) -> BuildPoint:
    """The point of a command: its step, and its folder, relative to the step's own."""
    inside = None if folder is None else join_image_path(step.workdir, folder)
    return BuildPoint(stages, stage, stage.steps.index(step) + 1, inside, file, moved=folder != "")


def end_of(point: BuildPoint, number: int) -> BuildPoint:
    """The end of another stage."""
    stage = point.stages[number]
    return BuildPoint(point.stages, stage, len(stage.steps), stage.workdir, point.file)


@dataclass(frozen=True, slots=True)
class GeneratedSource:
    """A file that a command generates: from which files, and at which point of the build."""

    listed: tuple[DependencyFile, ...]
    where: BuildPoint


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


FileSource: TypeAlias = "str | GeneratedSource | Inline"
