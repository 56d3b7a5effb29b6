"""Implements ``matrix refresh``: finds and measures new releases on the package index, without writing anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from itertools import zip_longest
from typing import Any, NamedTuple

from packaging.version import Version

from gpuenv.matrix.tables import Matrix, Release, RocmLine, WheelLine
from gpuenv.refresh.companions import companion_measurement, merge_companions, newer_companions
from gpuenv.refresh.minors import minor_measurement, new_minors, new_toolkits, nvrtc_ranges
from gpuenv.refresh.package_index import Index, NoReleaseError, python_of
from gpuenv.refresh.releases import release_measurement
from gpuenv.refresh.row_edits import Additions, Measurement, NewLine, RefreshContext, measure_or_reuse, total_size

_WORKERS = 6  # parallel queries of the index
_AHEAD = 2  # CUDA majors, and ROCm minors, after the newest known ones
FLOOR = "11.3"  # the oldest CuPy that the matrix covers


class UnknownRowError(ValueError):
    """A row to measure again that does not exist."""


def find_additions(matrix: Matrix, context: RefreshContext, again: Collection[str] = ()) -> Additions:
    """Finds and measures everything that the index has and the matrix lacks.

    ``again`` has the names of known rows to measure again, such as ``cupy-cuda13x/14.2.0``.

    Raises:
        PackageIndexError: the index cannot be queried.
        MeasureError, MetadataError, CapsError: a binary or a source has an unexpected form.
        UnknownRowError: a row to measure again does not exist.
    """
    known = _without(matrix, again)
    pool = ThreadPoolExecutor(_WORKERS)
    try:
        news = _query_index(known, matrix, pool, context)
        measurements = _query_files(news, matrix, pool, context)
    finally:
        pool.shutdown(cancel_futures=True)  # after an error, the other queries are not begun
    left = [entry for entry in measurements if not context.cache_file(entry.key).is_file()]
    if measurements:
        context.progress.start(len(left), total_size(entry.size for entry in left))
    rows = [measure_or_reuse(entry, context) for entry in measurements]
    if measurements:
        context.progress.end()
    fresh = {row.version for row in rows if row.table == "cuda_minors"}
    return Additions(
        tuple(merge_companions(rows)),
        tuple(cuda for cuda in news.toolkits if cuda not in fresh),
        news.yanked,
        news.restored,
        news.lines,
        tuple(entry.key for entry in measurements),
    )


def _without(matrix: Matrix, again: Collection[str]) -> Matrix:
    """Returns the matrix without the rows to measure again."""
    names = {f"cuda/{row.cuda}" for row in matrix.cuda_minors}
    names |= {f"{line.name}/{row.cupy}" for line in _lines(matrix) for row in line.releases}
    for name in again:
        if name not in names:
            raise UnknownRowError(
                f"no release or CUDA minor version is named {name}; `gpuenv matrix show --full` lists the rows"
            )

    def remaining(line: WheelLine | RocmLine) -> tuple[Release, ...]:
        return tuple(row for row in line.releases if f"{line.name}/{row.cupy}" not in again)

    return replace(
        matrix,
        cuda_minors=tuple(row for row in matrix.cuda_minors if f"cuda/{row.cuda}" not in again),
        wheel_lines=tuple(line._replace(releases=remaining(line)) for line in matrix.wheel_lines),
        rocm_lines=tuple(line._replace(releases=remaining(line)) for line in matrix.rocm_lines),
    )


def _lines(matrix: Matrix) -> tuple[WheelLine | RocmLine, ...]:
    return (*matrix.wheel_lines, *matrix.rocm_lines)


class _News(NamedTuple):
    """What the index has and the matrix lacks; each release with its line or distribution."""

    toolkits: tuple[str, ...]
    minors: tuple[tuple[str, str], ...]
    releases: tuple[tuple[WheelLine | RocmLine, str], ...]
    companions: tuple[tuple[str, str], ...]
    lines: tuple[NewLine, ...]
    yanked: tuple[tuple[str, str, str], ...]
    restored: tuple[tuple[str, str], ...]


def _query_index(known: Matrix, matrix: Matrix, pool: ThreadPoolExecutor, context: RefreshContext) -> _News:
    """Compares the releases on the index with the matrix, one query per distribution, and looks for yanked ones."""
    index = context.index
    toolkits = pool.submit(new_toolkits, matrix, index)
    minors = [pool.submit(new_minors, index, *wanted, known) for wanted in nvrtc_ranges(known)]
    releases = [
        (line, pool.submit(_new_releases, index, rest))
        for line, rest in zip(_lines(matrix), _lines(known), strict=True)
    ]
    names = dict.fromkeys(row.distribution for row in matrix.companions)
    companions = [(name, pool.submit(newer_companions, name, known, index)) for name in names]
    lines = [pool.submit(new_line, name, index) for name in next_names(matrix)]
    # The slowest come last: pip downloads the releases that it reports.
    changes = [pool.submit(changed_yanks, index, *turn) for turn in yanked_turns(matrix)]
    by_name = [found for _, found in (*releases, *companions)]
    _wait([toolkits, *minors, *by_name, *lines, *changes], f"the package index with {index.name}", context)
    return _News(
        toolkits.result(),
        tuple(pair for found in minors for pair in found.result()),
        tuple((line, version) for line, found in releases for version in found.result()),
        tuple((name, version) for name, found in companions for version in found.result()),
        tuple(line for found in lines if (line := found.result()) is not None),
        tuple(row for found in changes for row in found.result()[0]),
        tuple(row for found in changes for row in found.result()[1]),
    )


def _new_releases(index: Index, line: WheelLine | RocmLine) -> list[str]:
    return list(index.unknown(line.name, f">={FLOOR}", [row.cupy for row in line.releases]))


def _query_files(
    news: _News, matrix: Matrix, pool: ThreadPoolExecutor, context: RefreshContext
) -> tuple[Measurement, ...]:
    """Returns the measurements of new releases; CUDA minors first, since a release may be built with a new one."""
    found = [pool.submit(minor_measurement, *minor, matrix, news.toolkits, context) for minor in news.minors]
    found += [pool.submit(release_measurement, *release, matrix, context) for release in news.releases]
    found += [pool.submit(companion_measurement, *release, context) for release in news.companions]
    if found:
        _wait(found, "the files of new releases", context)
    return tuple(future.result() for future in found)


def _wait(futures: Sequence[Future[Any]], subject: str, context: RefreshContext) -> None:
    """Waits for queries and shows their progress; raises the first error."""
    context.progress.start_queries(len(futures), subject)
    for future in as_completed(futures):
        future.result()
        context.progress.answered()


_Rows = Sequence[tuple[WheelLine | RocmLine, Release]]
_Yanked = tuple[tuple[str, str, str], ...]
_Restored = tuple[tuple[str, str], ...]


def yanked_turns(matrix: Matrix) -> list[tuple[str, _Rows]]:
    """Returns the known releases in groups for one query each, with the Python to query them for.

    A query has at most one release of each line; the newest come first.
    """
    turns: list[tuple[str, _Rows]] = []
    for row in zip_longest(*(line.releases for line in _lines(matrix))):
        by_python: dict[str, list[tuple[WheelLine | RocmLine, Release]]] = {}
        for line, release in zip(_lines(matrix), row, strict=True):
            if release is not None:
                by_python.setdefault(python_of(release.pythons), []).append((line, release))
        turns += by_python.items()
    return turns


def changed_yanks(index: Index, python: str, rows: _Rows) -> tuple[_Yanked, _Restored]:
    """Returns the known releases that are newly yanked, with reasons, and those that no longer are."""
    answer = index.yanked({line.name: release.cupy for line, release in rows}, python)
    yanked = (
        (line.name, release.cupy, answer[line.name])
        for line, release in rows
        if line.name in answer and release.yanked is None
    )
    restored = (
        (line.name, release.cupy) for line, release in rows if line.name not in answer and release.yanked is not None
    )
    return tuple(yanked), tuple(restored)


def next_names(matrix: Matrix) -> Iterator[str]:
    """Yields the names of the next lines for CUDA and ROCm."""
    newest = max(line.cuda_major for line in matrix.wheel_lines)
    for major in range(newest + 1, newest + 1 + _AHEAD):
        yield f"cupy-cuda{major}x"
    versions = [tuple(map(int, line.rocm.split(".")[:2])) for line in matrix.rocm_lines]
    if versions:
        major, minor = max(versions)
        for ahead in range(1, _AHEAD + 1):
            yield f"cupy-rocm-{major}-{minor + ahead}"
        yield f"cupy-rocm-{major + 1}-0"


def new_line(name: str, index: Index) -> NewLine | None:
    """Returns a line with its releases, the newest first; None if the index does not have it."""
    try:
        releases = sorted(set(index.unknown(name, ">0", ())), key=Version, reverse=True)
    except NoReleaseError:
        return None
    return NewLine(name, tuple(releases)) if releases else None
