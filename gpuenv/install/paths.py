"""Paths as text, where thousands of files are gone through and ``pathlib`` costs seconds; and where journals lie."""

from __future__ import annotations

import os

JOURNALS = ".gpuenv"  # the folder in the root of an environment


def root_with_journals(interpreter: str) -> str | None:
    """The root of the environment that an interpreter belongs to, where there are journals; it may be gone itself."""
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(interpreter)))  # noqa: PTH100 - no links
    roots = (prefix, os.path.join(prefix, "local"))
    return next((root for root in roots if os.path.isdir(os.path.join(root, JOURNALS))), None)  # noqa: PTH112


def is_inside(path: str, folder: str) -> bool:
    """Whether a normalised path is below a folder."""
    return path.startswith(folder.rstrip("/") + "/")


def below(path: str, folder: str) -> str:
    """A normalised path, relative to a folder."""
    start = folder.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else os.path.relpath(path, folder)
