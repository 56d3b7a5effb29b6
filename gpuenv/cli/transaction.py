"""The one way by which a command changes an environment: planned, agreed to, carried out, proven, kept or put back.

``install`` and ``doctor --fix`` differ in what they want; ``transact`` does all the rest for them, for wheels and for
conda packages alike.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import typer

from gpuenv.cli.clock import now
from gpuenv.cli.errors import CommandError, announce
from gpuenv.cli.gpu_tests import place_of, planted, run_tests
from gpuenv.cli.inputs import MachineSource, get_snapshot
from gpuenv.cli.installer import CONDAS, Means, put_back_first
from gpuenv.cli.options import InstallerName
from gpuenv.cli.output import Output, write_stderr
from gpuenv.doctor.diagnose import diagnose
from gpuenv.doctor.registry import find_check
from gpuenv.install.backends.base import Patience
from gpuenv.install.conda_environment import is_conda
from gpuenv.install.conda_transaction import CondaCaller, CondaPrepared, execute_conda, prepare_conda, refuse_pixi
from gpuenv.install.environment import Scheme, ask_scheme
from gpuenv.install.errors import ConsentNeeded, InstallFailed, TargetUnusable
from gpuenv.install.installers import choose_conda
from gpuenv.install.journal import Store
from gpuenv.install.plan import Clock, Outcome, Plan, Proof, Result
from gpuenv.install.planner import Prepared, refuse_unusable
from gpuenv.install.text import plan_lines
from gpuenv.install.transaction import Work, execute
from gpuenv.install.verify import Child, Doctor
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.finding import Severity
from gpuenv.model.resolution import Resolution
from gpuenv.model.smoke import BROKEN, SmokeResult, TestResult, TestStatus
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import format_size, join_words
from gpuenv.probe.children import ChildGroup
from gpuenv.report.lines import counted
from gpuenv.smoke.session import UnusableTarget
from gpuenv.smoke.tasks import SmokeOptions

Planned = tuple[Plan, Callable[[Store, Clock], Outcome]]
Way = Callable[[], Planned]
P = TypeVar("P", Prepared, CondaPrepared)

_SMOKE_TEST = "smoke test"
_SHOWN = 3  # messages of tests


class Examined(NamedTuple):
    """What was known before: the machine and the target, the matrix, and the resolver's answer."""

    subject: MachineSource  # it is probed again afterwards
    facts: Snapshot
    rows: Matrix
    resolution: Resolution


class Terms(NamedTuple):
    """What the caller agrees to, and where and how the plan and the result are shown."""

    out: Output
    yes: bool  # no question
    dry_run: bool  # only show the plan
    allow_changes: bool = False  # packages that are not CuPy's may move
    offline: bool = False  # no network, also for what an interrupted install has left


def transact(interpreter: str, scheme: Scheme, way: Way, terms: Terms, clock: Clock) -> Outcome | None:
    """Plans, asks and carries it out under the environment's lock; only the plan for a dry run.

    ``way`` makes the plan and says how it is carried out; it is called with the environment held.

    Raises:
        InstallError: when nothing was changed: there can be no plan, consent is missing, the new files cannot be had.
    """
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
            _agree(plan, terms)
            done = carry_out(store, clock)
    return replace(done, recovered=recovered, phases=clock.phases())


def target_scheme(interpreter: str, subject: MachineSource, means: Means, group: ChildGroup | None = None) -> Scheme:
    """The folders of a target that may be installed into.

    Raises:
        InstallError: when it may not be.
    """
    scheme = ask_scheme(interpreter, os.environ, time.monotonic() + subject.timeout, group)
    refuse_unusable(scheme, break_system_packages=means.break_system_packages)
    return scheme


def show_plan(plan: Plan, out: Output) -> None:
    """Prints the plan as the result of a command."""
    out.emit(plan, lambda: plan_lines(plan, verbose=out.verbose))


def _agree(plan: Plan, terms: Terms) -> None:
    """Consent, or the end.

    Raises:
        ConsentNeeded: when it is missing, refused, or nobody can be asked.
        InstallFailed: when there is no room for it.
    """
    out = terms.out
    if plan.moves and not terms.allow_changes:
        show_plan(plan, out)
        raise ConsentNeeded(
            f"packages that are not CuPy's would change: {', '.join(plan.moves)}; nothing was changed",
            "Agree with --allow-changes, or install into an environment of its own.",
        )
    if not terms.yes:
        show_plan(plan, out._replace(file=None))
        if not (sys.stdin is not None and sys.stdin.isatty() and not out.as_json):
            raise ConsentNeeded("nobody can be asked here, and nothing was changed", "Agree to the plan with --yes.")
        if not typer.confirm("Go ahead?", err=True):
            raise ConsentNeeded("not agreed to; nothing was changed")
    elif not out.as_json:
        write_stderr(plan_lines(plan, verbose=out.verbose))  # the result alone goes to standard output
    space = plan.space
    if space.download is not None and space.free is not None and space.free < space.download:
        raise InstallFailed(
            f"{format_size(space.download)} are to be downloaded and {format_size(space.free)} are free",
            "Make room on the disk that the environment is on.",
        )


def by_wheels(prepare: Callable[[], Prepared], examined: Examined) -> Way:
    """The way of wheels, with uv or pip: ``prepare`` makes the plan."""
    chosen = examined.resolution.wheel
    elsewhere = chosen is not None and chosen.needs_toolkit is not None
    return partial(_planned, prepare, execute, examined, libraries_elsewhere=elsewhere)


def by_conda(scheme: Scheme, examined: Examined, means: Means) -> Way:
    """The way of conda packages."""
    prepare = partial(_prepare_conda, scheme, examined.resolution, means)
    return partial(_planned, prepare, execute_conda, examined, libraries_elsewhere=False)


