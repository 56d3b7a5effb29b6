"""Why something cannot be read or written, in words for people. Pure."""

from __future__ import annotations


def reason_of(error: Exception) -> str:
    """What the system says of a file without repeating its name, and "not a text in UTF-8" where decoding failed."""
    if isinstance(error, UnicodeDecodeError):
        return "not a text in UTF-8"
    return str(getattr(error, "strerror", None) or error)
