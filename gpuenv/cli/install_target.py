"""The target of an install: its interpreter, its folders, and recovery from interrupted installs."""

from __future__ import annotations

import os
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.command_errors import CommandError, announce, usage_errors
from gpuenv.cli.sources import MachineSource, find_target, get_matrix, own_environment, probing
from gpuenv.install.environment import query_scheme, silent_target
from gpuenv.install.exceptions import TargetUnusable
from gpuenv.install.journal import Store, store_of
from gpuenv.install.planner import refuse_unusable
from gpuenv.install.rollback import recover
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.snapshot import Snapshot, SourceState
from gpuenv.probe.children import ChildGroup
from gpuenv.probe.interpreters import refuse_foreign
from gpuenv.probe.jupyter_kernels import kernel_interpreter
from gpuenv.probe.target import TargetError
from gpuenv.probe.transactions import open_transaction

if TYPE_CHECKING:
    from concurrent.futures import Future

    from gpuenv.cli.installers import InstallerRequest
    from gpuenv.install.environment import Scheme
    from gpuenv.install.installer_config import Installer
    from gpuenv.matrix.tables import Matrix


def select_target(python: str | None, kernel: str | None) -> str | None:
    """The target of ``--python`` or ``--kernel``.

    Raises:
        CommandError: when both are set, or there is no such kernel.
    """
    if kernel is None:
        return python
    if python is not None:
        raise CommandError(ExitCode.USAGE, "--python and --kernel exclude each other")
    with usage_errors(TargetError):
        return kernel_interpreter(kernel, os.environ)


def require_interpreter(source: MachineSource) -> str:
    """The interpreter of the target, which an installer may use.

    Raises:
        CommandError: when no Python is found, or the installer of root would run code of another user, or change it.
    """
    found = find_target(source.python)
    if found is None:
        raise CommandError(ExitCode.TARGET_UNUSABLE, "there is no Python on PATH", "name one with --python")
    with usage_errors(TargetError):
        refuse_foreign(found, os.environ)
    return found


def find_store(interpreter: str, seconds: float) -> Store:
    """The journals next to the interpreter, else those in the root that it reports within ``seconds``.

    Raises:
        TargetUnusable: when it does not answer.
    """
    deadline = time.monotonic() + seconds
    return store_of(interpreter) or Store(Path(query_scheme(interpreter, os.environ, deadline).root))


def refuse_interrupted(store: Store | None) -> None:
    """Refuses to plan on the half-changed state that an interrupted install left.

    Raises:
        TargetUnusable: when an install or a rollback was interrupted.
    """
    try:
        found = open_transaction(store.folder) if store is not None and store.folder.is_dir() else None
    except OSError as error:
        raise TargetUnusable(f"{error.filename}: cannot be read: {error.strerror}") from error
    if store is not None and found is not None:
        raise TargetUnusable(
            f"{store.root}: {found.label} was interrupted, and nothing can be planned before it is undone",
            "Undo it: gpuenv rollback. gpuenv install does so first.",
        )


def recover_interrupted(store: Store | None, *, locked: bool = False, offline: bool) -> tuple[str, ...]:
    """Rolls back interrupted installs, even if the interpreter is gone; returns their numbers.

    ``locked`` is whether the caller holds the lock of the environment.

    Raises:
        InstallError: when one cannot be rolled back.
    """
    if store is None:
        return ()
    with nullcontext() if locked else store.locked():
        found = recover(store, own_environment(), offline=offline)
    for number in found:
        announce(f"the interrupted install {number} was rolled back")
    return found


def require_target(snapshot: Snapshot) -> None:
    """Refuses a target that does not answer.

    Raises:
        TargetUnusable: with what happened instead.
    """
    target = snapshot.source("target")
    if target.state is not SourceState.ANSWERED:
        raise silent_target(snapshot.target.executable.value or "the target", target)


def changeable_scheme(
    interpreter: str, source: MachineSource, request: InstallerRequest, group: ChildGroup | None = None
) -> Scheme:
    """The folders of a target that may be changed.

    Raises:
        InstallError: when nothing may be installed into it.
    """
    scheme = query_scheme(interpreter, os.environ, time.monotonic() + source.timeout, group)
    refuse_unusable(scheme, break_system_packages=request.break_system_packages)
    return scheme


def examine_target(
    interpreter: str, source: MachineSource, matrix: Path | None, request: InstallerRequest
) -> tuple[Scheme, Future[Installer | None], Snapshot, Matrix]:
    """Probes the machine and the target, and meanwhile finds the target's folders and selects the installer of wheels.

    Raises:
        InstallError: when the target does not answer, or may not be installed into.
        CommandError: when there is no matrix.
    """
    from concurrent.futures import ThreadPoolExecutor

    from gpuenv.cli.installers import installer_for, takes_conda

    # The children first: they are forked before any thread starts. An interrupt waits for none of them.
    with ThreadPoolExecutor(1) as pool, closing(ChildGroup()) as group, probing(source) as finish:

        def choose() -> Installer | None:
            scheme = scheme_future.result()
            return None if takes_conda(scheme, request) else installer_for(scheme, request)

        scheme_future = pool.submit(changeable_scheme, interpreter, source, request, group)
        installer_future = pool.submit(choose)
        rows = get_matrix(matrix)
        snapshot = finish(rows)
        require_target(snapshot)
        return scheme_future.result(), installer_future, snapshot, rows


def scheme_of_target(source: MachineSource, snapshot: Snapshot) -> Scheme:
    """The folders of the target that a plan or a lock is for.

    Raises:
        InstallError: when an install was interrupted in it, or it does not answer.
        CommandError: when there is no target.
    """
    interpreter = require_interpreter(source)
    refuse_interrupted(store_of(interpreter))
    require_target(snapshot)
    return query_scheme(interpreter, os.environ, time.monotonic() + source.timeout)
