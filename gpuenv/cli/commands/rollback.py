"""``gpuenv rollback``."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.sources import MachineSource
from gpuenv.install.exceptions import InstallError
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.install.journal import Journal, Store
    from gpuenv.install.plan import TargetEnvironment


def rollback(
    number: Annotated[
        Optional[str], typer.Argument(metavar="[ID]", help="Which install to undo, with every later one.")
    ] = None,
    listing: Annotated[bool, typer.Option("--list", help="Show what can be rolled back.")] = False,
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
    """Put the target back to the state before an install.

    The newest one, where none is named.

    Exit code: 0 done, 4 it could not be done, 7 the target cannot be used.
    """
    from gpuenv.cli.install_steps import interpreter_of, outcome_on_failure, recover_interrupted, target_of
    from gpuenv.cli.output import Output, check_places
    from gpuenv.install.conda_environment import read_state
    from gpuenv.install.environment import query_scheme
    from gpuenv.install.journal import Store, store_of
    from gpuenv.install.plan_text import history_lines, plan_lines
    from gpuenv.install.rollback import committed, history_of, plan_of_rollback, up_to

    check_places([output])
    out = Output(output, output_format is options.Format.JSON, not no_color, redact, verbose)
    source = MachineSource(target_of(python, kernel), None, (), False, timeout, "/")
    with outcome_on_failure(out, source.named) as recovered:
        interpreter = interpreter_of(source)
        # The journals beside the interpreter, else where the interpreter says that it installs to.
        store = store_of(interpreter) or Store(
            Path(query_scheme(interpreter, os.environ, time.monotonic() + timeout).root)
        )
        if listing and not dry_run and not _is_for_reading(store.folder):
            known = store if store.folder.is_dir() else None
            recovered.extend(recover_interrupted(interpreter, known, dry_run=False, offline=offline))
        if listing:
            journals = committed(store)
            out.emit(history_of(journals), lambda: history_lines(journals, source.named))
        elif dry_run:
            chosen = up_to(committed(store), number)
            states = {journal.number: read_state(store, journal.number) for journal in chosen}
            condas = {number: state.tool.label for number, state in states.items() if state is not None}
            plan = plan_of_rollback(chosen, _place(interpreter, store), condas)
            out.emit(plan, lambda: plan_lines(plan))
        else:
            _roll_back(store, interpreter, number, out, recovered, offline=offline)


def _is_for_reading(folder: Path) -> bool:
    """Whether it may be read and not written: nothing can be put back there, and a list needs nothing else."""
    return os.access(folder, os.R_OK | os.X_OK) and not os.access(folder, os.W_OK)


def _place(interpreter: str, store: Store) -> TargetEnvironment:
    """The environment by the marks in its folder: its interpreter is not asked, for it may be what is to be undone."""
    from gpuenv.install.conda_environment import META
    from gpuenv.install.plan import TargetEnvironment

    own = "venv" if (store.root / "pyvenv.cfg").is_file() else "system"
    kind = "conda" if (store.root / META).is_dir() else own
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
        recovered[:] = recover_interrupted(interpreter, store, dry_run=False, held=True, offline=offline)
        # What was asked for may be done by then: an interrupted one is the newest, whether it came or went.
        done = number in recovered or (number is None and recovered)
        undone: tuple[Journal, ...] = () if done else roll_back(store, number, os.environ, offline=offline)
    numbers = ", then ".join(f"{journal.number} ({journal.summary})" for journal in undone)
    message = (
        f"the environment is as it was before install {numbers}" if numbers else "the interrupted install was put back"
    )
    if not numbers and committed(store):
        message += "; what was installed before it stands"
    show_outcome(
        InstallOutcome(
            Result.ROLLED_BACK,
            ExitCode.OK,
            message,
            undone[-1].number if undone else None,
            _place(interpreter, store),
            recovered=tuple(recovered),
        ),
        out,
    )
