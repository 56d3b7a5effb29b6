"""Texts: patterns, numbers and sizes read out of them, and values written for people."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuenv.model.smoke import Quantity


class _Pattern:
    """What ``re.compile`` gives, compiled when it is first used.

    Compiling takes as long as defining a class or two; the doctor imports seventy patterns, and a sound machine needs a
    third of them.
    """

    def __init__(self, text: str, flags: int = 0) -> None:
        self._given = text, flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any method of a compiled expression
        answer = getattr(re.compile(*self._given), name)
        setattr(self, name, answer)  # so this is not called again
        return answer


if TYPE_CHECKING:
    pattern = re.compile  # so the type checker takes it for the real one
else:
    pattern = _Pattern


MAX_INTEGER = 2**64
"""No whole number of a record is larger: the drivers count in 64 bits."""


def parse_integer(text: str, digits: int = 9) -> int | None:
    """The number that a text is, in ASCII digits and nothing else, at most so many; None for anything else.

    ``str.isdigit`` is true of ``²``, which ``int`` refuses, as it does more than 4300 digits; and both take the digits
    of every script.
    """
    return int(text) if text.isdecimal() and text.isascii() and len(text) <= digits else None


# With a release, a free-threaded, a debugging or a windowed one: python3.13t, python3d, pythonw.exe.
_NAMED_AS_PYTHON = pattern(r"(?:.*[/\\])?(?:python|pypy|graalpy)[\d.]*t?d?w?(?:\.exe)?")


def has_python_name(path: str) -> bool:
    """Whether a program is called as an interpreter is: pip, an archive of Python's and a script are not."""
    return _NAMED_AS_PYTHON.fullmatch(path) is not None


# Controls; what has no width or turns the direction (Unicode Standard Annex #9, section 2, and the tags); separators
# of lines and paragraphs; lone surrogates; and what XML 1.0 forbids (section 2.2).
_UNSAFE = pattern(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)
_LAST_OF_ONE_BYTE, _LAST_OF_TWO = 0xFF, 0xFFFF


def sanitize(text: str) -> str:
    """The text with such characters as escapes that can be read."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    """As Python would write it."""
    code = ord(match[0])
    if code <= _LAST_OF_ONE_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_OF_TWO else f"\\U{code:08x}"


def decode_text(raw: bytes) -> str:
    """A text with the line ends of Unix: in UTF-8, with a mark before it or without, or in PowerShell's UTF-16.

    Raises:
        UnicodeDecodeError: when it is neither.
    """
    is_wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in raw
    return raw.decode("utf-16" if is_wide else "utf-8-sig").replace("\r\n", "\n")


def error_reason(error: Exception) -> str:
    """What the system says of a file without repeating its name, and "not a text in UTF-8" where decoding failed."""
    if isinstance(error, UnicodeDecodeError):
        return "not a text in UTF-8"
    return str(getattr(error, "strerror", None) or error)


def join_words(words: Sequence[str], most: int) -> str:
    """``one, two and 3 more``: the first of them, and how many are left out.

    Args:
        words: all of them.
        most: how many are named.
    """
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


NONE = "none"  # what was looked for and is not there


def format_value(value: object) -> str:
    """A value as people write it, and as ``--assume`` takes it: yes and no, and no name of Python's."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, (list, tuple)):
        return ", ".join(map(format_value, value)) or NONE
    return str(value)


# nvidia-smi and people say 80G for GiB; 80GB is decimal, as it is on a card's box.
_UNITS = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_UNITS |= {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40, "tb": 10**12}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Bytes of ``80GiB``, ``512 MiB``, ``80GB`` (decimal) or ``80G`` (binary).

    A number alone would be bytes, which is never meant.

    Raises:
        ValueError: with an example of what was expected.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is not None and not match[2]:
        raise ValueError("expected a size with its unit, like 80GiB")
    if match is None or match[2].lower() not in _UNITS:
        raise ValueError("expected a size like 80GiB")
    size = int(float(match[1]) * _UNITS[match[2].lower()])
    if size <= 0:
        raise ValueError("expected a size above nothing, like 80GiB")
    return size


def format_size(size: int) -> str:
    """``79.6 GiB``, ``512 MiB``, ``7 KiB``, ``12 B``."""
    if size >= 2**30:
        return f"{size / 2**30:.1f} GiB"
    if size >= 2**20:
        return f"{size / 2**20:.0f} MiB"
    return f"{size / 2**10:.0f} KiB" if size >= 2**10 else f"{size} B"


_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SMALL = ((1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n"))


def format_quantity(quantity: Quantity) -> str:
    """A number with a prefix: 52.1 TFLOP/s, 24 GB/s, 3.1 us."""
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
    """A share in percent; what is little is not called nothing: 0.31%, 96%, 104%."""
    return f"{ratio:.0%}" if ratio >= 0.01 or ratio <= 0 else f"{ratio * 100:.2g}%"  # noqa: PLR2004 - one percent
