"""What a check or a cause means, as lines of text: the words are the check's own docstring. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuenv.doctor.registry import Explained
from gpuenv.explain.records import Signature
from gpuenv.model.causes import Cause
from gpuenv.report.text import Line, Style, command_text, fix_lines


def check_lines(check: Explained) -> Iterator[Line]:
    """A check: its title, its causes and its three sections."""
    yield Line(f"{check.code}: {check.title}", Style.HEADING)
    for cause in check.causes:
        yield Line(f"  {cause}: {cause.sentence}", Style.QUIET, 4)
    for name, text in check.sections.items():
        yield Line()
        yield Line(f"{name}: {text}", hang=2)


def plugin_lines(code: str, package: str, function: str, text: str, complaint: str | None) -> Iterator[Line]:
    """A check of another package, in its own words.

    Args:
        code: its code.
        package: the distribution that brings it, with its version.
        function: where its function is.
        text: its docstring.
        complaint: why it could not be asked.
    """
    title, _, rest = text.strip().partition("\n")
    yield Line(f"{code}: {title or 'a check without a description'}", Style.HEADING)
    yield Line(f"  brought by {package} ({function})", Style.QUIET, 4)
    if complaint is not None:
        yield Line(f"  The plug-in could not be asked what it means: it {complaint}.", Style.BAD, 4)
    for paragraph in filter(None, (line.strip() for line in rest.split("\n"))):
        yield Line()
        yield Line(paragraph, hang=2)


def cause_lines(cause: Cause, checks: Sequence[Explained], *, has_demonstration: bool) -> Iterator[Line]:
    """A cause, and every check that can name it; of one that no check looks for, what to do.

    Args:
        cause: which.
        checks: all there are.
        has_demonstration: whether ``gpuenv smoke --demo`` shows it.
    """
    yield Line(f"{cause}: {cause.sentence}.", Style.HEADING, 2)
    own = [check for check in checks if cause in check.causes]
    for check in own:
        yield Line()
        yield from check_lines(check)
    if not own:
        yield Line()
        yield Line("How it is seen: by what a program says when it fails; no check looks for it.", hang=2)
        yield Line()
        yield Line("What to do:")
        yield from fix_lines(cause.fix)
    if has_demonstration:
        yield Line()
        yield Line("The mistake and its cure, side by side:")
        yield Line(f"  $ {command_text(['gpuenv', 'smoke', '--demo', cause.value])}", Style.COMMAND, 4)


def list_lines(checks: Sequence[Explained]) -> Iterator[Line]:
    """Every check with its title and the causes that it can name."""
    for check in checks:
        yield Line(f"{check.code}  {check.title}", hang=8)
        yield Line(f"        {', '.join(check.causes)}", Style.QUIET, 8)


def signature_lines(signature: Signature) -> Iterator[Line]:
    """A message of a program: who prints it, and the causes it can have."""
    yield Line(f"{signature.name}: a message of {signature.scope}", Style.HEADING)
    for cause, weight in signature.causes:
        yield Line(f"  {cause} ({weight:.0%} where nothing else is known): {cause.sentence}", hang=4)
    yield Line(f"  read from: {signature.source}", Style.QUIET, 4)
    if signature.decides:
        yield Line(f"  It would be decided by: {signature.decides}.", hang=4)
