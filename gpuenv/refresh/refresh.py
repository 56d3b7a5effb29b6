"""``matrix refresh``: what is new on the package index, measured, as rows; nothing is written here."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from packaging.version import Version

from gpuenv.matrix.records import Matrix, WheelLine
from gpuenv.model.versions import CudaVersion
from gpuenv.refresh.caps import read_caps
from gpuenv.refresh.index import Index, IndexFile, Listing
from gpuenv.refresh.measure import MeasureError, Metadata, ask_nvrtc, built_with, read_binaries, read_metadata
from gpuenv.refresh.rows import Additions, NewRow, flow

FLOOR = "11.3"  # older CuPys are below what the matrix covers
_NVRTC_NOTE = "nvrtcGetSupportedArchs, and the .version of what it compiles"
# Distributions that hold NVRTC, by the CUDA majors in them: 13 and newer bear none in their names.
_NVRTC = {11: "nvidia-cuda-nvrtc-cu11", 12: "nvidia-cuda-nvrtc-cu12"}
_NVRTC_NEWER = "nvidia-cuda-nvrtc"
_PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-aarch64", "win_amd64": "windows-x86_64"}
_PLATFORMS |= {"win_arm64": "windows-arm64"}
_UV_PLATFORMS = {"linux-x86_64": "x86_64-manylinux_2_28", "linux-aarch64": "aarch64-manylinux_2_28"}
_LEGACY = {"manylinux1": "2.5", "manylinux2010": "2.12", "manylinux2014": "2.17"}
_MEASURED = "cp311"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Workplace:
    """What a refresh works with.

    Attributes:
        index: the package index.
        environment: for the children that measure.
        cache: a folder for what was measured, so that a refresh that was interrupted goes on where it was.
        today: the date, as 2026-11-21.
        say: tells the user what is done now.
    """

    index: Index
    environment: Mapping[str, str]
    cache: Path
    today: str
    say: Say

    def kept(self, row: NewRow) -> Path:
        """Where a measured row is kept until it is written."""
        return self.cache / f"{row.key}.json"


def find_additions(matrix: Matrix, work: Workplace) -> Additions:
    """Everything that the index has and the matrix lacks.

    Raises:
        PackageIndexError: where the index cannot be asked.
        MeasureError, CapsError: where a binary or a source is not as it was so far.
    """
    work.say("asking the package index what is new")
    wanted = list(_new_releases(matrix, work.index))
    minors = list(_new_minors(matrix, work.index))
    toolkits = tuple(dict.fromkeys(_new_toolkits(matrix, work.index)))
    rows: list[NewRow] = []
    total = len(wanted) + len(minors)
    for number, (name, version) in enumerate(minors, 1):
        measure = partial(_minor, name, version, toolkits, work)
        rows.append(_kept(work, name, version, f"{number}/{total}", measure))
    for number, (line, version) in enumerate(wanted, len(minors) + 1):
        measure = partial(_release, line, version, matrix, work)
        rows.append(_kept(work, line.name, version, f"{number}/{total}", measure))
    fresh = {row.version for row in rows if row.line is None}
    return Additions(tuple(rows), tuple(cuda for cuda in toolkits if cuda not in fresh))


def _new_releases(matrix: Matrix, index: Index) -> Iterator[tuple[WheelLine, str]]:
    for line in matrix.wheel_lines:
        known = [release.cupy for release in line.releases]
        for version in index.unknown(line.name, f">={FLOOR}", known):
            yield line, version


def _new_minors(matrix: Matrix, index: Index) -> Iterator[tuple[str, str]]:
    """Each distribution of NVRTC with the newest release of every minor that is not known."""
    for major in sorted({row.major for row in matrix.cuda_majors} & set(_NVRTC)):
        yield from _missing(index, _NVRTC[major], f">={major}.0,<{major + 1}", matrix)
    yield from _missing(index, _NVRTC_NEWER, ">=13.0", matrix)


def _missing(index: Index, name: str, wanted: str, matrix: Matrix) -> Iterator[tuple[str, str]]:
    known = [f"{row.cuda}.*" for row in matrix.cuda_minors]
    lowest = min(line.first_cuda for line in matrix.wheel_lines)
    while True:
        found = next(index.unknown(name, wanted, known), None)
        if found is None:
            return
        cuda = _minor_of(found)
        known.append(f"{cuda}.*")
        if cuda >= lowest:
            yield name, found


def _new_toolkits(matrix: Matrix, index: Index) -> Iterator[str]:
    known = [f"{row.cuda}.*" for row in matrix.cuda_minors if row.toolkit_wheels]
    while True:
        found = next(index.unknown("cuda-toolkit", ">=11.0", known), None)
        if found is None:
            return
        known.append(f"{_minor_of(found)}.*")
        yield str(_minor_of(found))


def _minor_of(version: str) -> CudaVersion:
    major, minor = Version(version).release[:2]
    return CudaVersion(major, minor)


def _kept(work: Workplace, name: str, version: str, count: str, measure: Callable[[], NewRow]) -> NewRow:
    """What an earlier refresh has measured and could not write, else a new measurement."""
    cuda = "" if name.startswith("cupy") else f"nvrtc-{_minor_of(version)}"
    file = work.cache / f"{cuda or f'{name}-{version}'}.json"
    try:
        return NewRow(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        work.say(f"{count} {name} {version}: downloading and measuring")
    row = measure()
    work.cache.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".part")
    temporary.write_text(json.dumps(asdict(row)), encoding="utf-8")
    temporary.replace(file)
    return row


def _minor(name: str, version: str, toolkits: tuple[str, ...], work: Workplace) -> NewRow:
    """One NVRTC, asked on this machine."""
    with TemporaryDirectory(prefix="gpuenv-refresh-") as scratch:
        folder = Path(scratch)
        file = _for_this_machine(work.index.files(name, version, folder), name, version)
        work.index.unpack(f"{name}=={version}", file, None, folder / "unpacked")
        found = ask_nvrtc(folder / "unpacked", work.environment)
    cuda = _minor_of(version)
    if found.cuda != cuda:
        raise MeasureError(f"{file.name}: says that it is NVRTC {found.cuda}")
    key = f"nvrtc-{cuda}"
    row = {
        "cuda": cuda,
        "capabilities": found.capabilities,
        "ptx": found.ptx,
        "toolkit_wheels": str(cuda) in toolkits,
        "source": key,
    }
    return NewRow(f"CUDA {cuda}", key, _source(file, work.today, _NVRTC_NOTE), flow(row), None, str(cuda))


def _for_this_machine(listing: Listing, name: str, version: str) -> IndexFile:
    machine = platform.machine()
    for file in listing.files:
        if file.platform_tag.endswith(machine) and "linux" in file.platform_tag:
            return file
    raise MeasureError(f"{name} {version}: has no wheel that can be asked on this machine (Linux {machine})")


def _source(file: IndexFile, today: str, note: str | None) -> str:
    return flow({"kind": "binary", "seen": today, "file": file.name, "sha256": file.sha256, "note": note})


def _release(line: WheelLine, version: str, matrix: Matrix, work: Workplace) -> NewRow:
    """One release of a wheel line: read on Linux x86_64 and aarch64, listed everywhere."""
    with TemporaryDirectory(prefix="gpuenv-refresh-") as scratch:
        folder = Path(scratch)
        (folder / "lock").mkdir()
        listing = work.index.files(line.name, version, folder / "lock")
        platforms = _by_platform(listing)
        measured = {name: _measured(platforms[name]) for name in _UV_PLATFORMS if name in platforms}
        for name, file in measured.items():
            work.index.unpack(f"{line.name}=={version}", file, _UV_PLATFORMS[name], folder / name)
        metadata = read_metadata(folder / "linux-x86_64")
        read = {name: read_binaries(folder / name) for name in _UV_PLATFORMS if (folder / name).is_dir()}
        source = (folder / "linux-x86_64/cupy/cuda/compiler.py").read_text(encoding="utf-8")
        caps = read_caps(source, line.cuda_major)
        cuda = built_with(folder / "linux-x86_64", read["linux-x86_64"].code, matrix, work.environment)
    pythons = _pythons(listing.files)
    key = f"{line.name}-{version}"
    uploaded = min((file.uploaded for file in listing.files if file.uploaded), default=None)
    row = {
        "cupy": version,
        "uploaded": uploaded[:10] if uploaded else None,
        "pythons": pythons,
        "requires_python": metadata.requires_python,
        "numpy": metadata.numpy,
        "platforms": {name: _platform(name, platforms[name], pythons, read) for name in sorted(platforms, key=_place)},
        "extras": _extras(line, version, metadata, work.index),
        "nvrtc_caps": dict(caps.steps) or None,
        "caps_as_text": True if caps.as_text else None,
        "built_with": cuda,
        "yanked": listing.yanked,
        "source": key,
    }
    source_row = _source(measured["linux-x86_64"], work.today, None)
    return NewRow(f"{line.name} {version}", key, source_row, flow(row), line.name, version)


def _measured(files: list[IndexFile]) -> IndexFile:
    """The wheel that stands for the others of its platform: they differ in the interpreter alone."""
    return next((file for file in files if file.python == _MEASURED), files[0])


def _by_platform(listing: Listing) -> dict[str, list[IndexFile]]:
    found: dict[str, list[IndexFile]] = {}
    for file in listing.files:
        name = next((name for ending, name in _PLATFORMS.items() if file.platform_tag.endswith(ending)), None)
        if name is not None:
            found.setdefault(name, []).append(file)
    return found


def _place(name: str) -> int:
    return ("linux-aarch64", "linux-x86_64", "windows-x86_64", "windows-arm64").index(name)


def _pythons(files: tuple[IndexFile, ...] | list[IndexFile]) -> list[str]:
    def key(tag: str) -> tuple[int, str]:
        return int(tag.removeprefix("cp").rstrip("tm")), tag

    return sorted({file.python for file in files}, key=key)


def _platform(name: str, files: list[IndexFile], pythons: list[str], read: Mapping[str, object]) -> dict[str, object]:
    tag = files[0].platform_tag
    there = set(_pythons(files))
    without = sorted(python for python in pythons if python not in there)
    row: dict[str, object] = {"tag": tag, "libc": None, "without": without or None, "sass": None, "ptx": None}
    binaries = read.get(name)
    if name.startswith("linux"):
        row["libc"] = f"glibc-{_newer(_floor(tag), getattr(binaries, 'glibc', None))}"
    if binaries is not None:
        code = binaries.code  # type: ignore[attr-defined]
        row |= {"sass": code.sass, "ptx": code.ptx or None}
    return row


def _floor(tag: str) -> str:
    """The oldest C library that one of the compressed tags admits."""
    floors = [_LEGACY[part.split("_")[0]] for part in tag.split(".") if part.split("_")[0] in _LEGACY]
    floors += [".".join(part.split("_")[1:3]) for part in tag.split(".") if part.startswith("manylinux_")]
    if not floors:
        raise MeasureError(f"the platform tag {tag} names no C library")
    return min(floors, key=Version)


def _newer(one: str, other: str | None) -> str:
    return one if other is None or Version(other) <= Version(one) else ".".join(other.split(".")[:2])


def _extras(line: WheelLine, version: str, metadata: Metadata, index: Index) -> dict[str, object] | None:
    """Each extra that brings CUDA, with the oldest C library that all it brings accepts."""
    found: dict[str, object] = {}
    for extra, requirement in metadata.extras.items():
        alike = (row.extras.get(extra) for row in line.releases)
        known = next((row.libc for row in alike if row is not None and row.requirement == requirement), None)
        floor = str(known) if known else _closure_floor(f"{line.name}[{extra}]=={version}", index)
        found[extra] = {"requirement": requirement, "libc": floor}
    return found or None


def _closure_floor(requirement: str, index: Index) -> str:
    """Tried from the oldest on, in the steps that uv knows platforms in."""
    for glibc, name in (("2.17", "x86_64-manylinux2014"), ("2.28", "x86_64-manylinux_2_28")):
        if index.resolves(requirement, "3.11", name):
            return f"glibc-{glibc}"
    raise MeasureError(f"{requirement}: cannot be installed on Linux x86_64 with glibc 2.28")
