"""Finds the signatures in a text; memory is bounded, whatever the size of the text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from functools import cache, lru_cache

from gpuenv.explain.error_mentions import is_mention_only
from gpuenv.explain.explanation_types import Hit, Level, QuotedLine, Signature
from gpuenv.explain.line_finder import SEAM, UNCUT, LineFinder, truncated
from gpuenv.explain.literals import LiteralIndex, any_of, grams_of
from gpuenv.explain.patterns import compiled
from gpuenv.explain.signatures import all_signatures
from gpuenv.explain.text_facts import LITERALS, TextFacts

_KEPT = 3  # hits of a signature that are kept
_KEPT_VALUES = 9  # hits that are kept where the captured values decide, each of them once
_REMEMBERED = 20_000  # lines that need no second look
_VARIANTS = 64  # variants of a line whose numbers matter, each with other numbers
_WRAP = 38  # characters from which on a line may have been cut by a terminal in the midst of a word
_LATEST = 80  # lines that are kept for what their words are like
_DIGITS = re.compile(r"\d+")


class Scanner:
    """Takes a text in pieces and keeps its hits, and the facts of the machine that it states."""

    def __init__(self) -> None:
        self._finder = LineFinder(self._worth_a_look)
        self._hits: dict[str, list[Hit]] = {}
        self._seen: set[int] = set()
        self._variants: dict[int, set[int]] = {}
        self._latest: deque[QuotedLine] = deque(maxlen=_LATEST)
        self.stated = TextFacts()

    def feed(self, data: bytes) -> None:
        """Takes the next bytes, at most a MiB."""
        for line, after in self._finder.feed(data):
            self._look(line, after)

    def close(self) -> None:
        """The text has ended."""
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
        """The first hits of each signature, in the order of the text."""
        return tuple(sorted((hit for kept in self._hits.values() for hit in kept), key=lambda hit: hit.line.number))

    @property
    def latest(self) -> tuple[QuotedLine, ...]:
        """The last lines that were looked at, each once: the end of a text tells most about what went wrong."""
        return tuple(QuotedLine(line.number, truncated(line.text)) for line in self._latest)

    def _worth_a_look(self) -> re.Pattern[bytes]:
        """The literals of the signatures that may have further hits."""
        return _literals(
            frozenset(name for name, kept in self._hits.items() if len(kept) == _hit_limit(kept[0].signature))
        )

    def _look(self, line: QuotedLine, after: str) -> None:
        after = after.removeprefix("NVRM:").lstrip()  # the driver begins every line of a message so
        joined = after.replace(SEAM, "")
        window = f"{line.text} {after.replace(SEAM, ' ')}"
        mixed = f"{line.text} {joined}" if SEAM in after else ""
        shape, variant = hash(_DIGITS.sub("0", window)), hash(window)  # hashes, since a line may be long
        if self._is_known(shape, variant):
            return
        if shape not in self._seen:
            self._latest.append(QuotedLine(line.number, line.text[:UNCUT]))
        if len(self._seen) < _REMEMBERED:
            self._seen.add(shape)
        lowered = f" {window}\n{mixed}".lower()  # a line's beginning is a word's, too
        grams = grams_of(lowered)
        numbers_matter = self.stated.look(line.text, grams)
        glued = line.text + joined if len(line.text) >= _WRAP and after else ""
        for signature, match in _matches(line.text, (window, mixed, glued), _index().owners(lowered, grams)):
            numbers_matter = numbers_matter or signature.weights_fn is not None
            kept = self._hits.setdefault(signature.name, [])
            values = tuple((name, value) for name, value in match.items() if value)
            known = signature.weights_fn is not None and any(hit.values == values for hit in kept)
            if len(kept) < _hit_limit(signature) and not known:
                kept.append(Hit(signature, QuotedLine(line.number, truncated(line.text)), values))
        if numbers_matter and len(self._variants) < _REMEMBERED:
            self._variants.setdefault(shape, set()).add(variant)

    def _is_known(self, shape: int, variant: int) -> bool:
        """Whether a line was seen: a log repeats its lines with other numbers, which may be an Xid or a version."""
        if shape not in self._seen:
            return False
        variants = self._variants.get(shape, set())
        return not variants or variant in variants or len(variants) >= _VARIANTS


@lru_cache(maxsize=8)
def _literals(complete: frozenset[str]) -> re.Pattern[bytes]:
    """Finds every literal for which a line is worth a look."""
    wanted = (signature for signature in all_signatures() if signature.name not in complete)
    return any_of({literal for signature in wanted for literal in signature.literals} | set(LITERALS))


@cache
def _index() -> LiteralIndex:
    return LiteralIndex([signature.literals for signature in all_signatures()])


def scan(data: bytes) -> Scanner:
    """Scans a whole text at once."""
    scanner = Scanner()
    for start in range(0, len(data), 1 << 20):
        scanner.feed(data[start : start + (1 << 20)])
    scanner.close()
    return scanner


def _hit_limit(signature: Signature) -> int:
    """How many hits of a signature are kept; one is enough for evidence."""
    if signature.level is Level.EVIDENCE and signature.weights_fn is None:
        return 1
    return _KEPT if signature.weights_fn is None else _KEPT_VALUES


def _matches(
    line: str, windows: tuple[str, ...], owners: list[int]
) -> Iterator[tuple[Signature, dict[str, str | None]]]:
    """The matches of these signatures in a line, and of those whose literal spans a line break."""
    glued = windows[-1]
    if glued:
        cut, most = len(line), _index().longest
        owners = sorted({*owners, *_index().owners(glued[max(0, cut - most) : cut + most].lower())})
    signatures = all_signatures()
    mention_only = is_mention_only(line)
    for owner in owners:
        if mention_only and signatures[owner].level is not Level.EVIDENCE:
            continue
        match = _match(signatures[owner], line, windows)
        if match is not None and not _is_excluded(signatures[owner], windows[0]):
            yield signatures[owner], match


def _is_excluded(signature: Signature, window: str) -> bool:
    """Whether the text around a message makes it advice or good news."""
    return signature.unless is not None and compiled(signature.unless).search(window) is not None


def _match(signature: Signature, line: str, windows: tuple[str, ...]) -> dict[str, str | None] | None:
    """What the signature captures of a line, or of a message that begins in it and goes on in the next ones."""
    if signature.pattern is None:
        texts = (text.lower() for text in (line, *windows) if text)
        places = (text.find(literal) for text in texts for literal in signature.literals)
        return {} if any(0 <= place < len(line) for place in places) else None
    search = compiled(signature.pattern).search
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
