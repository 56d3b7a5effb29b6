"""What codes, causes, messages and requirement keys mean, as text and as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuenv.doctor.registry import Explained
from gpuenv.explain.records import Signature
from gpuenv.model.causes import Cause
from gpuenv.model.documents import (
    CauseMeaning,
    CheckMeaning,
    ListedCheck,
    Meaning,
    RequirementKey,
    Requirements,
)
from gpuenv.preflight.requirement import KEYS
from gpuenv.report.lines import Line, Style
from gpuenv.report.text import fix_lines


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


def cause_lines(cause: Cause, checks: Sequence[Explained]) -> Iterator[Line]:
    """A cause, and every check that can name it; of one that no check looks for, what to do.

    Args:
        cause: which.
        checks: all there are.
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


def check_meaning(check: Explained) -> Meaning:
    """What a code means."""
    told = _check(check)
    return Meaning(check.code, "code", check.title, told.causes, (told,))


def plugin_meaning(code: str, package: str, text: str, complaint: str | None) -> Meaning:
    """What the check of another package says of itself."""
    title, _, rest = text.strip().partition("\n")
    sections = {"In its own words": rest.strip()} if rest.strip() else {}
    told = CheckMeaning(code, title, (), sections, package, complaint)
    return Meaning(code, "code", title, (), (told,))


def cause_meaning(cause: Cause, checks: Sequence[Explained]) -> Meaning:
    """What a cause means."""
    own = tuple(_check(check) for check in checks if cause in check.causes)
    return Meaning(
        subject=cause.value,
        kind="cause",
        title=cause.sentence,
        causes=(CauseMeaning(cause, cause.sentence),),
        checks=own,
        fix=() if own else cause.fix,
    )


def signature_meaning(signature: Signature) -> Meaning:
    """What a message of a program means."""
    return Meaning(
        subject=signature.name,
        kind="message",
        title=f"a message of {signature.scope}",
        causes=tuple(CauseMeaning(cause, cause.sentence) for cause, _ in signature.causes),
        source=signature.source,
        would_decide=signature.decides,
    )


def listed_checks(checks: Iterable[Explained]) -> tuple[ListedCheck, ...]:
    """The doctor's own checks."""
    return tuple(ListedCheck(check.code, check.title, check.causes) for check in checks)


def listed_requirements() -> Requirements:
    """The keys and the grammar."""
    keys = (RequirementKey(key.name, key.meaning, key.example, tuple(key.kind.operators)) for key in KEYS.values())
    return Requirements(tuple(keys), GRAMMAR)


def _check(check: Explained) -> CheckMeaning:
    causes = tuple(CauseMeaning(cause, cause.sentence) for cause in check.causes)
    return CheckMeaning(check.code, check.title, causes, check.sections)


GRAMMAR = (
    "requirement  a key and one or more comparisons, all of which must hold:",
    "             gpu>=1   cupy>=14,<15   driver==550   name~=H100|H200   nvlink",
    "comparison   >= <= == != > < or ~= and a value; a comma separates several",
    "on or off    such a key may stand alone, which means ==on",
    "words        | separates alternatives; ~= means that the word is part of it",
    "sizes        40GiB and 40G are binary, 40GB is decimal",
    "versions     are compared in as many parts as you give: driver==550 is every 550.x",
    "each GPU     what is said of a GPU must hold for every one that a program sees here",
    "unknown      what no source could tell is neither met nor violated: exit code 8",
)


def grammar_lines() -> Iterator[Line]:
    """The grammar, then one line a key."""
    yield Line("Grammar", Style.HEADING)
    for text in GRAMMAR:
        yield Line(f"  {text}", hang=15)
    yield Line()
    yield Line("Keys", Style.HEADING)
    width = max(len(key.example) for key in KEYS.values())
    for key in KEYS.values():
        yield Line(f"  {key.example:<{width}}  {key.meaning} ({' '.join(key.kind.operators)})", hang=width + 4)
    yield Line()
    yield Line("In pyproject.toml, or in gpuenv.toml without the first line:", Style.HEADING)
    yield Line("  [tool.gpuenv]")
    yield Line('  require = ["gpu>=1", "cc>=8.0", "memory>=40GiB"]')
