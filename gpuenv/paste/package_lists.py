"""Reads installed distributions from lists of pip, uv, conda and mamba, complete or filtered by grep."""

from __future__ import annotations

import re

from packaging.utils import canonicalize_name

from gpuenv.model.strings import pattern
from gpuenv.paste import outputs
from gpuenv.paste.content import ExtractedFact

_Row = tuple[str, str, str, str]  # name, release, output, installer

_MAX_PACKAGES = 20_000
_CUPY, _NUMPY = "cupy", "numpy"  # lists are sorted by name
_RELEASE = r"(\d[\w.!+-]*)"
_PIP_HEAD = pattern(r"Package\s+Version(?:\s+(?!\s|Build).*)?$")
_CONDA_HEAD = pattern(r"# packages in environment at |List of packages in environment|#?\s*Name\s+Version\s+Build\b")
_RULE = pattern(r"[-\u2500\s]+$")
_ROW = pattern(rf"([A-Za-z][\w.-]*)\s+{_RELEASE}(?:\s+\S.*)?$")
_CONDA_ROW = pattern(rf"(?:\[conda\] )?([a-z_][\w.-]*)\s+{_RELEASE}\s+(\S+)(?:\s+(\S+))?$")
_FROZEN = pattern(rf"(?:\[pip3?\] )?([A-Za-z][\w.-]*)=={_RELEASE}(?:\s|$)")
_FROM_FILE = pattern(r"([A-Za-z][\w.-]*) @ \S+/[\w.]+-(\d[\w.!+]*)-[^/\s]+\.whl\b")
_EXPORTED = pattern(r"([a-z_][\w.-]*)=(\d[\w.!]*)=(\S+)$")
# A filtered list has rows without a head, so that only relevant names are taken as rows.
_RELEVANT = pattern(
    r"(?:cupy(?:-cuda\w+|-core|-rocm[\w-]+)?|nvidia-[\w-]+|cuda-(?:toolkit|version|pathfinder|bindings|python|nvrtc|cudart"
    r"|core|libraries|runtime|nvcc)[\w-]*|cudatoolkit|torch|pytorch|numpy|numba|numba-cuda|jax|jaxlib|jax-cuda\w+"
    r"|tensorflow|fastrlock|cudf[\w-]*|cuml[\w-]*|rmm[\w-]*|cutensor[\w-]*)",
    re.IGNORECASE,
)
_PACMAN_RELEASE = pattern(r".*-\d+(?:\.\d+)?$")  # with a package revision, so not a list of Python packages
_SINGLE_ROW = pattern(rf"(\S+)(?:\s+{_RELEASE}| \({_RELEASE}\))$")
_BUILT = pattern(rf"([a-z_][\w.-]*)\s+{_RELEASE}\s+((?:\w+_)?\d+|pypi_0|conda_forge)\s+([\w/.-]+)$")


class PackageReader:
    """Takes lines and collects the distributions that they list.

    Attributes:
        found: by canonical name: the release and the installer, ``pip`` or ``conda``.
    """

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, str]] = {}
        self._lists: dict[str, str] = {}  # each with its last name
        self._within: str | None = None  # the list that the following lines belong to

    @property
    def listings(self) -> tuple[str, ...]:
        """The lists of all packages that reach the name of CuPy: a CuPy that is not in them is not installed."""
        return tuple(output for output, last in self._lists.items() if last >= _CUPY)

    @property
    def complete(self) -> tuple[str, ...]:
        """The lists that also reach the name of NumPy, which every CuPy needs."""
        return tuple(output for output, last in self._lists.items() if last >= _NUMPY)

    def read(self, line: str) -> list[ExtractedFact]:
        """The output of a line that lists a distribution."""
        for output, head in ((outputs.PIP, _PIP_HEAD), (outputs.CONDA, _CONDA_HEAD)):
            if head.match(line):
                self._within = output
                self._lists.setdefault(output, "")
                return [(output, "", "")]
        row = self._row(line)
        if row is None:
            return []
        name, release, output, installer = row
        known = canonicalize_name(name)
        if len(self.found) < _MAX_PACKAGES:
            self.found.setdefault(known, (release, installer))
        if output in self._lists:
            self._lists[output] = max(self._lists[output], known)
        return [(output, "", "")]

    def _row(self, line: str) -> _Row | None:
        exported = _EXPORTED.match(line)
        if exported:
            installer = "pip" if exported[3].startswith("pypi") else "conda"
            return exported[1], exported[2], outputs.CONDA, installer
        frozen = _FROZEN.match(line) or _FROM_FILE.match(line)
        if frozen:
            return frozen[1], frozen[2], outputs.PIP, "pip"
        if self._within is not None and line and not _RULE.match(line) and not line.startswith("#"):
            row = _of_pip(_ROW.match(line)) if self._within == outputs.PIP else _of_conda(_CONDA_ROW.match(line))
            if row:
                return row
            self._within = None
        return _row_without_head(line)


def _of_pip(row: re.Match[str] | None) -> _Row | None:
    return (row[1], row[2], outputs.PIP, "pip") if row else None


def _of_conda(row: re.Match[str] | None) -> _Row | None:
    if row is None:
        return None
    is_pips = "pypi" in row[3] + (row[4] or "") or row[3] == "<pip>"
    return row[1], row[2], outputs.CONDA, "pip" if is_pips else "conda"


def _row_without_head(line: str) -> _Row | None:
    """A row of a list without a head."""
    built = _CONDA_ROW.match(line) if line.startswith("[conda] ") else _BUILT.match(line)
    if built:
        return _of_conda(built)
    row = _SINGLE_ROW.match(line)
    release = (row[2] or row[3]) if row and _RELEVANT.fullmatch(row[1]) else None
    return (row[1], release, outputs.PIP, "pip") if row and release and not _PACMAN_RELEASE.match(release) else None
