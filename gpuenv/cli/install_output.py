"""What installs, rollbacks, locks and bundles print: phases that take long, results, errors with their exit codes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuenv.cli.command_errors import CommandError, announce, failure_as_result, progress, with_state
from gpuenv.doctor.fixes.adaptation import add_target_option
from gpuenv.install.exceptions import ConsentNeeded, InstallError, NothingFits, TargetUnusable, Unreadable
from gpuenv.install.plan import Clock, InstallOutcome, Result
from gpuenv.install.plan_text import outcome_lines
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import Output

_EXIT_CODES = {
    Unreadable: ExitCode.USAGE,
    TargetUnusable: ExitCode.TARGET_UNUSABLE,
    NothingFits: ExitCode.NOTHING_FITS,
    ConsentNeeded: ExitCode.USAGE,
}
_PHASE_TEXTS = {  # by the name of the phase; a phase without a text waits for the user, or announces itself
    "plan": "querying the package index",
    "download and unpack": "downloading and unpacking",
    "check of files": "checking the new files",
    "imports before": "importing the frameworks that work now",
    "journal": "recording the change",
    "swap": "moving the files",
    "sync": "writing to the disk",
    "proof": "verifying the install",
    "put back": "restoring the former state",
    "tidying": "deleting what is no longer needed",
}
_FIRST_MESSAGE = 2.0  # seconds from the start of a phase
_MESSAGE_INTERVAL = 10.0  # seconds
_POLL_INTERVAL = 0.25  # seconds


def command_error(error: InstallError, python: str | None = None) -> CommandError:
    """The command error of a failed install; ``python`` is the value of ``--python``, for the remedy."""
    remedy = add_target_option(error.remedy, python) if error.remedy else None
    return CommandError(_EXIT_CODES.get(type(error), ExitCode.FAILED), error.message, remedy)


@contextmanager
def outcome_on_failure(out: Output, python: str | None) -> Iterator[list[str]]:
    """Turns an install error into the outcome of the command; yields a list for the recovered installs.

    ``python`` is the value of ``--python``, for the remedy.

    Raises:
        CommandError: with the exit code, and the state of the environment.
    """
    recovered: list[str] = []

    def failure(error: CommandError) -> InstallOutcome:
        changed = isinstance(error.__cause__, InstallError) and not error.__cause__.untouched
        return InstallOutcome(
            status=Result.NOT_RESTORED if changed else Result.FAILED,
            exit_code=error.exit_code,
            message=error.message,
            transaction=None,
            target=None,
            recovered=tuple(recovered),
            remedy=error.remedy,
        )

    with failure_as_result(out, failure):
        try:
            yield recovered
        except InstallError as error:
            raise with_environment_state(error, recovered, python) from error


def with_environment_state(error: InstallError, recovered: Sequence[str], python: str | None) -> CommandError:
    """The command error of an install error; a failure includes the state of the environment."""
    command = command_error(error, python)
    if command.exit_code in (ExitCode.FAILED, ExitCode.NOTHING_FITS):
        state = "nothing else was changed" if error.untouched and recovered else error.state
        command = CommandError(command.exit_code, with_state(command.message, state), command.remedy)
    return command


def show_outcome(outcome: InstallOutcome, out: Output) -> None:
    """Prints the outcome as the result of a command; on standard error if its destination cannot be written."""
    from gpuenv.cli.output import write_stderr

    try:
        out.emit(outcome, lambda: outcome_lines(outcome, verbose=out.verbose))
    except CommandError as error:  # the environment has been changed
        announce(error.message)
        write_stderr(outcome_lines(outcome, verbose=out.verbose))


@contextmanager
def announcing_phases(clock: Clock) -> Iterator[None]:
    """Announces every phase that takes longer than two seconds, and again every ten seconds."""
    ended = threading.Event()
    thread = threading.Thread(target=_announce_phases, args=(clock, ended), daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _announce_phases(clock: Clock, ended: threading.Event) -> None:
    since, due = clock.since, _FIRST_MESSAGE
    while not ended.wait(_POLL_INTERVAL):
        if clock.since != since:
            since, due = clock.since, _FIRST_MESSAGE
        passed = time.monotonic() - since
        if passed >= due and clock.part in _PHASE_TEXTS:
            progress(f"{_PHASE_TEXTS[clock.part]}: {passed:.0f} s so far")
            due = passed + _MESSAGE_INTERVAL
