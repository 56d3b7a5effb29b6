"""A local index, and a workspace for refreshes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.refresh.local_index import LocalIndex, Wheel, serve, wheels
from tests.refresh.workspace import SMALL, Workspace, user_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def index_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Wheel]:
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    return {wheel.file: wheel for wheel in wheels(tmp_path_factory.mktemp("wheels"))}


@pytest.fixture
def index(index_files: dict[str, Wheel]) -> Iterator[LocalIndex]:
    local_index = LocalIndex(index_files)
    server = serve(local_index)
    yield local_index
    local_index.release.set()
    server.shutdown()
    server.server_close()


@pytest.fixture
def workspace(index: LocalIndex, tmp_path: Path) -> Workspace:
    matrix = tmp_path / "m.yaml"
    matrix.write_text(SMALL, encoding="utf-8")
    (tmp_path / "tmp").mkdir()
    return Workspace(matrix, user_environment(index.address, tmp_path))
