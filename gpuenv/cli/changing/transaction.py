"""The one way by which a command changes an environment: planned, agreed to, carried out, proven, kept or put back.

``install`` and ``doctor --fix`` differ in what they want; ``transact`` does all the rest for them, for wheels and for
conda packages alike.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.changing.choices import Means, put_back_first
from gpuenv.cli.changing.gpu_proof import gpu_proof
from gpuenv.cli.clock import now
from gpuenv.cli.errors import announce
from gpuenv.cli.inputs import Subject, get_snapshot
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.install.environment import Scheme
    from gpuenv.install.journal import Store
    from gpuenv.install.preparing import Prepared
    from gpuenv.install.proving import Diagnosed
    from gpuenv.install.records import Outcome, Plan
    from gpuenv.install.timing import Clock
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.resolution import Resolution
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.probe.children import ChildGroup

    Planned = tuple[Plan, Callable[[Store, Clock], Outcome]]
    Way = Callable[[], Planned]


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


@dataclass(frozen=True, slots=True)
class Terms:
    """What the caller agrees to.

    Attributes:
        out: where and how the plan and the result are shown.
        yes: no question.
        dry_run: only show the plan.
        allow_changes: packages that are not CuPy's may move.
        offline: no network, also for what an interrupted install has left.
    """

    out: Output
    yes: bool
    dry_run: bool
    allow_changes: bool = False
    offline: bool = False


def transact(interpreter: str, scheme: Scheme, way: Way, terms: Terms, clock: Clock) -> Outcome | None:
    """Plans, asks and carries it out, while nobody else may change the environment; only the plan for a dry run.

    Args:
        interpreter: the target's.
        scheme: its folders.
        way: makes the plan, and tells how it is carried out; called with the environment held.
        terms: what the caller agrees to.
        clock: where the time went so far.

    Raises:
        InstallError: when nothing was changed: there can be no plan, consent is missing, the new files cannot be had.
    """
    from gpuenv.cli.changing.consent import agree, show_plan
    from gpuenv.install.journal import Store
    from gpuenv.install.records import Outcome, Result

    if terms.dry_run:
        show_plan(way()[0], terms.out)
        return None
    store = Store(Path(scheme.root))
    with store.locked():
        recovered = put_back_first(interpreter, store, dry_run=False, held=True, offline=terms.offline)
        clock.begin("plan")
        plan, carry_out = way()
        if plan.empty:
            message = f"{' '.join(plan.requirements)} is there already"
            done = Outcome(Result.UNCHANGED, ExitCode.OK, message, None, plan.target, plan)
        else:
            clock.begin("consent")
            agree(plan, terms.out, yes=terms.yes, allow_changes=terms.allow_changes)
            done = carry_out(store, clock)
    return replace(done, recovered=recovered, phases=clock.told())


def target_scheme(interpreter: str, subject: Subject, means: Means, group: ChildGroup | None = None) -> Scheme:
    """The folders of a target that may be installed into.

    Raises:
        InstallError: when it may not be.
    """
    from gpuenv.install.environment import ask_scheme
    from gpuenv.install.preparing import refuse_unusable

    scheme = ask_scheme(interpreter, os.environ, time.monotonic() + subject.timeout, group)
    refuse_unusable(scheme, break_system_packages=means.break_system_packages)
    return scheme


def by_wheels(prepare: Callable[[], Prepared], examined: Examined) -> Way:
    """The way of wheels: with uv or pip.

    Args:
        prepare: makes the plan.
        examined: what was known before.
    """
    chosen = examined.resolution.wheel

    def way() -> Planned:
        doctor = Doctor(examined, libraries_elsewhere=chosen is not None and chosen.needs_toolkit is not None)
        found = prepare()
        return found.plan, partial(_run, found, examined, doctor)

    return way


def _run(prepared: Prepared, examined: Examined, doctor: Doctor, store: Store, clock: Clock) -> Outcome:
    from gpuenv.install.executing import Work, execute
    from gpuenv.install.proving import Child
    from gpuenv.probe.children import ChildGroup

    executable = prepared.holdings.scheme.executable
    return execute(
        Work(
            prepared=prepared,
            store=store,
            child=Child(executable, dict(os.environ), max(60.0, examined.subject.timeout), ChildGroup()),
            before=doctor.before(),
            diagnose=doctor.again,
            more=(partial(gpu_proof, examined, executable),),
            announce=announce,
            created_at=now(),
            clock=clock,
        )
    )


class Doctor:
    """The doctor's errors about a target: those before, found while the installer is asked, and those afterwards."""

    def __init__(self, examined: Examined, *, libraries_elsewhere: bool) -> None:
        """Begins to look at what was examined; CUDA's libraries may be missing where they are said to be elsewhere."""
        self._examined = examined
        self._libraries_elsewhere = libraries_elsewhere
        pool = ThreadPoolExecutor(1)
        self._before = pool.submit(self._errors, examined.facts)
        pool.shutdown(wait=False)

    def before(self) -> Diagnosed:
        """Those before."""
        return self._before.result()

    def again(self) -> Diagnosed:
        """Those now."""
        return self._errors(get_snapshot(self._examined.subject, self._examined.rows))

    def _errors(self, facts: Snapshot) -> Diagnosed:
        """The errors about the target itself; the machine's are not of the installer's making."""
        from gpuenv.doctor.diagnose import diagnose
        from gpuenv.install.proving import Diagnosed
        from gpuenv.matrix.resolve import resolve
        from gpuenv.model.finding import Severity

        rows = self._examined.rows
        found = diagnose(facts, rows, resolve(facts, rows), time.monotonic).findings
        families = ("WHL", "ENV") if self._libraries_elsewhere else ("WHL", "ENV", "LIB")
        errors = {f.code: f.title for f in found if f.severity is Severity.ERROR and f.code.startswith(families)}
        return Diagnosed(errors)
