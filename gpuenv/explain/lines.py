"""Bytes of any kind and length to the few lines that are worth a look. Pure; memory is bounded."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator

from gpuenv.explain.records import SaidLine

_PIECE = 1 << 20  # bytes that are looked at together
_LONGEST = 8192  # bytes of a line that are looked at together; a longer one is cut, with an overlap
_OVERLAP = 512
_SHOWN = 500  # characters of a line that are kept
_WHOLE = 1 << 18  # bytes at the beginning of a text of which every line is looked at
_BOMS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_=>()][0-9A-B]?)")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\ufeff]")
# Blanks beyond these few say nothing, and a pattern with several would try every way to share them out.
_BLANKS = re.compile(r"\s{9,}")
# What forums, mails and chats make of quotes, and what a text is full of that was HTML or a string's notation.
_QUOTES = str.maketrans("\u2018\u2019\u00b4\u2032\u201c\u201d\u201e\u00a0", "''''\"\"\" ")
_ENTITIES = {
    "&lt;": "<",
    "&gt;": ">",
    "&quot;": '"',
    "&#34;": '"',
    "&#39;": "'",
    "&#x27;": "'",
    "&nbsp;": " ",
    "&amp;": "&",
}
_ENTITY = re.compile("|".join(_ENTITIES))
_ESCAPED_QUOTE = re.compile(r"\\(['\"])")
# What logging systems write before a line, each at most a few times.
_PREFIXES = re.compile(
    r"""\s*(?:
      \d{4}[-/]\d\d[-/]\d\d[T\s]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?      # ISO time
    | (?:[A-Z][a-z]{2}\s)?[A-Z][a-z]{2}\s{1,2}\d{1,2}\s\d\d:\d\d:\d\d(?:\s\d{4})?  # syslog's time, and
      \s[\w.-]+\s[\w@./-]+(?:\[\d+\])?:                                            # its host and program
    | [\w.-]{1,40}\s*\|(?=\s)                                                        # compose
    | \[\s*\d+\.\d{3,6}\](?:\[[\w\s]+\])?                                            # the kernel's seconds
    | \#\#\[\w+\] | ::(?:error|warning)[^:]*::                                       # GitHub Actions
    | \#\d+\s\d+\.\d+                                                                # docker build
    | (?:stdout|stderr)\s[FP]\s                                                      # CRI
    | [IWEF]\d{4}\s\d\d:\d\d:\d\d(?:\.\d+)?\s+\d+\s                                  # glog
    | E(?=\s{2,})                                                                    # pytest
    )\s?""",
    re.VERBOSE,
)


def clean(text: str) -> str:
    """A line without colours, control characters and the prefixes of logging systems, and with plain quotes."""
    text = _BLANKS.sub(" " * 8, _CONTROL.sub(" ", _ESCAPES.sub("", text)))
    if not text.isascii():
        text = text.translate(_QUOTES)
    if "&" in text:
        text = _ENTITY.sub(lambda match: _ENTITIES[match[0]], text)
    if "\\" in text:
        text = _ESCAPED_QUOTE.sub(r"\1", text)
    for _ in range(4):
        match = _PREFIXES.match(text)
        if match is None or not match[0].strip():
            break
        text = text[match.end() :]
    return text.strip()


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
        self._bytes = 0
        self._decoder: codecs.IncrementalDecoder | None = None

    @property
    def lines_read(self) -> int:
        """How many lines were passed so far."""
        return self._lines

    def feed(self, data: bytes) -> Iterator[tuple[SaidLine, str]]:
        """Lines that are complete by now; at most a MiB may be given at once."""
        data = self._rest + self._decoded(data)
        end = data.rfind(b"\n") + 1
        held = data.rfind(b"\n", 0, end - 1) + 1 if end else 0  # the last line waits for the next: it may be wrapped
        if held == 0 and len(data) >= _PIECE:
            held = end = len(data)  # a line without an end is taken as it comes
        self._rest = data[held:]
        yield from self._found(data[:end], held)

    def close(self) -> Iterator[tuple[SaidLine, str]]:
        """The lines that are left at the end of the text."""
        data, self._rest = self._rest, b""
        yield from self._found(data, len(data))
        if data and not data.endswith(b"\n"):
            self._lines += 1

    def _decoded(self, data: bytes) -> bytes:
        """UTF-16 as UTF-8; the null bytes of a UTF-16 text without a mark, or of rubbish, are dropped."""
        if not self._bytes:
            name = next((name for mark, name in _BOMS if data.startswith(mark)), None)
            self._decoder = codecs.getincrementaldecoder(name)("replace") if name else None
        self._bytes += len(data)
        if self._decoder is not None:
            data = self._decoder.decode(data).encode("utf-8", "replace")
        return data.replace(b"\0", b"")

    def _found(self, data: bytes, until: int) -> Iterator[tuple[SaidLine, str]]:
        """The lines worth a look that begin before ``until``; one after it serves as the next line only."""
        starts = self._all_starts(data, until) if self._bytes <= _WHOLE else self._starts(data, until)
        counted = 0
        for start in starts:
            self._lines += data.count(b"\n", counted, start)
            counted = start
            end = _end(data, start)
            after = _text(data[end + 1 : min(_end(data, end + 1), end + 1 + _LONGEST)])
            for piece in _pieces(data[start:end]):
                yield SaidLine(self._lines + 1, _text(piece)), after
        self._lines += data.count(b"\n", counted, until)

    def _all_starts(self, data: bytes, until: int) -> Iterator[int]:
        start = 0
        while start < until:
            yield start
            start = _end(data, start) + 1

    def _starts(self, data: bytes, until: int) -> Iterator[int]:
        """Where the lines begin that contain a literal, which may go on in the line after."""
        hay = data.lower().replace(b"\n", b" ")
        search = self._worth().search
        match = search(hay)
        while match is not None and match.start() < until:
            yield data.rfind(b"\n", 0, match.start()) + 1
            match = search(hay, _end(data, match.start()))


def _end(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _pieces(line: bytes) -> Iterator[bytes]:
    if len(line) <= _LONGEST:
        yield line
        return
    for start in range(0, len(line), _LONGEST - _OVERLAP):
        yield line[start : start + _LONGEST]


def _text(line: bytes) -> str:
    return clean(line.decode("utf-8", "replace")) if line else ""


def shown(text: str) -> str:
    """A line as it is repeated to the user."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 4]} ..."
