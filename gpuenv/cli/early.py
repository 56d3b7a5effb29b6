"""A command that ends early says so on standard error; where JSON was asked for, its result is there all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuenv.cli.errors import CommandError
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import Output

_NO_RESULT = (ExitCode.USAGE, ExitCode.MATRIX_INVALID)  # the command was not understood, and has not begun


def with_stand(message: str, stand: str) -> str:
    """A message whose first sentence ends in how things stand now."""
    first, *rest = message.split("\n", 1)
    return "\n".join([f"{first.rstrip('.')}; {stand}" if stand else first, *rest])


@contextmanager
def told_early(out: Output, record: Callable[[CommandError], object]) -> Iterator[None]:
    """Whatever ends early in here is the command's result.

    Args:
        out: where and how the result is shown.
        record: makes the result of what ended it.
    """
    try:
        yield
    except CommandError as error:
        if out.as_json and error.exit_code not in _NO_RESULT:
            out.emit(record(error), tuple)
        raise
