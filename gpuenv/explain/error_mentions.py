"""Recognizes lines that mention an error without reporting one: source code, change lists, tables of codes."""

from __future__ import annotations

import re

# A constant of CUDA's: what its headers and its documentation call an error.
_CONSTANT = (
    r"(?:cuda[A-Z]\w{2,60}|CUDA_(?:ERROR_\w{1,60}|SUCCESS)|CU[A-Z]{2,12}_STATUS_\w{1,60}|NV[A-Z]{2,12}_ERROR\w{0,60})"
)
# What a program would print or catch, and entries of a list of changes. A ``raise`` is left: a traceback that was cut
# may end with it.
_CODE = re.compile(
    r"\s*(?:(?:\w{1,40}\.){0,4}(?:log|logger|logging|warnings)\.(?:debug|info|warn|warning|error|exception|critical)\("
    r"|case [\w:.]{1,80}:|(?:static |const ){1,3}char\b|#\s?define |(?:std::)?f?printf\(|throw [\w:]{1,80}\("
    r"|with pytest\.raises\(|self\.assertRaises|except [\w.(), ]{1,120}:"
    r"|return f?[\"']|(?:\}\s*)?(?:else )?(?:el)?if\b.{1,160}(?:==|!=|\bin [({\[]).{1,160}[:{)]\s*(?:(?://|#).*)?$"
    r"|[-*+] (?:feat|fix|docs|chore|refactor|perf|test|ci|build)(?:\([\w./-]{1,40}\))?!?: )"
)
# What the documentation says of a constant, or a header: its number, and when a call would return it.
_TABLE = re.compile(
    rf"\W{{0,4}}{_CONSTANT}\W{{1,3}}= ?(?:0x)?\d{{1,5}}\b"
    rf"|\W{{0,4}}{_CONSTANT} ?(?:\(\d{{1,5}}\))?\W{{1,4}}"
    r"(?:this (?:error|status|code|result|return)\b|indicates\b"
    r"|(?:usually )?(?:returned (?:when|if|in case|where)|caused by)\b)"
    rf"|\W{{0,4}}{_CONSTANT} ?\(\d{{1,5}}\)\W{{1,4}}the \w.{{0,160}}\b(?:usually|is|are) returned\b"
    rf"|.{{0,200}}\b(?:returns?|one of|either) {_CONSTANT}(?:, {_CONSTANT}){{0,12}},? (?:or|and) {_CONSTANT}"
)


def is_mention_only(line: str) -> bool:
    """Whether a line only mentions errors; the evidence that it shows counts all the same."""
    return _CODE.match(line) is not None or _TABLE.match(line) is not None
