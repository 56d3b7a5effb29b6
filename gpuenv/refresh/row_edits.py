"""The work of a refresh: a row to measure, and new rows put into the text of a matrix."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from packaging.version import Version

from gpuenv.model.versions import CudaVersion
from gpuenv.refresh.package_index import Index, IndexFile

_QUOTED = re.compile(r"[:#,\[\]{}&*!|>'\"%@`]|^[-?\s]|\s$|^$|^(null|~|yes|no|true|false)$")


class MatrixLayoutError(ValueError):
    """The text has no place for a row: it was not written as the matrix is."""


@dataclass(frozen=True, slots=True)
class NewRow:
    """A row to be added, or to stand in place of one that is there.

    Attributes:
        name: as people call it, such as ``cupy-cuda13x 14.2.0``.
        version: what it is ordered by.
        of: the line or the distribution that it belongs to; null for a CUDA minor.
    """

    name: str
    key: str
    source: str
    row: str
    table: str
    version: str
    of: str | None


@dataclass(frozen=True, slots=True)
class Additions:
    """Everything that is to be written.

    Attributes:
        toolkits: the CUDA minors whose toolkit has come to the index.
        withdrawn: known releases that were withdrawn since (line, version, reason).
        restored: known releases that are no longer withdrawn (line, version).
    """

    rows: tuple[NewRow, ...] = ()
    toolkits: tuple[str, ...] = ()
    withdrawn: tuple[tuple[str, str, str], ...] = ()
    restored: tuple[tuple[str, str], ...] = ()


def flow_mapping(values: Mapping[str, object]) -> str:
    """A mapping on one line, as the rows of the matrix are written; what is None is left out."""
    return (
        "{" + ", ".join(f"{_scalar(key)}: {_value(value)}" for key, value in values.items() if value is not None) + "}"
    )


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        return flow_mapping(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_scalar(str(item)) for item in value) + "]"
    if isinstance(value, bool):
        return "'true'" if value else "'false'"
    return _scalar(str(value))


def _scalar(text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if _QUOTED.search(text) else text


def with_additions(text: str, additions: Additions, today: str) -> str:
    """The text with the additions and a new revision.

    Raises:
        PlaceError: where it has no place for one.
    """
    lines = text.splitlines()
    for new in additions.rows:
        _add_source(lines, new)
        _ADD[new.table](lines, new)
    for cuda in additions.toolkits:
        _mark_toolkit(lines, cuda)
    for line, version, reason in additions.withdrawn:
        _mark_yanked(lines, line, version, reason)
    for line, version in additions.restored:
        _mark_yanked(lines, line, version, None)
    lines = [re.sub(r"^revision: .*", f"revision: '{today}'", line) for line in lines]
    return "\n".join(lines) + "\n"


def _add_source(lines: list[str], new: NewRow) -> None:
    """With the sources of its like: releases stand newest first, NVRTCs oldest first."""
    pattern = rf"  {re.escape(new.key[: -len(new.version)])}(\d[\w.]*): "
    text = f"  {new.key}: {new.source}"
    _insert_row(lines, range(*_section(lines, "sources:")), pattern, new, text, newest_first=new.of is not None)


def _add_release(lines: list[str], new: NewRow) -> None:
    places = range(*_release_lines(lines, new.of or ""))
    _insert_row(lines, places, r"      - \{cupy: (\d[\w.]*),", new, f"      - {new.row}", newest_first=True)


def _release_lines(lines: list[str], line: str) -> tuple[int, int]:
    """Where the releases of a line stand."""
    name = f"  - name: {line}"
    if name not in lines:
        raise MatrixLayoutError(f"the matrix has no line {line}")
    place = lines.index(name) + 1
    while place < len(lines) and lines[place].startswith("    ") and not lines[place].startswith("    releases:"):
        place += 1
    if place == len(lines) or not lines[place].startswith("    releases:"):
        raise MatrixLayoutError(f"the line {line} has no list of releases")
    lines[place] = "    releases:"  # without the brackets of an empty list
    end = place + 1
    while end < len(lines) and lines[end].startswith("      - "):
        end += 1
    return place + 1, end


def _add_minor(lines: list[str], new: NewRow) -> None:
    place = range(*_section(lines, "cuda_minors:"))
    _insert_row(lines, place, r"  - \{cuda: (\d+\.\d+),", new, f"  - {new.row}", newest_first=False)


def _add_companion(lines: list[str], new: NewRow) -> None:
    """Before the rows of its distribution: they stand newest first."""
    start, end = _section(lines, "companions:")
    head = f"  - {{distribution: {new.of},"
    place = next((number for number in range(start, end) if lines[number].startswith(head)), end)
    lines.insert(place, f"  - {new.row}")


_ADD = {
    "wheel_lines": _add_release,
    "rocm_lines": _add_release,
    "cuda_minors": _add_minor,
    "companions": _add_companion,
}


def _insert_row(lines: list[str], places: range, version: str, new: NewRow, text: str, *, newest_first: bool) -> None:
    """Puts a row where its version belongs, or in place of the row of that version."""
    at = places.start
    for number in places:
        found = re.match(version, lines[number])
        if found is None:
            continue
        if found[1] == new.version:
            lines[number] = text
            return
        is_older = Version(found[1]) < Version(new.version)
        if is_older != newest_first:  # the new row comes after this one
            at = number + 1
        elif newest_first:
            at = number
            break
    lines.insert(at, text)


def _mark_toolkit(lines: list[str], cuda: str) -> None:
    for number in range(*_section(lines, "cuda_minors:")):
        if lines[number].startswith(f"  - {{cuda: {cuda},"):
            lines[number] = lines[number].replace("toolkit_wheels: 'false'", "toolkit_wheels: 'true'")


def _mark_yanked(lines: list[str], line: str, version: str, reason: str | None) -> None:
    for number in range(*_release_lines(lines, line)):
        if lines[number].startswith(f"      - {{cupy: {version},"):
            bare = re.sub(r", yanked: (?:'(?:[^']|'')*'|[^',}]*)(?=, source: )", "", lines[number])
            mark = f", yanked: {_scalar(reason)}" if reason is not None else ""
            head, source, key = bare.rpartition(", source: ")
            lines[number] = f"{head}{mark}{source}{key}"


def _section(lines: list[str], heading: str) -> tuple[int, int]:
    """The lines under a heading, up to the first that stands further out."""
    try:
        start = lines.index(heading) + 1
    except ValueError:
        raise MatrixLayoutError(f"the matrix has no section {heading.rstrip(':')}") from None
    end = start
    while end < len(lines) and lines[end].startswith("  "):
        end += 1
    return start, end


_FORM = "2"  # of a row that is kept; another one is measured again


class RefreshProgress(Protocol):
    """Shows how far a refresh is."""

    def say(self, text: str) -> None:
        """A sentence for the user."""

    def start(self, pieces: int, size: int | None) -> None:
        """The work is known: how many pieces, and how many bytes are downloaded for them; None where unknown."""

    def piece(self, name: str, size: int | None) -> None:
        """A piece begins, with its bytes."""

    def end(self) -> None:
        """All pieces are done."""


@dataclass(frozen=True, slots=True)
class RefreshContext:
    """What a refresh works with.

    Attributes:
        environment: for the children that measure.
        cache: a folder for what was measured, so that a refresh that was interrupted goes on where it was.
        scratch: a folder for what is downloaded.
        progress: tells the user what is done now.
        cuobjdump: NVIDIA's reader of GPU code; None where it is not there.
        stub: a folder with a libcuda of any level; None where there is no compiler to make one.
        levels: the CUDA levels of drivers.
    """

    index: Index
    environment: Mapping[str, str]
    cache: Path
    scratch: Path
    today: str
    progress: RefreshProgress
    cuobjdump: Path | None
    stub: Path | None
    levels: tuple[CudaVersion, ...]

    def kept(self, key: str) -> Path:
        """Where a measured row is kept until it is written."""
        return self.cache / f"{key}.json"


@dataclass(frozen=True, slots=True)
class Measurement:
    """One row that is to be measured.

    Attributes:
        key: of its source, and of what is kept of it.
        files: the wheels that are downloaded for it.
    """

    name: str
    key: str
    files: tuple[IndexFile, ...]
    measure: Callable[[], NewRow]

    @property
    def size(self) -> int | None:
        """Bytes; None where the index does not tell them."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)


def measure_or_reuse(piece: Measurement, context: RefreshContext) -> NewRow:
    """What an earlier refresh has measured and could not write, else a new measurement, which is kept."""
    file = context.kept(piece.key)
    digests = sorted(entry.sha256 for entry in piece.files)
    found = _read_cached(file, digests)
    if found is not None:
        return found
    context.progress.piece(piece.name, piece.size)
    row = piece.measure()
    context.cache.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".part")
    temporary.write_text(json.dumps({"form": _FORM, "files": digests, "row": asdict(row)}), encoding="utf-8")
    temporary.replace(file)
    return row


def _read_cached(file: Path, digests: list[str]) -> NewRow | None:
    """Only what was measured by this program, of these very files."""
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["form"] != _FORM or kept["files"] != digests:
            return None
        return NewRow(**kept["row"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
