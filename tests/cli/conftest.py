"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.planted import machine, recording
from tests.cli.recorded import EVERY, record

__all__ = ["machine", "recording"]


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("recordings")
    return {name: record(snapshot, folder / f"{name}.json") for name, snapshot in EVERY.items()}
