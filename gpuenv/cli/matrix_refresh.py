"""``gpuenv matrix refresh``: measures new releases, validates the matrix, and replaces the file atomically."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from gpuenv.cli.command_errors import CommandError
from gpuenv.cli.matrix_format import is_in_checkout
from gpuenv.cli.output import write_file
from gpuenv.cli.refresh_context import IndexClient, new_context
from gpuenv.cli.sources import STALE, get_matrix, matrix_path, require_own_matrix
from gpuenv.data import DATA, data_path
from gpuenv.files import make_private_folder, user_matrix
from gpuenv.matrix.csv_tables import SOURCES
from gpuenv.matrix.tables import Matrix
from gpuenv.matrix.validate import MatrixError
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import Lines
from gpuenv.refresh.additions import UnknownRowError, find_additions
from gpuenv.refresh.binaries import MeasureError
from gpuenv.refresh.package_index import MetadataError, PackageIndexError
from gpuenv.refresh.releases import CapsError
from gpuenv.refresh.row_edits import Additions, MatrixLayoutError, updated_files
from gpuenv.refresh.summary import (
    ChangedAnswer,
    ChangedMachine,
    Summary,
    change_lines,
    changed_answers,
    changed_machines,
    outdated_lines,
)


def refresh_matrix(
    path: Path | None, installer: IndexClient | None, again: Collection[str], *, dry_run: bool
) -> Summary:
    """Adds new releases on the package index to a matrix.

    ``path`` defaults to the matrix of the checkout, or of the user's data folder; existing rows in ``again`` are
    measured again.

    Raises:
        CommandError: when something cannot be queried, measured or written; the matrix is then unchanged.
    """
    source = matrix_path(path)
    if source.suffix == ".json":
        message = f"{source} is a published matrix, in JSON; only a matrix in YAML is refreshed"
        raise CommandError(
            ExitCode.USAGE, message, "take a newer one with gpuenv matrix update, or name a YAML file with --matrix"
        )
    target = path or _target()
    before, digest = get_matrix(source), _digest(source)
    with TemporaryDirectory(prefix="gpuenv-refresh-") as scratch, _unchanged():
        context = new_context(before, Path(scratch), installer)
        additions = find_additions(before, context, again)
    texts: dict[Path, str] = {}
    after, outcome = before, None
    answers: tuple[ChangedAnswer, ...] = ()
    machines: tuple[ChangedMachine, ...] = ()
    if additions.is_writable:
        from gpuenv.simulate.profile import shipped_machines  # loads the doctor, so only when needed

        texts, after = _updated(source, target, additions, context.today)
        outcome = f"{target}: not written" if dry_run else f"{target}: written, revision {after.revision}"
        answers = tuple(changed_answers(before, after))
        machines = tuple(changed_machines(shipped_machines(after), before, after))
    summary = Summary(
        str(source),
        before.revision,
        tuple(change_lines(additions)),
        answers,
        machines,
        tuple(outdated_lines(after, context.today, STALE)),
        tuple(str(row.cuda) for row in after.cuda_minors if row.linux is None),
        outcome,
    )
    if texts and not dry_run:
        _replace(source, digest, target, texts)
        for key in additions.measured:
            context.cache_file(key).unlink(missing_ok=True)
    return summary


def check_summary_file(output: Path, matrix: Path | None) -> None:
    """Refuses, before anything is measured, a file for the summary that cannot be written or is the matrix.

    Raises:
        CommandError: with the reason.
    """
    reason = None
    if not output.parent.is_dir():
        reason = f"{output.parent} is not a folder"
    elif output.is_dir():
        reason = "it is a folder"
    elif output.resolve() in (matrix_path(matrix).resolve(), (DATA / SOURCES).resolve()):
        reason = "it is a file of the matrix"
    if reason:
        raise CommandError(ExitCode.USAGE, f"{output}: cannot be written: {reason}")


def _replace(source: Path, digest: str, target: Path, texts: Mapping[Path, str]) -> None:
    """Writes the new matrix, unless the old one was changed during the refresh."""
    if _digest(source) != digest:
        raise CommandError(ExitCode.USAGE, f"{source} was changed meanwhile", "run it again; the measurements are kept")
    try:
        make_private_folder(target.parent)
    except OSError as error:
        message = f"{target.parent}: cannot be made: {error.strerror or error}"
        raise CommandError(ExitCode.USAGE, message, "name a file with --matrix; the measurements are kept") from error
    for file, text in texts.items():
        write_file(file, text, shared=True)


@contextmanager
def _unchanged() -> Iterator[None]:
    """Turns errors of the index, a measurement or the disk into command errors; the matrix is unchanged."""
    try:
        yield
    except UnknownRowError as error:
        raise CommandError(ExitCode.USAGE, f"--again: {error}") from error
    except (PackageIndexError, MeasureError, MetadataError, CapsError) as error:
        remedy = "the matrix is unchanged; run it again to continue"
        raise CommandError(ExitCode.COULD_NOT_CHECK, f"{error}", remedy) from error
    except OSError as error:
        raise CommandError(ExitCode.COULD_NOT_CHECK, f"{error}; the matrix is unchanged") from error


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _target() -> Path:
    """The matrix to write: that of a checkout, in place; for an installed gpuenv, the user's own."""
    shipped = data_path("matrix.yaml")
    if is_in_checkout(shipped):
        return shipped
    return require_own_matrix(user_matrix(os.environ), "name a file with --matrix")


def _updated(source: Path, target: Path, additions: Additions, today: str) -> tuple[dict[Path, str], Matrix]:
    """The files to write in order, and the new matrix, validated before it replaces the old one."""
    try:
        return updated_files(source, target, additions, today, DATA / SOURCES if is_in_checkout(target) else None)
    except MatrixLayoutError as error:
        raise CommandError(ExitCode.MATRIX_INVALID, f"{source}: {error}; it is unchanged") from error
    except MatrixError as error:
        faults = (f"  {fault}" for fault in error.faults)
        message = Lines(("with the new rows the matrix would be invalid:", *faults))
        raise CommandError(ExitCode.MATRIX_INVALID, message) from error
