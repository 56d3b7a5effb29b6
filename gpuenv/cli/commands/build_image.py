"""``gpuenv build-image``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional, TypeVar

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, usage_errors
from gpuenv.cli.sources import MachineSource, get_machine_and_matrix, get_machines_and_matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import error_reason

if TYPE_CHECKING:
    from gpuenv.image.build.choose import ImageRequest
    from gpuenv.image.build.packages import AddedPackages
    from gpuenv.image.build.plan import Choice
    from gpuenv.matrix.needs import Needs
    from gpuenv.matrix.tables import Matrix

T = TypeVar("T")


class KindName(str, Enum):
    """Kinds of image."""

    WHEELS = "wheels"
    RUNTIME = "runtime"
    DEVEL = "devel"


class BuilderName(str, Enum):
    """Image builders."""

    AUTO = "auto"
    BUILDKIT = "buildkit"
    CLASSIC = "classic"


class BuildImageOptions(NamedTuple):
    """The options of ``gpuenv build-image``."""

    kind: Annotated[
        Optional[list[KindName]],
        typer.Option(
            "--kind",
            help="wheels (slim Python, CUDA from wheels: the default), runtime or devel (on NVIDIA's images). "
            "Repeatable.",
        ),
    ] = None
    every: Annotated[
        bool, typer.Option("--all", help="Build the whole supported matrix, or all of the named kinds.")
    ] = False
    cuda: Annotated[
        Optional[str], typer.Option("--cuda", metavar="VERSION", help="CUDA version in the image, such as 12.9.")
    ] = None
    cupy: Annotated[
        Optional[str],
        typer.Option("--cupy", metavar="VERSION", help="CuPy version, such as 14.2.0 or cupy-cuda12x==14.2.0."),
    ] = None
    python_version: Annotated[
        Optional[str], typer.Option("--python", metavar="VERSION", help="Python version in the image, such as 3.12.")
    ] = None
    package: Annotated[
        Optional[list[str]],
        typer.Option("--package", metavar="SPEC", help="Additional package, such as 'pandas>=2'. Repeatable."),
    ] = None
    requirements: Annotated[
        Optional[list[Path]],
        typer.Option("--requirements", metavar="FILE", help="Requirements file with additional packages. Repeatable."),
    ] = None
    library: Annotated[
        Optional[list[str]],
        typer.Option("--with", metavar="LIBRARIES", help="Libraries that CuPy can use: nccl, cutensor, or both."),
    ] = None
    arch: Annotated[Optional[str], typer.Option("--arch", metavar="ARCH", help="x86_64 or aarch64.")] = None
    capability: Annotated[
        Optional[list[str]],
        typer.Option(
            "--compute-capability",
            metavar="CC",
            help="Compute capability to support, such as 9.0 or sm_90. Repeatable.",
        ),
    ] = None
    base: Annotated[
        Optional[str], typer.Option("--base", metavar="IMAGE", help="Another base image, preferably with its digest.")
    ] = None
    tag: Annotated[
        Optional[str],
        typer.Option("-t", "--tag", metavar="NAME", help="Name of the image; for several images, the repository."),
    ] = None
    label: Annotated[
        Optional[list[str]], typer.Option("--label", metavar="KEY=VALUE", help="Additional label. Repeatable.")
    ] = None
    snapshot: Annotated[
        Optional[list[Path]],
        typer.Option("--snapshot", metavar="FILE", help="A recorded machine to support. Repeatable."),
    ] = None
    assume: options.Assume = None
    no_probe: options.NoProbe = False
    show: Annotated[bool, typer.Option("--print", help="Print the Dockerfile; use no engine and no index.")] = False
    dry_run: options.DryRun = False
    context: Annotated[
        Optional[Path],
        typer.Option("--context", metavar="DIR", help="Write the build context to a folder, and exit."),
    ] = None
    push: Annotated[bool, typer.Option("--push", help="Push the image and print its digest.")] = False
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Do not use the builder's cache.")] = False
    builder: Annotated[BuilderName, typer.Option("--builder", help="Builder to use.")] = BuilderName.AUTO
    pip_config: Annotated[
        Optional[Path],
        typer.Option("--pip-config", metavar="FILE", help="pip.conf for the build; a secret, never in the image."),
    ] = None
    netrc: Annotated[
        Optional[Path],
        typer.Option("--netrc", metavar="FILE", help=".netrc for the build; a secret, never in the image."),
    ] = None
    ca_bundle: Annotated[
        Optional[Path],
        typer.Option("--ca-bundle", metavar="FILE", help="Certificates for the build; a secret, never in the image."),
    ] = None
    public_index: Annotated[
        bool, typer.Option("--public-index", help="Use the public index, ignoring the configuration of this machine.")
    ] = False
    build_timeout: Annotated[
        float, typer.Option("--build-timeout", metavar="SECONDS", min=1, help="Time limit for a build.")
    ] = 3600.0
    matrix: options.MatrixFile = None
    installer: options.WheelInstaller = options.WheelsFrom.AUTO
    offline: options.NetworkOffline = False
    output_format: options.OutputFormat = options.Format.TEXT
    output: options.OutputFile = None
    no_color: options.NoColor = False
    verbose: options.Verbose = False
    timeout: options.Timeout = options.TIMEOUT
    redact: options.Redact = True
    driver_root: options.DriverRoot = "/"

    @property
    def secrets(self) -> dict[str, Path]:
        """The files of the build secrets, by name."""
        files = {"pip": self.pip_config, "netrc": self.netrc, "ca": self.ca_bundle}
        return {name: path for name, path in files.items() if path is not None}


@options.takes(BuildImageOptions)
def build_image(opts: BuildImageOptions) -> None:
    """Build an image that fits, and test it.

    Pins every package, builds the image with your engine, tests it, and tags it.

    Exit code: 0 built, 2 usage, 3 nothing fits, 4 failed and no tag was changed, 7
    the wheels have no installer.
    """
    from gpuenv.cli.image_builder import (
        UserInputs,
        build_all,
        context_folders,
        outcome_on_failure,
        plan_all,
        show_plans,
        write_contexts,
    )
    from gpuenv.cli.output import Output
    from gpuenv.image.build.packages import AddedPackageError, added_packages
    from gpuenv.image.build.plan import ImagePlans

    dry_modes = sum((opts.show, opts.dry_run, opts.context is not None))
    if dry_modes > 1:
        raise CommandError(ExitCode.USAGE, "--print, --dry-run and --context exclude each other")
    if opts.push and dry_modes:
        raise CommandError(
            ExitCode.USAGE, "--push pushes what is built; --print, --dry-run and --context build nothing"
        )
    for path in opts.secrets.values():  # before any work
        try:
            path.open("rb").close()
        except OSError as error:
            raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}") from error
    with usage_errors(AddedPackageError):
        added = added_packages(opts.package or (), opts.requirements or ())
    requests = _requests(opts, added)
    inputs = UserInputs(_labels(opts.label or ()), added)
    as_json = opts.output_format is options.Format.JSON
    out = Output(opts.output, as_json, not opts.no_color, opts.redact, opts.verbose)
    with outcome_on_failure(out, building=not dry_modes):
        machines, matrix = _machines(opts)
        choices, left_out = _choices(opts, requests, machines, matrix)
        if not dry_modes:
            raise typer.Exit(build_all(opts, inputs, choices, matrix, out))
        folders = context_folders(opts.context, choices) if opts.context is not None else []
        plans = plan_all(opts, inputs, choices, matrix)
        if folders:
            write_contexts(folders, plans)
        else:
            show_plans(ImagePlans(tuple(plans), left_out, matrix.revision), out, as_dockerfiles=opts.show)


def _requests(opts: BuildImageOptions, added: AddedPackages) -> tuple[ImageRequest, ...]:
    """The requested images, one per kind.

    Raises:
        CommandError: for a value that is not understood.
    """
    from gpuenv.image.build.choose import DOCKER_PLATFORMS, ImageRequest, line_and_release
    from gpuenv.image.build.plan import ImageKind
    from gpuenv.image.reference import parse_reference
    from gpuenv.model.versions import ComputeCapability, CudaVersion, PythonVersion

    arch = {"amd64": "x86_64", "arm64": "aarch64"}.get(opts.arch or "", opts.arch)
    if arch is not None and f"linux-{arch}" not in DOCKER_PLATFORMS:
        raise CommandError(ExitCode.USAGE, f"--arch {opts.arch}: expected x86_64 or aarch64")
    kinds = [ImageKind(kind.value) for kind in opts.kind or ()] or (
        list(ImageKind) if opts.every else [ImageKind.WHEELS]
    )
    line, cupy = _read("--cupy", opts.cupy or "", line_and_release)
    if opts.base is not None:
        _read("--base", opts.base, parse_reference)
    if opts.tag is not None and _read("--tag", opts.tag, parse_reference).digest is not None:
        raise CommandError(ExitCode.USAGE, f"--tag {opts.tag}: a digest cannot be set, since the build produces it")
    python = _read("--python", opts.python_version, PythonVersion.parse) if opts.python_version else None
    request = ImageRequest(
        cuda=_read("--cuda", opts.cuda, CudaVersion.parse) if opts.cuda else None,
        line=line,
        cupy=cupy,
        python=replace(python, micro=None) if python else None,
        arch=arch,
        base=opts.base,
        capabilities=tuple(
            _read("--compute-capability", entry, ComputeCapability.parse) for entry in opts.capability or ()
        ),
        libraries=_libraries(opts.library or ()),
        packages=tuple(added.requirements),
    )
    return tuple(replace(request, kind=kind) for kind in dict.fromkeys(kinds))


def _libraries(texts: Sequence[str]) -> tuple[str, ...]:
    """The names of optional libraries.

    Raises:
        CommandError: for an unknown one.
    """
    from gpuenv.image.build.packages import optional_libraries

    names = tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in optional_libraries()]
    if unknown:
        raise CommandError(ExitCode.USAGE, f"--with {unknown[0]}: expected {' or '.join(optional_libraries())}")
    return names


def _read(option: str, text: str, parse: Callable[[str], T]) -> T:
    """Parses the value of an option; errors contain the name of the option."""
    try:
        return parse(text)
    except ValueError as error:
        raise CommandError(ExitCode.USAGE, f"{option} {text}: {error}") from error


def _labels(texts: Sequence[str]) -> dict[str, str]:
    """The labels by name.

    Raises:
        CommandError: for an invalid label, or one that gpuenv writes itself.
    """
    pairs = [text.partition("=") for text in texts]
    bad = next((name for name, sign, _ in pairs if not sign or not name), None)
    if bad is not None:
        raise CommandError(ExitCode.USAGE, f"--label {bad}: expected KEY=VALUE")
    reserved = next((name for name, _, _ in pairs if name.startswith("io.gpuenv.")), None)
    if reserved is not None:
        raise CommandError(ExitCode.USAGE, f"--label {reserved}: gpuenv writes these itself")
    return {name: value for name, _, value in pairs}


def _machines(opts: BuildImageOptions) -> tuple[dict[str, Needs], Matrix]:
    """The machines to support, and the matrix.

    Raises:
        CommandError: when a snapshot cannot be read, or is combined with --no-probe.
    """
    from gpuenv.matrix.needs import needs_of

    source = MachineSource(
        assume=opts.assume or (), no_probe=opts.no_probe, timeout=opts.timeout, driver_root=opts.driver_root
    )
    if opts.snapshot:
        machines, matrix = get_machines_and_matrix(source, opts.snapshot, opts.matrix)
        return {name: needs_of(snapshot, matrix) for name, snapshot in machines.items()}, matrix
    # If a CUDA, a wheel or a GPU is named, this machine only builds the image.
    is_named = opts.every or opts.cuda or opts.cupy or opts.capability
    if is_named and not opts.assume:
        source = source._replace(no_probe=True)
    snapshot, matrix = get_machine_and_matrix(source, opts.matrix)
    return {"": needs_of(snapshot, matrix)}, matrix


def _choices(
    opts: BuildImageOptions, requests: Sequence[ImageRequest], machines: Mapping[str, Needs], matrix: Matrix
) -> tuple[tuple[Choice, ...], tuple[str, ...]]:
    """The images to build; with --all, also the reasons for those that cannot be built, instead of an error."""
    from gpuenv.image.build.choose import NoImageError, choose

    if not opts.every:
        return tuple(choose(request, machines, matrix) for request in requests), ()
    choices, left_out = [], []
    for request in requests:
        for row in matrix.cuda_minors:
            if request.cuda not in (None, row.cuda):
                continue
            try:
                choices.append(choose(replace(request, cuda=row.cuda), machines, matrix))
            except NoImageError as error:
                left_out.append(str(error))
    if not choices:
        raise NoImageError(left_out[0])
    return tuple(choices), tuple(left_out)
