"""``gpuenv build-image``."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.cli.options import NetworkOffline, WheelInstaller, WheelsFrom
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.imaging.site import Making


class KindName(str, Enum):
    """Kinds of image."""

    WHEELS = "wheels"
    RUNTIME = "runtime"
    DEVEL = "devel"


class BuilderName(str, Enum):
    """What builds."""

    AUTO = "auto"
    BUILDKIT = "buildkit"
    CLASSIC = "classic"


_File = Optional[Path]
Kinds = Annotated[
    Optional[list[KindName]],
    typer.Option(
        "--kind",
        help="wheels (slim Python, CUDA from wheels: the default), runtime or devel (on NVIDIA's images). Repeatable.",
    ),
]


def build_image(
    kind: Kinds = None,
    every: Annotated[
        bool, typer.Option("--all", help="The whole supported matrix, or all of the kinds named.")
    ] = False,
    cuda: Annotated[Optional[str], typer.Option("--cuda", metavar="VERSION", help="CUDA in the image: 12.9.")] = None,
    cupy: Annotated[
        Optional[str], typer.Option("--cupy", metavar="VERSION", help="CuPy: 14.2.0, or cupy-cuda12x==14.2.0.")
    ] = None,
    python: Annotated[
        Optional[str], typer.Option("--python", metavar="VERSION", help="Python in the image: 3.12.")
    ] = None,
    arch: Annotated[Optional[str], typer.Option("--arch", metavar="ARCH", help="x86_64 or aarch64.")] = None,
    capability: Annotated[
        Optional[list[str]],
        typer.Option("--compute-capability", metavar="CC", help="A GPU to serve: 9.0, sm_90. Repeatable."),
    ] = None,
    base: Annotated[
        Optional[str], typer.Option("--base", metavar="IMAGE", help="Another base, best with its digest.")
    ] = None,
    tag: Annotated[
        Optional[str],
        typer.Option("-t", "--tag", metavar="NAME", help="Name of the image; of several, the repository."),
    ] = None,
    label: Annotated[
        Optional[list[str]], typer.Option("--label", metavar="KEY=VALUE", help="A label of your own. Repeatable.")
    ] = None,
    snapshot: Annotated[
        Optional[list[Path]],
        typer.Option("--snapshot", metavar="FILE", help="A recorded machine to serve. Repeatable: all of them."),
    ] = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    show: Annotated[bool, typer.Option("--print", help="Print the Dockerfile; ask no engine, no index.")] = False,
    dry_run: options.DryRun = False,
    context: Annotated[
        _File, typer.Option("--context", metavar="DIR", help="Write all that is built from to a folder, and end.")
    ] = None,
    push: Annotated[bool, typer.Option("--push", help="Push it, and tell the digest.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Take nothing out of the builder's cache.")] = False,
    builder: Annotated[BuilderName, typer.Option("--builder", help="What builds.")] = BuilderName.AUTO,
    pip_config: Annotated[
        _File, typer.Option("--pip-config", metavar="FILE", help="A pip.conf for the build; a secret, never kept.")
    ] = None,
    netrc: Annotated[
        _File, typer.Option("--netrc", metavar="FILE", help="A .netrc for the build; a secret, never kept.")
    ] = None,
    ca_bundle: Annotated[
        _File, typer.Option("--ca-bundle", metavar="FILE", help="Certificates for the build; a secret, never kept.")
    ] = None,
    public_index: Annotated[
        bool, typer.Option("--public-index", help="Build from the public index, whatever is set for this machine.")
    ] = False,
    build_timeout: Annotated[
        float, typer.Option("--build-timeout", metavar="SECONDS", min=1, help="How long a build may take.")
    ] = 3600.0,
    matrix: options.MatrixFile = None,
    installer: WheelInstaller = WheelsFrom.AUTO,
    offline: NetworkOffline = False,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Build an image that fits, and prove it inside.

    Resolved, pinned, built by your engine, proven, labelled.

    Exit code: 0 built, 2 usage, 3 nothing fits, 4 failed: no name was changed, 7 there is nothing to
    ask for the wheels.
    """
    from gpuenv.cli.imaging.site import Making
    from gpuenv.cli.imaging.words import Asked
    from gpuenv.cli.imaging.work import run
    from gpuenv.cli.inputs import Subject
    from gpuenv.cli.installer import Means
    from gpuenv.cli.output import Output

    asked = Asked(
        kinds=tuple(entry.value for entry in kind or ()),
        every=every, cuda=cuda, cupy=cupy, python=python, arch=arch, base=base, tag=tag,
        capabilities=tuple(capability or ()),
        labels=tuple(label or ()),
        snapshots=tuple(snapshot or ()),
    )  # fmt: skip
    secrets = {"pip": pip_config, "netrc": netrc, "ca": ca_bundle}
    making = Making(
        builder=builder.value,
        secrets={name: path for name, path in secrets.items() if path is not None},
        public_index=public_index,
        fresh=no_cache,
        push=push,
        seconds=build_timeout,
        patience=timeout,
        installing=Means(installer.installer, offline, False, build_timeout),
    )
    if not build_timeout > 0:  # nan is not below the least
        raise CommandError(ExitCode.USAGE, f"--build-timeout {build_timeout}: expected seconds, such as 3600")
    if sum((show, dry_run, context is not None)) > 1:
        raise CommandError(ExitCode.USAGE, "--print, --dry-run and --context exclude each other")
    subject = Subject(None, None, assume or (), no_probe, timeout, driver_root)
    out = Output(output, output_format is options.Format.JSON, not no_color, redact, verbose)
    raise typer.Exit(run(asked, (subject, matrix), making, out, _end(making, show, dry_run, context)))


def _end(making: Making, show: bool, dry_run: bool, context: Path | None) -> str | Path:  # noqa: FBT001 - options
    """Where the command ends: ``print``, ``plan``, a folder, or ``build``."""
    if making.push and (show or dry_run or context is not None):
        raise CommandError(
            ExitCode.USAGE, "--push pushes what is built; --print, --dry-run and --context build nothing"
        )
    return context or ("print" if show else "plan" if dry_run else "build")
