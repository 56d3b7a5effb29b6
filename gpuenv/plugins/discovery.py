"""Finds the checks of other packages, entry points of the group ``gpuenv.checks``, without importing them."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from gpuenv.files import read_regular

TYPE_CHECKING = False  # typing takes longer than all of this
if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint
    from typing import Any

GROUP = "gpuenv.checks"
_CODE = r"[A-Z][A-Z0-9]{1,15}\d{3}"
_METADATA = (".dist-info", ".egg-info", "egg-info")  # as in importlib.metadata
_LARGEST = 1 << 20  # bytes of an entry_points.txt
_PATH_FINDER = "PathFinder"  # of importlib: it finds what lies in the folders of sys.path


class Plugin(NamedTuple):
    """A check of another package.

    Attributes:
        code: the name of its entry point, such as ACME101.
        function: its function, such as ``acme_checks:scratch_disk``.
        package: the distribution that provides it, with its version.
        fault: why it cannot be run; null if it can.
    """

    code: str
    function: str
    package: str
    fault: str | None = None


def find_plugins() -> tuple[Plugin, ...]:
    """All checks of the distributions in this environment, ordered by code."""
    if not _may_have_plugins(sys.path):
        return ()
    entries = _entry_points(entry for entry in sys.path if _is_searched(entry))
    found: dict[str, Plugin] = {}
    for entry, package in sorted(entries, key=lambda pair: (pair[0].name, pair[0].value)):
        first = found.get(entry.name)
        if first is None:
            found[entry.name] = Plugin(entry.name, entry.value, package, _fault(entry.name))
        elif first.function != entry.value:
            fault = f"has the same code in {first.package} and {package}"
            found[entry.name] = Plugin(entry.name, first.function, first.package, fault)
    return tuple(found.values())


def is_code(text: str) -> bool:
    """Whether a text has the form of a check's code."""
    return re.fullmatch(_CODE, text) is not None


def _may_have_plugins(path: Sequence[str]) -> bool:
    """Whether a distribution may have an entry point of the group; if not, importlib.metadata is not imported."""
    finders = [finder if isinstance(finder, type) else type(finder) for finder in sys.meta_path]
    if any(hasattr(finder, "find_distributions") and finder.__name__ != _PATH_FINDER for finder in finders):
        return True
    return any(_mentions(entry) for entry in path)


def _is_searched(entry: str) -> bool:
    """Whether an entry of ``sys.path`` is a folder or a file: importlib would open anything else, such as a FIFO."""
    return not entry or os.path.isdir(entry) or os.path.isfile(entry)  # noqa: PTH112, PTH113 - as below


def _mentions(entry: str) -> bool:
    """Whether an entry of ``sys.path`` is an archive, or holds metadata that names the group."""
    try:
        names = os.listdir(entry or ".")  # noqa: PTH208 - at every start: pathlib takes ten times as long
    except NotADirectoryError:
        return os.path.isfile(entry)  # noqa: PTH113 - as above
    except OSError:
        return False
    for name in names:
        if name.lower().endswith(_METADATA):
            with suppress(OSError):
                if GROUP.encode() in read_regular(os.path.join(entry, name, "entry_points.txt"), _LARGEST):  # noqa: PTH118 - as above
                    return True
    return False


def _fault(name: str) -> str | None:
    from gpuenv.doctor.checks import all_checks  # noqa: PLC0415 - only if there is a plug-in

    if not is_code(name):
        return f"has the invalid code {name!r}; expected one like ACME101"
    families = tuple(dict.fromkeys(check.code[:3] for check in all_checks()))
    if name.startswith(families):
        return f"has a code reserved for gpuenv, beginning with {', '.join(families)}"
    return None


def _entry_points(path: Iterable[str]) -> Iterator[tuple[EntryPoint, str]]:
    """The group's entry points with their distributions; of distributions with the same name, the first one counts."""
    from importlib.metadata import distributions  # noqa: PLC0415 - it costs 30 ms

    from gpuenv.dist_metadata import bounded  # noqa: PLC0415 - imports importlib.metadata

    seen = set()
    for distribution in map(bounded, distributions(path=[*path])):
        name = _distribution_name(distribution)
        if name not in seen:
            seen.add(name)
            entries = (entry for entry in _parsed_entry_points(distribution) if entry.group == GROUP)
            yield from ((entry, _package(distribution)) for entry in entries)


def _parsed_entry_points(distribution: Distribution) -> Iterable[EntryPoint]:
    """Its entry points; none if its file is malformed, so that a broken package does not affect others."""
    try:
        return distribution.entry_points
    except (TypeError, ValueError):  # a line without an equals sign; in an archive, text that is not UTF-8
        return ()


def _distribution_name(distribution: Distribution) -> str:
    """Its name, by its folder if it has one: reading every METADATA would be slow."""
    stem, ending = os.path.splitext(os.path.basename(str(getattr(distribution, "_path", ""))))  # noqa: PTH119, PTH122
    name = stem.partition("-")[0] if ending in (".dist-info", ".egg-info") else distribution.name
    return re.sub(r"[-_.]+", "-", name or "").lower()


def _package(distribution: Distribution) -> str:
    head: Any = distribution.metadata
    name, release = head.get("Name"), head.get("Version")
    return f"{name} {release}" if name and release else "an unknown package"
