"""What is left of a CuPy whose installation or removal was cut short. Pure."""

from __future__ import annotations

from gpuenv.matrix.ranges import same_release
from gpuenv.model.pattern import pattern
from gpuenv.model.target import LeftMetadata, Target

# Below the prefix, where installers put packages: venv and conda, Debian's folders, and Windows.
_INSTALLED_INTO = pattern(r"(?:local/)?[Ll]ib(?:64)?/(?:(?:python|pypy)[\d.]+t?/)?(?:site|dist)-packages")


def left_in(target: Target) -> str | None:
    """The installers' folder of the environment in which a package cupy lies that no distribution owns; else None.

    Anywhere else below the prefix it is somebody's own: a source tree in PREFIX/src, say, that a variable leads to.
    """
    empty = empty_metadata(target)
    if empty:
        path = empty[0].path
        return path[: max(path.rfind("/"), path.rfind("\\"))]  # as Windows writes it, too
    package, _, file = (target.cupy_module.value or "").rpartition("/cupy/")
    prefix = target.prefix.value
    if file != "__init__.py" or not prefix or not package.startswith(f"{prefix}/"):
        return None
    return package if _is_installers(package, prefix) else None


def _is_installers(folder: str, prefix: str) -> bool:
    return folder.startswith(f"{prefix}/") and bool(_INSTALLED_INTO.fullmatch(folder[len(prefix) + 1 :]))


def empty_metadata(target: Target) -> list[LeftMetadata]:
    """Metadata of CuPy's that tell nothing any more, beside files of it: a power cut, or links whose aims have gone."""
    return [entry for entry in target.left_metadata if entry.has_files and entry.release is None]


def other_releases(target: Target) -> list[LeftMetadata]:
    """Metadata of another release than the one that is there; the same one, told twice, misleads nobody."""
    there = target.packages
    known = (entry for entry in target.left_metadata if entry.release and entry.name in there)
    return [entry for entry in known if not same_release(entry.release or "", there[entry.name])]


def is_clearable(entry: LeftMetadata, target: Target) -> bool:
    """Whether a transaction in the target removes it: a wheel's metadata, in the folder that its installers use."""
    folder, _, name = entry.path.replace("\\", "/").rpartition("/")
    prefix = (target.prefix.value or "").replace("\\", "/")
    return name.endswith(".dist-info") and bool(prefix) and _is_installers(folder, prefix)
