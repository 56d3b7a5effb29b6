"""``nvidia-smi -q -x`` in a paste: its elements, as far as the document goes. Pure.

What stands around it or has spoilt it is no part of it: tags are taken as they are, everything else is text. So a
declaration of a type or of an entity never reaches the parser, and nothing is expanded or fetched.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from gpuenv.model.pattern import pattern

if TYPE_CHECKING:
    from gpuenv.probe.smi_xml import Elements

_BEGINS = pattern(r"(?=<(?:nvidia_smi_log\b|gpu id=))")
_TAG = pattern(r"(</?[a-z]\w*(?: id=\"[^\"<>&]*\")?\s*/?>)", re.IGNORECASE)
_ROOT, _GPU = "<nvidia_smi_log", "<gpu id="
# Without the root above it, an address alone tells nvidia-smi's element from that of other programs.
_ADDRESSED = pattern(r"<gpu id=\"[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.\d\"", re.IGNORECASE)
_DEEPEST = 16  # elements in each other; nvidia-smi's are seven
_MOST = 1000  # documents of a paste


class DocumentReader:
    """Takes lines and tells the elements in them.

    A document that is broken off ends there; where its next GPU begins, it is read on.
    """

    def __init__(self) -> None:
        self._elements: Elements | None = None
        self._found: list[tuple[tuple[str, ...], str]] = []
        self._begun = 0

    def look(self, line: str) -> list[tuple[tuple[str, ...], str]]:
        """Takes a line; returns the elements that end in it: their path below the root, and their text.

        A GPU is told where it begins, with its address.
        """
        if self._elements is None and "<" not in line:
            return []
        for part in _BEGINS.split(line) if _ROOT in line or _GPU in line else (line,):
            self._read(part)
        found, self._found = self._found, []
        return found

    def _read(self, part: str) -> None:
        if part.startswith(_ROOT) or (_ADDRESSED.match(part) and self._is_elsewhere()):
            self._begin()
        if self._elements is None:
            return
        goes_on = self._elements.feed(_tags_and_text(part) + "\n")
        if not goes_on or not 0 < len(self._elements.path) <= _DEEPEST:
            self._elements = None

    def _is_elsewhere(self) -> bool:
        """Whether a GPU cannot begin here, but in a document of its own: the one before it was broken off."""
        return self._elements is None or len(self._elements.path) > 1

    def _begin(self) -> None:
        from gpuenv.probe.smi_xml import Elements  # noqa: PLC0415 - the library of XML takes long to load

        self._begun += 1
        self._elements = Elements(self._start, self._end) if self._begun <= _MOST else None

    def _start(self, path: list[str], attributes: dict[str, str]) -> None:
        if _below(path) == ("gpu",):
            self._found.append((("gpu",), attributes.get("id", "")))

    def _end(self, path: list[str], text: str) -> None:
        below = _below(path)
        if below and below != ("gpu",):
            self._found.append((below, text))


def _below(path: list[str]) -> tuple[str, ...]:
    return tuple(path[1:] if path[0] == _ROOT[1:] else path)


def _tags_and_text(part: str) -> str:
    pieces = _TAG.split(part)
    return "".join(piece if number % 2 else escape(piece) for number, piece in enumerate(pieces))
