"""Measured rows of a refresh, and edits that add them to the plain values of a matrix."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from packaging.version import Version

from gpuenv.files import LARGEST_DOCUMENT, make_private_folder, others_reach, read_own, replace_file
from gpuenv.matrix.canonical import comments_in, matrix_text
from gpuenv.matrix.csv_tables import sources_text
from gpuenv.matrix.load import read_values, to_matrix
from gpuenv.matrix.tables import Matrix
from gpuenv.model.versions import CudaVersion
from gpuenv.refresh.package_index import Index, IndexFile


class MatrixLayoutError(ValueError):
    """A row has no place in a matrix."""


@dataclass(frozen=True, slots=True)
class NewRow:
    """A row to add, or to replace an existing one.

    Attributes:
        name: for users, such as ``cupy-cuda13x 14.2.0``.
        key: of its source.
        source: plain values of its source.
        row: its plain values.
        version: the sort key.
        of: its line or distribution; null for a CUDA minor version.
    """

    name: str
    key: str
    source: Mapping[str, Any]
    row: Mapping[str, Any]
    table: str
    version: str
    of: str | None


class NewLine(NamedTuple):
    """A distribution of CuPy without a line in the matrix, and its releases; a person has to add it."""

    name: str
    releases: tuple[str, ...]


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
        """Whether there is anything to write; new lines are not written."""
        return bool(self.rows or self.toolkits or self.yanked or self.restored)


def plain(value: Any) -> Any:  # noqa: ANN401 - plain values of YAML
    """Converts a row to plain values: versions to texts, tuples to lists; skips None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [plain(item) for item in value]
    return value if isinstance(value, bool | int | str) else str(value)


def add_to(values: dict[str, Any], additions: Additions, today: str) -> None:
    """Adds the additions to the plain values of a matrix, with their sources and a new revision.

    Raises:
        MatrixLayoutError: the matrix has no wheel line for a release.
    """
    for new in additions.rows:
        values.setdefault("sources", {})[new.key] = dict(new.source)
        if new.table in ("wheel_lines", "rocm_lines"):
            _insert(_releases(values, new.of or ""), "cupy", new, newest_first=True)
        elif new.table == "cuda_minors":
            _insert(values.setdefault(new.table, []), "cuda", new, newest_first=False)
        else:
            rows = values.setdefault(new.table, [])  # of each distribution, the newest are first
            position = next((number for number, row in enumerate(rows) if row["distribution"] == new.of), len(rows))
            rows.insert(position, dict(new.row))
    for row in values.get("cuda_minors", ()):
        if row["cuda"] in additions.toolkits:
            row["toolkit_wheels"] = True
    for line, version, reason in additions.yanked:
        _release(values, line, version)["yanked"] = reason
    for line, version in additions.restored:
        _release(values, line, version).pop("yanked", None)
    values["revision"] = today


def _releases(values: Mapping[str, Any], line: str) -> list[dict[str, Any]]:
    """Returns the releases of a line."""
    for row in (*values.get("wheel_lines", ()), *values.get("rocm_lines", ())):
        if row["name"] == line:
            return cast("list[dict[str, Any]]", row["releases"])
    raise MatrixLayoutError(f"the matrix has no line {line}")


def _release(values: Mapping[str, Any], line: str, version: str) -> dict[str, Any]:
    return next(row for row in _releases(values, line) if row["cupy"] == version)


def _insert(rows: list[dict[str, Any]], key: str, new: NewRow, *, newest_first: bool) -> None:
    """Inserts a row by its version, or replaces the row of that version."""
    for number, row in enumerate(rows):
        if row[key] == new.version:
            row.clear()
            row.update(new.row)  # in place, so that its comments stay
            return
        if (Version(row[key]) < Version(new.version)) is newest_first:
            rows.insert(number, dict(new.row))
            return
    rows.append(dict(new.row))


_FORM = "3"  # of a cached row; rows of another form are measured again


class RefreshProgress(Protocol):
    """Reports the progress of a refresh."""

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
        return total_size(file.size for file in self.files)


def total_size(sizes: Iterable[int | None]) -> int | None:
    """The sum of some sizes; None if one is unknown."""
    known = [*sizes]
    return None if None in known else sum(size or 0 for size in known)


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


def updated_files(
    source: Path, target: Path, additions: Additions, today: str, sources_file: Path | None
) -> tuple[dict[Path, str], Matrix]:
    """The texts of the files in the order in which to write them, and the new matrix, validated.

    The rows of ``source`` and the additions go to ``target``; measured binaries go to ``sources_file``, a CSV file, if
    there is one.

    Raises:
        MatrixLayoutError: when the rows cannot be added to the file.
        MatrixError: when the new matrix is invalid.
    """
    text = source.read_text(encoding="utf-8")
    values, lines = read_values(text, str(source))
    comments = comments_in(text, values, lines)
    texts = {}
    add_to(values, additions, today)
    matrix = to_matrix(values, str(source), {})
    if sources_file is not None:
        for row in additions.rows:
            del values["sources"][row.key]
        in_csv = {key: row for key, row in matrix.sources.items() if key not in values["sources"]}
        texts[sources_file] = sources_text(in_csv)
    texts[target] = matrix_text(matrix, values, comments)
    return texts, matrix
