"""What the metadata of unpacked wheels says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement


class MetadataError(Exception):
    """There is no metadata, or it cannot be read."""


@dataclass(frozen=True, slots=True)
class Metadata:
    """What the metadata of a CuPy wheel asks for."""

    requires_python: str
    numpy: str
    extras: Mapping[str, str]


def read_metadata(folder: Path, name: str) -> Metadata:
    """The metadata of a CuPy in a folder.

    Raises:
        MetadataError: where there is none, or a broken one.
    """
    message = _message(folder, name)
    wanted = _requirements(message)
    numpy = [str(entry.specifier) for entry in wanted if entry.name.lower() == "numpy" and entry.marker is None]
    return Metadata(message["Requires-Python"] or "", numpy[0] if numpy else "", _cuda_extras(message, wanted))


def requirements_of(folder: Path, name: str) -> tuple[str, ...]:
    """Every requirement of a distribution that was unpacked into a folder.

    Raises:
        MetadataError: where there is no metadata.
    """
    return tuple(_message(folder, name).get_all("Requires-Dist") or ())


def _message(folder: Path, name: str) -> Message:
    files = list(folder.glob(f"{name.replace('-', '_')}-*.dist-info/METADATA"))
    if len(files) != 1:
        raise MetadataError(f"{folder.name}: expected the metadata of one {name}, found {len(files)}")
    return Parser().parsestr(files[0].read_text(encoding="utf-8"))


def _requirements(message: Message) -> list[Requirement]:
    try:
        return [Requirement(text) for text in message.get_all("Requires-Dist") or []]
    except InvalidRequirement as error:
        raise MetadataError(f"{message['Name']} {message['Version']}: {error}") from error


def _cuda_extras(message: Message, wanted: list[Requirement]) -> dict[str, str]:
    """The extras that bring CUDA, each with the requirement it adds."""
    found: dict[str, str] = {}
    for extra in message.get_all("Provides-Extra") or []:
        for entry in wanted:
            if entry.name == "cuda-toolkit" and entry.marker is not None and entry.marker.evaluate({"extra": extra}):
                found[extra] = str(entry).partition(";")[0].strip()
    return found
