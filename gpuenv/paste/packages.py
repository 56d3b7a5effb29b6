"""Installed distributions in what is pasted: lists of pip, uv, conda and mamba, whole or searched."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from gpuenv.model.pattern import pattern
from gpuenv.paste import forms

_MOST = 20_000
_CUPY, _NUMPY = "cupy", "numpy"  # lists are in the order of names
_RELEASE = r"(\d[\w.!+-]*)"
_PIP_HEAD = pattern(r"Package\s+Version(?:\s+(?!\s|Build).*)?$")
_CONDA_HEAD = pattern(r"# packages in environment at |List of packages in environment|#?\s*Name\s+Version\s+Build\b")
_RULE = pattern(r"[-\u2500\s]+$")
_ROW = pattern(rf"([A-Za-z][\w.-]*)\s+{_RELEASE}(?:\s+\S.*)?$")
_CONDA_ROW = pattern(rf"(?:\[conda\] )?([a-z_][\w.-]*)\s+{_RELEASE}\s+(\S+)(?:\s+(\S+))?$")
_FROZEN = pattern(rf"(?:\[pip3?\] )?([A-Za-z][\w.-]*)=={_RELEASE}(?:\s|$)")
_FROM_FILE = pattern(r"([A-Za-z][\w.-]*) @ \S+/[\w.]+-(\d[\w.!+]*)-[^/\s]+\.whl\b")
_EXPORTED = pattern(r"([a-z_][\w.-]*)=(\d[\w.!]*)=(\S+)$")
# Of a list that was searched, rows stand alone: only names that are meant are taken for rows.
_MEANT = pattern(
    r"(?:cupy(?:-cuda\w+|-core|-rocm[\w-]+)?|nvidia-[\w-]+|cuda-(?:toolkit|version|pathfinder|bindings|python|nvrtc|cudart"
    r"|core|libraries|runtime|nvcc)[\w-]*|cudatoolkit|torch|pytorch|numpy|numba|numba-cuda|jax|jaxlib|jax-cuda\w+"
    r"|tensorflow|fastrlock|cudf[\w-]*|cuml[\w-]*|rmm[\w-]*|cutensor[\w-]*)",
    re.IGNORECASE,
)
_OF_PACMAN = pattern(r".*-\d+(?:\.\d+)?$")  # a release and how often it was packaged: no list of Python's
_ALONE = pattern(rf"(\S+)(?:\s+{_RELEASE}| \({_RELEASE}\))$")
_BUILT = pattern(rf"([a-z_][\w.-]*)\s+{_RELEASE}\s+((?:\w+_)?\d+|pypi_0|conda_forge)\s+([\w/.-]+)$")


class PackageReader:
    """Takes lines and collects the distributions that they list.

    Attributes:
        found: by canonical name: the release, and what has installed it: ``pip`` or ``conda``.
    """

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, str]] = {}
        self._lists: dict[str, str] = {}  # each with the last name in it
        self._within: str | None = None  # the list that the lines belong to

    @property
    def listings(self) -> tuple[str, ...]:
        """The lists of a whole environment that reach the name of CuPy: what is not in them is not there."""
        return tuple(form for form, last in self._lists.items() if last >= _CUPY)

    @property
    def whole(self) -> tuple[str, ...]:
        """The lists that reach the name of NumPy, which every CuPy needs."""
        return tuple(form for form, last in self._lists.items() if last >= _NUMPY)

    def look(self, line: str) -> str | None:
        """Takes a line; returns the output that it belongs to, where it lists a distribution."""
        for form, head in ((forms.PIP, _PIP_HEAD), (forms.CONDA, _CONDA_HEAD)):
            if head.match(line):
                self._within = form
                self._lists.setdefault(form, "")
                return form
        rows = list(self._rows(line))
        for name, release, form, by in rows:
            self._put(name, release, form, by)
        return rows[0][2] if rows else None

    def _rows(self, line: str) -> Iterator[tuple[str, str, str, str]]:
        """The distribution in a line: name, release, output, and what has installed it."""
        exported = _EXPORTED.match(line)
        frozen = _FROZEN.match(line) or _FROM_FILE.match(line)
        if exported:
            yield exported[1], exported[2], forms.CONDA, "pip" if exported[3].startswith("pypi") else "conda"
        elif frozen:
            yield frozen[1], frozen[2], forms.PIP, "pip"
        elif self._within is not None and line and not _RULE.match(line) and not line.startswith("#"):
            row = _within(self._within, line)
            if row:
                yield row
            else:
                self._within = None
                yield from _alone(line)
        else:
            yield from _alone(line)

    def _put(self, name: str, release: str, form: str, by: str) -> str:
        known = canonicalize_name(name)
        if len(self.found) < _MOST:
            self.found.setdefault(known, (release, by))
        if form in self._lists:
            self._lists[form] = max(self._lists[form], known)
        return form


def _within(form: str, line: str) -> tuple[str, str, str, str] | None:
    """A row of a list whose head was seen."""
    if form == forms.PIP:
        row = _ROW.match(line)
        return (row[1], row[2], form, "pip") if row else None
    row = _CONDA_ROW.match(line)
    return (row[1], row[2], form, _installer(row[3], row[4])) if row else None


def _alone(line: str) -> Iterator[tuple[str, str, str, str]]:
    """A row of a list whose head is not there."""
    built = _CONDA_ROW.match(line) if line.startswith("[conda] ") else _BUILT.match(line)
    if built:
        yield built[1], built[2], forms.CONDA, _installer(built[3], built[4])
        return
    row = _ALONE.match(line)
    if row and _MEANT.fullmatch(row[1]):
        release = next(group for group in row.groups()[1:] if group)
        if _OF_PACMAN.match(release):
            return
        yield row[1], release, forms.PIP, "pip"


def _installer(build: str, channel: str | None) -> str:
    return "pip" if "pypi" in (build + (channel or "")) or build == "<pip>" else "conda"
