"""Messages that the libraries and tools themselves can print, by who prints them, and how many are understood.

They are from binaries and sources, not from reports, but for those ``as known of`` a program, whose wording was not
looked up there: error strings of libcuda, libcudart, NVRTC, cuBLAS, NVML and glibc, what CuPy, NumPy, numba, torch and
JAX raise, what package managers, container tools and schedulers answer. Each has every cause that is a right first
answer to the message alone. Those that say ``where`` they are printed (a release, and its file or its own run) were
collected before it was looked at what is said of them: of these 464, 274 (59 %) were understood at first and 168 met
silence. Of 191 that stand near to what was missed of the ``later`` reports, collected in the same way, 78 (41 %)
were understood at first. What is printed below is after the signatures have learnt from all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpuenv.explain.explainer import explanation
from gpuenv.explain.scan import scan

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Message:
    """A message, who prints it, the causes that are right, and the release and file that print it."""

    source: str
    text: str
    causes: frozenset[str]
    where: str


@dataclass(frozen=True, slots=True)
class Recall:
    """How many of a source's messages are understood: at the first place, and among three."""

    source: str
    count: int
    first: int
    three: int


def messages() -> tuple[Message, ...]:
    rows = json.loads((HERE / "printed.json").read_text(encoding="utf-8"))
    return tuple(Message(row["source"], row["text"], frozenset(row["causes"]), row.get("where", "")) for row in rows)


def said(message: Message) -> list[str]:
    return [entry.cause.value for entry in explanation(scan(message.text.encode())).causes[:3]]


def recalls() -> Iterator[Recall]:
    """The recall of every source, in the order of the file."""
    answered = [(message, said(message)) for message in messages()]
    for source in dict.fromkeys(message.source for message, _ in answered):
        of_source = [(message, causes) for message, causes in answered if message.source == source]
        yield Recall(
            source,
            len(of_source),
            sum(bool(causes) and causes[0] in message.causes for message, causes in of_source),
            sum(bool(message.causes & set(causes)) for message, causes in of_source),
        )


def table() -> Iterator[str]:
    """The recalls as lines of text, with their sum."""
    found = list(recalls())
    count, first, three = (sum(getattr(entry, name) for entry in found) for name in ("count", "first", "three"))
    width = max(len(entry.source) for entry in found)
    for entry in (*found, Recall("together", count, first, three)):
        yield f"  {entry.source:<{width}}  first {entry.first}/{entry.count}  among three {entry.three}/{entry.count}"
