"""Changes an environment: plan, consent, and execution under its lock.

``install`` and ``doctor --fix`` differ in what they install; ``transact`` does the rest for both.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import typer

from gpuenv.cli.command_errors import is_quiet
from gpuenv.cli.install_output import announcing_phases
from gpuenv.cli.install_target import recover_interrupted
from gpuenv.cli.output import Output, write_stderr
from gpuenv.install.environment import Scheme
from gpuenv.install.exceptions import ConsentNeeded
from gpuenv.install.journal import Store
from gpuenv.install.plan import Clock, InstallOutcome, Plan, Result
from gpuenv.install.plan_text import plan_lines
from gpuenv.model.exit_codes import ExitCode

ExecutablePlan = tuple[Plan, Callable[[Store, Clock], InstallOutcome]]
PlanFactory = Callable[[], ExecutablePlan]


class ConsentOptions(NamedTuple):
    """What the user consents to, and how the plan and the result are shown."""

    out: Output
    yes: bool  # no prompt
    allow_changes: bool = False  # packages other than CuPy's may change
    offline: bool = False  # no network, also when recovering interrupted installs


def transact(scheme: Scheme, plan_factory: PlanFactory, consent: ConsentOptions, clock: Clock) -> InstallOutcome:
    """Plans, asks for consent and executes the plan under the environment's lock.

    ``plan_factory`` returns the plan and a function that executes it; it is called under the lock.

    Raises:
        InstallError: when nothing was changed: no plan, no consent, or the new files could not be prepared.
    """
    store = Store(Path(scheme.root))
    if os.geteuid() == 0:  # root runs no code that others can change, not even what it installed itself
        os.umask(os.umask(0o022) | 0o022)
    with store.locked(), announcing_phases(clock):
        recovered = recover_interrupted(store, locked=True, offline=consent.offline)
        clock.begin("plan")
        plan, execute_plan = plan_factory()
        if plan.empty:
            message = f"{' '.join(plan.requirements)} is already installed"
            outcome = InstallOutcome(Result.UNCHANGED, ExitCode.OK, message, None, plan.target, plan)
        else:
            clock.begin("consent")
            require_consent(plan, consent)
            outcome = execute_plan(store, clock)
    return replace(outcome, recovered=recovered, phases=clock.phases())


def dry_run_plan(plan_factory: PlanFactory, clock: Clock) -> Plan:
    """The plan for a dry run, without the lock."""
    clock.begin("plan")
    with announcing_phases(clock):
        return plan_factory()[0]


def show_plan(plan: Plan, out: Output) -> None:
    """Prints the plan as the result of a command."""
    out.emit(plan, lambda: plan_lines(plan, verbose=out.verbose))


def require_consent(plan: Plan, consent: ConsentOptions) -> None:
    """Asks for consent, unless ``--yes``.

    Raises:
        ConsentNeeded: when it is declined, or there is no terminal to prompt on.
    """
    out = consent.out
    if plan.moves and not consent.allow_changes:
        show_plan(plan, out)
        raise ConsentNeeded(
            f"packages other than CuPy's would change: {', '.join(plan.moves)}; nothing was changed",
            "Pass --allow-changes, or install into a separate environment.",
        )
    if not consent.yes:
        show_plan(plan, out._replace(file=None))
        if not (sys.stdin is not None and sys.stdin.isatty() and not out.as_json):
            raise ConsentNeeded(
                "not a terminal, so cannot prompt; nothing was changed", "Pass --yes to accept the plan."
            )
        if not typer.confirm("Proceed?", err=True):
            raise ConsentNeeded("declined; nothing was changed")
    elif not out.as_json and not is_quiet():
        write_stderr(plan_lines(plan, verbose=out.verbose))  # standard output is for the result
