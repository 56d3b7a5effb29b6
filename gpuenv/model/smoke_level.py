"""Levels of the smoke tests."""

from __future__ import annotations

from enum import Enum


class SmokeLevel(str, Enum):
    """The value of ``--smoke``: ``quick`` takes seconds, ``deep`` minutes."""

    QUICK = "quick"
    NORMAL = "normal"
    DEEP = "deep"
