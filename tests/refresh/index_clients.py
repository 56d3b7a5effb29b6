"""The two installers, with an index of this machine's own behind them."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from gpuenv.refresh.package_index import PipIndex, UvIndex
from tests.refresh.local_index import LocalIndex, serve
from tests.refresh.workspace import of_a_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def asking(kind: type[UvIndex | PipIndex], there: LocalIndex, folder: Path) -> Iterator[UvIndex | PipIndex]:
    """One of them, while the index is served."""
    server = serve(there)
    scratch = folder / "tmp"
    scratch.mkdir()
    program = (sys.executable, "-m", "uv" if kind is UvIndex else "pip")
    try:
        yield kind(program, of_a_user(there.address, folder), scratch)
    finally:
        server.shutdown()
        server.server_close()
