"""``gpuenv fleet collect``."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, announce, usage_errors
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import error_reason

if TYPE_CHECKING:
    from gpuenv.fleet.collect import Collection
    from gpuenv.fleet.runners.task import Nodes, Task
    from gpuenv.report.text_line import TextLine

_QUORUM, _PARALLEL, _WAIT = 0.95, 256, 30.0
_LISTED = 20  # nodes of each kind in the text
_INTERVAL = 2.0  # seconds between two lines of progress


class Engine(str, Enum):
    """Engines; each is a module of gpuenv.fleet.runners."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    DASK = "dask"
    SSH = "ssh"


class CollectOptions(NamedTuple):
    """The options of ``gpuenv fleet collect``."""

    via: Annotated[Engine, typer.Option("--via", help="The engine that runs gpuenv on the nodes.")]
    folder: Annotated[
        Optional[Path],
        typer.Option("-o", "--output", metavar="FOLDER", help="Folder of the reports; required without --dry-run."),
    ] = None
    nodes: Annotated[
        Optional[str],
        typer.Option(
            "--nodes",
            metavar="SET",
            help="Nodes: a set of Slurm or ClusterShell, such as node[001-100,200]; for Kubernetes, names or a label "
            "selector; for Dask, hosts of workers. Default: all that the engine knows.",
        ),
    ] = None
    program: Annotated[str, typer.Option("--program", metavar="PATH", help="The program on the nodes.")] = "gpuenv"
    python: Annotated[
        Optional[str], typer.Option("--python", metavar="PATH", help="The target environment on the nodes.")
    ] = None
    host_only: Annotated[
        bool, typer.Option("--host-only", help="Judge only the driver, GPUs and container, on nodes without CuPy.")
    ] = False
    image: Annotated[
        Optional[str], typer.Option("--image", metavar="IMAGE", help="Kubernetes: an image with gpuenv.")
    ] = None
    runtime_class: Annotated[
        Optional[str], typer.Option("--runtime-class", metavar="NAME", help="Kubernetes: such as nvidia.")
    ] = None
    scheduler: Annotated[
        Optional[str], typer.Option("--scheduler", metavar="ADDRESS", help="Dask: such as tcp://10.0.0.1:8786.")
    ] = None
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", min=1, max=options.LONGEST_TIMEOUT, help="Time limit of a node."),
    ] = options.TIMEOUT
    wait: Annotated[
        float,
        typer.Option(
            "--wait", metavar="SECONDS", min=1, max=options.LONGEST_TIMEOUT, help="Time to reach or to start a node."
        ),
    ] = _WAIT
    parallel: Annotated[
        int, typer.Option("--parallel", metavar="N", min=1, max=4096, help="Nodes that Slurm and SSH run on at once.")
    ] = _PARALLEL
    quorum: Annotated[
        float,
        typer.Option("--quorum", metavar="FRACTION", min=0, max=1, help="Fraction of the nodes that must answer."),
    ] = _QUORUM
    output_format: Annotated[options.Format, typer.Option("--format", help="Output format.")] = options.Format.TEXT
    no_color: options.NoColor = False
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands or the manifest; run nothing.")] = False


