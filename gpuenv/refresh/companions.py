"""Measures new releases of other packages that provide CUDA libraries, from their metadata."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuenv.matrix.companions import cuda_of
from gpuenv.matrix.tables import Matrix
from gpuenv.model.cupy import is_cupy
from gpuenv.refresh.binaries import MeasureError
from gpuenv.refresh.package_index import Index, IndexFile
from gpuenv.refresh.releases import binary_source
from gpuenv.refresh.row_edits import Measurement, NewRow, RefreshContext, plain

# Requirements that identify the CUDA version: the toolkit's metapackage, its wheels, and NVIDIA's bindings.
_PINS = re.compile(r"cuda-toolkit|cuda-bindings|nvidia-(?:cuda-nvrtc|cuda-runtime|cublas)(?:-cu\d\d)?")
_EXTRA = re.compile(r"""extra *== *['"]([\w.-]+)['"]""")
_MARKERS = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64", "os_name": "posix"}
_MARKERS |= {"implementation_name": "cpython", "platform_python_implementation": "CPython"}
_NOTE = "Requires-Dist of its METADATA"


def newer_companions(name: str, matrix: Matrix, index: Index) -> list[str]:
    """Returns the releases of a distribution that are newer than all its rows, the oldest first.

    A row with an open range includes all.
    """
    ranges = [SpecifierSet(row.versions) for row in matrix.companions if row.distribution == name]
    ends = [[Version(entry.version) for entry in wanted if entry.operator in ("==", "<=")] for wanted in ranges]
    if not all(ends):
        return []
    newest = max(end for found in ends for end in found)
    return sorted(set(index.unknown(name, f">{newest}", ())), key=Version)


def companion_measurement(name: str, version: str, context: RefreshContext) -> Measurement:
    """Returns the measurement of one release, which needs only the metadata.

    Raises:
        MeasureError: it has no wheel for Linux x86_64.
    """
    files = [f for f in context.index.files(name, version).files if f.is_for_any or f.platform == "linux-x86_64"]
    chosen = next((file for file in files if file.python in ("cp311", "py3")), files[0] if files else None)
    if chosen is None:
        raise MeasureError(f"{name} {version}: has no wheel for Linux x86_64")
    key = f"{name}-{version}"

    def measure() -> NewRow:
        texts = context.index.requires(name, version, chosen)
        wanted = list(_requirements(texts, chosen))
        # jax[cuda13] requires the CUDA wheels through an extra of its plug-in.
        extras = sorted({extra for text in texts for extra in _EXTRA.findall(text)})
        every = [entry for extra in ("", *extras) for entry in _requirements(texts, chosen, extra)]
        pins = list({_text(entry): entry for entry in every if _PINS.fullmatch(canonicalize_name(entry.name))}.values())
        major, minor = cuda_of(name, pins)
        if major is None:
            raise MeasureError(f"{name} {version}: its metadata does not identify the CUDA version")
        cupy = next((str(entry.specifier) for entry in wanted if is_cupy(canonicalize_name(entry.name))), None)
        row = {
            "distribution": name,
            "versions": f"=={version}",
            "cuda_major": major,
            "cuda": minor,
            "pins": [_text(entry) for entry in pins],
            "cupy": cupy or None,
            "source": key,
        }
        source = binary_source(chosen, context.today, _NOTE)
        return NewRow(f"{name} {version}", key, source, plain(row), "companions", version, name)

    return Measurement(f"{name} {version}", key, (chosen,), measure)


def merge_companions(rows: Iterable[NewRow]) -> Iterator[NewRow]:
    """Merges consecutive releases of a companion with the same facts into one row, with the newest one's source."""
    for _, group in groupby(rows, key=lambda row: (row.of, _facts(row)) if row.table == "companions" else row.key):
        releases = list(group)
        first, last = releases[0], releases[-1]
        if first is last:
            yield last
            continue
        merged = {**last.row, "versions": f">={first.version},<={last.version}"}
        yield replace(last, name=f"{last.of} {first.version} to {last.version}", row=merged)


def _facts(row: NewRow) -> dict[str, object]:
    """Returns the facts of a companion without its version and source."""
    return {key: value for key, value in row.row.items() if key not in ("versions", "source")}


def _requirements(texts: Iterable[str], file: IndexFile, extra: str = "") -> Iterator[Requirement]:
    """Yields the requirements on Linux x86_64 with an extra or none, for the Python of the wheel."""
    python = f"3.{file.python[3:].rstrip('tm')}" if file.python.startswith("cp3") else "3.11"
    markers = {**_MARKERS, "extra": extra, "python_version": python, "python_full_version": f"{python}.0"}
    for text in texts:
        entry = Requirement(text)
        if entry.marker is None or entry.marker.evaluate(markers):
            yield entry


def _text(entry: Requirement) -> str:
    extras = f"[{','.join(sorted(entry.extras))}]" if entry.extras else ""
    return f"{canonicalize_name(entry.name)}{extras}{entry.specifier}"
