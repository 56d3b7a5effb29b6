"""A compose file, judged with the Dockerfiles that its services are built from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuenv.files import is_file, is_folder, read_regular
from gpuenv.image.dockerfile.base_images import base_of
from gpuenv.image.dockerfile.bounds import TooLongError, bounded
from gpuenv.image.dockerfile.build_context import BuildContext
from gpuenv.image.dockerfile.build_target import BuildTarget, build
from gpuenv.image.dockerfile.compose import ComposeError, ComposeText, services_of
from gpuenv.image.dockerfile.docker_parse import parse
from gpuenv.image.dockerfile.judge_file import (
    DockerfileOptions,
    FileJudgement,
    judge_dockerfile,
    judge_text,
    located_findings,
    read_text,
)
from gpuenv.image.dockerfile.rules_compose import ServiceContext
from gpuenv.image.dockerfile.service import BuildSource, Service
from gpuenv.image.dockerfile.stages import stages_of
from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.image.inspect.image_report import ImageFinding
from gpuenv.image.inspect.rules import all_rules
from gpuenv.matrix.tables import Matrix

# A value in quotes, or one that ends before a comment: Docker, "Syntax for environment files" (read 2026-11-22).
_LINE = re.compile(
    r"\s*(?:export\s+)?([A-Za-z_]\w*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|((?:(?!\s#)[^\n])*?))\s*(?:\s#.*)?$"
)
_LARGEST = 1 << 20  # bytes of an .env
_DEFAULT_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")


def judge_compose(
    path: Path,
    options: DockerfileOptions,
    matrix: Matrix,
    more: Sequence[Path] | None = None,
    only: Sequence[str] = (),
) -> FileJudgement:
    """Every finding of a compose file, and of the Dockerfiles that it builds from.

    Args:
        path: the file.
        options: values for its variables.
        matrix: the rows.
        more: the files that compose merges over it (-f), in their order; its override file, if not given.
        only: the services that are meant, if not all.

    Raises:
        ImageError: for a file that cannot be read or is no compose file, with the line.
    """
    paths = [path, *(_override(path) if more is None else more)]
    try:
        variables = {**_variables(path.parent), **options.arguments}
        files = [ComposeText(str(file), read_text(file)) for file in paths]
        with bounded():
            services = services_of(files, variables, lambda name: _other(path.parent / name), only)
            judged = judge_services(services, path, matrix)
    except ComposeError as error:
        raise ImageError(str(error), is_input=True) from error
    except TooLongError as error:
        raise ImageError(f"{path}: {error}", is_input=True) from error
    others = (file for service in services for file in service.files)
    return replace(judged, files=tuple(dict.fromkeys((*judged.files, *map(str, paths), *others))))


def judge_services(services: Sequence[Service], path: Path, matrix: Matrix) -> FileJudgement:
    """Every finding of the services of a file, and of the Dockerfiles that they build from."""
    context = BuildContext(path.parent)
    findings: list[ImageFinding] = []
    built: list[BuildTarget] = []
    files = [str(path)]
    for service in services:
        judged = _source(service, service.source, path, matrix) if service.source else None
        base = base_of(service.image, matrix) if service.image and service.source is None else None
        ctx = ServiceContext(service, base, judged.built if judged else (), _missing(service.source, path))
        symptoms = [(rule.code, symptom) for rule in all_rules("CMP") for symptom in rule.run(ctx)]
        findings += located_findings(symptoms, context)
        if judged is not None:
            findings += judged.findings
            files += judged.files
        of_service = judged.built if judged else _of_image(ctx, path, context, matrix)
        built += [replace(each, service=service.name) for each in of_service]
    unique = {(each.code, each.file, each.line, each.title): each for each in findings}
    return FileJudgement(tuple(unique.values()), tuple(built), tuple(dict.fromkeys(files)))


def _of_image(ctx: ServiceContext, path: Path, context: BuildContext, matrix: Matrix) -> tuple[BuildTarget, ...]:
    """The image of a service with GPUs, as the target of a Dockerfile that adds nothing to it."""
    base, service = ctx.base, ctx.service
    if base is None or base.name is None:
        return ()
    if not (base.has_cuda or base.tegra or base.rocm or (base.unknown and ctx.asks)):
        return ()
    stages = stages_of(parse(f"FROM {service.image}"), {})
    return (build(stages[0], stages, str(path), context, matrix),)


def _source(service: Service, source: BuildSource, compose: Path, matrix: Matrix) -> FileJudgement | None:
    """The Dockerfile behind a service; one that is elsewhere or is not there is left to the build."""
    if _is_elsewhere(source):
        return None
    context = compose.parent / source.context
    choice = DockerfileOptions(context if is_folder(context) else None, source.target, source.arguments)
    if source.inline is not None:
        # Empty lines above it, so that its lines are those of the compose file.
        above = service.location(source.inline_line)
        return judge_text("\n" * above.line + source.inline, Path(above.file), choice, matrix)
    dockerfile = _dockerfile(source, compose)
    return judge_dockerfile(dockerfile, choice, matrix) if is_file(dockerfile) else None


def _is_elsewhere(source: BuildSource) -> bool:
    paths = source.context + source.dockerfile
    return "://" in source.context or source.context.startswith("git@") or "$" in paths


def _dockerfile(source: BuildSource, file: Path) -> Path:
    return file.parent / source.dockerfile if source.beside else file.parent / source.context / source.dockerfile


def _missing(source: BuildSource | None, file: Path) -> str | None:
    """The path of the Dockerfile that a build names, if it does not exist."""
    if source is None or not source.named or source.inline is not None or _is_elsewhere(source):
        return None
    path = _dockerfile(source, file)
    return None if is_file(path) else str(path)


def _other(path: Path) -> ComposeText | None:
    """Another file, which a compose file names; none where it cannot be read, or is none."""
    try:
        return ComposeText(str(path), read_text(path)) if is_file(path) else None
    except ImageError:
        return None


def _override(path: Path) -> list[Path]:
    """The override file that compose takes by default for one of its default names."""
    if path.name not in _DEFAULT_NAMES:
        return []
    beside = (path.with_name(f"{path.stem}.override{suffix}") for suffix in (".yml", ".yaml"))
    found = next((file for file in beside if is_file(file)), None)
    return [] if found is None else [found]


def _variables(folder: Path) -> Mapping[str, str]:
    """The file .env beside it, which compose reads."""
    try:
        lines = read_regular(folder / ".env", _LARGEST).decode("utf-8", "replace").splitlines()
    except OSError:
        return {}
    matches = (_LINE.match(line) for line in lines if not line.lstrip().startswith("#"))
    return {match[1]: match[2] or match[3] or match[4] or "" for match in matches if match}
