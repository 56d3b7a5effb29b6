"""``gpuenv rollback``."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.sources import MachineSource, own_environment
from gpuenv.install.exceptions import InstallError
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.environment_change import ConsentOptions
    from gpuenv.cli.output import Output
    from gpuenv.install.journal import Journal, Store
    from gpuenv.install.plan import Plan, TargetEnvironment


def rollback(
    number: Annotated[
        Optional[str], typer.Argument(metavar="[ID]", help="Install to undo; every later one is undone, too.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List what can be rolled back; change nothing.")] = False,
    forget: Annotated[
        bool,
        typer.Option(
            "--forget", help="Free the disk space of the installs up to ID; they can then no longer be undone."
        ),
    ] = False,
    python: options.Python = None,
    kernel: options.Kernel = None,
    dry_run: options.DryRun = False,
    yes: options.Yes = False,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: options.NetworkOffline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
) -> None:
    """Restore the target to the state before an install.

    Without an ID, undoes an interrupted install without a prompt, or else the newest install.

    Exit code: 0 done, 2 consent is missing, 4 it failed, 7 the target cannot be used.
    """
    from gpuenv.cli.environment_change import ConsentOptions, show_plan
    from gpuenv.cli.install_output import outcome_on_failure
    from gpuenv.cli.install_target import find_store, require_interpreter, select_target
    from gpuenv.cli.output import Output, check_paths
    from gpuenv.install.plan_text import history_lines
    from gpuenv.install.rollback import history_of

    if forget and listing:
        raise CommandError(ExitCode.USAGE, "--forget and --list exclude each other")
    check_paths([output])
    out = Output(output, output_format is options.Format.JSON, not no_color, redact, verbose)
    source = MachineSource(select_target(python, kernel), timeout=timeout)
    with outcome_on_failure(out, source.named_target) as recovered:
        interpreter = require_interpreter(source)
        store = find_store(interpreter, timeout)
        if listing:
            history = history_of(store)
            out.emit(history, lambda: history_lines(history, source.named_target))
        elif forget:
            _forget(store, interpreter, number, out, yes=yes, dry_run=dry_run)
        elif dry_run:
            show_plan(_plan_rollback(store, interpreter, number), out)
        else:
            consent = ConsentOptions(out, yes, offline=offline)
            _roll_back(store, interpreter, number, consent, recovered)


def _plan_rollback(store: Store, interpreter: str, number: str | None) -> Plan:
    """What a rollback undoes: interrupted installs, then those up to the number."""
    from gpuenv.install.conda_environment import read_state
    from gpuenv.install.rollback import committed, plan_of_rollback, unfinished, up_to

    interrupted = unfinished(store)
    is_enough = interrupted and number in (None, *(journal.number for journal in interrupted))
    chosen = [*interrupted, *(() if is_enough else up_to(committed(store), number))]
    states = {journal.number: read_state(store, journal.number) for journal in chosen}
    condas = {number: state.tool.label for number, state in states.items() if state is not None}
    return plan_of_rollback(chosen, _environment(interpreter, store), condas)


def _forget(store: Store, interpreter: str, number: str | None, out: Output, *, yes: bool, dry_run: bool) -> None:
    """Deletes what installs keep, after consent."""
    from gpuenv.cli.environment_change import ConsentOptions, require_consent, show_plan
    from gpuenv.cli.install_output import show_outcome
    from gpuenv.install.plan import InstallOutcome, Result
    from gpuenv.install.rollback import plan_of_forgetting, to_forget

    if not store.folder.is_dir():
        raise InstallError("there is no install to forget in this environment")
    target = _environment(interpreter, store)
    with nullcontext() if dry_run else store.locked():
        numbers = to_forget(store, number)
        plan = plan_of_forgetting(store, numbers, target)
        if dry_run:
            show_plan(plan, out)
            return
        require_consent(plan, ConsentOptions(out, yes))
        for forgotten in numbers:
            store.drop(forgotten)
    message = f"forgot what can no longer be undone: {', '.join(numbers)}"
    show_outcome(InstallOutcome(Result.FORGOTTEN, ExitCode.OK, message, None, target), out)


def _environment(interpreter: str, store: Store) -> TargetEnvironment:
    """The environment, from marker files: its interpreter may be what has to be undone."""
    from gpuenv.install.conda_environment import META
    from gpuenv.install.plan import TargetEnvironment

    kind = "venv" if (store.root / "pyvenv.cfg").is_file() else "system"
    kind = "conda" if (store.root / META).is_dir() else kind
    return TargetEnvironment(interpreter, str(store.root), str(store.root), kind)


def _roll_back(
    store: Store, interpreter: str, number: str | None, consent: ConsentOptions, recovered: list[str]
) -> None:
    from gpuenv.cli.environment_change import require_consent
    from gpuenv.cli.install_output import announcing_phases, show_outcome
    from gpuenv.cli.install_target import recover_interrupted
    from gpuenv.install.plan import Clock, InstallOutcome, Result
    from gpuenv.install.rollback import committed, roll_back

    if not store.folder.is_dir():
        raise InstallError("there is no install to roll back in this environment")
    undone: tuple[Journal, ...] = ()
    with store.locked():
        with announcing_phases(Clock(part="put back")):
            recovered[:] = recover_interrupted(store, locked=True, offline=consent.offline)
        # Recovery may have done it already: an interrupted install or rollback is the newest transaction.
        if not (number in recovered or (number is None and recovered)):
            require_consent(_plan_rollback(store, interpreter, number), consent)
            with announcing_phases(Clock(part="put back")):
                undone = roll_back(store, number, own_environment(), offline=consent.offline)
    numbers = ", then ".join(f"{journal.number} ({journal.summary})" for journal in undone)
    message = (
        f"the environment is as it was before install {numbers}"
        if numbers
        else "the interrupted install was rolled back"
    )
    if not numbers and committed(store):
        message += "; earlier installs are unchanged"
    show_outcome(
        InstallOutcome(
            Result.ROLLED_BACK,
            ExitCode.OK,
            message,
            undone[-1].number if undone else None,
            _environment(interpreter, store),
            recovered=tuple(recovered),
        ),
        consent.out,
    )
