"""The machine and the matrix of a command: probed, read from a snapshot or a paste, or assumed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuenv import files
from gpuenv.cli.command_errors import CommandError, announce, announce_once, progress, usage_errors
from gpuenv.clock import now, today
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import Lines, decode_text, error_reason, parse_integer, pattern
from gpuenv.probe.request import DEFAULT_TIMEOUT, ProbeRequest

if TYPE_CHECKING:
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.codec import DecodeError
    from gpuenv.model.snapshot import Snapshot

STALE = 120  # days after which a matrix or a document is outdated
_DAY = pattern(r"\d{4}-\d\d-\d\d")  # dates compare as texts


class MachineSource(NamedTuple):
    """The machine that the shared options select: this one, a recorded or pasted one, or only assumptions."""

    python: str | None = None
    snapshot: Path | None = None
    assume: Sequence[str] = ()
    no_probe: bool = False
    timeout: float = DEFAULT_TIMEOUT
    driver_root: str = "/"
    deep: bool = False
    paste: Path | None = None
    host_only: bool = False

    @property
    def named_target(self) -> str | None:
        """The value of ``--python`` if it selects a target of this machine; the commands of fixes repeat it."""
        return self.python if self.snapshot is None and self.paste is None else None


def matrix_path(path: Path | None) -> Path:
    """The file of the matrix in use."""
    from gpuenv.matrix.selection import find_matrix

    return find_matrix(path, os.environ, announce_once).path


def require_own_matrix(path: Path | None, remedy: str | None = None) -> Path:
    """The file of the user's data folder that is to be written.

    Raises:
        CommandError: when there is no such folder, or another user can change it.
    """
    reason = "there is no home folder" if path is None else files.others_reach(path)
    if path is None or reason:
        raise CommandError(ExitCode.USAGE, f"your own matrix cannot be written: {reason}", remedy)
    return path


def own_environment() -> dict[str, str]:
    """The variables for installers and engines: with no folder or configuration that another user can change.

    Raises:
        CommandError: when the user's own choice of an index would be lost with them.
    """
    from gpuenv.install.installer_config import own_uv_configuration
    from gpuenv.install.own_folders import ConfigurationIgnoredError, with_own_folders

    with usage_errors(ConfigurationIgnoredError):
        environment = with_own_folders(os.environ, announce_once)
    return environment | own_uv_configuration(environment)


def get_matrix(path: Path | None, *, from_yaml: bool = False, quiet: bool = False) -> Matrix:
    """The matrix; announces, unless ``quiet``, that it is the user's own or outdated.

    ``from_yaml`` reads and validates the file itself instead of the compiled matrix.

    Raises:
        CommandError: when it cannot be read, or is invalid, with every error.
    """
    from gpuenv.matrix.selection import find_matrix, read_matrix

    file = find_matrix(path, os.environ, (lambda _: None) if quiet else announce_once)
    with matrix_errors(file.path if path or file.is_own else Path("matrix.yaml"), file.remedy):
        matrix = read_matrix(file, from_yaml=from_yaml)
    if quiet:
        return matrix
    if file.is_own:
        announce(f"using your own matrix, {file.path}, dated {matrix.revision}")
    if path is None and _DAY.fullmatch(matrix.revision) and matrix.revision < today(days_ago=STALE):
        announce(
            f"the matrix is dated {matrix.revision} (more than {STALE} days old); to update it: gpuenv matrix update, "
            "or gpuenv matrix refresh"
        )
    return matrix


@contextmanager
def matrix_errors(name: Path, remedy: str | None = None) -> Iterator[None]:
    """Turns the errors of reading a matrix into command errors, with every fault."""
    from gpuenv.matrix.validate import MatrixError

    try:
        yield
    except (OSError, UnicodeDecodeError) as error:
        message = f"{name}: the matrix cannot be read: {error_reason(error)}"
        raise CommandError(ExitCode.USAGE, message, remedy) from error
    except MatrixError as error:
        if any("must be quoted" in fault for fault in error.faults):
            import shlex

            remedy = remedy or f"gpuenv matrix check --fix --matrix {shlex.quote(str(name))}"
        message = Lines(("the matrix is invalid:", *(f"  {fault}" for fault in error.faults)))
        raise CommandError(ExitCode.MATRIX_INVALID, message, remedy) from error


@contextmanager
def probing(source: MachineSource) -> Iterator[Callable[[Matrix | None], Snapshot]]:
    """Starts probing the machine, or reads the snapshot; ends probes that still run on exit.

    Yields:
        A function that returns the machine with the assumptions applied; its argument is the matrix, by default the
        usual one.

    Raises:
        CommandError: when an option is invalid, or the snapshot cannot be read.
    """
    with ExitStack() as stack:
        get_machine = _begin(source, stack)
        if source.assume:
            from gpuenv.matrix.assume import AssumeError, validate_assumptions

            with usage_errors(AssumeError):
                validate_assumptions(source.assume)  # before reading the matrix

        def finish(matrix: Matrix | None) -> Snapshot:
            if source.paste is None and not source.assume:
                return get_machine(matrix)
            from gpuenv.matrix.assume import AssumeError, assume

            rows = matrix or get_matrix(None)
            snapshot = get_machine(rows)
            with usage_errors(AssumeError):
                return assume(snapshot, source.assume, rows)

        yield finish


def get_machine_and_matrix(source: MachineSource, path: Path | None) -> tuple[Snapshot, Matrix]:
    """The machine and the matrix, which is read while the machine is probed.

    Raises:
        CommandError: when either cannot be read; usage errors come before errors of the matrix.
    """
    with probing(source) as finish:
        matrix = get_matrix(path)
        return finish(matrix), matrix


def get_snapshot(source: MachineSource, matrix: Matrix | None) -> Snapshot:
    """The machine with the assumptions applied."""
    with probing(source) as finish:
        return finish(matrix)


def get_machines_and_matrix(
    source: MachineSource, files: Iterable[Path], path: Path | None
) -> tuple[dict[str, Snapshot], Matrix]:
    """Several recorded machines by the names of their files, and the matrix."""
    with ExitStack() as stack:
        finishers = {str(file): stack.enter_context(probing(source._replace(snapshot=file))) for file in files}
        matrix = get_matrix(path)
        return {name: finish(matrix) for name, finish in finishers.items()}, matrix


def _begin(source: MachineSource, stack: ExitStack) -> Callable[[Matrix | None], Snapshot]:
    """A function that returns the machine without assumptions; a paste needs the matrix."""
    if source.timeout <= 0:  # as a configuration file may say
        raise CommandError(ExitCode.USAGE, f"--timeout {source.timeout}: expected seconds, such as 30")
    if source.paste is not None:
        from gpuenv.cli.pastes import pasted_machine

        paste = source.paste
        if source.snapshot is not None or source.no_probe or source.python is not None:
            raise CommandError(ExitCode.USAGE, "--paste excludes --snapshot, --no-probe and --python")
        return lambda matrix: pasted_machine(paste, source.assume, matrix or get_matrix(None))
    if source.snapshot is not None:
        if source.no_probe:
            raise CommandError(ExitCode.USAGE, "--snapshot and --no-probe exclude each other")
        if source.python is not None:
            announce("--python is ignored: the snapshot has its own target")
        snapshot = read_snapshot(source.snapshot)
        return lambda _: snapshot
    if source.no_probe:
        from gpuenv.model.snapshot import Snapshot

        find_target(source.python)
        if source.python is not None:
            announce("--python is ignored: --no-probe does not probe this machine")
        return lambda _: Snapshot()
    from gpuenv.probe.session import ProbeSession
    from gpuenv.probe.target import TargetError

    request = ProbeRequest(
        environment=dict(os.environ),
        python=source.python,
        root=source.driver_root,
        timeout=source.timeout,
        deep=source.deep,
        host_only=source.host_only,
        taken_at=now(),
    )
    with usage_errors(TargetError):
        session = ProbeSession(request)
    stack.callback(session.close)  # an interrupt must not leave a child behind
    session.begin()
    return lambda _: session.finish(progress)


def find_target(python: str | None) -> str | None:
    """The interpreter of the target that ``--python`` selects; None if no Python is found.

    Raises:
        CommandError: when the value is no environment.
    """
    from gpuenv.probe.target import TargetError, find_interpreter

    with usage_errors(TargetError):
        return find_interpreter(python, os.environ)


def read_at_most(path: Path, limit: int, kind: str) -> str:
    """The text of a file, which may be a device or a pipe.

    Raises:
        CommandError: for more than ``limit`` bytes.
        OSError: when it cannot be read.
        UnicodeDecodeError: when it is not text.
    """
    try:
        raw = files.read_at_most(path, limit)
    except files.TooLargeError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: too large for a {kind} (over {limit >> 20} MiB)") from error
    return decode_text(raw)


def read_snapshot(path: Path) -> Snapshot:
    """Reads a snapshot, or the one in a report.

    Raises:
        CommandError: with file, line and expected value.
    """
    import json

    from gpuenv.model.codec import DecodeError, decode
    from gpuenv.model.snapshot import SCHEMA, Snapshot, operating_system

    try:
        text = read_at_most(path, files.LARGEST_DOCUMENT, "snapshot")
        data = json.loads(text)
    except OSError as error:
        raise CommandError(ExitCode.USAGE, f"{path}: {error_reason(error)}") from error
    except json.JSONDecodeError as error:
        raise CommandError(
            ExitCode.USAGE, f"{path}: line {error.lineno}: {error.msg}; expected a snapshot in JSON"
        ) from error
    except (ValueError, RecursionError) as error:  # not text, huge numbers, deep nesting
        raise CommandError(ExitCode.USAGE, f"{path}: not a snapshot in JSON: {error_reason(error)}") from error
    key = ""
    if isinstance(data, dict) and isinstance(data.get("snapshot"), dict):
        data, key = data["snapshot"], "snapshot"
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else type(data).__name__
        (kind, _, major), (found_kind, _, found_major) = SCHEMA.partition("/"), str(found).partition("/")
        is_newer = found_kind == kind and (parse_integer(found_major) or 0) > int(major)
        raise CommandError(
            ExitCode.USAGE,
            f"{path}: expected an object with schema {SCHEMA}, found {found!r}",
            "upgrade gpuenv: a newer version wrote this file" if is_newer else None,
        )
    try:
        snapshot = decode(Snapshot, data)
    except DecodeError as error:
        raise malformed_file(path, text, error, key) from error
    system = snapshot.host.os
    if system.value is None:
        return snapshot
    # A snapshot written by hand may spell the operating system as other programs do.
    return snapshot._replace(host=snapshot.host._replace(os=replace(system, value=operating_system(system.value))))


def malformed_file(path: Path, text: str, error: DecodeError, key: str = "") -> CommandError:
    """The error for a value of the wrong type: file, line, path and expected type.

    ``text`` is the content of the file, and ``key`` the one that holds the record.
    """
    from gpuenv.model.json_lines import line_of

    line = line_of(text, ".".join(filter(None, (key, error.path))))
    return CommandError(ExitCode.USAGE, f"{path}: line {line}: {error}" if line else f"{path}: {error}")


@contextmanager
def usage_errors_first(check: Callable[[], object]) -> Iterator[None]:
    """If the matrix is invalid, calls ``check`` first, whose usage error takes precedence."""
    try:
        yield
    except CommandError as error:
        if error.exit_code == ExitCode.MATRIX_INVALID:
            check()
        raise


def validate_options(source: MachineSource, matrix: Path | None) -> None:
    """Validates options that the command does not use, without probing: invalid values are still usage errors.

    Raises:
        CommandError: at the first invalid or unreadable value; the matrix comes last.
    """
    if source.snapshot is None:  # a snapshot has its own target
        find_target(source.python)
    if source.paste is not None:
        return  # it may be standard input, which can be read only once
    without_target = source._replace(python=None, no_probe=source.no_probe or source.snapshot is None)
    with probing(without_target) as finish:
        if source.assume or matrix is not None:
            finish(get_matrix(matrix, quiet=True))
