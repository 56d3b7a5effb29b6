"""The recipes as they are shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import gpuenv

RECIPES = Path(gpuenv.__file__).parent / "recipes"


def text(path: str) -> str:
    return (RECIPES / path).read_text(encoding="utf-8")


def read(path: str) -> Any:  # noqa: ANN401 - YAML
    return yaml.safe_load(text(path))
