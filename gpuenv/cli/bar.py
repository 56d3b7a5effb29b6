"""How far a refresh is, on standard error: a bar on a terminal, a line a piece elsewhere. ASCII, 79 columns at most."""

from __future__ import annotations

import sys
import time

from gpuenv.cli.announce import announce, columns

_BAR = 20
_WIDTH = 79


class Bar:
    """Tells how many pieces are done, what they cost in bytes and seconds, and which one is under way."""

    def __init__(self) -> None:
        self._drawn = sys.stderr is not None and sys.stderr.isatty()
        self._pieces = self._begun = self._fetched = 0
        self._size: int | None = None
        self._started = time.monotonic()

    def say(self, text: str) -> None:
        """A sentence of its own."""
        self._clear()
        announce(text)

    def start(self, pieces: int, size: int | None) -> None:
        """The work and what it costs."""
        self._pieces, self._size, self._started = pieces, size, time.monotonic()
        cost = "an amount that the index does not tell" if size is None else megabytes(size)
        self.say(f"to be measured: {pieces}; to be downloaded, what is cached apart: {cost}")

    def piece(self, name: str, size: int | None) -> None:
        """A piece begins; those before it are done."""
        self._begun += 1
        cost = "" if size is None else f" ({megabytes(size)})"
        if self._drawn:
            self._draw(f"{name}{cost}")
        else:
            announce(f"{self._begun}/{self._pieces} {name}{cost}: downloading and measuring")
        self._fetched += size or 0

    def end(self) -> None:
        """All are done."""
        self._clear()
        if self._begun:
            took = f"{time.monotonic() - self._started:.0f} s"
            announce(f"measured: {self._begun}; downloaded: {megabytes(self._fetched)}; took {took}")

    def _draw(self, text: str) -> None:
        done = self._begun - 1
        share = self._fetched / self._size if self._size else done / max(self._pieces, 1)
        filled = min(int(share * _BAR), _BAR)
        took = int(time.monotonic() - self._started)
        bar = f"[{'#' * filled}{'.' * (_BAR - filled)}] {done}/{self._pieces} {took // 60}:{took % 60:02d} {text}"
        width = _width()
        sys.stderr.write(f"\r{bar[:width]:<{width}}")
        sys.stderr.flush()

    def _clear(self) -> None:
        if self._drawn:
            sys.stderr.write(f"\r{'':<{_width()}}\r")


def _width() -> int:
    """Columns that a line may take without being broken."""
    return min(_WIDTH, columns() - 1)


def megabytes(size: int) -> str:
    """``142 MB``."""
    return f"{size / 1e6:.0f} MB"
