"""Finds the few lines of a text of any size that are worth searching; memory is bounded."""

from __future__ import annotations

import codecs
import re
from collections import Counter, deque
from collections.abc import Callable, Iterator
from functools import lru_cache

from gpuenv.explain.explanation_types import QuotedLine
from gpuenv.explain.normalize import clean, is_notation, unfolded
from gpuenv.model.redaction import MARGIN, cut_text

_PIECE = 1 << 20  # bytes that are looked at together
_LONGEST = 8192  # bytes of a line that are looked at together; a longer one is cut, with an overlap
_OVERLAP = 512
_WORD_END = re.compile(rb"[\s\"'&,;]")
_SHOWN = 500  # characters of a line that are kept
UNCUT = _SHOWN + MARGIN  # characters of a line that decide where it is cut
_WAITING = 3  # lines at the end that wait for the next: they may be wrapped
_NARROWEST = 38  # bytes of a line that a terminal may have cut
SEAM = "\v"  # between the lines after a line: no cleaned line has one
_WHOLE = 1 << 18  # bytes at the beginning of a text; all their lines are searched
_MOST_SEARCHED = 128 << 20  # bytes of new lines that are searched; then only the end of the text is added
_END = 16 << 20  # bytes
_COST_OF_A_LOOK = 8  # searches for literals in the same line that take as long
_KNOWN = 50_000  # lines that are not searched again,
_KNOWN_LENGTH = 512  # up to this length
_LOOKS = 64  # at lines that differ in digits only
_DIGITS = b"0123456789"
_TABLE = (b"|", b"+", b"-", b"=", b"*", b"#", b"\r")  # ends of lines that are as long as the next without being cut
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class LineFinder:
    """Reads a text in pieces of any size and yields each line worth searching, with the one after it.

    Args:
        worth: returns the pattern of the lower-case literals that make a line of a long text worth searching.

    Attributes:
        lines_read: how many lines were passed so far.
        skipped: how many bytes before the end of the text were not searched.

    A log repeats its lines with other numbers: a line like a known one is not searched, so that hundreds of megabytes
    take seconds. If even the new lines are too many, the rest of the text except its end is skipped.
    """

    def __init__(self, worth: Callable[[], re.Pattern[bytes]]) -> None:
        self._worth = worth
        self._rest = b""
        self.lines_read = 0
        self._passed = 0  # bytes, after decoding
        self._known: set[bytes] = set()
        self._looks: Counter[bytes] = Counter()
        self._cost = 0  # bytes that were searched, and more for lines that were looked at
        self._end: deque[bytes] = deque()  # pieces that wait, after that cost is too high
        self.skipped = 0
        self._is_begun = False
        self._decoder: codecs.IncrementalDecoder | None = None

    def feed(self, data: bytes) -> Iterator[tuple[QuotedLine, str]]:
        """Reads at most a MiB and yields from the lines that are complete."""
        data = self._decoded(data)
        if self._cost < _MOST_SEARCHED:
            yield from self._lines_in(data)
        else:
            self._wait(data)

    def _wait(self, data: bytes) -> None:
        """Keeps the last pieces."""
        self._end.append(data)
        while sum(map(len, self._end)) > _END + _PIECE:
            dropped = self._rest + self._end.popleft()
            self.lines_read += dropped.count(b"\n")
            self.skipped += len(dropped)
            self._rest = b""

    def _lines_in(self, data: bytes) -> Iterator[tuple[QuotedLine, str]]:
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        held = end
        for _ in range(_WAITING if end else 0):
            held = data.rfind(b"\n", 0, max(held - 1, 0)) + 1
        if held == 0 and len(data) >= _PIECE:
            held = end = len(data)  # a line without an end is taken as it comes
        self._rest = data[held:]
        yield from self._found(data[:end], held)

    def close(self) -> Iterator[tuple[QuotedLine, str]]:
        """The lines that are left at the end of the text."""
        if self.skipped:  # the first line is cut: what is left of a secret is not recognized
            cut = self._end[0].find(b"\n") + 1 or _LONGEST
            self.lines_read += self._end[0].count(b"\n", 0, cut)
            self._end[0] = self._end[0][cut:]
        while self._end:
            yield from self._lines_in(self._end.popleft())
        data, self._rest = self._rest, b""
        yield from self._found(data, len(data))
        if data and not data.endswith(b"\n"):
            self.lines_read += 1

    def _decoded(self, data: bytes) -> bytes:
        """UTF-16 as UTF-8; the null bytes of a UTF-16 text without a byte order mark, or of garbage, are dropped."""
        if not self._is_begun and data:
            name = next((name for mark, name in _BOMS if data.startswith(mark)), None)
            self._decoder = codecs.getincrementaldecoder(name)("replace") if name else None
            self._is_begun = True
        if self._decoder is not None:
            data = self._decoder.decode(data).encode("utf-8", "replace")
        return data.replace(b"\0", b"")

    def _found(self, data: bytes, until: int) -> Iterator[tuple[QuotedLine, str]]:
        """The lines worth a look that begin before ``until``; one after it serves as the next line only."""
        whole = min(until, max(0, _WHOLE - self._passed))
        counted = 0
        for start in self._starts(data, whole, until):
            self.lines_read += data.count(b"\n", counted, start)
            counted = start
            end = _end(data, start)
            self._cost += _COST_OF_A_LOOK * (end - start)
            after = _after(data, start, end)
            for texts in _unfolded(data[start:end]):
                for text, following in zip(texts, (*texts[1:], after), strict=True):
                    yield QuotedLine(self.lines_read + 1, text), following
        self.lines_read += data.count(b"\n", counted, until)
        self._passed += until

    def _starts(self, data: bytes, whole: int, until: int) -> Iterator[int]:
        """Yields the starts of all lines before ``whole``, and of those that are worth a look before ``until``."""
        if not until:
            return
        start = 0
        lines, shapes = data.split(b"\n"), data.translate(None, _DIGITS).split(b"\n")
        lines.append(b"")
        for number, shape in enumerate(shapes):
            if start >= until:
                break
            line = lines[number]
            if start < whole or (shape not in self._known and self._is_worth(line, lines[number + 1], shape)):
                yield start
            start += len(line) + 1

    def _is_worth(self, line: bytes, following: bytes, shape: bytes) -> bool:
        """Whether a line has a literal, which may continue in the next line or begin with a space before the line."""
        both = b"%b\n%b" % (line, following[:_LONGEST])
        if both in self._known:
            return False
        self._cost += len(both)
        match = self._worth().search(b" %b" % both.lower().replace(b"\n", b" "))
        is_worth = match is not None and match.start() <= len(line)
        if len(self._known) < _KNOWN and len(both) < _KNOWN_LENGTH:
            self._looks[shape] += is_worth
            self._known.add(both if is_worth and self._looks[shape] < _LOOKS else shape)
        return is_worth


