"""Fixtures of the probe's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.probe.venvs import make_venv


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    """A new virtual environment."""
    return make_venv(tmp_path / "venv")
