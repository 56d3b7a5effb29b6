"""Where a command gets its machine and its matrix from."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuenv import files
from gpuenv.cli.clock import now, today
from gpuenv.cli.errors import CommandError, announce, usage_errors
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import decode_text, error_reason, parse_integer, pattern

if TYPE_CHECKING:
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.codec import DecodeError
    from gpuenv.model.snapshot import Snapshot

OLD = 120  # days
_LARGEST_SNAPSHOT = 64 * 1024 * 1024
_LARGEST_PASTE = 16 * 1024 * 1024
_SHOWN = 5  # contradictions of a paste
_DAY = pattern(r"\d{4}-\d\d-\d\d")  # of which the earlier one is less as a text


class MachineSource(NamedTuple):
    """The machine that is meant, by the shared options: this one, a recorded or pasted one, or only assumptions."""

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
        """The target of this machine that the caller named: the commands of a fix name it too."""
        return self.python if self.snapshot is None and self.paste is None else None


def matrix_path(path: Path | None) -> Path:
    """The matrix that was named, else the user's own where that is newer, else the shipped one."""
    from gpuenv.data import data_path
    from gpuenv.files import user_matrix

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
    """The matrix, with a message (unless ``quiet``) where it is the user's own or old.

    ``anew`` reads and validates the YAML, though it was compiled when gpuenv was built.

    Raises:
        CommandError: when it cannot be read, or is invalid, with every fault.
    """
    from gpuenv.data import COMPILED_MATRIX, data_path
    from gpuenv.matrix.load import load
    from gpuenv.matrix.validate import MatrixError

    chosen = matrix_path(path)
    own = path is None and chosen != data_path("matrix.yaml")
    remedy = f"this is your own, {chosen}: remove it, and the one that came with gpuenv is used" if own else None
    try:
        matrix = load(chosen, compiled=None if anew else COMPILED_MATRIX)
    except (OSError, UnicodeDecodeError) as error:
        said = f"{chosen if path or own else 'matrix.yaml'}: the matrix cannot be read: {error_reason(error)}"
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


@contextmanager
def probing(subject: MachineSource) -> Iterator[Callable[[Matrix | None], Snapshot]]:
    """Begins to probe the machine that is meant, or reads the recording; what still runs in the end is ended.

    Yields:
        What returns the machine, with the caller's assumptions in place of facts; without a matrix, the usual one is
        used.

    Raises:
        CommandError: when an option cannot be understood, or the recording cannot be read.
    """
    with ExitStack() as stack:
        begun = _begin(subject, stack)
        if subject.assume:
            from gpuenv.matrix.assume import AssumeError, validate_assumptions

            with usage_errors(AssumeError):
                validate_assumptions(subject.assume)  # before the matrix is read

        def finish(matrix: Matrix | None) -> Snapshot:
            if subject.paste is None and not subject.assume:
                return begun(matrix)
            from gpuenv.matrix.assume import AssumeError, assume

            rows = matrix or get_matrix(None)
            snapshot = begun(rows)
            with usage_errors(AssumeError):
                return assume(snapshot, subject.assume, rows)

        yield finish


def get_both(subject: MachineSource, path: Path | None) -> tuple[Snapshot, Matrix]:
    """The machine and the matrix, which is read while the machine is probed.

    Raises:
        CommandError: when either cannot be read; a usage error comes before a fault of the matrix.
    """
    with probing(subject) as finish:
        matrix = get_matrix(path)
        return finish(matrix), matrix


def get_snapshot(subject: MachineSource, matrix: Matrix | None) -> Snapshot:
    """The machine that is meant, with the caller's assumptions in place of facts."""
    with probing(subject) as finish:
        return finish(matrix)


def get_all(subject: MachineSource, files: Iterable[Path], path: Path | None) -> tuple[dict[str, Snapshot], Matrix]:
    """Several recorded machines by the names of their files, and the matrix."""
    with ExitStack() as stack:
        begun = {str(file): stack.enter_context(probing(subject._replace(snapshot=file))) for file in files}
        matrix = get_matrix(path)
        return {name: finish(matrix) for name, finish in begun.items()}, matrix


