"""Measured rows of a refresh, and edits that insert them into the text of a matrix."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from packaging.version import Version

from gpuenv.files import LARGEST_DOCUMENT, make_private_folder, others_reach, read_own, replace_file
from gpuenv.model.versions import CudaVersion
from gpuenv.refresh.new_lines import NewLine
from gpuenv.refresh.package_index import Index, IndexFile

_QUOTED = re.compile(r"[:#,\[\]{}&*!|>'\"%@`]|^[-?\s]|\s$|^$|^(null|~|yes|no|true|false)$")


class MatrixLayoutError(ValueError):
    """The text has no position for a row because its layout differs from the matrix."""


@dataclass(frozen=True, slots=True)
class NewRow:
    """A row to add, or to replace an existing one.

    Attributes:
        name: for users, such as ``cupy-cuda13x 14.2.0``.
        version: the sort key.
        of: its line or distribution; null for a CUDA minor version.
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
    """Everything to write.

    Attributes:
        toolkits: the CUDA minor versions whose toolkit is new on the index.
        yanked: known releases that were yanked since (line, version, reason).
        restored: known releases that are no longer yanked (line, version).
        lines: new lines, which are reported and not written.
        measured: the keys of the cached measurements behind the rows.
    """

    rows: tuple[NewRow, ...] = ()
    toolkits: tuple[str, ...] = ()
    yanked: tuple[tuple[str, str, str], ...] = ()
    restored: tuple[tuple[str, str], ...] = ()
    lines: tuple[NewLine, ...] = ()
    measured: tuple[str, ...] = ()

    @property
    def is_writable(self) -> bool:
        """Whether anything is to be written; new lines are not."""
        return bool(self.rows or self.toolkits or self.yanked or self.restored)


def flow_mapping(values: Mapping[str, object]) -> str:
    """Formats a mapping on one line, like the rows of the matrix; skips None."""
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
    """Returns the text with the additions and a new revision.

    Raises:
        MatrixLayoutError: the text has no position for a row.
    """
    lines = text.splitlines()
    for new in additions.rows:
        _add_source(lines, new)
        _ADD[new.table](lines, new)
    for cuda in additions.toolkits:
        _mark_toolkit(lines, cuda)
    for line, version, reason in additions.yanked:
        _mark_yanked(lines, line, version, reason)
    for line, version in additions.restored:
        _mark_yanked(lines, line, version, None)
    lines = [re.sub(r"^revision: .*", f"revision: '{today}'", line) for line in lines]
    return "\n".join(lines) + "\n"


def _add_source(lines: list[str], new: NewRow) -> None:
    """Adds a source next to similar ones: releases are newest first, NVRTCs oldest first."""
    pattern = rf"  {re.escape(new.key[: -len(new.version)])}(\d[\w.]*): "
    text = f"  {new.key}: {new.source}"
    _insert_row(lines, range(*_section(lines, "sources:")), pattern, new, text, newest_first=new.of is not None)


def _add_release(lines: list[str], new: NewRow) -> None:
    positions = range(*_release_lines(lines, new.of or ""))
    _insert_row(lines, positions, r"      - \{cupy: (\d[\w.]*),", new, f"      - {new.row}", newest_first=True)


def _release_lines(lines: list[str], line: str) -> tuple[int, int]:
    """Returns the range of a line's releases."""
    name = f"  - name: {line}"
    if name not in lines:
        raise MatrixLayoutError(f"the matrix has no line {line}")
    heading = lines.index(name) + 1
    while heading < len(lines) and lines[heading].startswith("    ") and not lines[heading].startswith("    releases:"):
        heading += 1
    if heading == len(lines) or not lines[heading].startswith("    releases:"):
        raise MatrixLayoutError(f"the line {line} has no list of releases")
    lines[heading] = "    releases:"  # without the brackets of an empty list
    end = heading + 1
    while end < len(lines) and lines[end].startswith("      - "):
        end += 1
    return heading + 1, end


