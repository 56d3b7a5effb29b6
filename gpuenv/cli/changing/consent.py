"""Shows a plan and asks for consent to it."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from gpuenv.cli.output import Output
    from gpuenv.install.plan import Plan


def show_plan(plan: Plan, out: Output) -> None:
    """The plan as the result of a command."""
    from gpuenv.install.text import plan_lines

    out.emit(plan, lambda: plan_lines(plan, verbose=out.verbose))


def agree(plan: Plan, out: Output, *, yes: bool, allow_changes: bool) -> None:
    """Consent, or the end.

    Args:
        plan: what would be done.
        out: where and how it is shown.
        yes: it was agreed to beforehand.
        allow_changes: packages that are not CuPy's may move.

    Raises:
        ConsentNeeded: when it is missing, refused, or nobody can be asked.
        InstallFailed: when there is no room for it.
    """
    _refuse_moves(plan, out, allow_changes=allow_changes)
    if yes:
        if not out.as_json:
            _show_beside(plan, out)
    else:
        _ask(plan, out)
    _refuse_without_room(plan)


def _refuse_moves(plan: Plan, out: Output, *, allow_changes: bool) -> None:
    from gpuenv.install.errors import ConsentNeeded

    if plan.moves and not allow_changes:
        show_plan(plan, out)
        raise ConsentNeeded(
            f"packages that are not CuPy's would change: {', '.join(plan.moves)}; nothing was changed",
            "Agree with --allow-changes, or install into an environment of its own.",
        )


def _ask(plan: Plan, out: Output) -> None:
    from gpuenv.install.errors import ConsentNeeded

    show_plan(plan, replace(out, file=None))
    if not (sys.stdin is not None and sys.stdin.isatty() and not out.as_json):
        raise ConsentNeeded("nobody can be asked here, and nothing was changed", "Agree to the plan with --yes.")
    if not typer.confirm("Go ahead?", err=True):
        raise ConsentNeeded("not agreed to; nothing was changed")


def _show_beside(plan: Plan, out: Output) -> None:
    """The plan that was agreed to beforehand, on standard error: the result alone goes to standard output."""
    from gpuenv.cli.output import write_stderr
    from gpuenv.install.text import plan_lines

    write_stderr(plan_lines(plan, verbose=out.verbose))


def _refuse_without_room(plan: Plan) -> None:
    from gpuenv.install.errors import InstallFailed
    from gpuenv.model.sizes import size_text

    space = plan.space
    if space.download is not None and space.free is not None and space.free < space.download:
        raise InstallFailed(
            f"{size_text(space.download)} are to be downloaded and {size_text(space.free)} are free",
            "Make room on the disk that the environment is on.",
        )
