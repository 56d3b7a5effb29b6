"""The folders of a user: where gpuenv keeps what it makes, by the rules of the operating system, and the home."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_NAME = "gpuenv"


def user_data(environment: Mapping[str, str]) -> Path | None:
    """The folder of the user's data; None where there is no home."""
    return _folder(environment, "XDG_DATA_HOME", ".local/share", "Library/Application Support")


def user_cache(environment: Mapping[str, str]) -> Path | None:
    """The folder of what can be made again; None where there is no home."""
    return _folder(environment, "XDG_CACHE_HOME", ".cache", "Library/Caches")


def user_matrix(environment: Mapping[str, str]) -> Path | None:
    """The refreshed matrix of a user; it need not exist."""
    folder = user_data(environment)
    return folder / "matrix.yaml" if folder else None


def home_folder(environment: Mapping[str, str]) -> Path:
    """The home, as programs find it where HOME does not say; ``~`` where there is none."""
    return Path(environment.get("HOME") or os.path.expanduser("~"))  # noqa: PTH111 - no error without a home


def _folder(environment: Mapping[str, str], variable: str, usual: str, on_macos: str) -> Path | None:
    told = environment.get(variable, "")
    if os.path.isabs(told):  # noqa: PTH117 - relative ones are to be ignored, says the XDG specification
        return Path(told) / _NAME
    if sys.platform == "win32":
        local = environment.get("LOCALAPPDATA")
        return Path(local) / _NAME if local else None
    home = environment.get("HOME")
    if not home:
        return None
    return Path(home) / (on_macos if sys.platform == "darwin" else usual) / _NAME
