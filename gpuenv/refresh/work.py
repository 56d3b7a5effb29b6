"""What a refresh works with, and one piece of its work."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from gpuenv.model.versions import CudaVersion
from gpuenv.refresh.index import Index, IndexFile
from gpuenv.refresh.rows import NewRow

_FORM = "2"  # of a row that is kept; another one is measured again


class Progress(Protocol):
    """Who is told how far a refresh is."""

    def say(self, text: str) -> None:
        """A sentence for the user."""

    def start(self, pieces: int, size: int | None) -> None:
        """The work is known: how many pieces, and how many bytes are downloaded for them; None where nobody tells."""

    def piece(self, name: str, size: int | None) -> None:
        """A piece begins, with its bytes."""

    def end(self) -> None:
        """All pieces are done."""


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a refresh works with.

    Attributes:
        index: the package index.
        environment: for the children that measure.
        cache: a folder for what was measured, so that a refresh that was interrupted goes on where it was.
        scratch: a folder for what is downloaded.
        today: the date, as 2026-11-21.
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
    progress: Progress
    cuobjdump: Path | None
    stub: Path | None
    levels: tuple[CudaVersion, ...]

    def kept(self, key: str) -> Path:
        """Where a measured row is kept until it is written."""
        return self.cache / f"{key}.json"


@dataclass(frozen=True, slots=True)
class Piece:
    """One row that is to be measured.

    Attributes:
        name: as people call it.
        key: of its source, and of what is kept of it.
        files: the wheels that are downloaded for it.
        measure: does the work.
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


def done(piece: Piece, work: Workplace) -> NewRow:
    """What an earlier refresh has measured and could not write, else a new measurement, which is kept."""
    file = work.kept(piece.key)
    digests = sorted(entry.sha256 for entry in piece.files)
    found = _kept(file, digests)
    if found is not None:
        return found
    work.progress.piece(piece.name, piece.size)
    row = piece.measure()
    work.cache.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".part")
    temporary.write_text(json.dumps({"form": _FORM, "files": digests, "row": asdict(row)}), encoding="utf-8")
    temporary.replace(file)
    return row


def _kept(file: Path, digests: list[str]) -> NewRow | None:
    """Only what was measured by this program, of these very files."""
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        if told["form"] != _FORM or told["files"] != digests:
            return None
        return NewRow(**told["row"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
