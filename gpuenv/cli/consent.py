"""Shows the plan of a change, and asks for consent to it."""

from __future__ import annotations

import sys
from typing import NamedTuple

import typer

from gpuenv.cli.command_errors import is_quiet
from gpuenv.cli.output import Output, write_stderr
from gpuenv.install.exceptions import ConsentNeeded
from gpuenv.install.plan import Plan
from gpuenv.install.plan_text import plan_lines


class ConsentOptions(NamedTuple):
    """What the user consents to, and how the plan and the result are shown."""

    out: Output
    yes: bool  # no prompt
    dry_run: bool  # only show the plan
    allow_changes: bool = False  # packages other than CuPy's may change
    offline: bool = False  # no network, also when recovering interrupted installs


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
