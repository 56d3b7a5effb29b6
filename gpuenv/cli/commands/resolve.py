"""``gpuenv resolve``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NamedTuple, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, announce, usage_errors
from gpuenv.cli.sources import MachineSource, get_machine_and_matrix, get_machines_and_matrix
from gpuenv.clock import days_since
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.text_line import TextLine


class ResolveOptions(NamedTuple):
    """The options of ``gpuenv resolve``."""

    python: options.Python = None
    snapshot: options.SnapshotFiles = None
    assume: options.Assume = None
    no_probe: options.NoProbe = False
    paste: options.Paste = None
    what_if: Annotated[
        Optional[list[str]],
        typer.Option(
            "--what-if",
            metavar="KEY=VALUE,VALUE",
            help="Print a table of the results for each value, such as driver=580,590. Repeat it to combine keys.",
        ),
    ] = None
    why_not: Annotated[
        Optional[str],
        typer.Option("--why-not", metavar="LINE", help="Explain why this wheel line, release or image was not chosen."),
    ] = None
    solve: Annotated[
        bool,
        typer.Option("--solve", help="Let the installer's solver confirm the wheel, and show the plan of its install."),
    ] = False
    installer: options.WheelInstaller = options.WheelsFrom.AUTO
    matrix: options.MatrixFile = None
    output_format: options.OutputFormat = options.Format.TEXT
    output: options.OutputFile = None
    offline: options.NetworkOffline = False
    no_color: options.NoColor = False
    verbose: options.Verbose = False
    timeout: options.Timeout = options.TIMEOUT
    redact: options.Redact = True
    driver_root: options.DriverRoot = "/"


@options.takes(ResolveOptions)
def resolve(opts: ResolveOptions) -> None:
    """Find the CuPy wheel that fits, and why others do not.

    Also finds the conda specification and the image that fit. Only --solve uses the network.

    Exit code: 0 a wheel fits, 3 none does (with --what-if: in no row; with several machines: for one of them).
    """
    from gpuenv.cli.output import Output
    from gpuenv.matrix import what_if as answers
    from gpuenv.matrix.assume import AssumeError
    from gpuenv.matrix.resolve import choose
    from gpuenv.matrix.resolve import resolve as resolve_wheel
    from gpuenv.report.resolution_text import explanation_lines, fleet_lines, what_if_lines, why_not_lines

    files = opts.snapshot or []
    if (opts.what_if is not None) + (opts.why_not is not None) + (len(files) > 1) > 1:
        raise CommandError(ExitCode.USAGE, "--what-if, --why-not and several --snapshot exclude each other")
    if opts.solve and (files or opts.no_probe or opts.paste or opts.what_if is not None or opts.why_not is not None):
        message = "--solve needs this machine's environment, and excludes --snapshot, --no-probe, --paste and questions"
        raise CommandError(ExitCode.USAGE, message)
    out = Output(
        opts.output, as_json=opts.output_format is options.Format.JSON, color=not opts.no_color, redacted=opts.redact
    )
    source = MachineSource(
        opts.python,
        files[0] if files else None,
        opts.assume or (),
        opts.no_probe,
        opts.timeout,
        opts.driver_root,
        paste=opts.paste,
    )
    if opts.what_if is not None:
        with usage_errors(AssumeError):
            answers.validate_dimensions(tuple(opts.what_if))  # before the matrix is read
    if len(files) > 1 and opts.paste is None:
        machines, matrix = get_machines_and_matrix(source, files, opts.matrix)
        fleet = answers.resolve_fleet(machines, matrix)
        out.emit(fleet, lambda: [*fleet_lines(fleet), *_matrix_lines(matrix)])
        raise typer.Exit(ExitCode.NOTHING_FITS if fleet.unserved else ExitCode.OK)
    snapshot, matrix = get_machine_and_matrix(source, opts.matrix)
    _announce_target_problems(snapshot)
    if opts.what_if is not None:
        with usage_errors(AssumeError):
            table = answers.what_if(snapshot, tuple(opts.what_if), matrix)
        out.emit(table, lambda: [*what_if_lines(table), *_matrix_lines(matrix)])
        is_served = any(row.candidate is not None for row in table.rows)
    elif opts.why_not is not None:
        with usage_errors(answers.UnknownCandidateError):
            answer = answers.why_not(snapshot, opts.why_not, matrix)
        out.emit(answer, lambda: [*why_not_lines(answer), *_matrix_lines(matrix)])
        is_served = choose(snapshot, matrix) is not None
    else:
        resolution, shown = resolve_wheel(snapshot, matrix), _matrix_lines(matrix)
        if opts.solve and resolution.wheel is not None:
            from gpuenv.cli.installers import InstallerRequest
            from gpuenv.cli.solving import confirm_wheel
            from gpuenv.install.plan_text import plan_lines
            from gpuenv.report.text_line import TextLine

            request = InstallerRequest(opts.installer.installer, opts.offline, options.INSTALL_TIMEOUT)
            resolution, plan = confirm_wheel(resolution, source, snapshot, matrix, request)
            shown = [TextLine(), *plan_lines(plan), *shown]
        out.emit(resolution, lambda: [*explanation_lines(resolution, verbose=opts.verbose), *shown])
        is_served = resolution.wheel is not None
    raise typer.Exit(ExitCode.OK if is_served else ExitCode.NOTHING_FITS)


def _matrix_lines(matrix: Matrix) -> list[TextLine]:
    """A blank line, and the revision of the matrix with its age."""
    from gpuenv.report.text import matrix_line
    from gpuenv.report.text_line import TextLine

    return [TextLine(), matrix_line(matrix.revision, days_since(matrix.revision))]


def _announce_target_problems(snapshot: Snapshot) -> None:
    """Announces a target that does not answer, is half changed, or is another environment than it seems."""
    from gpuenv.model.snapshot import SourceState

    target, state = snapshot.target, snapshot.source("target")
    interrupted = target.open_transaction.value
    if interrupted is not None:
        announce(f"{interrupted.label} was interrupted: the answer is for the half-changed target; see gpuenv doctor")
    if target.lost_environment.known:
        announce(f"{target.lost_environment.value} has no pyvenv.cfg: the answer is for {target.prefix.value}")
    elif state.state in (SourceState.FAILED, SourceState.CRASHED, SourceState.TIMED_OUT) and not target.python.known:
        announce(f"the target's interpreter does not answer and is ignored: {target.executable.value}: {state.detail}")
