"""The grammar of requirements and every key, as lines of text. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from gpuenv.preflight.keys import KEYS
from gpuenv.report.text import Line, Style

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
