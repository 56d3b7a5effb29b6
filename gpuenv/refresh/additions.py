"""Implements ``matrix refresh``: finds and measures new releases on the package index, without writing anything."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import zip_longest

from gpuenv.matrix.tables import Matrix, Release, RocmLine, WheelLine
from gpuenv.refresh.companions import companion_measurement, newer_companion
from gpuenv.refresh.minors import minor_measurement, new_minors, new_toolkits
from gpuenv.refresh.package_index import Index, python_of
from gpuenv.refresh.releases import release_measurement
from gpuenv.refresh.row_edits import Additions, Measurement, RefreshContext, measure_or_reuse

_WORKERS = 6  # parallel queries of the index
FLOOR = "11.3"  # the oldest CuPy that the matrix covers


class UnknownRowError(ValueError):
    """A row to measure again that does not exist."""


def find_additions(matrix: Matrix, context: RefreshContext, again: Collection[str] = ()) -> Additions:
    """Finds and measures everything that the index has and the matrix lacks.

    Args:
        matrix: to update.
        context: the index, folders and tools of the refresh.
        again: names of known rows to measure again, such as ``cupy-cuda13x/14.2.0``.

    Raises:
        PackageIndexError: the index cannot be queried.
        MeasureError, MetadataError, CapsError: a binary or a source has an unexpected form.
        NoSuchRowError: where a row that is to be measured again is not there.
    """
    context.progress.say(f"querying the package index for new releases with {context.index.name}")
    known = _without(matrix, again)
    toolkits = new_toolkits(matrix, context.index)
    measurements = list(_measurements(known, matrix, toolkits, context))
    yanked, restored = find_yanked(matrix, context.index)
    left = [entry for entry in measurements if not context.cache_file(entry.key).is_file()]
    sizes = [entry.size for entry in left]
    if measurements:
        context.progress.start(len(left), None if None in sizes else sum(size or 0 for size in sizes))
    rows = tuple(measure_or_reuse(entry, context) for entry in measurements)
    if measurements:
        context.progress.end()
    fresh = {row.version for row in rows if row.table == "cuda_minors"}
    return Additions(rows, tuple(cuda for cuda in toolkits if cuda not in fresh), yanked, restored)


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


def _measurements(
    known: Matrix, matrix: Matrix, toolkits: tuple[str, ...], context: RefreshContext
) -> Iterator[Measurement]:
    """Yields CUDA minor versions first, since a release may be built with a new one; queries the index in parallel."""
    index = context.index

    def releases(pair: tuple[WheelLine | RocmLine, WheelLine | RocmLine]) -> list[Measurement]:
        line, complete = pair
        found = index.unknown(line.name, f">={FLOOR}", [row.cupy for row in line.releases])
        return [release_measurement(complete, version, matrix, context) for version in found]

    def companion(name: str) -> list[Measurement]:
        return [companion_measurement(name, version, context) for version in newer_companion(name, known, index)]

    names = tuple(dict.fromkeys(row.distribution for row in matrix.companions))
    with ThreadPoolExecutor(_WORKERS) as pool:
        minors = pool.submit(
            lambda: [minor_measurement(*found, matrix, toolkits, context) for found in new_minors(known, index)]
        )
        lines = pool.map(releases, zip(_lines(known), _lines(matrix), strict=True))
        companions = pool.map(companion, names)
        for found in (minors.result(), *lines, *companions):
            yield from found


_Rows = list[tuple[WheelLine | RocmLine, Release]]


def find_yanked(matrix: Matrix, index: Index) -> tuple[tuple[tuple[str, str, str], ...], tuple[tuple[str, str], ...]]:
    """Returns the known releases that are newly yanked, with reasons, and those that no longer are.

    One query has at most one release of each line, the newest first.
    """
    turns: list[tuple[str, _Rows]] = []
    for row in zip_longest(*(line.releases for line in _lines(matrix))):
        by_python: dict[str, _Rows] = {}
        for line, release in zip(_lines(matrix), row, strict=True):
            if release is not None:
                by_python.setdefault(python_of(release.pythons), []).append((line, release))
        turns += by_python.items()
    with ThreadPoolExecutor(_WORKERS) as pool:
        releases = ({line.name: release.cupy for line, release in turn} for _, turn in turns)
        answers = list(pool.map(index.yanked, releases, (python for python, _ in turns)))
    yanked: list[tuple[str, str, str]] = []
    restored: list[tuple[str, str]] = []
    for (_, turn), answer in zip(turns, answers, strict=True):
        for line, release in turn:
            reason = answer.get(line.name)
            if reason is not None and release.yanked is None:
                yanked.append((line.name, release.cupy, reason))
            elif reason is None and release.yanked is not None:
                restored.append((line.name, release.cupy))
    return tuple(yanked), tuple(restored)