def _begin(subject: MachineSource, stack: ExitStack) -> Callable[[Matrix | None], Snapshot]:
    """What returns the machine as it is; a paste is read together with the matrix."""
    if not subject.timeout > 0:  # nan is neither below the least nor above the most
        raise CommandError(ExitCode.USAGE, f"--timeout {subject.timeout}: expected seconds, such as 30")
    if subject.paste is not None:
        return lambda matrix: pasted_machine(subject, matrix or get_matrix(None))
    if subject.snapshot is not None:
        if subject.no_probe:
            raise CommandError(ExitCode.USAGE, "--snapshot and --no-probe exclude each other")
        if subject.python is not None:
            announce("--python is not asked: the recording has a target of its own")
        recorded = read_snapshot(subject.snapshot)
        return lambda _: recorded
    if subject.no_probe:
        from gpuenv.model.snapshot import Snapshot

        refuse_no_environment(subject.python)
        if subject.python is not None:
            announce("--python is not asked: --no-probe asks nothing of this machine")
        return lambda _: Snapshot()
    from gpuenv.probe.request import ProbeRequest
    from gpuenv.probe.session import ProbeSession
    from gpuenv.probe.target import TargetError

    request = ProbeRequest(
        environment=dict(os.environ),
        python=subject.python,
        root=subject.driver_root,
        timeout=subject.timeout,
        deep=subject.deep,
        taken_at=now(),
    )
    with usage_errors(TargetError):
        inquiry = ProbeSession(request)
    stack.callback(inquiry.close)  # an interruption must not leave a child behind
    inquiry.begin()
    return lambda _: inquiry.finish(announce)


def refuse_no_environment(python: str | None) -> None:
    """Refuses a target that is no environment, though it is not probed."""
    from gpuenv.probe.target import TargetError, find_interpreter

    with usage_errors(TargetError):
        find_interpreter(python, os.environ)


def read_at_most(path: Path, limit: int, kind: str) -> str:
    """The text of a file, which may be a device or a pipe.

    Raises:
        CommandError: for more than ``limit`` bytes.
        OSError: when it cannot be read.
        UnicodeDecodeError: when it is no text.
    """
    try:
        raw = files.read_at_most(path, limit)
    except files.TooLargeError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: larger than any {kind}") from error
    return decode_text(raw)


def read_snapshot(path: Path) -> Snapshot:
    """A recorded machine: a Snapshot, or a report that contains one.

    Raises:
        CommandError: with file, line and what was expected.
    """
    import json

    from gpuenv.model.codec import DecodeError, decode
    from gpuenv.model.snapshot import SCHEMA, Snapshot, operating_system

    try:
        text = read_at_most(path, _LARGEST_SNAPSHOT, "snapshot")
        data = json.loads(text)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}") from error
    except json.JSONDecodeError as error:
        raise CommandError(
            ExitCode.USAGE, f"{path}: line {error.lineno}: {error.msg}; expected a snapshot in JSON"
        ) from error
    except (ValueError, RecursionError) as error:  # no text, numbers beyond all measure, nesting without end
        raise CommandError(ExitCode.USAGE, f"{path}: not a snapshot in JSON: {error_reason(error)}") from error
    within = ""
    if isinstance(data, dict) and isinstance(data.get("snapshot"), dict):
        data, within = data["snapshot"], "snapshot"
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        (kind, _, major), (found_kind, _, found_major) = SCHEMA.partition("/"), str(found).partition("/")
        is_newer = found_kind == kind and (parse_integer(found_major) or 0) > int(major)
        raise CommandError(
            ExitCode.USAGE,
            f"{path}: expected an object with schema {SCHEMA}, found {found!r}",
            "bring gpuenv up to date: a newer one wrote this" if is_newer else None,
        )
    try:
        snapshot = decode(Snapshot, data)
    except DecodeError as error:
        raise not_of_its_form(path, text, error, within) from error
    system = snapshot.host.os
    if system.value is None:
        return snapshot
    # One that was written by hand may spell an operating system as other programs do.
    return snapshot._replace(host=snapshot.host._replace(os=replace(system, value=operating_system(system.value))))


