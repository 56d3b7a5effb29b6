"""What has to leave a target for a wheel to work there, what has to stay, and the files of what leaves."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from packaging.utils import canonicalize_name

from gpuenv.install.dependencies import Package, Want, needed, required_name, wants
from gpuenv.install.environment import Entry, Installed, Scheme, read_record
from gpuenv.install.errors import TargetUnusable
from gpuenv.install.paths import below, is_inside
from gpuenv.install.plan import Reason
from gpuenv.model.cupy import cuda_major, is_cupy
from gpuenv.model.nvidia import cuda_major_of_wheel

MODULES = ("cupy", "cupyx", "cupy_backends")  # the folders that every CuPy line installs
_METADATA = ".dist-info"
_HALF_REMOVED = "~"  # pip renames what it removes to a name that begins so, and leaves it when it is interrupted


@dataclass(frozen=True, slots=True)
class Aims:
    """What leaves and what stays, before any resolver runs.

    Attributes:
        remove: what leaves, with the reason.
        refresh: what is put in again although it is there in the right version.
        asked: the names in the requirements.
        free: the packages that may move without consent: CuPy's own CUDA wheels, which nothing else needs.
        stay: the CUDA wheels of another major that something else needs.
    """

    remove: Mapping[str, Reason]
    refresh: tuple[str, ...]
    asked: frozenset[str]
    free: frozenset[str]
    stay: tuple[str, ...]


def aims(
    requirements: Sequence[str], packages: Sequence[Package], markers: Mapping[str, str], damaged: Sequence[str] = ()
) -> Aims:
    """What leaves and what stays for these requirements, CuPy's line among them.

    ``damaged`` are the packages whose files are not as they were installed.
    """
    asked = frozenset(name for name in map(required_name, requirements) if name)
    cupy = next((name for name in asked if is_cupy(name)), None)
    rivals = [entry.name for entry in packages if is_cupy(entry.name) and entry.name != cupy] if cupy else []
    rest = [entry for entry in packages if entry.name not in rivals and entry.name != cupy]
    cuda = {entry.name: cuda_major_of_wheel(entry.name, entry.release) for entry in rest}
    wheels = [name for name, major in cuda.items() if major is not None]
    wanted = needed(wheels, rest, markers)
    major = cuda_major(cupy) if cupy else None
    others = [name for name in wheels if cuda[name] != major and major is not None and name not in asked]
    remove = dict.fromkeys(rivals, Reason.OTHER_LINE)
    remove.update({name: Reason.STRAY_CUDA for name in others if name not in wanted})
    there = {entry.name for entry in packages}
    refresh = {cupy} if cupy in there and (rivals or cupy in damaged) else set()
    return Aims(
        remove=remove,
        refresh=tuple(sorted(name for name in refresh if name)),
        asked=asked,
        free=frozenset(name for name in wheels if name not in wanted),
        stay=tuple(name for name in others if name in wanted),
    )


def unneeded(packages: Sequence[Package], markers: Mapping[str, str]) -> frozenset[str]:
    """The CUDA wheels that only a CuPy needs: they may go, and do not limit the choice of a line."""
    rest = [entry for entry in packages if not is_cupy(entry.name)]
    wheels = [entry.name for entry in rest if cuda_major_of_wheel(entry.name, entry.release) is not None]
    return frozenset(wheels) - frozenset(needed(wheels, rest, markers))


def frozen(plan: Aims, packages: Sequence[Package], *, free_too: bool = False) -> tuple[str, ...]:
    """Constraints that let only free packages move, the first to try; with ``free_too`` not even those."""
    moving = {*plan.remove, *plan.asked, *(() if free_too else plan.free)}
    fixed = [entry for entry in packages if entry.name not in moving]
    return tuple(f"{entry.name}=={entry.release}" for entry in fixed)


def kept_working(plan: Aims, packages: Sequence[Package], markers: Mapping[str, str]) -> tuple[str, ...]:
    """Constraints under which everything that stays has what it needs, the second to try."""
    return tuple(sorted({f"{want.name}{want.specifier}" for want in kept_wants(plan, packages, markers)}))


def kept_wants(plan: Aims, packages: Sequence[Package], markers: Mapping[str, str]) -> tuple[Want, ...]:
    """What everything that stays needs in certain versions."""
    rest = [entry for entry in packages if entry.name not in plan.remove and not is_cupy(entry.name)]
    moving = {*plan.free, *plan.asked}
    return tuple(want for want in wants(rest, markers) if want.specifier and want.by not in moving)


def files_of(distribution: Installed, root: str) -> tuple[str, ...]:
    """The places of its files, relative to the root of the environment.

    Raises:
        TargetUnusable: when that is not known, or one is not the environment's.
    """
    record = read_record(distribution.metadata)
    told = f"{distribution.name} {distribution.release}"
    if distribution.installer == "conda" or (record is None and "/conda-meta" in distribution.metadata):
        raise TargetUnusable(f"{told} was installed by conda, and only conda can remove it", "Remove it with conda.")
    if record is None:
        raise TargetUnusable(
            f"{told} in {distribution.folder} has no RECORD: which files are its own is written down nowhere",
            "Remove it by hand, or make a new environment.",
        )
    real_folder = lru_cache(maxsize=None)(os.path.realpath)  # the files are thousands, their folders are not
    return tuple(_place(distribution, entry, root, real_folder) for entry in record)


def _place(distribution: Installed, entry: Entry, root: str, real_folder: Callable[[str], str]) -> str:
    path = os.path.normpath(os.path.join(distribution.folder, entry.path))
    folder, name = os.path.split(path)
    real = f"{real_folder(folder)}/{name}"
    if not is_inside(path, root) or not is_inside(real, real_folder(root)):
        raise TargetUnusable(
            f"{distribution.name}: its RECORD names a file outside of the environment: {entry.path!r}",
            "Look at how it came there; a new environment is the safe way.",
        )
    return below(path, root)


def owners(distributions: Iterable[Installed], root: str) -> dict[str, list[tuple[Installed, Entry]]]:
    """Which distributions own which place, by their RECORDs."""
    found: dict[str, list[tuple[Installed, Entry]]] = {}
    for distribution in distributions:
        for entry in read_record(distribution.metadata) or ():
            path = os.path.normpath(os.path.join(distribution.folder, entry.path))
            if is_inside(path, root):
                found.setdefault(below(path, root), []).append((distribution, entry))
    return found


def leftovers(scheme: Scheme, owned: Mapping[str, object]) -> tuple[str, ...]:
    """Files of CuPy's modules that no distribution owns, and what an interrupted pip has left of one."""
    found: list[str] = []
    for folder in dict.fromkeys((scheme.purelib, scheme.platlib)):
        for module in MODULES:
            found += [place for place in _files_below(folder, module, scheme.root) if place not in owned]
        for name in _listed(folder):
            if name.startswith(_HALF_REMOVED) and name[1:].replace("_", "-").startswith("upy"):
                found += list(_files_below(folder, name, scheme.root))
    return tuple(found)


def left_metadata(scheme: Scheme, own: Mapping[str, Installed], named: Collection[str]) -> tuple[str, ...]:
    """The metadata that an update or a power cut has left, of CuPy and of the distributions ``named`` alone.

    Those of another release of a distribution that is there, or without a name.
    """
    found: list[str] = []
    used = {os.path.realpath(entry.metadata) for entry in own.values()}
    for folder in dict.fromkeys((scheme.purelib, scheme.platlib)):
        for entry in _listed(folder):
            name = canonicalize_name(entry.removesuffix(_METADATA).rpartition("-")[0])
            path = Path(folder, entry)
            ours = entry.endswith(_METADATA) and (name in named or is_cupy(name))
            if ours and not path.is_symlink() and os.path.realpath(path) not in used:
                found += list(_files_below(folder, entry, scheme.root))
    return tuple(dict.fromkeys(found))


def _files_below(folder: str, name: str, root: str) -> Iterator[str]:
    for place, folders, files in os.walk(os.path.join(folder, name)):
        if "__pycache__" in folders:
            folders.remove("__pycache__")
        yield from (below(os.path.join(place, file), root) for file in files)


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone
    except OSError:
        return []
