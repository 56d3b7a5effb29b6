"""Finds and hides secrets in texts: by the name before a value, the form of a token, its position and its entropy.

All output passes through ``hide_secrets``; nothing is hidden before it is analysed. Each finder takes a text and yields
the positions of secrets in time linear in its length. ``secret_forms`` has the tables of patterns; ``secret_values``
has the names, and judges the value after one.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import zip_longest

from gpuenv.model.secret_forms import (
    BASE64_LINE,
    COMMANDS,
    FORMS,
    KEY_BEGIN,
    KEY_END,
    KEY_LINE,
    OTHER_USER,
    PRIVATE_KEY,
    USER_OPTION,
)
from gpuenv.model.secret_values import (
    CERTAIN,
    HIDDEN,
    certainty,
    is_harmless,
    is_harmless_name,
    is_random,
    is_secret_name,
    named_values,
    stands_for_a_value,
)
from gpuenv.model.strings import pattern

TYPE_CHECKING = False  # imported before the first child starts; typing takes as long as that
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Span = tuple[int, int]

MARGIN = 512  # characters after the end of a shortened text that show whether a secret goes on there
_MIN_LENGTH = 6  # characters of a text with a secret


def has_credentials(text: str) -> bool:
    """Whether a URL in the text has a user name or a password."""
    return "//" in text and next(_credentials(text), None) is not None


@lru_cache(maxsize=4096)
def has_secret(text: str) -> bool:
    """Whether the text has a secret: what ``hide_secrets`` hides."""
    return len(text) >= _MIN_LENGTH and bool(secret_spans(text))


def hide_secrets(text: str) -> str:
    """The text with ``(redacted)`` in place of every secret; names, paths and digests stay."""
    return "\n".join(hide_in_lines(text.split("\n"))) if "\n" in text else _hide(text, 0)


def hide_value(name: str, value: str) -> str:
    """The value of a variable or a key without secrets; ``(redacted)`` if its name is one of secrets."""
    is_named = certainty(name) == CERTAIN or (name.isupper() and is_secret_name(name))
    if is_named and not is_harmless_name(name) and not is_harmless(value, name):
        return HIDDEN
    return hide_secrets(value)


def _hide(text: str, start: int) -> str:
    """What follows ``start`` in a line, without secrets."""
    if len(text) < _MIN_LENGTH:
        return text[start:]
    parts, end = [], start
    for first, last in secret_spans(text):
        if last > start:
            parts += [text[end : max(first, start)], HIDDEN]
            end = last
    return "".join((*parts, text[end:]))


class LineRedactor:
    """Hides the secrets in texts one by one; a private key may extend over many of them."""

    def __init__(self) -> None:
        self._before: str | None = None  # the text before each line of a private key; None outside of one

    def hide(self, text: str, head: str = "") -> str:
        """The next text without secrets; ``head`` precedes it, and may have the name of its value."""
        hidden = self._in_key(text)
        if hidden is not None:
            return hidden
        return hide_secrets(text) if "\n" in text else _hide(head + text, len(head))

    def _in_key(self, line: str) -> str | None:
        """The line without its part of a private key that an earlier line began; None if it has no such part."""
        match = KEY_LINE.search(line.rstrip()) if self._before is not None else None
        if match is not None and _without_digits(line[: match.start()]) == self._before:
            return f"{line[: match.start()]}{HIDDEN}"
        begin = next(reversed(list(KEY_BEGIN.finditer(line))), None) if "-" in line else None
        is_open = begin is not None and KEY_END.search(line, begin.start()) is None
        self._before = _without_digits(line[: begin.start()]) if begin is not None and is_open else None
        return None


def _without_digits(text: str) -> str:
    """A text with equal digits, so that the beginnings of log lines with different times or numbers are equal."""
    return re.sub(r"\d+", "0", text)


# The end of a line whose value is in the next one: a name, an option, an element, or "name: NAME".
_NAME_OPEN = pattern(
    r"(?:[:=]|--?[\w-]{2,64}[\"']?,?|<[\w.-]{1,64}>|(?i:name|key)[\"']?\s?[:=]\s?[\"']?[\w.-]{1,64}[\"']?,?)\s*$"
)
_BLOCK_OPEN = pattern(r"[:=]\s{0,3}(?:([|>])[-+\d]{0,2}|(\"\"\"|\'\'\'))\s*$")  # YAML 1.2, section 8.1; Python, TOML
_VALUE_ALONE = pattern(r"\S{1,4096}|[\"'].*|(?i:[\"']?value[\"']?\s?[:=]).*")
_NEXT_SETTING = pattern(r"(?!(?i:[\"']?value))[\w.\"'-]{1,64}\s?[:=](?!=?$)|[-#*]\s|.*[:{]$")
_LONGEST_HEAD = 200  # characters


class _Setting:
    """A setting whose value continues in the lines after its name."""

    def __init__(self) -> None:
        self._head = ""
        self._is_continued = False  # by a backslash
        self._end = ""  # the mark at which a block ends; a space for the end of its indent
        self._indent = 0

    def head(self, line: str) -> str:
        """The beginning of the setting that this line continues; empty if it continues none."""
        bare = line.strip()
        if self._end == " " and bare and _indent(line) <= self._indent:
            self._head = self._end = ""
        if self._end:
            return self._head
        is_value = _VALUE_ALONE.fullmatch(bare) and not _NEXT_SETTING.match(bare)
        is_near = len(self._head) < _LONGEST_HEAD
        return self._head if is_near and (self._is_continued or is_value) else ""

    def add(self, line: str) -> None:
        """Takes the line."""
        if self._end == " " or (self._end and self._end not in line):
            return
        block = _BLOCK_OPEN.search(line[-_LONGEST_HEAD:])
        before = self._head if self._is_continued else ""
        self._is_continued = line.endswith("\\")
        self._head, self._end, self._indent = "", "", _indent(line)
        if block is not None:
            self._head, self._end = f'{block.string[: block.start() + 1].lstrip()} "', block[2] or " "
        elif self._is_continued:
            self._head = before if len(before) > _LONGEST_HEAD else f"{before}{line.strip()[:-1]} "
        elif _NAME_OPEN.search(line[-_LONGEST_HEAD:]):
            self._head = f"{line[-_LONGEST_HEAD:].strip()} ".replace("> ", ">")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def hide_in_lines(lines: Iterable[str]) -> list[str]:
    """The lines of a text without secrets, also of those whose name is in the line before."""
    redactor, setting, hidden = LineRedactor(), _Setting(), []
    for line in lines:
        head, indent = setting.head(line), _indent(line)
        hidden.append(line[:indent] + redactor.hide(line[indent:], head) if head else redactor.hide(line))
        setting.add(line)
    return hidden


def cut_text(text: str, most: int) -> str:
    """The text shortened to ``most`` characters, so that no secret loses the end by which it is recognized."""
    if len(text) <= most:
        return text
    end, spans = most - 4, secret_spans(text[: most + MARGIN])
    while True:
        left = secret_spans(f"{text[:end]} ...")
        lost = [first for first, last in spans if first < end and not _is_within((first, min(last, end)), left)]
        if not lost:
            return f"{text[:end]} ..."
        end = min(lost)


@lru_cache(maxsize=256)
def hide_broken(before: str, line: str, after: str) -> str:
    """A line without secrets at its ends, which the text before and after it shows, as where a terminal breaks it."""
    text, start, end = f"{before}{line}{after}", len(before), len(before) + len(line)
    parts, shown = [], start
    for first, last in secret_spans(text):
        if (before and first <= start < last) or (after and first < end <= last):
            parts += [text[shown : max(first, start)], HIDDEN]
            shown = min(last, end)
    return "".join((*parts, text[shown:end]))


def excerpt(text: str) -> str:
    """The text shortened to 60 characters, with question marks for unprintable ones."""
    return "".join(character if character.isprintable() else "?" for character in cut_text(text, 60))


def _is_within(span: Span, others: Iterable[Span]) -> bool:
    return any(first <= span[0] and span[1] <= last for first, last in others)


def secret_spans(text: str) -> list[Span]:
    """The positions of the secrets, in order and without overlaps."""
    found = sorted(span for finder in _FINDERS for span in finder(text) if span[0] < span[1])
    merged: list[Span] = []
    for first, last in found:
        if merged and first < merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _span(match: re.Match[str]) -> Span:
    """The position of the group that matched, or of the whole match without one."""
    return match.span(match.lastindex or 0)


def _by_form(text: str) -> Iterator[Span]:
    """Tokens, and web addresses that are secrets."""
    return map(_span, FORMS.finditer(text))


def _in_commands(text: str) -> Iterator[Span]:
    """Passwords in arguments and on standard input of programs, in .netrc, SQL and phrases."""
    for hint, row in COMMANDS:
        for match in row.finditer(text) if hint in text else ():
            first, last = _span(match)
            if not stands_for_a_value(text[first:last]):
                yield first, last
    for match in USER_OPTION.finditer(text) if "-u" in text or "-U" in text or "user" in text else ():
        if not OTHER_USER.search(text, max(0, match.start() - 200), match.start()):
            yield match.span(1)


def _private_keys(text: str) -> Iterator[Span]:
    if "PRIVATE KEY" in text or "PuTTY" in text:
        yield from (match.span() for match in PRIVATE_KEY.finditer(text))
    yield from (match.span() for match in BASE64_LINE.finditer(text))


# The scheme of an address may be absent.
_ADDRESS = pattern(r"(?:\b\w[\w+.-]{0,39}:|(?<![\w:/.]))//([^\s'\"`<>]+)")
_SCHEME = pattern(r"\b\w[\w+.-]{0,39}://")
_HOST = pattern(r"\[.*|localhost|[\w-]*\.[\w.-]*(?::\d{1,5})?|[\w-]+:\d{1,5}")
_USER_AT_HOST = pattern(
    r"(?<![\w/.:-])(?!mailto:)[\w.+-]{1,64}:([^\s:@/'\"]{3,200})@(?!sha\d{3}:)([\w.-]{1,200}(:\d)?)"
)
_DOMAIN = pattern(r".*\.[a-z]{2,24}\b|.*:\d")
_QUERY = pattern(r"[?&]([\w.-]{1,40})=([^&#\s\"'<>]{20,})")
_DIGEST_NAME = pattern(r"(?i:hash|sha\d*|md5|digest|checksum|version|v|ref|commit|rev|file|name|url|uri|path|q|query)")
_MIN_QUERY = 20  # characters of a random value
_MIN_DISTINCT = 10  # of these


def _credentials(text: str) -> Iterator[Span]:
    """User names and passwords in URLs; ``@`` after the host is a branch or a scope."""
    for start, rest, has_scheme in _after_schemes(text):
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        host = authority.rpartition("@")[2]
        if "@" in rest and ":" in authority and not _HOST.fullmatch(host):
            last = rest.rindex("@")  # a slash in the password
        elif "@" in authority:
            last = authority.rindex("@")
        else:
            continue
        is_user = ":" in rest[:last] or has_scheme
        is_host = "@" in authority or re.match(r"[\w.\[-]", rest[last + 1 :])  # the host may be a variable
        if last and is_user and is_host and rest[:last] not in ("git", HIDDEN):
            yield start, start + last


def _after_schemes(text: str) -> Iterator[tuple[int, str, bool]]:
    """What follows the two slashes of each address, its position, and whether it has a scheme.

    Another address may follow without a space, as in ``CONDA_CHANNELS=https://a.example,https://b.example``.
    """
    for match in _ADDRESS.finditer(text):
        start, rest = match.start(1), match[1]
        yield start, rest, not match[0].startswith("//")
        others = list(_SCHEME.finditer(rest)) if "://" in rest else []
        for other, following in zip_longest(others, others[1:]):
            end = following.start() if following is not None else len(rest)
            yield start + other.end(), rest[other.end() : end], True


def _in_addresses(text: str) -> Iterator[Span]:
    """Credentials in URLs, and random values in their queries."""
    if "//" in text:
        yield from _credentials(text)
    if "@" in text:
        for match in _USER_AT_HOST.finditer(text):
            if _DOMAIN.match(match[2]) or is_random(match[1], _MIN_LENGTH):
                yield match.span(1)
    for match in _QUERY.finditer(text) if "://" in text else ():
        value = match[2]
        is_mixed = any(map(str.isdigit, value)) and len(set(value[:64])) >= _MIN_DISTINCT
        if is_mixed and not _DIGEST_NAME.fullmatch(match[1]) and is_random(value, _MIN_QUERY):
            yield match.span(2)


# Letters of both cases and digits.
_MIXED = pattern(
    r"(?<![\w+/.-])(?=[A-Z\d+/]{0,20}[a-z])(?=[a-z\d+/]{0,20}[A-Z])(?=[A-Za-z+/]{0,40}\d)[A-Za-z0-9+/]{32,}={0,2}(?![\w.-])"
)
_CHANGE = pattern(r"(?<=[A-Z])[a-z0-9]|(?<=[a-z])[A-Z0-9]|(?<=[0-9])[A-Za-z]")
_MIN_CHANGES = 0.42  # per character; random letters and digits have 0.62, words in camel case about 0.4
_WORD = pattern(r"[a-z]{7}")
_BEFORE_DIGEST = pattern(r"(?:sha\d{1,3}|md5|digest|integrity|hash)\W{1,4}$")


def _looks_random(word: str) -> bool:
    return _WORD.search(word) is None and len(_CHANGE.findall(word)) >= _MIN_CHANGES * len(word)


def _by_entropy(text: str) -> Iterator[Span]:
    """Long words that change between small letters, capitals and digits as often as random ones do."""
    for match in _MIXED.finditer(text):
        word = match[0]
        is_path = word.count("/") * 16 > len(word)
        is_digest = _BEFORE_DIGEST.search(text, max(0, match.start() - 16), match.start()) is not None
        if not is_path and not is_digest and _looks_random(word[:256]):
            yield match.span()


_FINDERS = (_by_form, _private_keys, named_values, _in_addresses, _in_commands, _by_entropy)