def _planned(
    prepare: Callable[[], P], execute: Callable[[P, Work], Outcome], examined: Examined, *, libraries_elsewhere: bool
) -> Planned:
    """The plan, and how it is carried out; the machine is diagnosed before, and again afterwards."""

    def errors_now() -> Mapping[str, str]:
        facts = get_snapshot(examined.subject, examined.rows)
        return _errors(facts, examined.rows, libraries_elsewhere=libraries_elsewhere)

    prepared = prepare()
    executable = prepared.plan.target.executable

    def carry_out(store: Store, clock: Clock) -> Outcome:
        before = _errors(examined.facts, examined.rows, libraries_elsewhere=libraries_elsewhere)
        work = Work(
            store=store,
            child=Child(executable, dict(os.environ), max(60.0, examined.subject.timeout), ChildGroup()),
            doctor=Doctor(before, errors_now),
            more=(partial(_gpu_proof, examined, executable),),
            announce=announce,
            created_at=now(),
            clock=clock,
        )
        return execute(prepared, work)

    return prepared.plan, carry_out


def _errors(facts: Snapshot, rows: Matrix, *, libraries_elsewhere: bool) -> Mapping[str, str]:
    """The errors about the target itself; the machine's are not of the installer's making.

    CUDA's libraries may be missing from the target where they are to come from elsewhere.
    """
    found = diagnose(facts, rows, resolve(facts, rows), time.monotonic).findings
    errors = {}
    for finding in found:
        check = find_check(finding.code)
        if finding.severity is not Severity.ERROR or check is None or not check.concerns_target:
            continue
        if not (check.concerns_libraries and libraries_elsewhere):
            errors[finding.code] = finding.title
    return errors


def takes_conda(scheme: Scheme, means: Means) -> bool:
    """Whether conda packages are to be installed: into conda's environments, where no installer of wheels is named.

    Raises:
        TargetUnusable: when one of conda's programs is named for another kind of environment.
    """
    if is_conda(scheme.prefix):
        return means.installer not in (InstallerName.UV, InstallerName.PIP)
    if means.installer in CONDAS:
        raise TargetUnusable(
            f"{scheme.prefix} is no conda environment", "Leave --installer out, or name another target."
        )
    return False


def _prepare_conda(scheme: Scheme, resolution: Resolution, means: Means) -> CondaPrepared:
    """What installing the resolver's conda specifications would do.

    Raises:
        InstallError: when there can be no plan.
        CommandError: when nothing fits.
    """
    choice = resolution.conda
    if choice is None:
        raise CommandError(
            ExitCode.NOTHING_FITS,
            "no conda package fits: nothing was changed\n" + resolution.explanation,
            "Wheels may: gpuenv install --installer uv (or pip), in an environment without conda's CUDA.",
        )
    refuse_pixi(scheme.prefix, choice)
    tool = choose_conda(means.installer.value, scheme.prefix, os.environ, time.monotonic() + means.seconds)
    caller = CondaCaller(tool, dict(os.environ), Patience(means.seconds), ChildGroup(), means.offline)
    return prepare_conda(scheme, caller, choice)


def _gpu_proof(examined: Examined, interpreter: str) -> Proof:
    """Runs the quick smoke test in the target; without a GPU nothing is proven."""
    facts = examined.facts
    if any(fact.startswith(("gpu", "driver")) for fact in facts.assumed):
        message = "the GPU or the driver is an assumed one; on the machine that is meant: gpuenv smoke"
        return Proof(_SMOKE_TEST, None, message)
    if not facts.gpus:
        return Proof(_SMOKE_TEST, None, "there is no NVIDIA GPU here; on a machine with one: gpuenv smoke")
    rows, subject = examined.rows, examined.subject
    try:
        place = place_of(interpreter, subject, get_snapshot(subject, rows), rows, time.monotonic())
        return verdict(run_tests(SmokeOptions(fault=planted()), place, rows))
    except UnusableTarget as error:
        return Proof(_SMOKE_TEST, False, str(error))


def verdict(result: SmokeResult) -> Proof:
    """What a smoke test proves: nothing on a GPU that is busy or that nothing can be run on."""
    passed = counted(sum(test.status is TestStatus.PASSED for test in result.tests), "test")
    gpus = ", ".join(gpu.name or "a GPU" for gpu in result.gpus)
    failed = [test for test in result.tests if test.status in BROKEN]
    if failed:
        fault = f" ({result.fault} was planted on purpose)" if result.fault else ""
        return Proof(_SMOKE_TEST, False, f"{counted(len(failed), 'test')} failed on {gpus}{fault}: {_messages(failed)}")
    if result.status is TestStatus.PASSED:
        return Proof(_SMOKE_TEST, True, f"{passed} passed on {gpus}")
    held = [test for test in result.tests if test.status is TestStatus.BUSY]
    if held:
        return Proof(_SMOKE_TEST, None, f"{passed} passed; others use the GPU: {_messages(held)}")
    why = next((test.detail for test in result.tests if test.detail), result.status.value)
    return Proof(_SMOKE_TEST, None, f"no test gave a verdict: {why}")


def _messages(tests: Sequence[TestResult]) -> str:
    """The messages of the tests, equal ones once."""
    same: dict[str, list[str]] = {}
    for test in tests:
        same.setdefault(test.detail or test.status.value, []).append(test.name)
    messages = [f"{join_words(list(dict.fromkeys(names)), _SHOWN)}: {text}" for text, names in same.items()]
    left = len(messages) - _SHOWN
    return "; ".join(messages[:_SHOWN]) + (f"; and {left} other messages" if left > 0 else "")
