"""The reference page of facts."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from gpuenv.model.codec import field_names, is_record
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Snapshot, Source
from tools.fact_sources import sources_of

_HEAD = """\
# Facts

Every reading of a snapshot. If several sources can provide a fact, gpuenv queries all of them and keeps every answer
(`others`); the first source that answers, in the order given here, decides the value. An absent source is neither a
contradiction nor a fault.

"""


def fact_paths() -> Iterator[tuple[str, str]]:
    """The path of every reading in a Snapshot, and its meaning from the documentation of its record."""
    yield from _record(Snapshot, "")


def page() -> str:
    """The page in Markdown: a section for each part of a snapshot, and an entry for each reading."""
    parts, section = [_HEAD], None
    for path, meaning in fact_paths():
        if (first := re.split(r"[.\[]", path)[0]) != section:
            section = first
            parts.append(f"## {section}\n\n")
        row = sources_of(path)
        trust, differ = (row.trust, row.differ) if row else ((), "")
        parts.append(f"`{path}`\n: {_text(meaning)}\n\n")
        parts.append(f"  Sources: {_text(', '.join(trust))}.\n\n" if trust else "")
        parts.append(f"  If they differ: {_text(differ)}.\n\n" if differ else "")
    return "".join(parts)


def _text(text: str) -> str:
    return text.replace("``", "`").replace("*", "\\*")


def _record(kind: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - a record's class
    hints, meanings = get_type_hints(kind), _meanings(kind)
    for name in field_names(kind):
        inner = f"{path}.{name}" if path else name
        yield from _field(hints[name], inner, meanings.get(name, ""))


def _field(hint: Any, path: str, meaning: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - a type hint
    """The facts of a field: a reading or a mapping, a list of records and their fields; other fields are not facts."""
    origin = get_origin(hint)
    options = [option for option in get_args(hint) if option not in (type(None), ...)]
    if origin is Reading or (isinstance(origin, type) and issubclass(origin, Mapping)):
        yield path, meaning
    elif is_record(hint) and not hasattr(hint, "parse"):
        yield from _record(hint, path)
    elif origin is tuple and is_record(options[0]) and options[0] is not Source:
        yield f"{path}[]", meaning
        yield from _record(options[0], f"{path}[]")
    elif origin is UnionType:  # a list that may be null
        yield from _field(options[0], path, meaning)


def _meanings(kind: Any) -> dict[str, str]:  # noqa: ANN401 - a record's class
    """The texts under ``Attributes:`` of a record's documentation."""
    text = inspect.getdoc(kind) or ""
    _, _, attributes = text.partition("Attributes:\n")
    found = re.findall(r"^    (\w+): (.+(?:\n {8,}.+)*)", attributes, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", meaning) for name, meaning in found}
