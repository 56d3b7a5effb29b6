"""Cached scans of the texts that several tests use, which take seconds."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gpuenv.explain.explainer import explanation
from gpuenv.explain.match import Scanner, scan

if TYPE_CHECKING:
    from gpuenv.explain.explanation_types import Explanation


@cache
def cached_scan(text: bytes) -> Scanner:
    return scan(text)


@cache
def cached_explanation(text: bytes) -> Explanation:
    return explanation(cached_scan(text))
