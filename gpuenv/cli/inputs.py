"""Where a command gets its machine and its matrix from."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.announce import announce
from gpuenv.cli.clock import now, today
from gpuenv.cli.errors import CommandError
from gpuenv.cli.recording import read_snapshot
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.pattern import pattern
from gpuenv.model.unread import reason_of

if TYPE_CHECKING:
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.probe.take import Inquiry

OLD = 120  # days
_DAY = pattern(r"\d{4}-\d\d-\d\d")  # of which the earlier one is less as a text


@dataclass(frozen=True, slots=True)
class Subject:
    """Which machine is meant: this one, a recorded one, a pasted one, or none but what is assumed.

    Attributes:
        python: the target, as the caller named it.
        snapshot: the recording.
        assume: facts in place of those that are read, ``KEY=VALUE``.
        no_probe: start from nothing.
        timeout: seconds that the machine may take to answer.
        driver_root: the folder under which ``/proc``, ``/sys`` and ``/dev`` are looked for.
        deep: also what takes long.
        paste: the file with what was pasted; ``-`` is standard input.
    """

    python: str | None
    snapshot: Path | None
    assume: Sequence[str]
    no_probe: bool
    timeout: float
    driver_root: str
    deep: bool = False
    paste: Path | None = None

    @property
    def named(self) -> str | None:
        """The target of this machine that the caller named, which what is to be run next has to name too."""
        return self.python if self.snapshot is None and self.paste is None else None


def matrix_path(path: Path | None) -> Path:
    """The matrix that is meant: the one that was named, the user's own where that is newer, or the shipped one."""
    from gpuenv.data import data_path
    from gpuenv.user_folders import user_matrix

    shipped = data_path("matrix.yaml")
    own = user_matrix(os.environ)
    if path is not None or own is None or not os.path.isfile(own):  # noqa: PTH113 - Path raises for a name without end
        return path or shipped
    return own if _revision(own) >= _revision(shipped) else shipped


