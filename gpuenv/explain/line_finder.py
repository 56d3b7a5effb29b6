"""Extracts from bytes of any kind and length the few lines worth a look; memory is bounded."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from itertools import chain

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
_WHOLE = 1 << 18  # bytes at the beginning of a text of which every line is looked at
_TABLE = (b"|", b"+", b"-", b"=", b"*", b"#", b"\r")  # ends of lines that are as long as the next without being cut
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


class LineFinder:
    """Takes a text in pieces of any size and yields, for each line worth a look, itself and the one after it.

    Args:
        worth: makes the pattern of what, in lower case, makes a line of a long text worth a look. It is searched for
            in many lines at once, which is what makes a log of hundreds of megabytes bearable.
    """

    def __init__(self, worth: Callable[[], re.Pattern[bytes]]) -> None:
        self._worth = worth
        self._rest = b""
        self._lines = 0  # that have been passed
        self._passed = 0  # bytes, after decoding
        self._is_begun = False
        self._decoder: codecs.IncrementalDecoder | None = None

    @property
    def lines_read(self) -> int:
        """How many lines were passed so far."""
        return self._lines

    def feed(self, data: bytes) -> Iterator[tuple[QuotedLine, str]]:
        """Lines that are complete by now; at most a MiB may be given at once."""
        data = self._rest + self._decoded(data)
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
        data, self._rest = self._rest, b""
        yield from self._found(data, len(data))
        if data and not data.endswith(b"\n"):
            self._lines += 1

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
        starts = chain(self._all_starts(data, whole), self._starts(data, whole, until))
        counted = 0
        for start in starts:
            self._lines += data.count(b"\n", counted, start)
            counted = start
            end = _end(data, start)
            after = _after(data, start, end)
            for texts in _unfolded(data[start:end]):
                for text, following in zip(texts, (*texts[1:], after), strict=True):
                    yield QuotedLine(self._lines + 1, text), following
        self._lines += data.count(b"\n", counted, until)
        self._passed += until

    def _all_starts(self, data: bytes, until: int) -> Iterator[int]:
        start = 0
        while start < until:
            yield start
            start = _end(data, start) + 1

    def _starts(self, data: bytes, after: int, until: int) -> Iterator[int]:
        """Yields the starts of lines, from an offset on, that contain a literal; it may go on in the next line."""
        begin = data.find(b"\n", after - 1) + 1 if after else 0
        if after >= until or (after and not begin):
            return
        hay = data.lower().replace(b"\n", b" ")
        search = self._worth().search
        match = search(hay, max(0, begin - 1))
        while match is not None and match.start() < until:
            # What is looked for may begin with a space, which the end of the line before stands for.
            at = match.start() + (data[match.start() : match.start() + 1] == b"\n")
            yield data.rfind(b"\n", 0, at) + 1
            match = search(hay, _end(data, at))


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
    """The next line, and more where a terminal or a mail has broken all lines at one width.

    A terminal cuts its lines in the midst of a word, a mail breaks them between words; between the lines is a seam.
    """
    width = widest = last = end - start
    after: list[str] = []
    for _ in range(_WAITING):
        until = _end(data, end + 1)
        texts = next(_unfolded(data[end + 1 : min(until, end + 1 + _LONGEST)]), [])
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
    """Whether the first word of the next line had no room in a line of this width."""
    word = following.split(" ", 1)[0]
    return bool(word) and width + 1 + len(word) > widest


def _unfolded(line: bytes) -> Iterator[list[str]]:
    """The lines that a line of a file holds, piece by piece; mostly one of one."""
    notation = is_notation(line[:_LONGEST].decode("utf-8", "replace"))
    for piece in _pieces(line):
        text = piece.decode("utf-8", "replace")
        yield [clean(part) for part in unfolded(text, notation=notation)] if text else [""]


def truncated(text: str) -> str:
    """A line, shortened for output."""
    return cut_text(text, _SHOWN)
