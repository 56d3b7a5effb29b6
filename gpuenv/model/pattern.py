"""``pattern`` for regular expressions of modules: compiled where they are first used.

Compiling one takes as long as defining a class or two. The doctor imports seventy, and a sound machine needs a third of
them.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # this is imported before the first child is started: typing takes as long as that
if TYPE_CHECKING:
    from typing import Any


class _Pattern:
    """What ``re.compile`` gives, made at the first question to it."""

    def __init__(self, text: str, flags: int = 0) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of a compiled expression
        answer = getattr(re.compile(*self._given), name)
        setattr(self, name, answer)  # the next time, nobody comes here
        return answer


if TYPE_CHECKING:
    pattern = re.compile  # so the type checker takes it for the real one
else:
    pattern = _Pattern
