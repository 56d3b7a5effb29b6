"""How a command that changes an environment ends early: how the environment stands is said, in text and in JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuenv.cli.changing.choices import command_error
from gpuenv.cli.errors import CommandError, failure_as_result, with_stand
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.install.errors import InstallError
    from gpuenv.install.records import Outcome

_SAID_WITH = (ExitCode.FAILED, ExitCode.NOTHING_FITS)


@contextmanager
def ending(out: Output, python: str | None) -> Iterator[list[str]]:
    """Makes whatever ends early in here the command's outcome; yields the list of interrupted installs put back first.

    Args:
        out: where the outcome goes.
        python: the target as the caller named it, for what is to be run next.

    Raises:
        CommandError: with the exit code of what ended it, and how the environment stands.
    """
    from gpuenv.install.errors import InstallError

    recovered: list[str] = []
    with failure_as_result(out, lambda error: _outcome(error, recovered)):
        try:
            yield recovered
        except InstallError as error:
            raise stood(error, recovered, python) from error


def stood(error: InstallError, recovered: Sequence[str] = (), python: str | None = None) -> CommandError:
    """The error with its exit code; a failure says how the environment stands."""
    told = command_error(error, python)
    stands = "nothing else was changed" if error.untouched and recovered else error.stands
    if told.exit_code not in _SAID_WITH:
        return told
    return CommandError(told.exit_code, with_stand(told.message, stands), told.remedy)


def _outcome(error: CommandError, recovered: Sequence[str]) -> Outcome:
    from gpuenv.install.errors import InstallError
    from gpuenv.install.records import Outcome, Result

    changed = isinstance(error.__cause__, InstallError) and not error.__cause__.untouched
    return Outcome(
        status=Result.NOT_RESTORED if changed else Result.FAILED,
        exit_code=error.exit_code,
        message=error.message,
        transaction=None,
        target=None,
        recovered=tuple(recovered),
        remedy=error.remedy,
    )
