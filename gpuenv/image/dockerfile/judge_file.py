"""Reads and judges a Dockerfile."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuenv import __version__
from gpuenv.doctor.registry import to_finding
from gpuenv.files import TooLargeError, is_folder, read_at_most
from gpuenv.image.dockerfile.bounds import TooLongError, bounded
from gpuenv.image.dockerfile.build_context import BuildContext, context_of
from gpuenv.image.dockerfile.build_target import BuildTarget, build, targets
from gpuenv.image.dockerfile.docker_parse import LARGEST, DockerfileError, parse
from gpuenv.image.dockerfile.stages import Stage, stages_of
from gpuenv.image.inspect.image_facts import ImageError
from gpuenv.image.inspect.image_report import ImageFinding, ImageReport, at_location
from gpuenv.image.inspect.rules import LocatedSymptom, all_rules
from gpuenv.image.inspect.verdict import exit_code_of, ranked_findings, status_of
from gpuenv.matrix.tables import Matrix


@dataclass(frozen=True, slots=True)
class DockerfileOptions:
    """Options for judging a Dockerfile.

    Attributes:
        context: its build context; the file's own folder, if not given.
        target: the stage to build; each last one, if not given.
        arguments: values for its ARGs.
    """

    context: Path | None = None
    target: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FileJudgement:
    """The result for a file: its findings, what it would build, and the files that were read."""

    findings: tuple[ImageFinding, ...]
    built: tuple[BuildTarget, ...]
    files: tuple[str, ...]


def read_text(path: Path) -> str:
    """A file of the user's.

    Raises:
        ImageError: where it cannot be read, or is larger than such files are.
    """
    try:
        if path.is_dir():
            raise ImageError(f"{path}: is a folder; expected a Dockerfile or a compose file", is_input=True)
        return read_at_most(path, LARGEST).decode("utf-8-sig")
    except TooLargeError as error:
        message = f"{path}: larger than the {LARGEST} bytes that such a file may have"
        raise ImageError(message, is_input=True) from error
    except OSError as error:
        raise ImageError(f"{path}: {error.strerror or error}", is_input=True) from error
    except UnicodeDecodeError as error:
        raise ImageError(f"{path}: is no text in UTF-8", is_input=True) from error


def is_compose(path: Path) -> bool:
    """Whether a file is for compose, by its name."""
    return path.suffix in (".yml", ".yaml") and not path.name.lower().startswith("dockerfile")


def judge_dockerfile(path: Path, options: DockerfileOptions, matrix: Matrix) -> FileJudgement:
    """Every finding of a Dockerfile.

    Raises:
        ImageError: for a file that cannot be read or is no Dockerfile, with the line.
    """
    return judge_text(read_text(path), path, options, matrix)


def judge_text(text: str, path: Path, options: DockerfileOptions, matrix: Matrix) -> FileJudgement:
    """Every finding of the text of a Dockerfile.

    Raises:
        ImageError: for what is no Dockerfile, with the line.
    """
    context = context_of(options.context or path.parent, path)
    if options.context is not None and not is_folder(options.context):
        raise ImageError(f"{options.context}: is no folder", "name the build context with --context", is_input=True)
    try:
        with bounded():
            stages = stages_of(parse(text), options.arguments)
            wanted = _wanted(stages, options.target, path)
            built = tuple(build(target, stages, str(path), context, matrix) for target in targets(stages, wanted))
            symptoms = [located_symptom for each in built for located_symptom in symptoms_in(each)]
    except DockerfileError as error:
        remedy = "name the Dockerfile or compose file behind it" if path.suffix == ".json" else None
        raise ImageError(f"{path}: {error}", remedy, is_input=True) from error
    except TooLongError as error:
        raise ImageError(f"{path}: {error}", is_input=True) from error
    files = (str(path), *(_shown(name, context) for name in context.read))
    return FileJudgement(tuple(located_findings(symptoms, context)), built, files)


def _wanted(stages: tuple[Stage, ...], name: str | None, path: Path) -> Stage | None:
    if name is None:
        return None
    found = next((stage for stage in stages if name.lower() in (stage.name, str(stage.number))), None)
    if found is None:
        names = ", ".join(stage.name or str(stage.number) for stage in stages)
        raise ImageError(f"{path}: there is no stage {name}", f"its stages: {names}", is_input=True)
    return found


def symptoms_in(target: BuildTarget) -> Iterable[tuple[str, LocatedSymptom]]:
    """What every rule finds in a target, with the rule's code."""
    return [(rule.code, located_symptom) for rule in all_rules("DKF") for located_symptom in rule.run(target)]


def located_findings(symptoms: Iterable[tuple[str, LocatedSymptom]], context: BuildContext) -> list[ImageFinding]:
    """Findings with locations, each location once, since targets share stages."""
    rules = {rule.code: rule for rule in all_rules()}
    found: dict[tuple[str, str, int, str], ImageFinding] = {}
    for code, located_symptom in symptoms:
        name = _shown(located_symptom.file, context) if located_symptom.file in context.read else located_symptom.file
        key = (code, name, located_symptom.line, located_symptom.symptom.title)
        finding = to_finding(rules[code], located_symptom.symptom)
        found.setdefault(
            key, at_location(finding, file=name, line=located_symptom.line, end_line=located_symptom.end_line)
        )
    return list(found.values())


def _shown(name: str, context: BuildContext) -> str:
    """A file of the context, as it is named from where the user is."""
    return str(context.folder / name) if str(context.folder) not in (".", "") else name


def _sort_key(finding: ImageFinding) -> tuple[bool, str, int]:
    """Sort key of findings: the one to fix first, then by file and line."""
    return not finding.primary, finding.file or "", finding.line or 0


def file_report(path: Path, kind: str, judged: FileJudgement, matrix: Matrix) -> ImageReport:
    """The report on a file."""
    findings = tuple(sorted(ranked_findings(judged.findings), key=_sort_key))
    status = status_of(findings, unknown=False)
    return ImageReport(
        subject=str(path),
        kind=kind,
        status=status,
        exit_code=exit_code_of(status),
        runs_on=(),
        images=(),
        machines=(),
        findings=findings,
        files=judged.files,
        gpuenv_version=__version__,
        matrix_revision=matrix.revision,
    )
