"""The work behind ``gpuenv matrix refresh``: reads, measures, checks, and replaces the file whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from gpuenv.cli.errors import CommandError
from gpuenv.cli.gather import announce, get_matrix, matrix_path
from gpuenv.cli.output import write_file
from gpuenv.cli.places import user_cache, user_matrix
from gpuenv.data import data_path
from gpuenv.matrix.faults import MatrixError
from gpuenv.matrix.load import parse
from gpuenv.matrix.records import Matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.refresh.caps import CapsError
from gpuenv.refresh.difference import different_answers
from gpuenv.refresh.index import Index, PackageIndexError
from gpuenv.refresh.measure import MeasureError
from gpuenv.refresh.refresh import Workplace, find_additions
from gpuenv.refresh.rows import Additions, PlaceError, written


def refresh_matrix(path: Path | None, *, dry_run: bool) -> Iterator[str]:
    """Brings a matrix up to date, and tells what has changed.

    Args:
        path: the matrix; else that of the checkout, or that of the user's data folder.
        dry_run: write nothing.

    Raises:
        CommandError: where something could not be asked, measured or written; the matrix is then as it was.
    """
    source = matrix_path(path)
    target = path or _target()
    before = get_matrix(source, anew=True)
    with TemporaryDirectory(prefix="gpuenv-refresh-") as scratch:
        additions, work = _found(before, Path(scratch))
    changes = [f"+ {row.name}: {row.source}" for row in additions.rows]
    changes += [f"+ CUDA {cuda}: the wheels of the toolkit are there" for cuda in additions.toolkits]
    if not changes:
        yield f"{source}: revision {before.revision} is up to date"
        return
    text, after = _checked(source, additions, work.today)
    yield from changes
    yield from _told(before, after)
    if dry_run:
        yield f"{target}: not written"
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    write_file(target, text, shared=True)
    for row in additions.rows:
        work.kept(row).unlink(missing_ok=True)
    yield f"{target}: written, revision {after.revision}"


def _target() -> Path:
    """The matrix of a checkout, which is written in place; of an installed gpuenv, the user's own."""
    shipped = data_path("matrix.yaml")
    if (shipped.parent / "pyproject.toml").is_file():
        return shipped
    own = user_matrix(os.environ)
    if own is None:
        raise CommandError(ExitCode.USAGE, "there is no home for a matrix of your own", "name a file with --matrix")
    return own


def _found(before: Matrix, scratch: Path) -> tuple[Additions, Workplace]:
    today = datetime.now(timezone.utc).date().isoformat()
    cache = (user_cache(os.environ) or scratch) / "refresh"
    work = Workplace(Index(_uv(), dict(os.environ), scratch), dict(os.environ), cache, today, announce)
    try:
        return find_additions(before, work), work
    except (PackageIndexError, MeasureError, CapsError) as error:
        raise CommandError(
            ExitCode.COULD_NOT_CHECK, f"{error}", "the matrix is as it was; run it again to go on"
        ) from error
    except OSError as error:
        raise CommandError(ExitCode.COULD_NOT_CHECK, f"{error}; the matrix is as it was") from error


def _uv() -> tuple[str, ...]:
    if find_spec("uv") is not None:
        return (sys.executable, "-m", "uv")
    program = shutil.which("uv")
    if program is None:
        raise CommandError(ExitCode.COULD_NOT_CHECK, "refreshing the matrix needs uv", "python -m pip install uv")
    return (program,)


def _checked(source: Path, additions: Additions, today: str) -> tuple[str, Matrix]:
    """The new text, which has to be a valid matrix before it may replace the old one."""
    try:
        text = written(source.read_text(encoding="utf-8"), additions, today)
        return text, parse(text, str(source))
    except PlaceError as error:
        raise CommandError(ExitCode.MATRIX_INVALID, f"{source}: {error}; it is as it was") from error
    except MatrixError as error:
        faults = "\n  ".join(error.faults)
        raise CommandError(
            ExitCode.MATRIX_INVALID, f"with the new rows the matrix would be invalid:\n  {faults}"
        ) from error


def _told(before: Matrix, after: Matrix) -> Iterator[str]:
    lines = list(different_answers(before, after))
    yield "Machines that now resolve differently:" if lines else "No kind of machine resolves differently."
    yield from (f"  {line}" for line in lines)
