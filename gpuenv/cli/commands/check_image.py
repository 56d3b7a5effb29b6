"""``gpuenv check-image``."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, announce, usage_errors
from gpuenv.cli.sources import (
    MachineSource,
    get_machine_and_matrix,
    get_machines_and_matrix,
    get_matrix,
    own_environment,
    usage_errors_first,
)
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import Lines

if TYPE_CHECKING:
    from gpuenv.cli.output import OutputSpec
    from gpuenv.image.inspect.image_facts import ImageFacts
    from gpuenv.image.inspect.image_report import ImageReport
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.snapshot import Snapshot

_HERE = "this machine"
_FORMATS = ("text", "json", "sarif")


def _format_names() -> tuple[str, ...]:  # typer calls it by the name in the annotation
    return _FORMATS


class ImageSource(str, Enum):
    """Where an image may be read from."""

    AUTO = "auto"
    ENGINE = "engine"
    REGISTRY = "registry"


class CheckImageOptions(NamedTuple):
    """The options of ``gpuenv check-image``."""

    image: Annotated[
        Optional[str],
        typer.Argument(
            metavar="IMAGE", help="A reference, an OCI layout (a folder), or a file that docker save wrote."
        ),
    ] = None
    dockerfile: Annotated[
        Optional[list[Path]],
        typer.Option(
            "--dockerfile",
            metavar="FILE",
            help="Instead of an image: a Dockerfile, compose files (repeatable), a Kubernetes manifest or "
            "a devcontainer.json.",
        ),
    ] = None
    context: Annotated[
        Optional[Path], typer.Option("--context", metavar="DIR", help="Build context. Default: the folder of the file.")
    ] = None
    target: Annotated[Optional[str], typer.Option("--target", metavar="STAGE", help="Stage to build.")] = None
    build_arg: Annotated[
        Optional[list[str]], typer.Option("--build-arg", metavar="NAME=VALUE", help="Value of an ARG. Repeatable.")
    ] = None
    platform: Annotated[
        Optional[str],
        typer.Option(
            "--platform", metavar="OS/ARCH", help="Platform of a multi-platform image. Default: that of the machine."
        ),
    ] = None
    source: Annotated[
        ImageSource, typer.Option("--from", help="Where to read the image: the local engine or its registry.")
    ] = ImageSource.AUTO
    snapshot: options.SnapshotFiles = None
    assume: options.Assume = None
    no_probe: options.NoProbe = False
    matrix: options.MatrixFile = None
    formats: Annotated[
        Optional[list[str]],
        typer.Option(
            "--format",
            metavar="FORMAT[=FILE]",
            help="text, json or sarif. Repeatable with files.",
            autocompletion=_format_names,
        ),
    ] = None
    output: options.OutputFile = None
    offline: Annotated[bool, typer.Option("--offline", help="Do not contact a registry.")] = False
    no_color: options.NoColor = False
    verbose: options.Verbose = False
    timeout: options.Timeout = options.TIMEOUT
    redact: options.Redact = True
    driver_root: options.DriverRoot = "/"


@options.takes(CheckImageOptions)
def check_image(opts: CheckImageOptions) -> None:
    """Check whether an image runs here, or check a Dockerfile.

    Reads only the manifest and the configuration of an image, a few kilobytes. With --dockerfile, finds mistakes in a
    Dockerfile, compose file, Kubernetes manifest or devcontainer.json, and compares it with the machine that --snapshot
    or --assume describes.

    Exit code: 0 fit, 1 unfit (with several machines: for one of them), 2 no such image, 8 undetermined.
    """
    from gpuenv.cli.diagnosis import configured_docs
    from gpuenv.cli.output import read_formats
    from gpuenv.report.docs_site import with_docs_url

    started = time.monotonic()
    specs = read_formats(opts.formats, opts.output, _FORMATS)
    address = configured_docs()
    if opts.image is not None and not opts.dockerfile:
        if opts.context or opts.target or opts.build_arg:
            raise CommandError(ExitCode.USAGE, "--context, --target and --build-arg go with --dockerfile")
        report = _check_image(opts, opts.image)
    elif opts.dockerfile and opts.image is None:
        if opts.platform is not None or opts.source is not ImageSource.AUTO:
            raise CommandError(ExitCode.USAGE, "--platform and --from go with an image, not with --dockerfile")
        report = _check_file(opts, opts.dockerfile)
    else:
        raise CommandError(ExitCode.USAGE, "expected an image or --dockerfile FILE, one of the two")
    report = replace(
        report,
        findings=with_docs_url(report.findings, address),
        machines=tuple(replace(entry, findings=with_docs_url(entry.findings, address)) for entry in report.machines),
        duration=time.monotonic() - started,
    )
    _emit(report, opts, specs)
    raise typer.Exit(report.exit_code)


def _emit(report: ImageReport, opts: CheckImageOptions, specs: Sequence[OutputSpec]) -> None:
    from gpuenv.cli.output import Output, identity, write_result
    from gpuenv.image.inspect.image_report import report_lines, sarif_text
    from gpuenv.report.redact import sanitize_report

    for spec in specs:
        if spec.form == "sarif":
            write_result(sarif_text(sanitize_report(report, identity() if opts.redact else None)), spec.path)
        else:
            out = Output(spec.path, spec.form == "json", not opts.no_color, opts.redact)
            out.emit(report, lambda: report_lines(report, verbose=opts.verbose))


def _check_file(opts: CheckImageOptions, files: Sequence[Path]) -> ImageReport:
    from gpuenv.image.dockerfile.judge import DockerfileOptions, file_report, judge_files, read_text
    from gpuenv.image.dockerfile.predict import with_machines
    from gpuenv.image.inspect.image_facts import ImageError

    def read_files() -> None:
        for file in files:
            read_text(file)

    with usage_errors(ImageError):
        with usage_errors_first(read_files):
            is_named = opts.snapshot or opts.assume
            machines, rows = _machines(opts) if is_named else ({}, get_matrix(opts.matrix))
        # As in Buildx, a name without a value takes the value of that variable, and is dropped if it is unset.
        pairs = [text.partition("=") for text in opts.build_arg or ()]
        values = {name: value if equals else os.environ.get(name) for name, equals, value in pairs}
        arguments = {name: value for name, value in values.items() if value is not None}
        choice = DockerfileOptions(opts.context, opts.target, arguments)
        judged = judge_files(files, choice, rows)
    report = file_report(files[0], judged, rows)
    return with_machines(report, judged.targets, machines, rows, time.monotonic)


def _machines(opts: CheckImageOptions) -> tuple[dict[str, Snapshot], Matrix]:
    """The machines by name, and the matrix."""
    source = MachineSource(
        assume=opts.assume or (), no_probe=opts.no_probe, timeout=opts.timeout, driver_root=opts.driver_root
    )
    if opts.snapshot:
        return get_machines_and_matrix(source, opts.snapshot, opts.matrix)
    facts, rows = get_machine_and_matrix(source, opts.matrix)
    return {_HERE: facts}, rows


def _check_image(opts: CheckImageOptions, reference: str) -> ImageReport:
    from gpuenv.image.inspect.fetch import FetchOptions, fetch
    from gpuenv.image.inspect.image_facts import ImageError, parse_platform
    from gpuenv.image.inspect.rules_driver import wanted_platform
    from gpuenv.image.inspect.verdict import image_report, judge_machine, unfetched_verdict
    from gpuenv.matrix.needs import needs_of

    try:
        platform = parse_platform(opts.platform) if opts.platform is not None else None
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"--platform: {error}") from error
    machines, rows = _machines(opts)
    fetching = FetchOptions(
        environment=own_environment(),
        deadline=opts.timeout,
        engine=opts.source is not ImageSource.REGISTRY,
        registry=opts.source is not ImageSource.ENGINE and not opts.offline,
        announce=announce,
    )
    answers: dict[str, ImageFacts | ImageError] = {}  # by platform: each is fetched once
    verdicts = []
    for name, facts in machines.items():
        requested = platform or wanted_platform(needs_of(facts, rows))
        key = str(requested)
        if key not in answers:
            try:
                answers[key] = fetch(reference, requested, fetching)
            except ImageError as error:
                if error.is_input:
                    raise CommandError(ExitCode.USAGE, str(error), error.remedy) from error
                answers[key] = error
        answer = answers[key]
        if isinstance(answer, ImageError):
            verdicts.append(unfetched_verdict(name, reference, str(answer), facts, rows))
        else:
            verdicts.append(judge_machine(name, answer, facts, rows, time.monotonic))
    images = {}
    for key, answer in answers.items():
        if isinstance(answer, ImageError):
            announce(Lines(filter(None, (str(answer), answer.remedy))))
        else:
            images[answer.platform or key] = answer
    return image_report(reference, images, tuple(verdicts), rows)