def not_of_its_form(path: Path, text: str, error: DecodeError, within: str = "") -> CommandError:
    """The message for a value of a wrong kind: file, line, path and what was expected.

    ``text`` is the content of the file, and ``within`` the key below which the record stands in it.
    """
    from gpuenv.model.json_lines import line_of

    line = line_of(text, ".".join(filter(None, (within, error.path))))
    return CommandError(ExitCode.USAGE, f"{path}: line {line}: {error}" if line else f"{path}: {error}")


@contextmanager
def usage_first(look: Callable[[], object]) -> Iterator[None]:
    """Where the matrix is invalid, first does ``look``: a usage error that it raises comes before that."""
    try:
        yield
    except CommandError as error:
        if error.exit_code == ExitCode.MATRIX_INVALID:
            look()
        raise


def validate_assumptions(subject: MachineSource, matrix: Path | None = None) -> None:
    """Reads what the options name though the answer does not need it, without probing.

    Raises:
        CommandError: at the first that cannot be understood or read; a matrix comes last.
    """
    if subject.snapshot is None:  # a recording has a target of its own
        refuse_no_environment(subject.python)
    if subject.paste is not None:
        return  # read once, where the answer comes from it: it may be standard input
    apart = subject._replace(python=None, no_probe=subject.no_probe or subject.snapshot is None)
    with probing(apart) as finish:
        if subject.assume or matrix is not None:
            finish(get_matrix(matrix, quiet=True))


def pasted_machine(subject: MachineSource, matrix: Matrix) -> Snapshot:
    """The machine of ``--paste``; what the paste leaves open is announced.

    Raises:
        CommandError: when it cannot be read, contains no known output, or another machine is named too.
    """
    import shlex

    from gpuenv.matrix.assume import assumed_keys
    from gpuenv.paste.environments import chosen, read_meant
    from gpuenv.paste.forms import OUTPUTS
    from gpuenv.paste.merge import conflicts
    from gpuenv.paste.snapshot import gaps, to_snapshot

    path = subject.paste
    if path is None or subject.snapshot is not None or subject.no_probe or subject.python is not None:
        raise CommandError(ExitCode.USAGE, "--paste stands alone: without --snapshot, --no-probe and --python")
    meant = chosen(_pasted_text(path))
    pasted = read_meant(meant)
    if not pasted.forms:
        read = ", ".join(OUTPUTS)
        hint = f"read are: {read}\nan error message or a log is for: gpuenv explain {shlex.quote(str(path))}"
        name = "standard input" if str(path) == "-" else path
        raise CommandError(ExitCode.USAGE, f"{name}: no output that is known is in it", hint)
    announce(f"from the paste: {', '.join(pasted.forms)}; this machine is not asked")
    if meant.note:
        announce(meant.note)
    for conflict in conflicts(pasted)[:_SHOWN]:
        values = [
            f"{entry.value} ({entry.form}{f', line {entry.line}' if entry.line else ''})"
            for entry in conflict.said[:_SHOWN]
        ]
        announce(f"the paste contradicts itself on {conflict.fact}: {' and '.join(values)}; the first one counts")
    snapshot = to_snapshot(pasted, matrix)
    assumed = assumed_keys(subject.assume)
    for gap in gaps(pasted, snapshot):
        if gap.key not in assumed:
            announce(f"the paste does not say {gap.fact} ({gap.why}); the output of this says it: {gap.ask}")
    return snapshot


def _pasted_text(path: Path) -> str:
    from gpuenv.paste.read import decoded

    is_stdin = str(path) == "-"
    if is_stdin and sys.stdin is None:
        raise CommandError(ExitCode.USAGE, "standard input is closed", "give a file")
    try:
        with nullcontext(sys.stdin.buffer) if is_stdin else path.open("rb") as file:
            data = file.read(_LARGEST_PASTE + 1)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error.strerror or error}") from error
    if len(data) > _LARGEST_PASTE:
        raise CommandError(ExitCode.USAGE, f"{'standard input' if is_stdin else path}: larger than any paste")
    return decoded(data)
