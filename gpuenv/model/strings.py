"""Lazy patterns, parsing of numbers and sizes, and formatting of values."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuenv.model.smoke import Quantity


class _Pattern:
    """A regular expression that is compiled at its first use.

    Compiling one takes as long as defining a class or two; the doctor imports seventy, and a healthy machine needs a
    third of them.
    """

    def __init__(self, text: str, flags: int = 0) -> None:
        self._arguments = text, flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of a compiled expression
        attribute = getattr(re.compile(*self._arguments), name)
        setattr(self, name, attribute)  # bypasses this method from now on
        return attribute


if TYPE_CHECKING:
    pattern = re.compile  # for the type checker
else:
    pattern = _Pattern


MAX_INTEGER = 2**64
"""The largest integer of a record: drivers use 64 bits."""


def parse_integer(text: str, digits: int = 9) -> int | None:
    """Returns the number if the text consists of at most ``digits`` ASCII digits; else None.

    ``str.isdigit`` accepts ``²``, which ``int`` rejects, as it does more than 4300 digits; both accept the digits of
    every script.
    """
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= digits else None


# With a version, or free-threaded, debug or windowed: python3.13t, python3d, pythonw.exe.
_NAMED_AS_PYTHON = pattern(r"(?:.*[/\\])?(?:python|pypy|graalpy)[\d.]*t?d?w?(?:\.exe)?")


def has_python_name(path: str) -> bool:
    """Whether a program has the name of an interpreter, unlike pip, an archive of Python or a script."""
    return _NAMED_AS_PYTHON.fullmatch(path) is not None


# Controls; zero-width and bidirectional characters (Unicode Standard Annex #9, section 2, and the tags); separators
# of lines and paragraphs; lone surrogates; and what XML 1.0 forbids (section 2.2).
_UNSAFE = pattern(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufff9-\ufffb"
    "\ufffe\uffff\U000e0000-\U000e007f]"
)
# Commands that a runner of CI obeys in the log of a job. TeamCity, Azure (vsts-agent, Command.cs) and GitHub for older
# commands (actions/runner, ActionCommand.cs, TryParse) find them anywhere in a line; GitHub (TryParseV2) and GitLab
# only after white space at its start.
_COMMAND = pattern(r"#(?=#\w*\[)|^\s*(?::(?=:)|s(?=ection_(?:start|end):))")
_ONE_BYTE_MAX, _TWO_BYTE_MAX = 0xFF, 0xFFFF


def sanitize(text: str) -> str:
    """Replaces unsafe characters by readable escapes."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escape, text)


def sanitize_line(text: str) -> str:
    """Sanitizes a line of output, and escapes commands that a runner of CI would obey.

    The escape is also valid in JSON, where it changes no value.
    """
    return _COMMAND.sub(lambda match: f"{match[0][:-1]}\\u{ord(match[0][-1]):04x}", sanitize(text))


class Lines(str):
    """A text of several lines; a line break within one of them is escaped, as in any other text that is printed."""

    __slots__ = ()

    def __new__(cls, lines: Iterable[str]) -> Lines:  # noqa: PYI034 - Self needs Python 3.11
        """Joins the lines."""
        return super().__new__(cls, "\n".join(sanitize(line.expandtabs()) for line in lines))

    def __str__(self) -> Lines:
        """Returns the same text, also as the message of an exception, where a plain text would be one line."""
        return self


def lines_of(text: str) -> list[str]:
    """Returns the lines of ``Lines``; any other text is one line."""
    return text.split("\n") if isinstance(text, Lines) else [text]


def _escape(match: re.Match[str]) -> str:
    """Returns the Python escape."""
    code = ord(match[0])
    if code <= _ONE_BYTE_MAX:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _TWO_BYTE_MAX else f"\\U{code:08x}"


def decode_text(raw: bytes) -> str:
    """Decodes UTF-8, with or without a byte order mark, or PowerShell's UTF-16; returns Unix line ends.

    Raises:
        UnicodeDecodeError: it is neither.
    """
    is_wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in raw
    return raw.decode("utf-16" if is_wide else "utf-8-sig").replace("\r\n", "\n")


def error_reason(error: Exception) -> str:
    """Returns the system's message without the file name, or "not a text in UTF-8" for a decoding error."""
    if isinstance(error, UnicodeDecodeError):
        return "not a text in UTF-8"
    return str(getattr(error, "strerror", None) or error)


def command_name(arguments: Sequence[str]) -> str:
    """The command in the arguments of gpuenv, after options, which have no values; empty without one."""
    return next((text for text in arguments if not text.startswith("-")), "")


def did_you_mean(name: str, known: Iterable[str], *, before: str = "", most: int = 1, cutoff: float = 0.6) -> str:
    """``did you mean DRV106?`` after ``before``; empty if no known name is similar.

    A name with the same characters in another order comes first: GPU206 for GPU260.
    """
    import difflib  # noqa: PLC0415 - only for errors

    folded = {entry.lower(): entry for entry in known}
    matches = difflib.get_close_matches(name.lower(), folded, 9, cutoff)
    swapped = [entry for entry in matches if sorted(entry) == sorted(name.lower())]
    found = [folded[entry] for entry in (swapped or matches)[:most]]
    return f"{before}did you mean {' or '.join(found)}?" if found else ""


def join_words(words: Sequence[str], most: int) -> str:
    """Joins the first ``most`` words and counts the others: ``one, two and 3 more``."""
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


NONE = "none"  # the value of a fact that is known to be absent


def format_value(value: object) -> str:
    """Formats a value for users, as ``--assume`` accepts it: yes and no instead of Python's names."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(format_value, value)) or NONE
    return str(value)


# nvidia-smi and users write 80G for GiB; 80GB is decimal, as on the box of a card.
_UNITS = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_UNITS |= {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "tb": 10**12}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Parses ``80GiB``, ``512 MiB``, ``80GB`` (decimal) or ``80G`` (binary) as bytes.

    A number without a unit is rejected: it would mean bytes, never the intention.

    Raises:
        ValueError: with an example of a valid size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is not None and not match[2]:
        raise ValueError("expected a size with its unit, like 80GiB")
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError("expected a size like 80GiB")
    size = int(float(match[1]) * _UNITS[match[2].lower()])
    if size <= 0:
        raise ValueError("expected a positive size, like 80GiB")
    return size


def format_size(size: int) -> str:
    """Formats bytes: ``79.6 GiB``, ``512 MiB``, ``7 KiB``, ``12 B``."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    if size >= 2**20:
        return f"{size / 2**20:.0f} MiB"
    return f"{size / 2**10:.0f} KiB" if size >= 2**10 else f"{size} B"


_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def format_quantity(quantity: Quantity) -> str:
    """Formats a number with a unit prefix: 52.1 TFLOP/s, 24 GB/s, 3.1 us."""
    value, unit = quantity.value, quantity.unit
    if unit == "1":
        return f"{value:.3g}"
    if unit == "s":
        scale, prefix = next(((s, p) for s, p in _SMALL if value >= s), _SMALL[-1])
        return f"{value / scale:.3g} {prefix}{unit}"
    if unit in ("B/s", "FLOP/s", "B"):
        scale, prefix = next(((s, p) for s, p in _SCALES if value >= s), (1.0, ""))
        return f"{value / scale:.3g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def format_share(ratio: float) -> str:
    """Formats a ratio in percent, small ones with more digits: 0.31%, 96%, 104%."""
    return f"{ratio:.0%}" if ratio >= 0.01 or ratio <= 0 else f"{ratio * 100:.2g}%"  # noqa: PLR2004 - one percent
