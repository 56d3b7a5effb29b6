"""What is compiled late answers as what is compiled at once."""

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
ASKED: tuple[Callable[[Any], object], ...] = (
    lambda form: form.fullmatch("Ab-12")[2],
    lambda form: form.findall("a-1 b-2"),
    lambda form: form.sub(r"\2", "a-1"),
    lambda form: (form.pattern, form.flags, form.groups),
)


@pytest.mark.parametrize("asked", ASKED)
def test_both_answer_alike(asked: Callable[[Any], object]) -> None:
    late = pattern(TEXT, re.IGNORECASE)
    assert asked(late) == asked(re.compile(TEXT, re.IGNORECASE)) == asked(late)


def test_what_no_expression_has_is_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lookup'"):
        pattern(TEXT).lookup  # type: ignore[attr-defined]  # noqa: B018 - the question is what is raised


def test_nothing_is_compiled_before_it_is_used() -> None:
    script = (
        "import re, gpuenv.model.strings as p\n"
        "late = p.pattern('(')\n"
        "try: late.search('a')\n"
        "except re.error as error: print(error)\n"
    )
    told = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "unterminated subpattern" in told
