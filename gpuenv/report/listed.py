"""The records of what a word means and of what there is, beside the lines of text that say the same. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuenv.doctor.registry import Explained
from gpuenv.explain.records import Signature
from gpuenv.model.causes import Cause
from gpuenv.model.listing import (
    CauseMeaning,
    CheckMeaning,
    ListedCheck,
    ListedKey,
    Meaning,
    Requirements,
)
from gpuenv.preflight.keys import KEYS
from gpuenv.report.required import GRAMMAR


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


def cause_meaning(cause: Cause, checks: Sequence[Explained], *, has_demonstration: bool) -> Meaning:
    """What a cause means."""
    own = tuple(_check(check) for check in checks if cause in check.causes)
    return Meaning(
        subject=cause.value,
        kind="cause",
        title=cause.sentence,
        causes=(CauseMeaning(cause, cause.sentence),),
        checks=own,
        fix=() if own else cause.fix,
        demonstration=("gpuenv", "smoke", "--demo", cause.value) if has_demonstration else None,
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
    keys = (ListedKey(key.name, key.meaning, key.example, tuple(key.kind.operators)) for key in KEYS.values())
    return Requirements(tuple(keys), GRAMMAR)


def _check(check: Explained) -> CheckMeaning:
    causes = tuple(CauseMeaning(cause, cause.sentence) for cause in check.causes)
    return CheckMeaning(check.code, check.title, causes, check.sections)
