"""Clients of a local package index: uv and pip."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuenv.refresh.package_index import PipIndex, UvIndex
from tests.refresh.local_index import LocalIndex, serve
from tests.refresh.workspace import user_environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def index_client(kind: type[UvIndex | PipIndex], index: LocalIndex, folder: Path) -> Iterator[UvIndex | PipIndex]:
    """Serves an index and yields a client of it."""
    server = serve(index)
    scratch = folder / "tmp"
    scratch.mkdir()
    program = (sys.executable, "-m", "uv" if kind is UvIndex else "pip")
    try:
        yield kind(program, user_environment(index.address, folder), scratch)
    finally:
        server.shutdown()
        server.server_close()
