"""A file that is to be judged, whatever it is: a Dockerfile, compose files, a manifest or a devcontainer.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gpuenv.image.dockerfile.devcontainer import DevcontainerError, devcontainer_of, is_devcontainer
from gpuenv.image.dockerfile.judge_compose import judge_compose, judge_services
from gpuenv.image.dockerfile.judge_file import DockerfileOptions, FileJudgement, is_compose, judge_dockerfile, read_text
from gpuenv.image.dockerfile.pods import ManifestError, containers_of, is_manifest
from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.matrix.tables import Matrix


def judge_any(paths: Sequence[Path], options: DockerfileOptions, matrix: Matrix) -> tuple[str, FileJudgement]:
    """The kind of a file, as in reports, and its result.

    Args:
        paths: the file; several of compose, in the order of its -f.
        options: what of it is meant.
        matrix: the rows.

    Raises:
        ImageError: for what cannot be read, with the line.
    """
    path, *more = paths
    if is_devcontainer(path.name) and not more:
        return "devcontainer", _devcontainer(path, options, matrix)
    if not all(map(is_compose, paths)):
        if more:
            message = "only compose files can be given together"
            raise ImageError(f"{path}: {message}", "name one --dockerfile", is_input=True)
        return "dockerfile", judge_dockerfile(path, options, matrix)
    text = read_text(path)
    if is_manifest(text) and not more:
        return "kubernetes", _manifest(text, path, matrix)
    return "compose", judge_compose(path, options, matrix, more or None)


def _manifest(text: str, path: Path, matrix: Matrix) -> FileJudgement:
    try:
        containers = containers_of(text, str(path))
    except ManifestError as error:
        raise ImageError(f"{path}: {error}", is_input=True) from error
    return judge_services(containers, path, matrix)


def _devcontainer(path: Path, options: DockerfileOptions, matrix: Matrix) -> FileJudgement:
    try:
        found = devcontainer_of(read_text(path), str(path))
    except DevcontainerError as error:
        raise ImageError(f"{path}: {error}", is_input=True) from error
    if found.service is not None:
        return judge_services((found.service,), path, matrix)
    if not found.compose:
        raise ImageError(f"{path}: line 1: dockerComposeFile names no file", is_input=True)
    first, *more = (path.parent / name for name in found.compose)
    judged = judge_compose(first, options, matrix, more, found.services)
    return replace(judged, files=(str(path), *judged.files))
