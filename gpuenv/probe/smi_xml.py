"""Reads ``nvidia-smi -q -x``, which every release since R270 prints, where a release refuses the shorter query.

The document is read element by element and no tree is built. An entity of its own, with which a small document grows
without end, ends the reading: nvidia-smi declares none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat

from gpuenv.probe.raw import SmiFacts, SmiGpu

_ROOT = "nvidia_smi_log"
_DRIVER, _CUDA = ("driver_version", "kmd_version"), ("cuda_version", "cuda_umd_version")
_VERSION = re.compile(r"\d[\d.]*")
_MEMORY = re.compile(r"([0-9]{1,9}) (?:MiB|MB)")
_WANTED = (["product_name"], ["uuid"], ["fb_memory_usage", "total"])
_NOTHING = ("N/A", "ERR!", "Unknown Error", "GPU is lost")
_MOST_TEXT = 256
_MIB = 1024 * 1024


class _RefusedError(ValueError):
    """The document declares an entity."""


@dataclass(slots=True)
class _Reader:
    """What has been read so far."""

    path: list[str] = field(default_factory=list)
    text: str = ""
    top: dict[str, str] = field(default_factory=dict)
    gpus: list[dict[str, str]] = field(default_factory=list)

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Goes one element down."""
        self.path.append(name)
        self.text = ""
        if self.path == [_ROOT, "gpu"]:
            self.gpus.append({"pci": attributes.get("id", "")})

    def data(self, text: str) -> None:
        """Text of the element in hand, the beginning of it."""
        self.text = (self.text + text)[:_MOST_TEXT]

    def end(self, _: str) -> None:
        """Goes one element up, and keeps its text where it is wanted."""
        below = self.path[1:]
        if self.path[:1] == [_ROOT] and len(below) == 1:
            self.top.setdefault(below[0], self.text.strip())
        elif self.gpus and below[:1] == ["gpu"] and below[1:] in _WANTED:
            self.gpus[-1].setdefault(below[-1], self.text.strip())
        self.path.pop()
        self.text = ""


def parse_xml(output: str) -> SmiFacts | None:
    """The driver, its CUDA level and the GPUs; None for what is no such document.

    Warnings may stand before it; of one that is cut off, what came before the cut is kept.
    """
    begin = output.find("<?xml")
    begin = output.find(f"<{_ROOT}") if begin < 0 else begin
    if begin < 0:
        return None
    reader = _Reader()
    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler = reader.data
    parser.EntityDeclHandler = _refuse
    try:
        parser.Parse(output[begin:].encode("utf-8", "replace"), True)
    except expat.ExpatError:
        pass  # what came before the cut stands
    except _RefusedError:
        return None
    if not reader.top and not reader.gpus:
        return None
    gpus = tuple(_gpu(number, texts) for number, texts in enumerate(reader.gpus))
    return SmiFacts(None, _version(reader.top, _DRIVER), _version(reader.top, _CUDA), gpus)


def _refuse(*_: object) -> None:
    raise _RefusedError


def _version(texts: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((texts[name] for name in names if _VERSION.fullmatch(texts.get(name, ""))), None)


def _gpu(number: int, texts: dict[str, str]) -> SmiGpu:
    memory = _MEMORY.fullmatch(texts.get("total", ""))
    total = int(memory[1]) * _MIB if memory else None
    return SmiGpu(number, _given(texts, "uuid"), _given(texts, "product_name"), _given(texts, "pci"), None, total)


def _given(texts: dict[str, str], name: str) -> str | None:
    """A text that says something; ``N/A``, ``ERR!`` and sentences of error do not."""
    text = texts.get(name, "")
    return None if not text or text.startswith("[") or text in _NOTHING else text
