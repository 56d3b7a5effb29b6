"""``gpuenv fleet report``, ``diff``, ``drain`` and ``resolve``: the commands that analyse node reports."""

from __future__ import annotations

import importlib
import time
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.fleet_source import Expect, MaxAge, Source, parse_age, read_fleet
from gpuenv.cli.sources import get_matrix
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import OutputSpec
    from gpuenv.model.documents import Fleet


# Each except text and JSON is a module of gpuenv.fleet with a function ``render``.
_FORMATS = ("text", "json", "html", "junit", "prometheus")


class Via(str, Enum):
    """Where the reports are summarized."""

    HERE = "here"
    DASK = "dask"


def report(
    source: Source,
    expect: Expect = None,
    max_age: MaxAge = None,
    quorum: Annotated[
        float,
        typer.Option("--quorum", metavar="FRACTION", min=0, max=1, help="Fraction of the nodes that must answer."),
    ] = 0.95,
    via: Annotated[Via, typer.Option("--via", help="Where to summarize the reports.")] = Via.HERE,
    scheduler: Annotated[
        Optional[str], typer.Option("--scheduler", metavar="ADDRESS", help="Dask: such as tcp://10.0.0.1:8786.")
    ] = None,
    matrix: options.MatrixFile = None,
    formats: Annotated[
        Optional[list[str]],
        typer.Option(
            "--format", metavar="FORMAT[=FILE]", help=f"Output format: {', '.join(_FORMATS)}. Repeatable with files."
        ),
    ] = None,
    output: options.OutputFile = None,
    no_color: options.NoColor = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="Hide names of nodes and other identities, to share the report.")
    ] = False,
) -> None:
    """Show which nodes are fit, which differ and which to drain.

    Reads the reports that fleet node and fleet collect write. Nodes with the same hardware and software are one group.
    Also names the wheels that serve all nodes.

    Exit code: 0 all fit, 1 some unfit, 8 fewer conclusive answers than --quorum.
    """
    from gpuenv.cli.output import identity, read_formats
    from gpuenv.fleet.analysis import FleetOptions, analyse
    from gpuenv.fleet.groups import with_pseudonyms
    from gpuenv.model.codec import decode, encode
    from gpuenv.model.documents import Fleet
    from gpuenv.report.redact import redact as redacted

    specs = read_formats(formats, output, _FORMATS)
    if (via is Via.DASK) != (scheduler is not None):
        raise CommandError(ExitCode.USAGE, "--via dask and --scheduler ADDRESS need each other")
    fleet_options = FleetOptions(time.time(), parse_age(max_age), quorum)
    partial = read_fleet(source, expect=expect, scheduler=scheduler)
    rows = get_matrix(matrix)
    fleet = analyse(with_pseudonyms(partial) if redact else partial, rows, fleet_options)
    if redact:
        fleet = decode(Fleet, redacted(encode(fleet), identity()))
    for spec in specs:
        _emit(fleet, spec, color=not no_color)
    raise typer.Exit(fleet.exit_code)


def _emit(fleet: Fleet, spec: OutputSpec, *, color: bool) -> None:
    from gpuenv.cli.output import RECORD_FORMATS, Output, write_result

    if spec.form in RECORD_FORMATS:
        from gpuenv.fleet.text import fleet_lines

        Output(spec.path, spec.form == "json", color, redacted=False).emit(fleet, lambda: fleet_lines(fleet))
    else:
        text: str = importlib.import_module(f"gpuenv.fleet.{spec.form}").render(fleet)
        write_result(text, spec.path, shared=spec.form == "prometheus")


def diff(
    before: Source,
    after: Source,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    no_color: options.NoColor = False,
) -> None:
    """Compare two sets of node reports, such as those of two days.

    Lists nodes that are new, missing, changed, or switching between fit and unfit, and what changed.

    Exit code: 0.
    """
    from gpuenv.cli.output import Output
    from gpuenv.fleet.diff import diff_fleets
    from gpuenv.fleet.text import diff_lines

    found = diff_fleets(read_fleet(before), read_fleet(after), get_matrix(matrix))
    out = Output(output, output_format is options.Format.JSON, not no_color, redacted=False)
    out.emit(found, lambda: diff_lines(found))


class Scheduler(str, Enum):
    """Schedulers whose commands can be printed."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"


def drain(
    source: Source,
    scheduler: Annotated[Scheduler, typer.Option("--for", help="The scheduler of the commands.")] = Scheduler.SLURM,
    max_age: MaxAge = None,
    matrix: options.MatrixFile = None,
    output: options.OutputFile = None,
) -> None:
    """Print the commands that take broken nodes out of service.

    A node is broken if its driver or a GPU is. No command is run.

    Exit code: 0.
    """
    from gpuenv.cli.output import write_result
    from gpuenv.fleet.analysis import FleetOptions, analyse
    from gpuenv.fleet.drain import kubernetes_commands, slurm_commands

    fleet_options = FleetOptions(time.time(), parse_age(max_age))
    fleet = analyse(read_fleet(source), get_matrix(matrix), fleet_options)
    lines = slurm_commands(fleet) if scheduler is Scheduler.SLURM else kubernetes_commands(fleet)
    write_result("".join(f"{line}\n" for line in lines), output)


def resolve(
    source: Source,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    no_color: options.NoColor = False,
) -> None:
    """Find the fewest wheels and images that serve all nodes.

    Names the nodes that force each of them.

    Exit code: 0 a wheel fits each node, 3 none fits one of them.
    """
    from gpuenv.cli.output import Output
    from gpuenv.fleet.analysis import group_states, serve
    from gpuenv.fleet.text import service_lines

    partial = read_fleet(source)
    groups = group_states(partial.nodes.values(), partial.samples)
    fleet = serve(groups, partial.samples, get_matrix(matrix), images=True)
    out = Output(output, output_format is options.Format.JSON, not no_color, redacted=False)
    out.emit(fleet, lambda: service_lines(fleet))
    raise typer.Exit(ExitCode.NOTHING_FITS if fleet.unserved or not fleet.answers else ExitCode.OK)
