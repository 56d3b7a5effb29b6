"""The progress of ``gpuenv matrix refresh``, as a bar on a terminal or as lines."""

from __future__ import annotations

import sys
import time

from gpuenv.cli.command_errors import columns, is_quiet, progress
from gpuenv.model.strings import sanitize_line

_BAR_WIDTH = 20
_LINE_WIDTH = 79
_INTERVAL = 5.0  # seconds between lines about queries, without a terminal


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
