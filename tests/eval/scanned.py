"""The many texts of the tests, each looked through once a test run: that takes seconds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gpuenv.explain.explainer import explanation
from gpuenv.explain.scan import Scanner, scan

if TYPE_CHECKING:
    from gpuenv.explain.explanation_types import Explanation


@cache
def scanned(text: bytes) -> Scanner:
    return scan(text)


@cache
def explained(text: bytes) -> Explanation:
    return explanation(scanned(text))