def _revision(path: Path) -> str:
    """The revision in the first lines of a matrix, without reading the rest; a broken one has none and is not used."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            head = [file.readline(200) for _ in range(8)]
    except OSError:
        return ""
    return next((line.split(":", 1)[1].strip(" '\n") for line in head if line.startswith("revision:")), "")


def get_matrix(path: Path | None, *, anew: bool = False, quiet: bool = False) -> Matrix:
    """The matrix that travels with the program, the user's own refreshed one, or another one.

    What is not the shipped one is said, and so is one that is old.

    Args:
        path: another matrix than the usual one.
        anew: read and validate the YAML, though it was compiled when gpuenv was built.
        quiet: nothing is decided by it yet, and nothing said of it.

    Raises:
        CommandError: when it cannot be read, or is invalid, with every fault.
    """
    from gpuenv.data import COMPILED_MATRIX, data_path
    from gpuenv.matrix.faults import MatrixError
    from gpuenv.matrix.load import load

    chosen = matrix_path(path)
    own = path is None and chosen != data_path("matrix.yaml")
    remedy = f"this is your own, {chosen}: remove it, and the one that came with gpuenv is used" if own else None
    try:
        matrix = load(chosen, compiled=None if anew else COMPILED_MATRIX)
    except (OSError, UnicodeDecodeError) as error:
        said = f"{chosen if path or own else 'matrix.yaml'}: the matrix cannot be read: {reason_of(error)}"
        raise CommandError(ExitCode.USAGE, said, remedy) from error
    except MatrixError as error:
        said = "the matrix is invalid:\n  " + "\n  ".join(error.faults)
        raise CommandError(ExitCode.MATRIX_INVALID, said, remedy) from error
    if quiet:
        return matrix
    if own:
        announce(f"the matrix in use is your own, {chosen}, of {matrix.revision}")
    if path is None and _DAY.fullmatch(matrix.revision) and matrix.revision < today(days_ago=OLD):
        announce(f"the matrix is of {matrix.revision}, more than {OLD} days old; run: gpuenv matrix refresh")
    return matrix


class Beginning:
    """The machine that is meant, while it is being asked; to be closed."""

    def __init__(self, subject: Subject) -> None:
        """Begins to ask this machine, or reads what was recorded.

        Raises:
            CommandError: when the input cannot be read or understood.
        """
        self._subject = subject
        self._asked = _begin(subject)
        if subject.assume:
            _look_over(subject.assume)

    def close(self) -> None:
        """Ends every child that still runs."""
        from gpuenv.model.snapshot import Snapshot

        if self._asked is not None and not isinstance(self._asked, Snapshot):
            self._asked.close()

    def finish(self, matrix: Matrix | None) -> Snapshot:
        """The machine, with the caller's assumptions in place of facts; without a matrix, the usual one is used.

        Raises:
            CommandError: when a paste or an assumption cannot be understood.
        """
        from gpuenv.model.snapshot import Snapshot

        if self._asked is None:
            from gpuenv.cli.paste import pasted_machine

            rows = matrix or get_matrix(None)
            return _assuming(pasted_machine(self._subject, rows), self._subject, rows)
        snapshot = self._asked if isinstance(self._asked, Snapshot) else self._asked.finish(announce)
        return _assuming(snapshot, self._subject, matrix or get_matrix(None)) if self._subject.assume else snapshot


def get_both(subject: Subject, path: Path | None) -> tuple[Snapshot, Matrix]:
    """The machine and the matrix; the matrix is read while the machine is asked.

    Raises:
        CommandError: as the two others do; a fault of usage goes before one of the matrix.
    """
    with closing(Beginning(subject)) as beginning:
        matrix = get_matrix(path)
        return beginning.finish(matrix), matrix


def get_snapshot(subject: Subject, matrix: Matrix | None) -> Snapshot:
    """The machine that is meant, with the caller's assumptions in place of facts.

    Raises:
        CommandError: when the input cannot be read or understood.
    """
    with closing(Beginning(subject)) as beginning:
        return beginning.finish(matrix)


def _look_over(assumed: Sequence[str]) -> None:
    """A fault of usage goes before one of the matrix, so that it is told before the matrix is read."""
    from gpuenv.matrix.assume import AssumeError, refuse_unread

    try:
        refuse_unread(assumed)
    except AssumeError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error


def _assuming(snapshot: Snapshot, subject: Subject, matrix: Matrix) -> Snapshot:
    from gpuenv.matrix.assume import AssumeError, assume

    try:
        return assume(snapshot, subject.assume, matrix)
    except AssumeError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error


def _begin(subject: Subject) -> Snapshot | Inquiry | None:
    """The machine, or the asking of it; None for a paste, which is read with the matrix at hand."""
    if not subject.timeout > 0:  # nan is neither below the least nor above the most
        raise CommandError(ExitCode.USAGE, f"--timeout {subject.timeout}: expected seconds, such as 30")
    if subject.paste is not None:
        return None
    if subject.snapshot is not None:
        if subject.no_probe:
            raise CommandError(ExitCode.USAGE, "--snapshot and --no-probe exclude each other")
        if subject.python is not None:
            announce("--python is not asked: the recording has a target of its own")
        return read_snapshot(subject.snapshot)
    if subject.no_probe:
        from gpuenv.model.snapshot import Snapshot

        refuse_no_environment(subject.python)
        if subject.python is not None:
            announce("--python is not asked: --no-probe asks nothing of this machine")
        return Snapshot()
    from gpuenv.probe.request import Request
    from gpuenv.probe.take import Inquiry
    from gpuenv.probe.target import TargetError

    request = Request(
        environment=dict(os.environ),
        python=subject.python,
        root=subject.driver_root,
        timeout=subject.timeout,
        deep=subject.deep,
        taken_at=now(),
    )
    try:
        inquiry = Inquiry(request)
    except TargetError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error
    with ExitStack() as stack:  # an interruption must not leave a child behind
        stack.callback(inquiry.close)
        inquiry.begin()
        stack.pop_all()
    return inquiry


def refuse_no_environment(python: str | None) -> None:
    """Refuses a target that is none, though it is not asked.

    Raises:
        CommandError: with what was expected.
    """
    from gpuenv.probe.target import TargetError, find_interpreter

    try:
        find_interpreter(python, os.environ)
    except TargetError as error:
        raise CommandError(ExitCode.USAGE, str(error)) from error
