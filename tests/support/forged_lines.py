"""Texts that forge a line of output or a command in a log of CI, and what an output may contain."""

from __future__ import annotations

import re
import unicodedata

BREAKS = ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
COMMANDS = (
    "::error file=a.py,line=1::forged",
    " \u3000::add-mask::forged",
    "##[add-mask]forged",
    "\t##[error]forged",
    "##vso[task.setvariable variable=PATH]forged",
    "##teamcity[buildStatus status='SUCCESS' text='forged']",
    "section_start:1700000000:forged\r\x1b[0Kforged",
    "forged: FIT",
)
CONTROLS = (
    "\x00\x07\x08\x1b[2J\x1b]0;title\x07\x7f\x9b31m\xad\u061c\u180e\u200b\u202e\u2066\u2060\ufeff\ufff9\U000e0041"
)
FORGED = CONTROLS + "".join(f"{pause}{command}" for pause in BREAKS for command in COMMANDS)
ONE_LINE = f"##[add-mask]forged ##vso[task.setvariable]forged ##teamcity[forged {CONTROLS.replace(chr(0), '')}"
SHORT = "\n::error::forged\r##[add-mask]forged\u2028##vso[task.complete]forged\n forged: FIT"  # for what is shown cut

_BREAK = re.compile("\r\n|[" + "".join(BREAKS) + "]")
_COMMAND = re.compile(r"\s*(?:::|section_(?:start|end):|forged)|.*##\w*\[", re.DOTALL)
_HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}  # categories of controls, of characters without a form, and of line breaks


def forged_lines(text: str, own: str | None = None) -> list[str]:
    """The lines that are commands, except those that begin with ``own``, and those with control characters."""
    return [
        line
        for line in text.split("\n")
        if any(unicodedata.category(character) in _HIDDEN for character in line)
        or any(_COMMAND.match(part.removeprefix(own) if own else part) is not None for part in _BREAK.split(line))
    ]