@options.takes(CollectOptions)
def collect(opts: CollectOptions) -> None:
    """Run gpuenv on many nodes, and collect their reports in a folder.

    Runs the engine's own client: srun, kubectl, Dask or ssh. A node must start within --wait, and then answer within
    --timeout.

    Exit code: 0 all fit, 1 some unfit, 8 fewer answers than --quorum.
    """
    from gpuenv.cli.output import Output, write_stdout
    from gpuenv.fleet import collect as fleet
    from gpuenv.fleet.runners.task import RunnerError, Task

    if opts.folder is None and not opts.dry_run:
        raise CommandError(ExitCode.USAGE, "-o FOLDER is missing", "--dry-run writes nothing")
    if opts.host_only and opts.python is not None:
        raise CommandError(ExitCode.USAGE, "--host-only and --python exclude each other")
    started_at = time.time()
    run = fleet.run_name(started_at)
    task = Task(
        _command(opts, run),
        run,
        opts.timeout,
        opts.wait,
        opts.parallel,
        os.environ,
        opts.image,
        opts.runtime_class,
        opts.scheduler,
    )
    runner = import_module(f"gpuenv.fleet.runners.{opts.via.value}")
    with usage_errors(RunnerError):
        nodes: Nodes = runner.find_nodes(opts.nodes, task)
        if not nodes.asked and not nodes.unavailable:
            raise CommandError(ExitCode.USAGE, f"--via {opts.via.value}: there are no nodes")
        if opts.dry_run:
            write_stdout(runner.dry_run(nodes, task))
            return
        folder = opts.folder or Path()
        begun = fleet.Start(run, opts.via.value, started_at, opts.quorum)
        _announce_start(opts, nodes, task)
        try:
            found = fleet.collect(nodes, runner.ask(nodes, task), folder, begun, _progress())
        except OSError as error:
            raise CommandError(ExitCode.USAGE, f"{folder}: cannot be written: {error_reason(error)}") from error
    out = Output(None, opts.output_format is options.Format.JSON, not opts.no_color, redacted=False)
    out.emit(found, lambda: _lines(found, folder))
    raise typer.Exit(found.exit_code)


def _command(opts: CollectOptions, run: str) -> tuple[str, ...]:
    """What runs on each node."""
    target = ("--host-only",) if opts.host_only else ("--python", opts.python) if opts.python is not None else ()
    return (opts.program, "fleet", "node", "-o", "-", "--run", run, "--timeout", f"{opts.timeout:g}", *target)


def _announce_start(opts: CollectOptions, nodes: Nodes, task: Task) -> None:
    rounds = 1 if opts.via in (Engine.KUBERNETES, Engine.DASK) else math.ceil(len(nodes.asked) / task.parallel)
    announce(
        f"run {task.run}: asking {len(nodes.asked)} nodes by {opts.via.value}, at most {rounds * task.limit:.0f} s; "
        f"{len(nodes.unavailable)} cannot be asked"
    )


def _progress() -> Callable[[str], None]:
    """Announces the counts, at most every two seconds."""
    due = time.monotonic() + _INTERVAL

    def show(counts: str) -> None:
        nonlocal due
        if time.monotonic() >= due:
            announce(counts)
            due = time.monotonic() + _INTERVAL

    return show


def _lines(found: Collection, folder: Path) -> Iterator[TextLine]:
    from gpuenv.fleet.node_report import COLLECTION_FILE
    from gpuenv.report.text_line import Style, TextLine, counted

    styles = {ExitCode.OK: Style.GOOD, ExitCode.UNFIT: Style.BAD}
    yield TextLine(
        f"{counted(len(found.nodes), 'node')}: {len(found.fit)} fit, {len(found.unfit)} unfit, "
        f"{len(found.silent)} unknown, in {found.duration:.0f} s.",
        styles.get(ExitCode(found.exit_code), Style.WARNING),
    )
    unfit = [f"{entry.node} {entry.code} {entry.title}" for entry in found.unfit]
    silent = [f"{entry.node}: {entry.reason}" for entry in found.silent]
    kept = [
        f"{entry.node}: {entry.reason}; its report is {entry.report_age / 60:.0f} minutes old"
        for entry in found.unavailable
        if entry.report_age is not None
    ]
    for heading, entries in (("Unfit", unfit), ("Unknown", silent), ("Not asked, reported before", kept)):
        if entries:
            yield TextLine(heading, Style.HEADING)
        for entry in entries[:_LISTED]:
            yield TextLine(f"  {entry}", hang=4)
        if len(entries) > _LISTED:
            yield TextLine(f"  and {len(entries) - _LISTED} more in {folder / COLLECTION_FILE}")
