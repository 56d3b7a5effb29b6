"""Texts that people made, and why something cannot be read or written, in words for people. Pure."""

from __future__ import annotations

import codecs


def text_of(raw: bytes) -> str:
    """A text with the line ends of Unix: in UTF-8, with a mark before it or without, or in PowerShell's UTF-16.

    Raises:
        UnicodeDecodeError: when it is neither.
    """
    is_wide = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and b"\0" in raw
    return raw.decode("utf-16" if is_wide else "utf-8-sig").replace("\r\n", "\n")


def reason_of(error: Exception) -> str:
    """What the system says of a file without repeating its name, and "not a text in UTF-8" where decoding failed."""
    if isinstance(error, UnicodeDecodeError):
        return "not a text in UTF-8"
    return str(getattr(error, "strerror", None) or error)
