"""``gpuenv resolve``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.clock import days_since
from gpuenv.cli.command_errors import CommandError, announce, usage_errors
from gpuenv.cli.sources import MachineSource, get_all, get_both
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.install.plan import Plan
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.resolution import Resolution
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.text_line import TextLine

Snapshots = Annotated[
    Optional[list[Path]],
    typer.Option(
        "--snapshot",
        metavar="FILE",
        help="Use a recorded machine instead of this one. Repeatable.",
    ),
]
WhatIf = Annotated[
    Optional[list[str]],
    typer.Option(
        "--what-if",
        metavar="KEY=VALUE,VALUE",
        help="Print a table of the results for each value, such as driver=580,590. Repeat it to combine keys.",
    ),
]
WhyNot = Annotated[
    Optional[str],
    typer.Option("--why-not", metavar="LINE", help="Explain why this wheel line, release or image was not chosen."),
]

Solve = Annotated[
    bool,
    typer.Option("--solve", help="Let the installer's solver confirm the wheel, and show the plan of its install."),
]


def resolve(
    python: options.Python = None,
    snapshot: Snapshots = None,
    assume: options.Assume = None,
    no_probe: options.NoProbe = False,
    paste: options.Paste = None,
    what_if: WhatIf = None,
    why_not: WhyNot = None,
    solve: Solve = False,
    installer: options.WheelInstaller = options.WheelsFrom.AUTO,
    matrix: options.MatrixFile = None,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: options.NetworkOffline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
    driver_root: options.DriverRoot = "/",
) -> None:
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

    files = snapshot or []
    if (what_if is not None) + (why_not is not None) + (len(files) > 1) > 1:
        raise CommandError(ExitCode.USAGE, "--what-if, --why-not and several --snapshot exclude each other")
    if solve and (files or no_probe or paste or what_if is not None or why_not is not None):
        message = "--solve needs this machine's environment, and excludes --snapshot, --no-probe, --paste and questions"
        raise CommandError(ExitCode.USAGE, message)
    out = Output(output, as_json=output_format is options.Format.JSON, color=not no_color, redacted=redact)
    source = MachineSource(
        python, files[0] if files else None, assume or (), no_probe, timeout, driver_root, paste=paste
    )
    if what_if is not None:
        with usage_errors(AssumeError):
            answers.validate_dimensions(tuple(what_if))  # before the matrix is read
    if len(files) > 1 and paste is None:
        machines, rows = get_all(source, files, matrix)
        fleet = answers.resolve_fleet(machines, rows)
        out.emit(fleet, lambda: [*fleet_lines(fleet), *_matrix_lines(rows)])
        raise typer.Exit(ExitCode.NOTHING_FITS if fleet.unserved else ExitCode.OK)
    facts, rows = get_both(source, matrix)
    _announce_target_problems(facts)
    if what_if is not None:
        with usage_errors(AssumeError):
            table = answers.what_if(facts, tuple(what_if), rows)
        out.emit(table, lambda: [*what_if_lines(table), *_matrix_lines(rows)])
        served = any(row.candidate is not None for row in table.rows)
    elif why_not is not None:
        with usage_errors(answers.UnknownCandidateError):
            answer = answers.why_not(facts, why_not, rows)
        out.emit(answer, lambda: [*why_not_lines(answer), *_matrix_lines(rows)])
        served = choose(facts, rows) is not None
    else:
        resolution, plan = resolve_wheel(facts, rows), None
        if solve and resolution.wheel is not None:
            resolution, plan = _solved(resolution, source, (facts, rows), installer, offline=offline)
        shown = [*explanation_lines(resolution, verbose=verbose), *(_plan_lines(plan) if plan else ())]
        out.emit(resolution, lambda: [*shown, *_matrix_lines(rows)])
        served = resolution.wheel is not None
    raise typer.Exit(ExitCode.OK if served else ExitCode.NOTHING_FITS)


def _solved(
    resolution: Resolution,
    source: MachineSource,
    read: tuple[Snapshot, Matrix],
    installer: options.WheelsFrom,
    *,
    offline: bool,
) -> tuple[Resolution, Plan]:
    """Returns the resolution with the wheel that the installer's solver chooses, and the plan of its install.

    Raises:
        CommandError: when nothing can be solved, or conda manages the target.
    """
    from gpuenv.cli.install_offers import chosen_offers
    from gpuenv.cli.install_outcome import command_error
    from gpuenv.cli.install_plans import prepare_wheels
    from gpuenv.cli.install_target import scheme_of_target
    from gpuenv.cli.installers import InstallerRequest, takes_conda
    from gpuenv.install.exceptions import InstallError
    from gpuenv.model.strings import Lines, lines_of

    request = InstallerRequest(installer.installer, offline, False, options.INSTALL_TIMEOUT)
    facts, rows = read
    try:
        scheme = scheme_of_target(source, facts)
        if takes_conda(scheme, request):
            raise CommandError(ExitCode.USAGE, "conda manages this target: see gpuenv install --dry-run")
        offers = chosen_offers(facts, rows)
        plan = prepare_wheels(scheme, request, offers).plan
    except InstallError as error:
        raise command_error(error, source.named_target) from error
    choices = (choice for offer in offers for choice in offer.choices)
    wheel = next(choice for choice in choices if choice.requirements == plan.requirements)
    explanation = lines_of(resolution.explanation)
    if wheel != resolution.wheel:
        explanation.insert(1, f"The solver of {plan.installer} chooses {wheel.requirements[0].replace('==', ' ')}.")
    return resolution._replace(wheel=wheel, solved=True, explanation=Lines(explanation)), plan


def _plan_lines(plan: Plan) -> list[TextLine]:
    from gpuenv.install.plan_text import plan_lines
    from gpuenv.report.text_line import TextLine

    return [TextLine(), *plan_lines(plan)]


def _matrix_lines(matrix: Matrix) -> list[TextLine]:
    """A blank line, and the revision of the matrix with its age."""
    from gpuenv.report.text import matrix_line
    from gpuenv.report.text_line import TextLine

    return [TextLine(), matrix_line(matrix.revision, days_since(matrix.revision))]


def _announce_target_problems(facts: Snapshot) -> None:
    """Announces a target that does not answer, is half changed, or is another environment than it seems."""
    from gpuenv.model.snapshot import SourceState

    target, state = facts.target, facts.source("target")
    interrupted = target.open_transaction.value
    if interrupted is not None:
        announce(f"{interrupted.label} was interrupted: the answer is for the half-changed target; see gpuenv doctor")
    if target.lost_environment.known:
        announce(f"{target.lost_environment.value} has no pyvenv.cfg: the answer is for {target.prefix.value}")
    elif state.state in (SourceState.FAILED, SourceState.CRASHED, SourceState.TIMED_OUT) and not target.python.known:
        announce(f"the target's interpreter does not answer and is ignored: {target.executable.value}: {state.detail}")
