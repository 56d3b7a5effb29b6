"""Parses ``nvidia-smi -q -x``, which every release since R270 prints, for releases that reject the shorter query.

The document is parsed as a stream; no tree is built. An entity declaration, which could expand a small document without
bound, ends the parsing: nvidia-smi declares none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.parsers import expat

from gpuenv.probe.nvidia_smi import value_or_none
from gpuenv.probe.raw import ListedGpu, SmiFacts

_ROOT = "nvidia_smi_log"
_DRIVER, _CUDA = ("driver_version", "kmd_version"), ("cuda_version", "cuda_umd_version")
_VERSION = re.compile(r"\d[\d.]*")
_MEMORY = re.compile(r"([0-9]{1,9}) (?:MiB|MB)")
_WANTED = (["product_name"], ["uuid"], ["fb_memory_usage", "total"])
_MOST_TEXT = 256


class _RefusedError(ValueError):
    """The document declares an entity."""


class Elements:
    """A streaming parser."""

    def __init__(
        self, on_start: Callable[[list[str], dict[str, str]], None], on_end: Callable[[list[str], str], None]
    ) -> None:
        """``on_start`` gets the path and attributes of an element, ``on_end`` its path and how its text begins."""
        self.path: list[str] = []  # the names of the open elements
        self._text = ""
        self._on_start, self._on_end = on_start, on_end
        self._parser = expat.ParserCreate("utf-8")
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._start, self._end
        self._parser.CharacterDataHandler = self._data
        self._parser.EntityDeclHandler = _refuse

    def feed(self, text: str, *, last: bool = False) -> bool:
        """Parses further text; False if it is not well-formed, in which case earlier elements remain valid.

        Raises:
            _RefusedError: when it declares an entity.
        """
        try:
            self._parser.Parse(text.encode("utf-8", "replace"), last)
        except expat.ExpatError:
            return False
        return True

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self.path.append(name)
        self._text = ""
        self._on_start(self.path, attributes)

    def _data(self, text: str) -> None:
        self._text = (self._text + text)[:_MOST_TEXT]

    def _end(self, _: str) -> None:
        self._on_end(self.path, self._text.strip())
        self.path.pop()
        self._text = ""


def parse_xml(output: str) -> SmiFacts | None:
    """The driver, its CUDA level and the GPUs; None if the output is not such a document.

    Warnings may precede it; a truncated one is parsed up to its end.
    """
    begin = output.find("<?xml")
    begin = output.find(f"<{_ROOT}") if begin < 0 else begin
    if begin < 0:
        return None
    top: dict[str, str] = {}
    gpus: list[dict[str, str]] = []

    def on_start(path: list[str], attributes: dict[str, str]) -> None:
        if path == [_ROOT, "gpu"]:  # the address is an attribute
            gpus.append({"pci": attributes.get("id", "")})

    def on_end(path: list[str], text: str) -> None:
        below = path[1:]
        if path[:1] == [_ROOT] and len(below) == 1:
            top.setdefault(below[0], text)
        elif gpus and below[:1] == ["gpu"] and below[1:] in _WANTED:
            gpus[-1].setdefault(below[-1], text)

    try:
        Elements(on_start, on_end).feed(output[begin:], last=True)
    except _RefusedError:
        return None
    if not top and not gpus:
        return None
    listed = tuple(_gpu(number, texts) for number, texts in enumerate(gpus))
    return SmiFacts(_version(top, _DRIVER), _version(top, _CUDA), listed)


def _refuse(*_: object) -> None:
    raise _RefusedError


def _version(texts: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((texts[name] for name in names if _VERSION.fullmatch(texts.get(name, ""))), None)


def _gpu(number: int, texts: dict[str, str]) -> ListedGpu:
    memory = _MEMORY.fullmatch(texts.get("total", ""))
    uuid, name, pci = (value_or_none(texts.get(key, "")) for key in ("uuid", "product_name", "pci"))
    return ListedGpu(number, uuid, name, pci, None, int(memory[1]) << 20 if memory else None)
