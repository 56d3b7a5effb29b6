"""Fixtures of the command-line tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.identities import machine, snapshot_file
from tests.cli.snapshots import SNAPSHOTS, write_snapshot

__all__ = ["machine", "snapshot_file"]


@pytest.fixture(scope="session")
def snapshot_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("snapshots")
    return {name: write_snapshot(snapshot, folder / f"{name}.json") for name, snapshot in SNAPSHOTS.items()}
