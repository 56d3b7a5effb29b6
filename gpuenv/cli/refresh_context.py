"""The index client, folders and tools with which ``gpuenv matrix refresh`` measures."""

from __future__ import annotations

import os
import shutil
import sys
import time
from enum import Enum
from importlib.util import find_spec
from pathlib import Path

from gpuenv.cli.command_errors import CommandError, announce, announce_once, columns, is_quiet, progress
from gpuenv.cli.sources import own_environment
from gpuenv.clock import today
from gpuenv.files import own_folder, user_cache
from gpuenv.matrix.tables import Matrix
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import sanitize_line
from gpuenv.probe.interpreters import module_command
from gpuenv.refresh.binaries import find_cuobjdump
from gpuenv.refresh.minors import compile_stub
from gpuenv.refresh.package_index import Index, PipIndex, UvIndex
from gpuenv.refresh.row_edits import RefreshContext

_BAR_WIDTH = 20
_LINE_WIDTH = 79
_INTERVAL = 5.0  # seconds between lines about queries, without a terminal


class IndexClient(str, Enum):
    """The tool that reaches the package index."""

    UV = "uv"
    PIP = "pip"


def new_context(before: Matrix, scratch: Path, installer: IndexClient | None) -> RefreshContext:
    """The context of a refresh; announces the tools that are missing.

    Raises:
        CommandError: when there is neither uv nor pip, or not the named one.
    """
    environment = own_environment()
    stub = scratch / "stub"
    stub.mkdir()
    has_stub = compile_stub(stub, environment)
    if not has_stub:
        announce("no C compiler found: which drivers a cudart accepts is not measured")
    cuobjdump = find_cuobjdump(environment)
    if cuobjdump is None:
        announce("cuobjdump was not found: only gpuenv's own reader reads the GPU code")
    return RefreshContext(
        index=_index(installer, environment, scratch),
        environment=environment,
        cache=(own_folder(user_cache(os.environ), announce_once) or scratch) / "refresh",
        scratch=scratch,
        today=today(),
        progress=ProgressBar(),
        cuobjdump=cuobjdump,
        stub=stub if has_stub else None,
        levels=tuple(sorted({row.cuda for row in before.driver_branches} | {row.cuda for row in before.cuda_minors})),
    )


def _index(installer: IndexClient | None, environment: dict[str, str], scratch: Path) -> Index:
    """The named index client, else uv if installed, else pip."""
    uv, pip = _program("uv"), _program("pip")
    if uv and installer is not IndexClient.PIP:
        return UvIndex(uv, environment, scratch)
    if pip and installer is not IndexClient.UV:
        return PipIndex(pip, environment, scratch)
    name = installer.value if installer else "uv or pip"
    raise CommandError(ExitCode.COULD_NOT_CHECK, f"refreshing the matrix needs {name}", "python -m pip install uv")


def _program(name: str) -> tuple[str, ...]:
    if find_spec(name) is not None:
        return module_command(sys.executable, name)
    program = shutil.which(name)
    return (program,) if program else ()


class ProgressBar:
    """Shows the number of answered queries, then that of finished pieces with their size and time.

    A bar on a terminal; elsewhere a line for each piece, and for queries one every few seconds.
    """

    def __init__(self) -> None:
        self._drawn = sys.stderr is not None and sys.stderr.isatty() and not is_quiet()
        self._pieces = self._begun = self._fetched = self._queries = self._answered = 0
        self._size: int | None = None
        self._started = self._shown = time.monotonic()

    def _say(self, text: str) -> None:
        self._clear()
        progress(text)

    def start_queries(self, count: int, subject: str) -> None:
        """Announces the number of queries."""
        self._queries, self._answered = count, 0
        self._started = self._shown = time.monotonic()
        self._say(f"querying {subject}: {_counted_queries(count)}")

    def answered(self) -> None:
        """Counts an answered query."""
        self._answered += 1
        now = time.monotonic()
        is_last = self._answered == self._queries
        if self._drawn and not is_last:
            self._draw(self._answered / self._queries, f"{self._answered}/{self._queries}", "queries")
        elif is_last or now - self._shown >= _INTERVAL:
            self._shown = now
            self._say(f"answered: {self._answered} of {_counted_queries(self._queries)}, {now - self._started:.0f} s")

    def start(self, pieces: int, size: int | None) -> None:
        """Announces the number of pieces and the size of the download."""
        self._pieces, self._size, self._started = pieces, size, time.monotonic()
        cost = "an unknown size" if size is None else _megabytes(size)
        self._say(f"to measure: {pieces}; to download, except cached files: {cost}")

    def measure(self, name: str, size: int | None) -> None:
        """Announces the next piece; the ones before it are finished."""
        done = self._begun
        self._begun += 1
        cost = "" if size is None else f" ({_megabytes(size)})"
        if self._drawn:
            share = self._fetched / self._size if self._size else done / max(self._pieces, 1)
            self._draw(share, f"{done}/{self._pieces}", f"{name}{cost}")
        else:
            progress(f"{self._begun}/{self._pieces} {name}{cost}: downloading and measuring")
        self._fetched += size or 0

    def end(self) -> None:
        """Announces the totals."""
        self._clear()
        if self._begun:
            duration = f"{time.monotonic() - self._started:.0f} s"
            progress(f"measured: {self._begun}; downloaded: {_megabytes(self._fetched)}; took {duration}")

    def _draw(self, share: float, count: str, text: str) -> None:
        filled = min(int(share * _BAR_WIDTH), _BAR_WIDTH)
        seconds = int(time.monotonic() - self._started)
        bar, duration = "#" * filled, f"{seconds // 60}:{seconds % 60:02d}"
        line = sanitize_line(f"[{bar:.<{_BAR_WIDTH}}] {count} {duration} {text}")
        width = _width()
        sys.stderr.write(f"\r{line[:width]:<{width}}")
        sys.stderr.flush()

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write(f"\r{'':<{_width()}}\r")


def _width() -> int:
    """The columns of a line that is not wrapped."""
    return min(_LINE_WIDTH, columns() - 1)


def _megabytes(size: int) -> str:
    """``142 MB``."""
    return f"{size / 1e6:.0f} MB"


def _counted_queries(count: int) -> str:
    """``1 query``, ``2 queries``."""
    return "1 query" if count == 1 else f"{count} queries"
