"""Measures CuPy releases for CUDA and ROCm on every platform with wheels."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from gpuenv.matrix.tables import Matrix, RocmLine, WheelLine
from gpuenv.model.versions import CudaVersion
from gpuenv.refresh.binaries import Binaries, GpuCode, MeasureError, built_with, cross_check, read_binaries
from gpuenv.refresh.package_index import Index, IndexFile, MetadataError, python_of, read_message
from gpuenv.refresh.row_edits import Measurement, NewRow, RefreshContext, plain

_MEASURED = "cp311"
_FIRST = "linux-x86_64"  # the platform whose metadata and sources are read
_GLIBC = ("2.17", "2.28", "2.31", "2.34", "2.36", "2.39")  # supported by uv; pip supports all


def release_measurement(
    line: WheelLine | RocmLine, version: str, matrix: Matrix, context: RefreshContext
) -> Measurement:
    """Returns the measurement of one release with one wheel per platform; the others differ only in the interpreter.

    Raises:
        MeasureError: it has no wheel for Linux x86_64.
    """
    listing = context.index.files(line.name, version)
    platforms: dict[str, list[IndexFile]] = {}
    for file in listing.files:
        if file.platform is not None:
            platforms.setdefault(file.platform, []).append(file)
    if _FIRST not in platforms:
        raise MeasureError(f"{line.name} {version}: has no wheel for Linux x86_64")
    chosen = {
        name: next((file for file in files if file.python == _MEASURED), files[0]) for name, files in platforms.items()
    }
    key = f"{line.name}-{version}"

    def measure() -> NewRow:
        pythons = _pythons(listing.files)
        note, of_cuda = "", dict[str, object]()
        with TemporaryDirectory(dir=context.scratch) as scratch:
            folders = {name: Path(scratch, name) for name in chosen}
            for name, file in chosen.items():
                context.index.unpack(f"{line.name}=={version}", file, folders[name])
            read = {name: read_binaries(folder) for name, folder in folders.items()}
            metadata = read_metadata(folders[_FIRST], line.name)
            if isinstance(line, WheelLine):
                note = _second_reading(read[_FIRST].by_file, context)
                of_cuda = {
                    "extras": _extras(line, version, metadata, pythons, context.index),
                    **_of_cuda(line, version, folders[_FIRST], read[_FIRST].code, matrix, context),
                }
        uploaded = min((file.uploaded for file in listing.files if file.uploaded), default=None)
        # pip reports no dates; a row that is measured again keeps its date.
        known_date = next((row.uploaded for row in line.releases if row.cupy == version), None)
        row = {
            "cupy": version,
            "uploaded": uploaded[:10] if uploaded else known_date,
            "pythons": pythons,
            "requires_python": metadata.requires_python,
            "numpy": metadata.numpy,
            "platforms": {
                name: _platform(name, platforms[name], pythons, read[name])
                for name in sorted(platforms, key=_ORDER.index)
            },
            **of_cuda,
            "yanked": listing.yanked,
            "source": key,
        }
        others = [file for name, file in sorted(chosen.items()) if name != _FIRST]
        table = "wheel_lines" if isinstance(line, WheelLine) else "rocm_lines"
        source = binary_source(chosen[_FIRST], context.today, note or None, others)
        return NewRow(f"{line.name} {version}", key, source, plain(row), table, version, line.name)

    return Measurement(f"{line.name} {version}", key, tuple(chosen.values()), measure)


_ORDER = ("linux-aarch64", "linux-x86_64", "windows-x86_64", "windows-arm64")


def binary_source(file: IndexFile, today: str, note: str | None, also: Iterable[IndexFile] = ()) -> dict[str, Any]:
    """Returns the plain values of a source that is a file, with the other files of the same row."""
    others = {entry.name: entry.sha256 for entry in also}
    fields = {"kind": "binary", "seen": today, "file": file.name, "sha256": file.sha256, "note": note}
    return {key: value for key, value in {**fields, "also": others}.items() if value}


def _second_reading(codes: Mapping[Path, GpuCode], context: RefreshContext) -> str:
    """Returns a note on cuobjdump's reading of some modules; empty if it is not installed.

    Raises:
        MeasureError: it finds different code.
    """
    if context.cuobjdump is None:
        return ""
    result = cross_check(context.cuobjdump, codes, context.environment)
    if result.differences:
        raise MeasureError("; ".join(result.differences))
    refused = f"cuobjdump refuses {' and '.join(sorted(result.refused))}" if result.refused else ""
    agreed = "GPU code also read by cuobjdump" if len(result.refused) < len(codes) else ""
    return "; ".join(filter(None, (agreed, refused)))


def _of_cuda(
    line: WheelLine, version: str, folder: Path, code: GpuCode, matrix: Matrix, context: RefreshContext
) -> dict[str, object]:
    """Returns the facts that only wheels for CUDA have."""
    try:
        text = (folder / "cupy/cuda/compiler.py").read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise MeasureError(f"{line.name} {version}: has no cupy/cuda/compiler.py") from error
    caps = read_caps(text, line.cuda_major)
    # A CUDA major version with a successor gets no further minor versions, so later caps never apply.
    known = sorted(row.cuda for row in matrix.cuda_minors)
    last = max((cuda for cuda in known if cuda.major == line.cuda_major), default=known[-1])
    over = known[-1].major > line.cuda_major
    steps = {start: cap for start, cap in caps.steps.items() if not over or CudaVersion.parse(start) <= last}
    return {
        "nvrtc_caps": steps or None,
        "caps_as_text": True if caps.as_text else None,
        "built_with": built_with(folder, code, matrix, context.environment),
    }


def _pythons(files: tuple[IndexFile, ...] | list[IndexFile]) -> list[str]:
    def key(tag: str) -> tuple[int, str]:
        return int(tag.removeprefix("cp").rstrip("tm")), tag

    return sorted({file.python for file in files}, key=key)


def _platform(name: str, files: list[IndexFile], pythons: list[str], read: Binaries) -> dict[str, object]:
    available = set(_pythons(files))
    return {
        "tag": files[0].platform_tag,
        "libc": f"glibc-{libc_floor(files[0], read.glibc)}" if name.startswith("linux") else None,
        "libstdcxx": read.libstdcxx,
        "without": [python for python in pythons if python not in available] or None,
        "sass": read.code.sass or None,
        "ptx": read.code.ptx or None,
        "gfx": read.gfx or None,
        "hip": read.hip,
    }


def libc_floor(file: IndexFile, glibc: str | None) -> str:
    """Returns the C library of the tag, or the newest symbol version in the binaries if that is higher.

    Raises:
        MeasureError: the tag names none.
    """
    floor = file.glibc
    if floor is None:
        raise MeasureError(f"{file.name}: the platform tag names no C library")
    return floor if glibc is None or Version(glibc) <= Version(floor) else ".".join(glibc.split(".")[:2])


def _extras(
    line: WheelLine, version: str, metadata: Metadata, pythons: Iterable[str], index: Index
) -> dict[str, object] | None:
    """Returns the extras that provide CUDA, with the oldest C library that all their packages support."""
    found: dict[str, object] = {}
    for extra, requirement in metadata.extras.items():
        same_extra = (row.extras.get(extra) for row in line.releases)
        known = next((row.libc for row in same_extra if row is not None and row.requirement == requirement), None)
        floor = str(known) if known else _closure_floor(f"{line.name}[{extra}]=={version}", python_of(pythons), index)
        found[extra] = {"requirement": requirement, "libc": floor}
    return found or None


def _closure_floor(requirement: str, python: str, index: Index) -> str:
    """Returns the oldest C library on which a requirement installs, refined by the tags of its dependencies."""
    for before, glibc in zip(("0", *_GLIBC), _GLIBC, strict=False):
        closure = index.closure(requirement, glibc, python)
        if closure is None:
            continue
        listed = [index.files(name, version).files for name, version in closure.items() if name.startswith("nvidia-")]
        here = [[file.glibc for file in files if file.platform == _FIRST and file.glibc] for files in listed]
        floors = [min(floors, key=Version) for floors in here if floors]
        floor = max((*floors, before), key=Version)
        return f"glibc-{floor if Version(floor) <= Version(glibc) else glibc}"
    raise MeasureError(f"{requirement}: cannot be installed on Linux x86_64 with glibc {_GLIBC[-1]}")


class Metadata(NamedTuple):
    """Requirements in the metadata of a CuPy wheel; ``extras`` maps the extras that provide CUDA to requirements."""

    requires_python: str
    numpy: str
    extras: Mapping[str, str]


def read_metadata(folder: Path, name: str) -> Metadata:
    """Returns the metadata of a CuPy in a folder.

    Raises:
        MetadataError: it is missing or invalid.
    """
    message = read_message(folder, name)
    try:
        wanted = [Requirement(text) for text in message.get_all("Requires-Dist") or []]
    except InvalidRequirement as error:
        raise MetadataError(f"{message['Name']} {message['Version']}: {error}") from error
    numpy = [str(entry.specifier) for entry in wanted if entry.name.lower() == "numpy" and entry.marker is None]
    toolkits = [entry for entry in wanted if entry.name == "cuda-toolkit" and entry.marker is not None]
    extras = {
        extra: str(entry).partition(";")[0].strip()
        for extra in message.get_all("Provides-Extra") or []
        for entry in toolkits
        if entry.marker and entry.marker.evaluate({"extra": extra})
    }
    return Metadata(message["Requires-Python"] or "", numpy[0] if numpy else "", extras)


_COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_HOLDERS = ("_get_max_compute_capability", "_get_arch")
_MINORS = 10


class CapsError(ValueError):
    """The module has an unexpected form."""


class Caps(NamedTuple):
    """The highest requested capability from each NVRTC minor version on, and whether it is compared as text."""

    steps: Mapping[str, str]
    as_text: bool


def read_caps(source: str, cuda_major: int) -> Caps:
    """Returns the caps for the NVRTCs of one CUDA major version.

    Raises:
        CapsError: the table is missing or has an unexpected form.
    """
    try:
        functions = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    except SyntaxError as error:
        raise CapsError(f"cupy/cuda/compiler.py: {error}") from error
    branches = list(_branches(_caps_table(functions)))
    steps: dict[str, str] = {}
    last = None
    for minor in range(_MINORS):
        nvrtc = {"major": cuda_major, "minor": minor}
        cap = next((cap for test, cap in branches if test is None or _value(test, nvrtc)), None)
        if cap is not None and cap != last:
            steps[f"{cuda_major}.{minor}"] = f"{cap[:-1]}.{cap[-1]}"
            last = cap
    return Caps(steps, _compared_as_text(functions))


def _caps_table(functions: Mapping[str, ast.FunctionDef]) -> ast.If:
    """Returns the first condition on the major version in the function that queries NVRTC's version."""
    for name in _HOLDERS:
        holder = functions.get(name)
        if holder is not None and "_get_nvrtc_version" in ast.unparse(holder):
            for node in ast.walk(holder):
                if isinstance(node, ast.If) and "major" in ast.unparse(node.test):
                    return node
    raise CapsError("cupy/cuda/compiler.py: no table of capabilities by NVRTC version")


