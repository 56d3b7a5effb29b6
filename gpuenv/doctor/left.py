"""What is left of a CuPy whose installation or removal was cut short. Pure."""

from __future__ import annotations

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
        return empty[0].path.rpartition("/")[0]
    package, _, file = (target.cupy_module.value or "").rpartition("/cupy/")
    prefix = target.prefix.value
    if file != "__init__.py" or not prefix or not package.startswith(f"{prefix}/"):
        return None
    return package if _INSTALLED_INTO.fullmatch(package[len(prefix) + 1 :]) else None


def empty_metadata(target: Target) -> list[LeftMetadata]:
    """Metadata of CuPy's that tell nothing any more, beside files of it: a power cut, or links whose aims have gone."""
    return [entry for entry in target.left_metadata if entry.has_files and entry.release is None]
