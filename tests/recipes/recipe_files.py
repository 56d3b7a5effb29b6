"""Reads the shipped recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import gpuenv

RECIPES = Path(gpuenv.__file__).parent / "recipes"


def read_text(path: str) -> str:
    return (RECIPES / path).read_text(encoding="utf-8")


def read_yaml(path: str) -> Any:  # noqa: ANN401 - YAML
    return yaml.safe_load(read_text(path))
