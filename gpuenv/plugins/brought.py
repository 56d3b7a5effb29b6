"""The entry points of a group, as importlib names them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any

from gpuenv.ondisk import on_disk


def entry_points(group: str, path: Iterable[str]) -> Iterator[tuple[EntryPoint, str]]:
    """Each entry point with the distribution that brings it; of several of one name, the first on the path counts."""
    seen = set()
    for distribution in map(on_disk, distributions(path=[*path])):
        name = _name(distribution)
        if name not in seen:
            seen.add(name)
            yield from ((entry, _package(distribution)) for entry in _understood(distribution) if entry.group == group)


def _understood(distribution: Distribution) -> Iterable[EntryPoint]:
    """Its entry points; none where its file cannot be understood: one broken package is no matter of the others."""
    try:
        return distribution.entry_points
    except (TypeError, ValueError):  # of importlib: a line without an equals sign; of an archive: no UTF-8
        return ()


def _name(distribution: Distribution) -> str:
    """As its folder spells it, if it has one: reading every METADATA would take long."""
    stem, ending = os.path.splitext(os.path.basename(str(getattr(distribution, "_path", ""))))  # noqa: PTH119, PTH122
    told = stem.partition("-")[0] if ending in (".dist-info", ".egg-info") else distribution.name
    return re.sub(r"[-_.]+", "-", told or "").lower()


def _package(distribution: Distribution) -> str:
    head: Any = distribution.metadata
    name, release = head.get("Name"), head.get("Version")
    return f"{name} {release}" if name and release else "an unknown package"
