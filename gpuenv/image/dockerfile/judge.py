"""Checks a file: a Dockerfile, compose files, a Kubernetes manifest or a devcontainer.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path

from gpuenv.doctor.registry import to_finding
from gpuenv.files import TooLargeError, is_file, is_folder, read_at_most
from gpuenv.image.dockerfile.build_context import BuildContext
from gpuenv.image.dockerfile.parse import LARGEST, DockerfileError, DockerfileLimitError, parse
from gpuenv.image.dockerfile.rules_services import ServiceContext
from gpuenv.image.dockerfile.services import (
    DEVCONTAINER_NAMES,
    BuildSource,
    Service,
    ServiceFileError,
    containers_of,
    devcontainer_of,
    is_manifest,
    services_of,
)
from gpuenv.image.dockerfile.stages import Stage, stages_of
from gpuenv.image.dockerfile.target import BuildTarget, evaluate, final_stages
from gpuenv.image.dockerfile.variables import TooLongError
from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.image.inspect.image_report import ImageFinding, ImageReport, at_location, exit_code_of
from gpuenv.image.inspect.verdict import ranked_findings, status_of
from gpuenv.image.rule_registry import all_rules
from gpuenv.matrix.tables import Matrix
from gpuenv.model.strings import error_reason

_COMPOSE_NAMES = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")


@dataclass(frozen=True, slots=True)
class DockerfileOptions:
    """Options for checking a Dockerfile.

    Attributes:
        context: its build context; the folder of the file by default.
        target: the stage to build; every final stage by default.
        arguments: values for its ARGs, or for the variables of compose files.
    """

    context: Path | None = None
    target: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileJudgement:
    """The result for a file.

    Attributes:
        kind: ``dockerfile``, ``compose``, ``kubernetes`` or ``devcontainer``.
    """

    kind: str
    findings: tuple[ImageFinding, ...]
    targets: tuple[BuildTarget, ...]
    files: tuple[str, ...]


def judge_files(paths: Sequence[Path], options: DockerfileOptions, matrix: Matrix) -> FileJudgement:
    """Every finding of a file, whatever its kind; of several, compose files in the order in which they are merged.

    Raises:
        ImageError: for a file that cannot be read, with the line.
    """
    path, *more = paths
    is_compose = [each.suffix in (".yml", ".yaml") and not each.name.lower().startswith("dockerfile") for each in paths]
    if more and not all(is_compose):
        raise ImageError(f"{path}: only compose files can be given together", "name one --dockerfile", is_input=True)
    try:
        if path.name in DEVCONTAINER_NAMES:
            return _judge_devcontainer(path, options, matrix)
        if not is_compose[0]:
            return _judge_dockerfile(read_text(path), path, options, matrix)
        text = read_text(path)
        if is_manifest(text) and not more:
            _refuse_options(path, "kubernetes", options.context, options.target, options.arguments)
            return _judge_services(containers_of(text, str(path)), "kubernetes", path, matrix)
        _refuse_options(path, "compose", options.context, options.target)
        return _judge_compose([path, *(more or _override(path))], options, matrix, ())
    except ServiceFileError as error:
        raise ImageError(str(error), is_input=True) from error


def _refuse_options(path: Path, kind: str, *values: object) -> None:
    """Refuses the options for a Dockerfile of which a file of another kind has no use."""
    given = [name for name, value in zip(("--context", "--target", "--build-arg"), values, strict=False) if value]
    if given:
        verb = "does" if len(given) == 1 else "do"
        message = f"{path}: {' and '.join(given)} {verb} not apply to {kind}"
        raise ImageError(message, "leave them out, or name the Dockerfile", is_input=True)


def read_text(path: Path) -> str:
    """The text of a user's file.

    Raises:
        ImageError: if it cannot be read, or is larger than such files are.
    """
    try:
        if path.is_dir():
            raise ImageError(f"{path}: is a folder; expected a Dockerfile or a compose file", is_input=True)
        return read_at_most(path, LARGEST).decode("utf-8-sig")
    except TooLargeError as error:
        message = f"{path}: larger than the {LARGEST} bytes that such a file may have"
        raise ImageError(message, is_input=True) from error
    except (OSError, UnicodeDecodeError) as error:
        raise ImageError(f"{path}: {error_reason(error)}", is_input=True) from error


def file_report(path: Path, judged: FileJudgement, matrix: Matrix) -> ImageReport:
    """The report on a file."""
    findings = sorted(
        ranked_findings(judged.findings), key=lambda each: (not each.primary, each.file or "", each.line or 0)
    )
    status = status_of(findings, unknown=False)
    return ImageReport(
        subject=str(path),
        kind=judged.kind,
        status=status,
        exit_code=exit_code_of(status),
        findings=tuple(findings),
        files=judged.files,
        matrix_revision=matrix.revision,
    )


def _judge_dockerfile(text: str, path: Path, options: DockerfileOptions, matrix: Matrix) -> FileJudgement:
    context = BuildContext(options.context or path.parent)
    if options.context is not None and not is_folder(options.context):
        raise ImageError(f"{options.context}: is not a folder", "name the build context with --context", is_input=True)
    try:
        stages = stages_of(parse(text), options.arguments)
        wanted = None if options.target is None else _stage(stages, options.target, path)
        targets = tuple(evaluate(each, stages, str(path), context, matrix) for each in final_stages(stages, wanted))
        findings = _findings("DKF", targets, context)
    except (DockerfileError, TooLongError) as error:
        remedy = "name the Dockerfile or compose file behind it" if path.suffix == ".json" else None
        if isinstance(error, DockerfileLimitError | TooLongError):
            remedy = "check the built image: gpuenv check-image IMAGE"
        raise ImageError(f"{path}: {error}", remedy, is_input=True) from error
    files = (str(path), *(str(context.folder / name) for name in context.read))
    return FileJudgement("dockerfile", findings, targets, files)


def _stage(stages: tuple[Stage, ...], name: str, path: Path) -> Stage:
    found = next((stage for stage in stages if name.lower() in (stage.name, str(stage.number))), None)
    if found is None:
        names = ", ".join(stage.name or str(stage.number) for stage in stages)
        raise ImageError(f"{path}: there is no stage {name}", f"its stages: {names}", is_input=True)
    return found


def _findings(
    family: str, subjects: Sequence[BuildTarget | ServiceContext], context: BuildContext
) -> tuple[ImageFinding, ...]:
    """The findings of a family of rules with their locations, each once, since targets share stages."""
    found: dict[tuple[str, str, int, str], ImageFinding] = {}
    for subject, rule in product(subjects, all_rules(family)):
        for where, symptom in rule.run(subject):
            file = str(context.folder / where.file) if where.file in context.read else where.file
            placed = at_location(to_finding(rule, symptom), file=file, line=where.line, end_line=where.end_line)
            found.setdefault((rule.code, file, where.line, symptom.title), placed)
    return tuple(found.values())


def _judge_compose(
    paths: Sequence[Path], options: DockerfileOptions, matrix: Matrix, only: Sequence[str]
) -> FileJudgement:
    try:
        services = services_of([(str(path), read_text(path)) for path in paths], options.arguments, only)
    except TooLongError as error:
        raise ImageError(f"{paths[0]}: {error}", is_input=True) from error
    judged = _judge_services(services, "compose", paths[0], matrix)
    return replace(judged, files=tuple(dict.fromkeys((*map(str, paths), *judged.files))))


def _override(path: Path) -> list[Path]:
    """The override file that compose takes by default for one of its default names."""
    overrides = [path.with_name(f"{path.stem}.override{suffix}") for suffix in (".yml", ".yaml")]
    return [file for file in overrides if path.name in _COMPOSE_NAMES and is_file(file)][:1]


def _judge_devcontainer(path: Path, options: DockerfileOptions, matrix: Matrix) -> FileJudgement:
    found = devcontainer_of(read_text(path), str(path))
    if found.service is not None:
        _refuse_options(path, "devcontainer", options.context, options.target, options.arguments)
        return _judge_services([found.service], "devcontainer", path, matrix)
    _refuse_options(path, "devcontainer", options.context, options.target)
    judged = _judge_compose([path.parent / name for name in found.compose], options, matrix, found.services)
    return replace(judged, kind="devcontainer", files=(str(path), *judged.files))


def _judge_services(services: Sequence[Service], kind: str, path: Path, matrix: Matrix) -> FileJudgement:
    """Every finding of the services of a file, and of the Dockerfiles that they build from."""
    context = BuildContext(path.parent)
    findings: list[ImageFinding] = []
    relevant: list[BuildTarget] = []
    files = [str(path)]
    built = {service.image: service.source for service in services if service.image and service.source}
    for service in services:
        source = service.source or built.get(service.image or "")
        judged = _build_of(source, path, matrix) if source else None
        targets = judged.targets if judged else _targets_of_image(service, path, context, matrix)
        others = tuple(other for other in services if other is not service)
        findings += _findings("CMP", [ServiceContext(service, targets, others)], context)
        findings += judged.findings if judged else ()
        files += judged.files if judged else ()
        if judged is not None or any(not each.base.plain for each in targets):
            relevant += (replace(each, service=service.name) for each in targets)
    unique = {(each.code, each.file, each.line, each.title): each for each in findings}
    return FileJudgement(kind, tuple(unique.values()), tuple(relevant), tuple(dict.fromkeys(files)))


def _targets_of_image(service: Service, path: Path, context: BuildContext, matrix: Matrix) -> tuple[BuildTarget, ...]:
    """The image of a service, as the target of a Dockerfile that adds nothing to it."""
    if not service.image or service.source is not None or any(char.isspace() for char in service.image):
        return ()
    stages = stages_of(parse(f"FROM {service.image}"), {})
    target = evaluate(stages[0], stages, str(path), context, matrix)
    matters = not target.base.unknown or service.requests_gpu
    return (target,) if matters and target.base.name is not None else ()


def _build_of(source: BuildSource, path: Path, matrix: Matrix) -> FileJudgement | None:
    """The Dockerfile of a service; None if it is elsewhere or missing."""
    if source.is_elsewhere:
        return None
    context = path.parent / source.context
    options = DockerfileOptions(context if is_folder(context) else None, source.target, source.arguments)
    if source.inline is not None:  # behind empty lines, so that its lines are those of the compose file
        return _judge_dockerfile("\n" * source.line + source.inline, path, options, matrix)
    dockerfile = path.parent / source.path
    return _judge_dockerfile(read_text(dockerfile), dockerfile, options, matrix) if is_file(dockerfile) else None