def _end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _pieces(line: bytes) -> Iterator[bytes]:
    if len(line) <= _LONGEST:
        yield line
        return
    for start in range(0, len(line), _LONGEST - _OVERLAP):
        # A later piece begins with a whole word: the rest of a secret is not recognized.
        word = _WORD_END.search(line, start, start + _OVERLAP) if start else None
        yield line[word.end() if word else start : start + _LONGEST]


def _after(data: bytes, start: int, end: int) -> str:
    """The next line, and the ones after it if a terminal or a mail has broken all lines at one width.

    A terminal breaks lines within words, a mail between words; a seam separates the lines.
    """
    width = widest = last = end - start
    after: list[str] = []
    for _ in range(_WAITING):
        until = _end(data, end + 1)
        texts = _first_unfolded(data[end + 1 : min(until, end + 1 + _LONGEST)])
        text, wide = texts[0] if texts else "", until - end - 1
        widest = max(widest, wide)
        goes_on = last == width == wide if not after else last == width
        goes_on = goes_on or _is_full(last, text, widest)
        if goes_on or not after:
            after.append(text)
        if not goes_on or min(width, wide) < _NARROWEST or len(texts) > 1 or data[until - 1 : until] in _TABLE:
            break
        end, last = until, wide
    return SEAM.join(after)


def _is_full(width: int, following: str, widest: int) -> bool:
    """Whether a line of this width had no room for the first word of the next line."""
    word = following.split(" ", 1)[0]
    return bool(word) and width + 1 + len(word) > widest


def _unfolded(line: bytes) -> Iterator[list[str]]:
    """The lines in a line of a file, which may be a string with line ends, piece by piece."""
    notation = is_notation(line[:_LONGEST].decode("utf-8", "replace"))
    for piece in _pieces(line):
        text = piece.decode("utf-8", "replace")
        yield [clean(part) for part in unfolded(text, notation=notation)] if text else [""]


@lru_cache(maxsize=8)
def _first_unfolded(line: bytes) -> list[str]:
    """The lines in the first piece of a line; cached, since a line is read after each of several lines."""
    return next(_unfolded(line), [])


def truncated(text: str) -> str:
    """A line, shortened for output."""
    return cut_text(text, _SHOWN)
