"""Recall of messages that libraries and tools can print, by the program that prints them.

They come from binaries and sources, not from reports: error strings of libcuda, libcudart, NVRTC, cuBLAS, NVML and
glibc, exceptions of CuPy, NumPy, numba, torch and JAX, output of package managers, container tools and schedulers. The
wording of those marked ``as known of`` a program was not verified there. Each message has every cause that is a correct
first answer to it alone. Those with ``where`` (a release, and its file or a run) were collected before they were first
scored: of these 464, 274 (59 %) were correct and 168 had no answer; of 191 collected after misses in the ``later``
reports, 78 (41 %) were correct. The messages have learnt from all of them since.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuenv.explain.explainer import explanation
from gpuenv.explain.match import scan

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Message:
    """A message, the program that prints it, its correct causes, and the release and file that contain it."""

    source: str
    text: str
    causes: frozenset[str]
    where: str


@dataclass(frozen=True, slots=True)
class Recall:
    """The number of messages of a source whose cause comes first, and among the first three."""

    source: str
    count: int
    first: int
    three: int


def messages() -> tuple[Message, ...]:
    rows = json.loads((HERE / "printed_messages.json").read_text(encoding="utf-8"))
    return tuple(Message(row["source"], row["text"], frozenset(row["causes"]), row.get("where", "")) for row in rows)


def first_causes(message: Message) -> list[str]:
    return [entry.cause.value for entry in explanation(scan(message.text.encode())).causes[:3]]


def recalls() -> Iterator[Recall]:
    """The recall of each source, in file order."""
    explained = [(message, first_causes(message)) for message in messages()]
    for source in dict.fromkeys(message.source for message, _ in explained):
        rows = [(message, causes) for message, causes in explained if message.source == source]
        yield Recall(
            source,
            len(rows),
            sum(bool(causes) and causes[0] in message.causes for message, causes in rows),
            sum(bool(message.causes & set(causes)) for message, causes in rows),
        )


def table() -> Iterator[str]:
    """The recalls and their sum as lines of text."""
    entries = list(recalls())
    count, first, three = (sum(getattr(entry, name) for entry in entries) for name in ("count", "first", "three"))
    width = max(len(entry.source) for entry in entries)
    for entry in (*entries, Recall("together", count, first, three)):
        yield f"  {entry.source:<{width}}  first {entry.first}/{entry.count}  among three {entry.three}/{entry.count}"
