"""The index and the bench of the whole refreshes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.refresh.local_index import LocalIndex, Wheel, serve, wheels
from tests.refresh.workspace import SMALL, Bench, of_a_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Wheel]:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    return {wheel.file: wheel for wheel in wheels(tmp_path_factory.mktemp("wheels"))}


@pytest.fixture
def index(made: dict[str, Wheel]) -> Iterator[LocalIndex]:
    here = LocalIndex(made)
    server = serve(here)
    yield here
    here.release.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def bench(index: LocalIndex, tmp_path: Path) -> Bench:
    matrix = tmp_path / "m.yaml"
    matrix.write_text(SMALL, encoding="utf-8")
    (tmp_path / "tmp").mkdir()
    return Bench(matrix, of_a_user(index.address, tmp_path))
