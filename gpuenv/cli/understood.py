"""Options that an answer turns out not to need: what cannot be understood or read is wrong usage all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from gpuenv.cli.errors import CommandError
from gpuenv.cli.inputs import Beginning, Subject, get_matrix, refuse_no_environment
from gpuenv.model.exit_codes import ExitCode


@contextmanager
def usage_first(look: Callable[[], object]) -> Iterator[None]:
    """What is read after the matrix is looked at where that is invalid: a fault of usage goes before one of the matrix.

    Args:
        look: raises where there is one.
    """
    try:
        yield
    except CommandError as error:
        if error.exit_code == ExitCode.MATRIX_INVALID:
            look()
        raise


def refuse_unread(subject: Subject, matrix: Path | None = None) -> None:
    """Reads what the options name, and asks no machine.

    Args:
        subject: the machine that they mean.
        matrix: the matrix that they name.

    Raises:
        CommandError: at the first that cannot be understood or read; a matrix comes last.
    """
    if subject.snapshot is None:  # a recording has a target of its own
        refuse_no_environment(subject.python)
    if subject.paste is not None:
        return  # read once, by whoever answers from it: it may be standard input
    apart = replace(subject, python=None, no_probe=subject.no_probe or subject.snapshot is None)
    with closing(Beginning(apart)) as beginning:
        if subject.assume or matrix is not None:
            beginning.finish(get_matrix(matrix, quiet=True))
