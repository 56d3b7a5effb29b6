"""An install as one transaction, for every command that makes one: what would be done, and doing it.

The way of a caller: ``target_scheme``, then with ``Store(...).locked()`` held ``plan_install``, the consent of
``gpuenv.cli.consent``, and ``run_transaction``, which keeps the result or puts the former state back.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING

from gpuenv.cli.gather import Subject, announce, get_snapshot
from gpuenv.cli.gpu_proof import gpu_proof
from gpuenv.cli.installing import Means, Wanted, caller_for
from gpuenv.model.record import dataclass

if TYPE_CHECKING:
    from gpuenv.install.environment import Scheme
    from gpuenv.install.executing import Clock
    from gpuenv.install.journal import Store
    from gpuenv.install.preparing import Prepared
    from gpuenv.install.proving import Diagnose, Diagnosed
    from gpuenv.install.records import Outcome
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.resolution import Resolution
    from gpuenv.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Examined:
    """What was known of the machine before.

    Attributes:
        subject: which machine; it is asked again afterwards.
        facts: the machine and the target.
        rows: the matrix.
        resolution: the resolver's answer.
    """

    subject: Subject
    facts: Snapshot
    rows: Matrix
    resolution: Resolution


def target_scheme(interpreter: str, subject: Subject, means: Means) -> Scheme:
    """The folders of a target that may be installed into.

    Raises:
        InstallError: when it may not be.
    """
    from gpuenv.install.environment import ask_scheme
    from gpuenv.install.preparing import refuse_unusable

    scheme = ask_scheme(interpreter, os.environ, time.monotonic() + subject.timeout)
    refuse_unusable(scheme, break_system_packages=means.break_system_packages)
    return scheme


def plan_install(scheme: Scheme, wanted: Wanted, means: Means) -> Prepared:
    """What installing these requirements, or these pins of a lock file, would do; nothing is changed.

    Raises:
        InstallError: when there can be no plan.
    """
    from gpuenv.install.holdings import take_stock
    from gpuenv.install.preparing import prepare

    return prepare(take_stock(scheme), caller_for(scheme, means), wanted.requirements, wanted.pins)


def run_transaction(prepared: Prepared, store: Store, examined: Examined, clock: Clock | None = None) -> Outcome:
    """Carries a plan out and proves it; whatever goes wrong, the former state comes back.

    Args:
        prepared: the plan, as the caller has agreed to it.
        store: the target's journals; the caller holds their lock.
        examined: what was known before.
        clock: where the time went so far.

    Raises:
        InstallError: when it failed before anything of the target was moved.
    """
    from datetime import datetime, timezone

    from gpuenv.install.executing import Clock, Work, execute
    from gpuenv.install.proving import Child
    from gpuenv.probe.children import ChildGroup

    chosen = examined.resolution.wheel
    executable = prepared.holdings.scheme.executable
    before, diagnose = doctor_of(examined, libraries_elsewhere=chosen is not None and chosen.needs_toolkit is not None)
    work = Work(
        prepared=prepared,
        store=store,
        child=Child(executable, dict(os.environ), max(60.0, examined.subject.timeout), ChildGroup()),
        before=before,
        diagnose=diagnose,
        more=(partial(gpu_proof, examined, executable),),
        announce=announce,
        created_at=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        clock=clock or Clock(),
    )
    return execute(work)


def doctor_of(examined: Examined, *, libraries_elsewhere: bool) -> tuple[Diagnosed, Diagnose]:
    """The doctor's errors before, and how it is asked again."""
    rows = examined.rows

    def again() -> Diagnosed:
        return _diagnosed(get_snapshot(examined.subject, rows), rows, libraries_elsewhere=libraries_elsewhere)

    return _diagnosed(examined.facts, rows, libraries_elsewhere=libraries_elsewhere), again


def _diagnosed(facts: Snapshot, rows: Matrix, *, libraries_elsewhere: bool) -> Diagnosed:
    """The doctor's errors about the target itself; the machine's are not of the installer's making."""
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.install.proving import Diagnosed
    from gpuenv.matrix.resolve import resolve
    from gpuenv.model.finding import Severity

    found = diagnose(facts, rows, resolve(facts, rows), time.monotonic).findings
    families = ("WHL", "ENV") if libraries_elsewhere else ("WHL", "ENV", "LIB")
    errors = {f.code: f.title for f in found if f.severity is Severity.ERROR and f.code.startswith(families)}
    return Diagnosed(errors)
