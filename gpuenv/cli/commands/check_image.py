"""``gpuenv check-image``."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError, announce
from gpuenv.cli.inputs import Subject, get_both, get_matrix, usage_first
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpuenv.image.check.facts import ImageError, ImageFacts, Platform
    from gpuenv.image.check.fetch import Fetching
    from gpuenv.image.check.records import ImageReport
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.snapshot import Snapshot

_FORMS = ("text", "json", "sarif")
_HERE = "this machine"


class Place(str, Enum):
    """Who may be asked for an image."""

    AUTO = "auto"
    ENGINE = "engine"
    REGISTRY = "registry"


@dataclass(frozen=True, slots=True)
class Asked:
    """The file that is asked for (of compose, several), and what of it is meant."""

    files: Sequence[Path]
    context: Path | None
    target: str | None
    build_arguments: Sequence[str]


Image = Annotated[
    Optional[str],
    typer.Argument(metavar="IMAGE", help="A reference, an OCI layout (a folder), or a file that docker save wrote."),
]
Dockerfile = Annotated[
    Optional[list[Path]],
    typer.Option(
        "--dockerfile",
        metavar="FILE",
        help="In place of an image: a Dockerfile, compose files (repeat it), a manifest of Kubernetes, "
        "a devcontainer.json.",
    ),
]
Context = Annotated[
    Optional[Path], typer.Option("--context", metavar="DIR", help="Its build context. Default: the file's folder.")
]
Target = Annotated[Optional[str], typer.Option("--target", metavar="STAGE", help="The stage to build.")]
BuildArg = Annotated[
    Optional[list[str]], typer.Option("--build-arg", metavar="NAME=VALUE", help="A value for an ARG. Repeatable.")
]
PlatformName = Annotated[
    Optional[str],
    typer.Option("--platform", metavar="OS/ARCH", help="Of a multi-platform image. Default: the machine's."),
]
From = Annotated[Place, typer.Option("--from", help="Who is asked: the engine here that has it, or its registry.")]
Snapshots = Annotated[
    Optional[list[Path]],
    typer.Option("--snapshot", metavar="FILE", help="A recorded machine instead of this one. Repeatable."),
]
Formats = Annotated[
    Optional[list[str]],
    typer.Option("--format", metavar="FORMAT[=FILE]", help="text, json or sarif. Repeatable with files."),
]


def check_image(
    image: Image = None,
    dockerfile: Dockerfile = None,
    context: Context = None,
    target: Target = None,
    build_arg: BuildArg = None,
    platform: PlatformName = None,
    place: From = Place.AUTO,
    snapshot: Snapshots = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    matrix: options.MatrixFile = None,
    formats: Formats = None,
    output: options.OutputFile = None,
    offline: Annotated[bool, typer.Option("--offline", help="Ask no registry.")] = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Judge whether an image would run here, or a Dockerfile.

    Would this image run on this machine? What is wrong with this Dockerfile, compose file, Kubernetes manifest or
    devcontainer.json?

    An image is judged by its manifest and configuration, a few kilobytes. A Dockerfile is held against a machine where
    --snapshot or --assume names one.

    Exit code: 0 fit, 1 unfit (with several machines: for one of them), 2 no such image, 8 could not be told.
    """
    from gpuenv.cli.formats import read_formats

    started = time.monotonic()
    wanted = read_formats(formats, output, _FORMS)
    subject = Subject(None, None, assume or (), no_probe, timeout, driver_root)
    files = snapshot or ()
    if image is not None and not dockerfile:
        if context or target or build_arg:
            raise CommandError(ExitCode.USAGE, "--context, --target and --build-arg go with --dockerfile")
        from gpuenv.image.check.fetch import Fetching

        asked_for = _platform(platform)
        machines, rows = _machines(subject, files, matrix)
        how = Fetching(
            environment=dict(os.environ),
            deadline=timeout,
            engine=place is not Place.REGISTRY,
            registry=place is not Place.ENGINE and not offline,
            announce=announce,
        )
        report = _of_image(image, machines, asked_for, how, rows)
    elif dockerfile and image is None:
        asked = Asked(dockerfile, context, target, build_arg or ())
        with usage_first(lambda: _read_all(dockerfile)):
            machines, rows = _machines(subject, files, matrix) if files or assume else ({}, get_matrix(matrix))
        report = _of_file(asked, machines, rows)
    else:
        raise CommandError(ExitCode.USAGE, "expected an image or --dockerfile FILE, one of the two")
    from dataclasses import replace

    from gpuenv.cli.imaging.output import emit_image

    emit_image(
        replace(report, duration=time.monotonic() - started),
        wanted,
        verbose=verbose,
        color=not no_color,
        redacted=redact,
    )
    raise typer.Exit(report.exit_code)


