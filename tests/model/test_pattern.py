"""Regular expressions that are compiled on first use."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.model.strings import pattern

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = r"(\w+)-(\d+)"
USES: tuple[Callable[[Any], object], ...] = (
    lambda form: form.fullmatch("Ab-12")[2],
    lambda form: form.findall("a-1 b-2"),
    lambda form: form.sub(r"\2", "a-1"),
    lambda form: (form.pattern, form.flags, form.groups),
)


@pytest.mark.parametrize("use", USES)
def test_a_lazy_pattern_equals_a_compiled_one(use: Callable[[Any], object]) -> None:
    late = pattern(TEXT, re.IGNORECASE)
    assert use(late) == use(re.compile(TEXT, re.IGNORECASE)) == use(late)


def test_an_unknown_attribute_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lookup'"):
        pattern(TEXT).lookup  # type: ignore[attr-defined]  # noqa: B018 - it raises


def test_a_pattern_is_compiled_on_first_use() -> None:
    script = (
        "import re, gpuenv.model.strings as p\n"
        "late = p.pattern('(')\n"
        "try: late.search('a')\n"
        "except re.error as error: print(error)\n"
    )
    output = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "unterminated subpattern" in output
