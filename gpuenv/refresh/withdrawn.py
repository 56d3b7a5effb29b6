"""Releases that were withdrawn since they were read, and those that came back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest

from gpuenv.matrix.packages import Release, RocmLine, WheelLine
from gpuenv.matrix.records import Matrix
from gpuenv.refresh.index import Index, python_of

_AT_A_TIME = 6  # questions to the index
Withdrawn = tuple[tuple[str, str, str], ...]
Restored = tuple[tuple[str, str], ...]
_Rows = list[tuple[WheelLine | RocmLine, Release]]


def withdrawals(matrix: Matrix, index: Index) -> tuple[Withdrawn, Restored]:
    """What has changed of the known releases, as the index tells today; at most one of each line is asked at a time."""
    gone: list[tuple[str, str, str]] = []
    back: list[tuple[str, str]] = []
    turns = [(python, turn) for rows in _in_turn(matrix) for python, turn in _by_python(rows).items()]
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        named = ({line.name: row.cupy for line, row in turn} for _, turn in turns)
        answers = list(pool.map(index.withdrawn, named, (python for python, _ in turns)))
    for (_, turn), told in zip(turns, answers, strict=True):
        for line, release in turn:
            reason = told.get(line.name)
            if reason is not None and release.yanked is None:
                gone.append((line.name, release.cupy, reason))
            elif reason is None and release.yanked is not None:
                back.append((line.name, release.cupy))
    return tuple(gone), tuple(back)


def _by_python(rows: _Rows) -> dict[str, _Rows]:
    """The rows by the Python that they are asked for with."""
    found: dict[str, _Rows] = {}
    for line, release in rows:
        found.setdefault(python_of(release.pythons), []).append((line, release))
    return found


def _in_turn(matrix: Matrix) -> Iterator[_Rows]:
    """The newest release of each line, then the ones before them, and so on."""
    lines: list[WheelLine | RocmLine] = [*matrix.wheel_lines, *matrix.rocm_lines]
    for row in zip_longest(*(line.releases for line in lines)):
        yield [(line, release) for line, release in zip(lines, row, strict=True) if release is not None]
