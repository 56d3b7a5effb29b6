"""``gpuenv rollback``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.sources import MachineSource, own_environment
from gpuenv.install.exceptions import InstallError
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.install.journal import Journal, Store
    from gpuenv.install.plan import TargetEnvironment


def rollback(
    number: Annotated[
        Optional[str], typer.Argument(metavar="[ID]", help="Install to undo, with every later one.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="List what can be rolled back.")] = False,
    python: options.Python = None,
    kernel: options.Kernel = None,
    dry_run: options.DryRun = False,
    output_format: options.OutputFormat = options.Format.TEXT,
    output: options.OutputFile = None,
    offline: options.NetworkOffline = False,
    no_color: options.NoColor = False,
    verbose: options.Verbose = False,
    timeout: options.Timeout = options.TIMEOUT,
    redact: options.Redact = True,
) -> None:
    """Restore the target to the state before an install.

    Undoes the newest install if no ID is given.

    Exit code: 0 done, 4 it failed, 7 the target cannot be used.
    """
    from gpuenv.cli.install_steps import interpreter_of, outcome_on_failure, recover_interrupted, target_of
    from gpuenv.cli.output import Output, check_paths
    from gpuenv.install.conda_environment import read_state
    from gpuenv.install.environment import query_scheme
    from gpuenv.install.journal import Store, store_of
    from gpuenv.install.plan_text import history_lines, plan_lines
    from gpuenv.install.rollback import committed, history_of, plan_of_rollback, up_to

    check_paths([output])
    out = Output(output, output_format is options.Format.JSON, not no_color, redact, verbose)
    source = MachineSource(target_of(python, kernel), None, (), False, timeout, "/")
    with outcome_on_failure(out, source.named_target) as recovered:
        interpreter = interpreter_of(source)
        # The journals next to the interpreter, else in the root that the interpreter reports.
        store = store_of(interpreter) or Store(
            Path(query_scheme(interpreter, os.environ, time.monotonic() + timeout).root)
        )
        if listing and not dry_run and not _is_read_only(store.folder):
            known = store if store.folder.is_dir() else None
            recovered.extend(recover_interrupted(interpreter, known, dry_run=False, offline=offline))
        if listing:
            journals = committed(store)
            out.emit(history_of(journals), lambda: history_lines(journals, source.named_target))
        elif dry_run:
            chosen = up_to(committed(store), number)
            states = {journal.number: read_state(store, journal.number) for journal in chosen}
            condas = {number: state.tool.label for number, state in states.items() if state is not None}
            plan = plan_of_rollback(chosen, _environment(interpreter, store), condas)
            out.emit(plan, lambda: plan_lines(plan))
        else:
            _roll_back(store, interpreter, number, out, recovered, offline=offline)


def _is_read_only(folder: Path) -> bool:
    """Whether the folder is readable but not writable: recovery is impossible, but listing works."""
    return os.access(folder, os.R_OK | os.X_OK) and not os.access(folder, os.W_OK)


def _environment(interpreter: str, store: Store) -> TargetEnvironment:
    """The environment, from marker files: its interpreter may be what has to be undone."""
    from gpuenv.install.conda_environment import META
    from gpuenv.install.plan import TargetEnvironment

    kind = "venv" if (store.root / "pyvenv.cfg").is_file() else "system"
    kind = "conda" if (store.root / META).is_dir() else kind
    return TargetEnvironment(interpreter, str(store.root), str(store.root), kind)


def _roll_back(
    store: Store, interpreter: str, number: str | None, out: Output, recovered: list[str], *, offline: bool
) -> None:
    from gpuenv.cli.install_steps import recover_interrupted, show_outcome
    from gpuenv.install.plan import InstallOutcome, Result
    from gpuenv.install.rollback import committed, roll_back

    if not store.folder.is_dir():
        raise InstallError("there is no install to roll back in this environment")
    with store.locked():
        recovered[:] = recover_interrupted(interpreter, store, dry_run=False, locked=True, offline=offline)
        # Recovery may have done it already: an interrupted install or rollback is the newest transaction.
        done = number in recovered or (number is None and recovered)
        undone: tuple[Journal, ...] = () if done else roll_back(store, number, own_environment(), offline=offline)
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
        out,
    )
