"""What the commands that read node reports have in common: their source, and its errors."""

from __future__ import annotations

import gc
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from gpuenv.cli.command_errors import CommandError, extra_command, usage_errors
from gpuenv.cli.pastes import standard_input
from gpuenv.files import is_file
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import error_reason

if TYPE_CHECKING:
    from gpuenv.fleet.groups import Partial

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
Source = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|ARCHIVE|-", help="Node reports: a folder, a tar or zip archive, or - for standard input."
    ),
]
Expect = Annotated[
    Optional[str],
    typer.Option(
        "--expect",
        metavar="NODES",
        help="Nodes that should have answered: a set such as node[001-800], or a file with one a line. "
        "Default: those that fleet collect asked.",
    ),
]
MaxAge = Annotated[
    Optional[str],
    typer.Option("--max-age", metavar="AGE", help="Do not count older reports: 90m, 24h, 7d. Default: no limit."),
]


def read_fleet(source: Path, *, expect: str | None = None, scheduler: str | None = None) -> Partial:
    """The summary of the reports, by Dask if ``scheduler`` is its address.

    Raises:
        CommandError: when the source cannot be opened or has no report, or the expected nodes are no set.
    """
    from gpuenv.fleet.groups import Request, merge, summarize
    from gpuenv.fleet.node_sets import NodeSetError, expand_nodes
    from gpuenv.fleet.reader import read_reports

    expected: tuple[str, ...] = ()
    if expect is not None:
        with usage_errors(NodeSetError):
            expected = expand_nodes(_nodes_text(expect))
    gc.disable()  # no report has cycles, and looking for them takes a third of the time
    try:
        if scheduler is not None:
            partial = _with_dask(source, scheduler)
        elif str(source) == "-":
            partial = _from_stdin()
        else:
            partial = merge([summarize(read_reports(source))])
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{source}: cannot be read: {error_reason(error)}") from error
    finally:
        gc.enable()
    if not partial.nodes and not partial.unreadable and not partial.asked:
        raise CommandError(
            ExitCode.USAGE, f"{source}: no node report", "gpuenv fleet collect or gpuenv fleet node writes them"
        )
    for name in expected:
        partial.add_request(name, Request(0.0))
    return partial


def _nodes_text(expect: str) -> str:
    path = Path(expect)
    try:
        return ",".join(path.read_text(encoding="utf-8").split()) if is_file(path) else expect
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(ExitCode.USAGE, f"--expect {expect}: cannot be read: {error_reason(error)}") from error


def _from_stdin() -> Partial:
    """Reports one after the other; or an archive, which needs a file."""
    from gpuenv.fleet.groups import summarize
    from gpuenv.fleet.reader import read_reports, read_stream

    stream = standard_input()
    if stream.peek(1)[:1] in (b"{", b""):
        return summarize(read_stream(stream))
    with tempfile.NamedTemporaryFile() as file:
        shutil.copyfileobj(stream, file)
        file.flush()
        return summarize(read_reports(Path(file.name), "standard input"))


def _with_dask(source: Path, scheduler: str) -> Partial:
    from gpuenv.fleet.dask_map import summarize_with_dask

    if not source.is_dir():
        raise CommandError(ExitCode.USAGE, f"{source}: --via dask needs a folder that every worker sees")
    try:
        return summarize_with_dask(source, scheduler)
    except ImportError as error:
        raise CommandError(ExitCode.USAGE, "--via dask needs Dask", extra_command("dask")) from error


def parse_age(age: str | None) -> float | None:
    """The seconds of ``90m``, ``24h`` or ``7d``.

    Raises:
        CommandError: for anything else.
    """
    if age is None:
        return None
    found = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([smhd])", age.strip())
    if found is None:
        raise CommandError(ExitCode.USAGE, f"--max-age {age}: expected a number and s, m, h or d, such as 24h")
    return float(found[1]) * _UNITS[found[2]]
