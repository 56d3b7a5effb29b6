"""Patterns of assertions in prose: a fix and the verb that affirms it, without a word between that negates it."""

from __future__ import annotations

_DENIED = (
    r"(?:n['\u2019]t|not|no|none|nothing|nobody|never|neither|nor|cannot|without|hardly|barely|fail(?:s|ed)?"
    r"|should|might|may|could|whether|see if|hop(?:e|ing))\b"
)
# What follows the verb: "fixed nothing", "works no better", "works as before".
AFTER = r"(?! (?:nothing|no|none|neither|not|never|as before|just the same)\b)"
WORKS = rf"\b(?:works?|helps?|fix(?:es|ed)|cures?|cured|solves?|brings? .{{0,20}}back|suffices?|repairs?|restores?|OK\b|is fine|succeeds?|PASS)\b{AFTER}"

# With how many GPUs something comes, and where it does not.
SEVERAL = r"(?:multi(?:ple)?[- ]?GPUs?|(?:several|more than one|two or more|two|three|four|eight|many|[2-8]|all|both) (?:\w+ )?(?:GPUs?|devices?|cards?))\b"
SINGLE = r"(?:(?:single|one|1)[- ](?:GPU|device|card)|CUDA_VISIBLE_DEVICES=0)"
GOOD = r"(?:works?|fine|OK|passes|correct|right|no (?:errors?|problems?|issues?)|not happen|n't happen)\b"


def gap(most: int, *excluded: str) -> str:
    """Up to so many characters that deny nothing, and hold none of the patterns that are named."""
    barred = "|".join((rf"(?<![a-z])(?:{_DENIED})", r"n['\u2019]t\b", *excluded))
    return rf"(?:(?!{barred})[^\n]){{0,{most}}}"