def _of_file(asked: Asked, machines: dict[str, Snapshot], rows: Matrix) -> ImageReport:
    from gpuenv.image.check.facts import ImageError
    from gpuenv.image.check.judge_any import judge_any
    from gpuenv.image.check.judge_file import Choice, file_report
    from gpuenv.image.check.supposed import with_machines

    choice = Choice(asked.context, asked.target, _build_arguments(asked.build_arguments))
    try:
        kind, judged = judge_any(asked.files, choice, rows)
    except ImageError as error:
        raise CommandError(ExitCode.USAGE, str(error), error.remedy) from error
    report = file_report(asked.files[0], kind, judged, rows)
    return with_machines(report, judged.built, machines, rows, time.monotonic)


def _build_arguments(texts: Sequence[str]) -> dict[str, str]:
    """A name alone stands for the variable of that name, and for nothing where there is none, as Buildx has it."""
    pairs = (text.partition("=") for text in texts)
    told = {name: value if equals else os.environ.get(name) for name, equals, value in pairs}
    return {name: value for name, value in told.items() if value is not None}


def _machines(subject: Subject, files: Sequence[Path], matrix: Path | None) -> tuple[dict[str, Snapshot], Matrix]:
    """The machines that are meant, by name, and the matrix."""
    if files:
        from gpuenv.cli.inputs import get_all

        return get_all(subject, files, matrix)
    facts, rows = get_both(subject, matrix)
    return {_HERE: facts}, rows


def _read_all(files: Sequence[Path]) -> None:
    from gpuenv.image.check.facts import ImageError
    from gpuenv.image.check.judge_file import read_text

    try:
        for file in files:
            read_text(file)
    except ImageError as error:
        raise CommandError(ExitCode.USAGE, str(error), error.remedy) from error


def _of_image(
    reference: str, machines: dict[str, Snapshot], asked: Platform | None, how: Fetching, rows: Matrix
) -> ImageReport:
    from gpuenv.image.check.facts import ImageError
    from gpuenv.image.check.rules_image import wanted_platform
    from gpuenv.image.check.verdict import image_report, judge_machine, untold
    from gpuenv.matrix.needs import needs_of

    images: dict[str, ImageFacts] = {}
    verdicts = []
    failed: dict[str, ImageError] = {}
    for name, facts in machines.items():
        wanted = asked or wanted_platform(needs_of(facts, rows))
        try:
            found = _fetched(reference, wanted, how, images, failed)
        except ImageError as error:
            if error.is_input:
                raise CommandError(ExitCode.USAGE, str(error), error.remedy) from error
            verdicts.append(untold(name, reference, str(error), facts, rows))
        else:
            verdicts.append(judge_machine(name, found, facts, rows, time.monotonic))
    for told in failed.values():
        announce("\n".join(filter(None, (str(told), told.remedy))))
    unique = {image.platform or wanted: image for wanted, image in images.items()}
    return image_report(reference, unique, tuple(verdicts), rows)


def _platform(text: str | None) -> Platform | None:
    from gpuenv.image.check.facts import parse_platform

    try:
        return parse_platform(text) if text is not None else None
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"--platform: {error}") from error


def _fetched(
    reference: str, wanted: Platform, how: Fetching, images: dict[str, ImageFacts], failed: dict[str, ImageError]
) -> ImageFacts:
    """The image for a platform, asked for once."""
    from gpuenv.image.check.facts import ImageError
    from gpuenv.image.check.fetch import fetch

    key = str(wanted)
    if key in failed:
        raise failed[key]
    if key not in images:
        try:
            images[key] = fetch(reference, wanted, how)
        except ImageError as error:
            failed[key] = error
            raise
    return images[key]
