"""Installed distributions in what is pasted: pip list, pip freeze, conda list, and the lists in other outputs."""

from __future__ import annotations

import re

from gpuenv.paste import forms

_MOST = 20_000


def canonical(name: str) -> str:
    """A distribution's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


class PackageReader:
    """Takes lines and collects the distributions that they list."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[str, str]] = {}
        self.listings: list[str] = []
        self._within: str | None = None  # the list that the lines belong to

    def look(self, line: str) -> str | None:
        """Takes a line; returns the output that it belongs to, where it lists a distribution."""
        if forms.PIP_HEAD.match(line):
            return self._begin(forms.PIP)
        if forms.CONDA_HEAD.match(line):
            return self._begin(forms.CONDA)
        frozen = forms.FROZEN.match(line)
        if frozen:
            return self._put(frozen[1], frozen[2], forms.PIP, "pip")
        if self._within == forms.PIP:
            return self._pip(line)
        return self._conda(line) if self._within == forms.CONDA or line.startswith("[conda] ") else None

    def _begin(self, form: str) -> str:
        self._within = form
        if form not in self.listings:
            self.listings.append(form)
        return form

    def _pip(self, line: str) -> str | None:
        if set(line) <= {"-", " "}:
            return None
        row = forms.PIP_ROW.match(line)
        if row:
            return self._put(row[1], row[2], forms.PIP, "pip")
        self._within = None
        return None

    def _conda(self, line: str) -> str | None:
        row = forms.CONDA_ROW.match(line)
        if row:
            by = "pip" if "pypi" in (row[3] + (row[4] or "")) else "conda"
            return self._put(row[1], row[2], forms.CONDA, by)
        if line and not line.startswith("#"):
            self._within = None
        return None

    def _put(self, name: str, release: str, form: str, by: str) -> str:
        if len(self.found) < _MOST:
            self.found.setdefault(canonical(name), (release, by))
        return form
