"""Summarizes reports on the workers of an existing Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuenv.fleet.groups import Partial, merge, summarize
from gpuenv.fleet.reader import read_files, report_paths

_SIZE = 1000  # reports of a task


def summarize_with_dask(folder: Path, scheduler: str) -> Partial:
    """The summary of a folder that every worker sees at the same path; a task of a lost worker runs on another.

    Raises:
        ImportError: without the extra ``dask``.
        OSError: when the folder cannot be read, or there is no scheduler.
    """
    from distributed import Client  # noqa: PLC0415 - an extra

    paths = report_paths(folder.absolute())
    parts = [paths[start : start + _SIZE] for start in range(0, len(paths), _SIZE)]
    with Client(scheduler, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        return merge(client.gather(client.map(_summarize_part, parts, pure=False)))


def _summarize_part(paths: Sequence[Path]) -> Partial:
    return summarize(read_files(paths))
