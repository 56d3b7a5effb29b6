"""pip: where there is no uv.

The report is that of ``pip install --report`` (pip documentation, "Installation Report", version 1); pip 22.2 was the
first to have it. Before pip 23.0 its version is 0, and the digest stands in ``hash`` alone (measured on 2026-11-22 of
22.2, 22.2.2, 22.3, 22.3.1, 23.0).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from packaging.version import Version

from gpuenv.install.backends.base import Files, InstallerOptions, file_name, make_pin
from gpuenv.install.plan import Pin

OLDEST = Version("22.2")
_REPORTS = ("0", "1")
# They send an install elsewhere, or change what is installed.
_LEFT_OUT = frozenset(
    ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REPORT", "PIP_UPGRADE", "PIP_COMPILE", "PIP_PYTHON")
    + ("PIP_REQUIREMENT", "PIP_EDITABLE", "PIP_QUIET", "PIP_VERBOSE", "PIP_LOG", "PIP_PRE")
    + ("PIP_PLATFORM", "PIP_PYTHON_VERSION", "PIP_IMPLEMENTATION", "PIP_ABI")
    + ("PYTHONWARNINGS",)  # meant for the user's program: an error for each warning would end pip
)
# The same in pip.conf: a variable goes before it, an option of the command line takes it back.
_TURNED_OFF = ("PIP_DRY_RUN", "PIP_REQUIRE_HASHES", "PIP_NO_DEPS", "PIP_FORCE_REINSTALL", "PIP_IGNORE_INSTALLED")
_NOT_ELSEWHERE = ("--target=", "--root=/")  # pip 22.2 to 26.3 were tried


@dataclass(frozen=True, slots=True)
class Pip:
    """How pip is called: ``python -m pip`` of the target's, or another pip that is told the target."""

    locks_as_toml: ClassVar[bool] = False  # whether ``locking`` prints a ``pylock.toml``
    offline_variable: ClassVar[str] = "PIP_NO_INDEX"  # ``--no-index`` as a variable
    program: tuple[str, ...]
    version: str

    @property
    def label(self) -> str:
        """Its name and version."""
        return f"pip {self.version}"

    def resolving(self, options: InstallerOptions, files: Files) -> tuple[str, ...]:
        """``pip install --dry-run --report``."""
        words = ("--dry-run", "--report", str(files.answer), "--constraint", str(files.constraints))
        return (*self._install(options), *words, "--requirement", str(files.requirements))

    def resolved(self, printed: str, answer: str) -> tuple[Pin, ...]:
        """The ``install`` list of the report, digests included."""
        del printed
        report = json.loads(answer)
        known = isinstance(report, dict) and report.get("version") in _REPORTS
        if not known or not isinstance(report.get("install"), list):
            raise ValueError("expected an installation report of version 0 or 1")
        return tuple(_pin(entry) for entry in report["install"])

    def locking(self, options: InstallerOptions, files: Files) -> tuple[str, ...]:
        """The report of an install as if nothing were installed."""
        return (*self.resolving(options, files), "--ignore-installed")

    def digesting(self, options: InstallerOptions, files: Files) -> tuple[str, ...]:
        """The same of exact versions."""
        return (*self.locking(options, files), "--no-deps")

    locked = resolved  # what ``locking`` and ``digesting`` answer

    def staging(self, options: InstallerOptions, lock: Path, stage: Path) -> tuple[tuple[str, ...], ...]:
        """``pip install --prefix``, as if nothing were installed, so that nothing is uninstalled either."""
        words = ("--ignore-installed", "--no-deps", "--require-hashes", "--no-compile", "--no-warn-script-location")
        where = (*_NOT_ELSEWHERE, "--prefix", str(stage))
        return ((*self._install(options), *words, *where, "--requirement", str(lock)),)

    def telling_cache(self) -> tuple[str, ...] | None:
        """It asks the index for every name: without one, its cache is of no use (``pip install --help``)."""
        return None

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """The user's own settings, but for the few that would send the install elsewhere, or end pip for a warning."""
        kept = {name: value for name, value in given.items() if name not in _LEFT_OUT}
        kept |= dict.fromkeys(_TURNED_OFF, "0")
        return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "NO_COLOR": "1"}

    def _install(self, options: InstallerOptions) -> tuple[str, ...]:
        words = [*self.program, "install", "--only-binary=:all:", "--no-user", "--progress-bar=off"]
        if options.offline or options.find_links is not None:
            words.append("--no-index")
        if options.find_links is not None:
            words += ["--find-links", options.find_links]
        if options.break_system_packages:
            words.append("--break-system-packages")
        return tuple(words)


def _pin(entry: Any) -> Pin:  # noqa: ANN401 - JSON
    if not isinstance(entry, dict) or not isinstance(entry.get("metadata"), dict):
        raise ValueError("expected an item with its metadata")  # noqa: TRY004 - one kind of error for all input
    metadata, info = entry["metadata"], entry.get("download_info") or {}
    archive = info.get("archive_info") or {}
    sha256 = (archive.get("hashes") or {}).get("sha256") or str(archive.get("hash", "")).removeprefix("sha256=") or None
    return make_pin(metadata.get("name"), metadata.get("version"), sha256, None, file_name(info.get("url")))
