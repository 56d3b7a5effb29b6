"""Finds the known messages in a text; memory is bounded, whatever the size of the text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from gpuenv.explain.explanation_types import Hit, QuotedLine
from gpuenv.explain.line_finder import SEAM, UNCUT, LineFinder, truncated
from gpuenv.explain.mentions import is_mention_only, is_source_line
from gpuenv.explain.messages import Message, all_messages
from gpuenv.explain.patterns import any_of, compiled
from gpuenv.explain.text_facts import LITERALS, TextFacts
from gpuenv.model.redaction import MARGIN, hide_broken

_KEPT = 3  # hits of a message that are kept
_KEPT_VALUES = 9  # the same if captured values decide, with other values each
_REMEMBERED = 20_000  # lines that are not searched again
_VARIANTS = 64  # variants of a line, with other numbers, if the numbers matter
_WRAP = 38  # least characters of a line that a terminal may have cut within a word
_LATEST = 80  # lines that are kept for the classifier
_DIGITS = re.compile(r"\d+")


class _BrokenLine(NamedTuple):
    """A line, with the text before and after it if a terminal may have broken it off there."""

    number: int
    before: str
    text: str
    after: str

    def quoted(self) -> QuotedLine:
        """The line for output."""
        return QuotedLine(self.number, truncated(hide_broken(self.before, self.text, self.after)))


class Scanner:
    """Reads a text in pieces and keeps its hits and the facts of the machine that it states."""

    def __init__(self) -> None:
        self._finder = LineFinder(self._worth_a_look)
        self._hits: dict[str, list[Hit]] = {}
        self._words: set[str] = set()  # found words that messages need or lack anywhere in the text
        self._seen: set[int] = set()
        self._variants: dict[int, set[int]] = {}
        self._latest: deque[_BrokenLine] = deque(maxlen=_LATEST)
        self._previous = QuotedLine(0, "")
        self.stated = TextFacts()

    def feed(self, data: bytes) -> None:
        """Takes the next bytes, at most a MiB."""
        for line, after in self._finder.feed(data):
            self._look(line, after)

    def close(self) -> None:
        """Reads the rest of the text."""
        for line, after in self._finder.close():
            self._look(line, after)

    @property
    def lines_read(self) -> int:
        """How many lines were read."""
        return self._finder.lines_read

    @property
    def skipped(self) -> int:
        """How many bytes were not searched, since the text has too many different lines."""
        return self._finder.skipped

    @property
    def hits(self) -> tuple[Hit, ...]:
        """The first hits of each message, in the order of the text."""
        hits = (hit for kept in self._hits.values() for hit in kept if self._has_words(hit.message))
        return tuple(sorted(hits, key=lambda hit: hit.line.number))

    @property
    def latest(self) -> tuple[QuotedLine, ...]:
        """The last distinct lines that were searched: the end of a text is the most useful for the classifier."""
        return tuple(line.quoted() for line in self._latest)

    def _has_words(self, message: Message) -> bool:
        is_needed = not message.needs or not self._words.isdisjoint(message.needs)
        return is_needed and self._words.isdisjoint(message.lacks)

    def _worth_a_look(self) -> re.Pattern[bytes]:
        """The literals of the messages that may have further hits."""
        return _literals(frozenset(name for name, kept in self._hits.items() if len(kept) == _limit(kept[0].message)))

    def _look(self, line: QuotedLine, after: str) -> None:
        previous, self._previous = self._previous, line
        if is_mention_only(line.text):
            return
        after = after.removeprefix("NVRM:").lstrip()  # the driver begins every line of a message so
        joined = after.replace(SEAM, "")
        window = f"{line.text} {after.replace(SEAM, ' ')}"
        shape, variant = hash(_DIGITS.sub("0", window)), hash(window)  # hashes, since a line may be long
        if self._is_known(shape, variant):
            return
        broken = _broken(previous, line, after)
        if shape not in self._seen:
            self._latest.append(broken)
        if len(self._seen) < _REMEMBERED:
            self._seen.add(shape)
        self._words.update(word for word in _needed_words() if word in line.text.lower())
        numbers_matter = self.stated.look(line.text)
        if not is_source_line(line, previous):
            mixed = f"{line.text} {joined}" if SEAM in after else ""
            glued = line.text + joined if len(line.text) >= _WRAP and after else ""
            for message, match in _matches(line.text, (window, mixed, glued)):
                numbers_matter = numbers_matter or bool(message.by)
                self._keep(message, broken, match)
        if numbers_matter and len(self._variants) < _REMEMBERED:
            self._variants.setdefault(shape, set()).add(variant)

    def _keep(self, message: Message, line: _BrokenLine, match: dict[str, str | None]) -> None:
        kept = self._hits.setdefault(message.id, [])
        values = tuple((name, value) for name, value in match.items() if value)
        is_repeated = bool(message.by) and any(hit.values == values for hit in kept)
        if len(kept) < _limit(message) and not is_repeated:
            kept.append(Hit(message, line.quoted(), values))

    def _is_known(self, shape: int, variant: int) -> bool:
        """Whether a line was seen: a log repeats its lines with other numbers, which may be an Xid or a version."""
        if shape not in self._seen:
            return False
        variants = self._variants.get(shape, set())
        return not variants or variant in variants or len(variants) >= _VARIANTS


def _broken(previous: QuotedLine, line: QuotedLine, after: str) -> _BrokenLine:
    """A line between the one before it and those after it; a terminal breaks a line where it is the longest."""
    follows = line.number == previous.number + 1 and len(previous.text) >= max(_WRAP, len(line.text))
    goes_on = max(_WRAP, len(after.partition(SEAM)[0])) <= len(line.text) <= UNCUT
    before, rest = previous.text if follows else "", after.replace(SEAM, "") if goes_on else ""
    return _BrokenLine(line.number, before[-MARGIN:], line.text[:UNCUT], rest[:MARGIN])


def scan(data: bytes) -> Scanner:
    """Scans a whole text at once."""
    scanner = Scanner()
    for start in range(0, len(data), 1 << 20):
        scanner.feed(data[start : start + (1 << 20)])
    scanner.close()
    return scanner


@cache
def _needed_words() -> frozenset[str]:
    return frozenset(word for message in all_messages() for word in (*message.needs, *message.lacks))


@lru_cache(maxsize=8)
def _literals(complete: frozenset[str]) -> re.Pattern[bytes]:
    """The pattern of all literals, except those of messages that need no further hits."""
    wanted = (message for message in all_messages() if message.id not in complete)
    return any_of({literal for message in wanted for literal in message.literals} | _needed_words() | set(LITERALS))


def _limit(message: Message) -> int:
    """How many hits of a message are kept."""
    return _KEPT_VALUES if message.by else _KEPT


@cache
def _owners() -> dict[str, list[int]]:
    """For each literal, the places of its messages."""
    owners: dict[str, list[int]] = {}
    for place, message in enumerate(all_messages()):
        for literal in message.literals:
            owners.setdefault(literal, []).append(place)
    return owners


def _matches(line: str, windows: tuple[str, ...]) -> Iterator[tuple[Message, dict[str, str | None]]]:
    """The messages that begin in a line and may continue in the next lines, with the captured values."""
    lowered = "\n".join(f" {text}" for text in windows).lower()  # the beginning of a line is one of a word, too
    places = {place for literal, owners in _owners().items() if literal in lowered for place in owners}
    for place in sorted(places):
        message = all_messages()[place]
        match = _match(message, line, windows)
        if match is not None and not (message.unless and compiled(message.unless).search(windows[0])):
            yield message, match


def _match(message: Message, line: str, windows: tuple[str, ...]) -> dict[str, str | None] | None:
    """The captured values of a message; None if it does not begin in the line."""
    if message.pattern is None:
        texts = (text.lower() for text in (line, *windows) if text)
        places = (text.find(literal) for text in texts for literal in message.literals)
        return {} if any(0 <= place < len(line) for place in places) else None
    search = compiled(message.pattern).search
    found: re.Match[str] | None = None
    for text in (line, *windows):
        match = search(text) if text else None
        if match is None or match.start() >= len(line):
            continue
        if found is None:
            found = match
        elif match.start() == found.start() and match.end() > found.end():
            return match.groupdict()
        if found.end() < len(line.rstrip()) or found.end() > len(line):  # it does not end where the line does
            break
    return found.groupdict() if found else None
