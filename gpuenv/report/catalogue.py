"""Descriptions of codes, causes, messages and requirement keys, as text and as records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuenv.doctor.registry import DocumentedCheck
from gpuenv.explain.messages import Message
from gpuenv.model.causes import Cause
from gpuenv.model.documents import (
    CauseMeaning,
    CheckMeaning,
    ListedCheck,
    Meaning,
    RequirementKey,
    Requirements,
)
from gpuenv.preflight.requirements import KEYS
from gpuenv.report.text import fix_lines
from gpuenv.report.text_line import Style, TextLine


def check_lines(check: DocumentedCheck) -> Iterator[TextLine]:
    """A check: its title, its causes and its three sections."""
    yield TextLine(f"{check.code}: {check.title}", Style.HEADING)
    for cause in check.causes:
        yield TextLine(f"  {cause}: {cause.sentence}", Style.QUIET, 4)
    for name, text in check.sections.items():
        yield TextLine()
        yield TextLine(f"{name}: {text}", hang=2)


def plugin_lines(code: str, package: str, function: str, text: str, complaint: str | None) -> Iterator[TextLine]:
    """A check of a plug-in: ``text`` is its docstring, ``complaint`` why that could not be read."""
    title, _, rest = text.strip().partition("\n")
    yield TextLine(f"{code}: {title or 'a check without a description'}", Style.HEADING)
    yield TextLine(f"  provided by {package} ({function})", Style.QUIET, 4)
    if complaint is not None:
        yield TextLine(f"  The plug-in did not describe this check: it {complaint}.", Style.BAD, 4)
    for paragraph in filter(None, (line.strip() for line in rest.split("\n"))):
        yield TextLine()
        yield TextLine(paragraph, hang=2)


def cause_lines(cause: Cause, checks: Sequence[DocumentedCheck]) -> Iterator[TextLine]:
    """A cause, and every check that reports it; the fix of the cause if no check does."""
    yield TextLine(f"{cause}: {cause.sentence}.", Style.HEADING, 2)
    reporting = [check for check in checks if cause in check.causes]
    for check in reporting:
        yield TextLine()
        yield from check_lines(check)
    if not reporting:
        yield TextLine()
        yield TextLine("How it is detected: by the error message of a program; no check detects it.", hang=2)
        yield TextLine()
        yield TextLine("What to do:")
        yield from fix_lines(cause.fix)


def list_lines(checks: Sequence[DocumentedCheck]) -> Iterator[TextLine]:
    """Every check with its title and the causes that it reports."""
    for check in checks:
        yield TextLine(f"{check.code}  {check.title}", hang=8)
        yield TextLine(f"        {', '.join(check.causes)}", Style.QUIET, 8)


def message_lines(message: Message) -> Iterator[TextLine]:
    """A known error message: its program and its possible causes."""
    yield TextLine(f"{message.id}: a known error message", Style.HEADING)
    for cause, weight in message.causes.items():
        yield TextLine(f"  {cause} ({weight:.0%} without other evidence): {cause.sentence}", hang=4)
    yield TextLine(f"  source: {message.source}", Style.QUIET, 4)
    if message.decided_by:
        yield TextLine(f"  To settle this, check: {message.decided_by}.", hang=4)
    if message.fix:
        yield TextLine()
        yield TextLine("What to do:")
        yield from fix_lines(message.fix)


def check_meaning(check: DocumentedCheck) -> Meaning:
    """The description of a check's code."""
    meaning = _check_meaning(check)
    return Meaning(check.code, "code", check.title, meaning.causes, (meaning,))


def plugin_meaning(code: str, package: str, text: str, complaint: str | None) -> Meaning:
    """The description of a plug-in's check, from its docstring."""
    title, _, rest = text.strip().partition("\n")
    sections = {"In its own words": rest.strip()} if rest.strip() else {}
    meaning = CheckMeaning(code, title, (), sections, package, complaint)
    return Meaning(code, "code", title, (), (meaning,))


def cause_meaning(cause: Cause, checks: Sequence[DocumentedCheck]) -> Meaning:
    """The description of a cause."""
    reporting = tuple(_check_meaning(check) for check in checks if cause in check.causes)
    return Meaning(
        subject=cause.value,
        kind="cause",
        title=cause.sentence,
        causes=(CauseMeaning(cause, cause.sentence),),
        checks=reporting,
        fix=() if reporting else cause.fix,
    )


def message_meaning(message: Message) -> Meaning:
    """The description of a known error message."""
    return Meaning(
        subject=message.id,
        kind="message",
        title="a known error message",
        causes=tuple(CauseMeaning(cause, cause.sentence) for cause in message.causes),
        source=message.source,
        would_decide=message.decided_by,
        fix=message.fix,
    )


def listed_checks(checks: Iterable[DocumentedCheck]) -> tuple[ListedCheck, ...]:
    """The built-in checks."""
    return tuple(ListedCheck(check.code, check.title, check.causes) for check in checks)


def listed_requirements() -> Requirements:
    """The keys and the grammar of requirements."""
    keys = (
        RequirementKey(key.name, key.meaning, key.example, tuple(key.value_type.operators)) for key in KEYS.values()
    )
    return Requirements(tuple(keys), GRAMMAR)


def _check_meaning(check: DocumentedCheck) -> CheckMeaning:
    causes = tuple(CauseMeaning(cause, cause.sentence) for cause in check.causes)
    return CheckMeaning(check.code, check.title, causes, check.sections)


GRAMMAR = (
    "requirement  a key and one or more comparisons, which must all hold:",
    "             gpu>=1   cupy>=14,<15   driver==550   name~=H100|H200   nvlink",
    "comparison   >= <= == != > < or ~= and a value; a comma separates several",
    "on or off    the key alone means ==on",
    "names        | separates alternatives; ~= matches a part of the name",
    "sizes        40GiB and 40G are binary, 40GB is decimal",
    "versions     are compared to the precision written: driver==550 matches every 550.x",
    "each GPU     a requirement on a GPU must hold for every GPU visible to a program",
    "unknown      a fact that no source reports is neither met nor violated: exit code 8",
)


def grammar_lines() -> Iterator[TextLine]:
    """The grammar, then one line per key."""
    yield TextLine("Grammar", Style.HEADING)
    for text in GRAMMAR:
        yield TextLine(f"  {text}", hang=15)
    yield TextLine()
    yield TextLine("Keys", Style.HEADING)
    width = max(len(key.example) for key in KEYS.values())
    for key in KEYS.values():
        yield TextLine(
            f"  {key.example:<{width}}  {key.meaning} ({' '.join(key.value_type.operators)})", hang=width + 4
        )
    yield TextLine()
    yield TextLine("In pyproject.toml, or in gpuenv.toml without the first line:", Style.HEADING)
    yield TextLine("  [tool.gpuenv]")
    yield TextLine('  require = ["gpu>=1", "cc>=8.0", "memory>=40GiB"]')