def _branches(node: ast.If) -> Iterator[tuple[ast.expr | None, str]]:
    yield node.test, _constant(node.body)
    if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        yield from _branches(node.orelse[0])
    elif node.orelse:
        yield None, _constant(node.orelse)


def _constant(body: list[ast.stmt]) -> str:
    for statement in body:
        if isinstance(statement, ast.Assign | ast.Return) and isinstance(statement.value, ast.Constant):
            return str(statement.value.value)
    raise CapsError("cupy/cuda/compiler.py: a branch of the table without a constant")


def _value(node: ast.expr, names: Mapping[str, int]) -> object:
    """Evaluates the few kinds of expressions in the table."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.Tuple):
        return tuple(_value(part, names) for part in node.elts)
    if isinstance(node, ast.BoolOp):
        values = [bool(_value(part, names)) for part in node.values]
        return all(values) if isinstance(node.op, ast.And) else any(values)
    if isinstance(node, ast.Compare):
        values_in_turn = [_value(part, names) for part in (node.left, *node.comparators)]
        kinds = [_COMPARE.get(type(kind)) for kind in node.ops]
        pairs = zip(kinds, values_in_turn, values_in_turn[1:], strict=False)
        if None not in kinds:
            return all(compare(left, right) for compare, left, right in pairs if compare)
    raise CapsError(f"cupy/cuda/compiler.py: an unexpected expression: {ast.unparse(node)}")


def _compared_as_text(functions: Mapping[str, ast.FunctionDef]) -> bool:
    """Whether the minimum of capability and cap compares text, where 120 is less than 90."""
    holder = functions.get("_get_arch")
    calls = [node for node in ast.walk(holder) if isinstance(node, ast.Call)] if holder else []
    minimum = [ast.unparse(call) for call in calls if getattr(call.func, "id", "") == "min"]
    if not minimum:
        raise CapsError("cupy/cuda/compiler.py: no comparison of capability and cap")
    return not any("key=int" in text for text in minimum)