def _add_minor(lines: list[str], new: NewRow) -> None:
    positions = range(*_section(lines, "cuda_minors:"))
    _insert_row(lines, positions, r"  - \{cuda: (\d+\.\d+),", new, f"  - {new.row}", newest_first=False)


def _add_companion(lines: list[str], new: NewRow) -> None:
    """Adds a row before those of its distribution, which are newest first."""
    start, end = _section(lines, "companions:")
    head = f"  - {{distribution: {new.of},"
    position = next((number for number in range(start, end) if lines[number].startswith(head)), end)
    lines.insert(position, f"  - {new.row}")


_ADD = {
    "wheel_lines": _add_release,
    "rocm_lines": _add_release,
    "cuda_minors": _add_minor,
    "companions": _add_companion,
}


def _insert_row(
    lines: list[str], positions: range, version: str, new: NewRow, text: str, *, newest_first: bool
) -> None:
    """Inserts a row by its version, or replaces the row of that version."""
    position = positions.start
    for number in positions:
        found = re.match(version, lines[number])
        if found is None:
            continue
        if found[1] == new.version:
            lines[number] = text
            return
        is_older = Version(found[1]) < Version(new.version)
        if is_older != newest_first:  # the new row comes after this one
            position = number + 1
        elif newest_first:
            position = number
            break
    lines.insert(position, text)


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
    """Returns the range of lines under a heading, up to the next with less indentation."""
    try:
        start = lines.index(heading) + 1
    except ValueError:
        raise MatrixLayoutError(f"the matrix has no section {heading.rstrip(':')}") from None
    end = start
    while end < len(lines) and lines[end].startswith("  "):
        end += 1
    return start, end


_FORM = "2"  # of a cached row; rows of another form are measured again


class RefreshProgress(Protocol):
    """Reports the progress of a refresh."""

    def say(self, text: str) -> None:
        """Shows a message."""

    def start_queries(self, count: int, subject: str) -> None:
        """Announces the number of queries of the index."""

    def answered(self) -> None:
        """Counts an answered query."""

    def start(self, count: int, size: int | None) -> None:
        """Announces the number of measurements and the bytes to download; None if unknown."""

    def measure(self, name: str, size: int | None) -> None:
        """Announces a measurement and its bytes."""

    def end(self) -> None:
        """All measurements are done."""


@dataclass(frozen=True, slots=True)
class RefreshContext:
    """Index, folders and tools of a refresh.

    Attributes:
        environment: for the children that measure.
        cache: a folder for measured rows, so that an interrupted refresh can resume.
        scratch: a folder for downloads.
        progress: shows the progress.
        cuobjdump: NVIDIA's reader of GPU code; None if not installed.
        stub: a folder with a libcuda of any level; None without a compiler to build it.
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

    def cache_file(self, key: str) -> Path:
        """Returns the file for a measured row that is not written yet."""
        return self.cache / f"{key}.json"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A row to measure.

    Attributes:
        key: of its source and its cache file.
        files: the wheels to download for it.
    """

    name: str
    key: str
    files: tuple[IndexFile, ...]
    run: Callable[[], NewRow]

    @property
    def size(self) -> int | None:
        """Bytes to download; None if the index does not report them."""
        sizes = [file.size for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)


def measure_or_reuse(measurement: Measurement, context: RefreshContext) -> NewRow:
    """Returns the cached row of an interrupted refresh, else measures and caches it."""
    file = context.cache_file(measurement.key)
    digests = sorted(entry.sha256 for entry in measurement.files)
    found = _read_cached(file, digests)
    if found is not None:
        return found
    context.progress.measure(measurement.name, measurement.size)
    row = measurement.run()
    make_private_folder(context.cache)
    if not others_reach(context.cache):
        replace_file(file, json.dumps({"form": _FORM, "files": digests, "row": asdict(row)}), private=True)
    return row


def _read_cached(file: Path, digests: list[str]) -> NewRow | None:
    """Returns a cached row of this format and these files."""
    try:
        cached = json.loads(read_own(file, LARGEST_DOCUMENT))
        if cached["form"] != _FORM or cached["files"] != digests:
            return None
        return NewRow(**cached["row"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
