"""Paths as text, where thousands of files are gone through and ``pathlib`` would cost seconds. Pure."""

from __future__ import annotations

import os


def is_inside(path: str, folder: str) -> bool:
    """Whether a normalised path is below a folder."""
    return path.startswith(folder.rstrip("/") + "/")


def below(path: str, folder: str) -> str:
    """A normalised path, relative to a folder."""
    start = folder.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else os.path.relpath(path, folder)
