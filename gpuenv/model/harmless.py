"""Texts of others in which nothing commands a terminal, forges a line, or hides or reorders what stands there. Pure."""

from __future__ import annotations

from gpuenv.model.pattern import pattern

TYPE_CHECKING = False  # a word on standard error may come before anything else
if TYPE_CHECKING:
    import re

# Controls; what has no width or turns the direction (Unicode Standard Annex #9, section 2, and the tags); separators
# of lines and paragraphs; lone surrogates; and what XML 1.0 forbids (section 2.2).
_UNSAFE = pattern(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
    "\U000e0000-\U000e007f]"
)
_LAST_OF_ONE_BYTE, _LAST_OF_TWO = 0xFF, 0xFFFF


def harmless(text: str) -> str:
    """The text with such characters as escapes that can be read."""
    return text if text.isascii() and text.isprintable() else _UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    """As Python would write it."""
    code = ord(match[0])
    if code <= _LAST_OF_ONE_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _LAST_OF_TWO else f"\\U{code:08x}"
