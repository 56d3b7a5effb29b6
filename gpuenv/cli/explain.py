"""``gpuenv explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from gpuenv.cli import options
from gpuenv.cli.errors import CommandError
from gpuenv.model.exit_codes import ExitCode


def explain(
    what: Annotated[
        str, typer.Argument(metavar="CODE|CAUSE", help="A code such as DRV106, or a cause such as no-driver.")
    ],
    no_color: options.NoColor = False,
) -> None:
    """Say what a code or a cause means, how it is seen, and what to do."""
    import difflib

    from gpuenv.cli.output import emit_lines
    from gpuenv.doctor.registry import all_checks
    from gpuenv.model.causes import Cause
    from gpuenv.report.explained import cause_lines, check_lines

    checks = {check.code: check for check in all_checks()}
    causes = {cause.value: cause for cause in Cause}
    if what.upper() in checks:
        emit_lines(check_lines(checks[what.upper()]), None, color=not no_color)
    elif what.lower() in causes:
        emit_lines(cause_lines(causes[what.lower()], tuple(checks.values())), None, color=not no_color)
    else:
        near = difflib.get_close_matches(what.lower(), [*causes, *(code.lower() for code in checks)], 3)
        raise CommandError(
            ExitCode.USAGE, f"{what} is no code and no cause", f"did you mean {', '.join(near)}?" if near else None
        )
