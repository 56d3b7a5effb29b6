"""Installed distributions in what is pasted: lists of pip, uv, conda and mamba, whole or searched."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from gpuenv.model.strings import pattern
from gpuenv.paste import forms
from gpuenv.paste.records import Found

_Row = tuple[str, str, str, str]  # name, release, output, what has installed it

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

    def read(self, line: str) -> list[Found]:
        """The output that a line belongs to, if it lists a distribution."""
        for form, head in ((forms.PIP, _PIP_HEAD), (forms.CONDA, _CONDA_HEAD)):
            if head.match(line):
                self._within = form
                self._lists.setdefault(form, "")
                return [(form, "", "")]
        row = self._row(line)
        if row is None:
            return []
        name, release, form, installer = row
        known = canonicalize_name(name)
        if len(self.found) < _MOST:
            self.found.setdefault(known, (release, installer))
        if form in self._lists:
            self._lists[form] = max(self._lists[form], known)
        return [(form, "", "")]

    def _row(self, line: str) -> _Row | None:
        exported = _EXPORTED.match(line)
        if exported:
            installer = "pip" if exported[3].startswith("pypi") else "conda"
            return exported[1], exported[2], forms.CONDA, installer
        frozen = _FROZEN.match(line) or _FROM_FILE.match(line)
        if frozen:
            return frozen[1], frozen[2], forms.PIP, "pip"
        if self._within is not None and line and not _RULE.match(line) and not line.startswith("#"):
            row = _of_pip(_ROW.match(line)) if self._within == forms.PIP else _of_conda(_CONDA_ROW.match(line))
            if row:
                return row
            self._within = None
        return _alone(line)


def _of_pip(row: re.Match[str] | None) -> _Row | None:
    return (row[1], row[2], forms.PIP, "pip") if row else None


def _of_conda(row: re.Match[str] | None) -> _Row | None:
    if row is None:
        return None
    is_pips = "pypi" in row[3] + (row[4] or "") or row[3] == "<pip>"
    return row[1], row[2], forms.CONDA, "pip" if is_pips else "conda"


def _alone(line: str) -> _Row | None:
    """A row of a list whose head is not there."""
    built = _CONDA_ROW.match(line) if line.startswith("[conda] ") else _BUILT.match(line)
    if built:
        return _of_conda(built)
    row = _ALONE.match(line)
    release = (row[2] or row[3]) if row and _MEANT.fullmatch(row[1]) else None
    return (row[1], release, forms.PIP, "pip") if row and release and not _OF_PACMAN.match(release) else None
