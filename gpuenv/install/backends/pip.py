"""pip, used without uv: command lines, and its installation report.

The report is that of ``pip install --report`` (pip documentation, "Installation Report", version 1); pip 22.2 was the
first to have it. Before pip 23.0 its version is 0, and only ``hash`` has the digest (measured on 2026-11-22 of
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
# Variables that redirect an install, or change what is installed.
_REMOVED = frozenset(
    ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REPORT", "PIP_UPGRADE", "PIP_COMPILE", "PIP_PYTHON")
    + ("PIP_REQUIREMENT", "PIP_EDITABLE", "PIP_QUIET", "PIP_VERBOSE", "PIP_LOG", "PIP_PRE")
    + ("PIP_PLATFORM", "PIP_PYTHON_VERSION", "PIP_IMPLEMENTATION", "PIP_ABI")
    + ("PYTHONWARNINGS", "PYTHONINSPECT")  # for the user's program: "error" would end pip, and a prompt its exit code
)
# The same in pip.conf: a variable overrides it, and a command-line option overrides both.
_TURNED_OFF = ("PIP_DRY_RUN", "PIP_REQUIRE_HASHES", "PIP_NO_DEPS", "PIP_FORCE_REINSTALL", "PIP_IGNORE_INSTALLED")
_NO_REDIRECTION = ("--target=", "--root=/")  # pip 22.2 to 26.3 were tried


@dataclass(frozen=True, slots=True)
class Pip:
    """pip: ``python -m pip`` of the target, or another pip with ``--python``."""

    locks_as_toml: ClassVar[bool] = False  # whether ``lock_command`` prints a ``pylock.toml``
    offline_variable: ClassVar[str] = "PIP_NO_INDEX"  # ``--no-index`` as a variable
    program: tuple[str, ...]
    version: str

    @property
    def label(self) -> str:
        """Its name and version."""
        return f"pip {self.version}"

    def resolve_command(self, options: InstallerOptions, files: Files) -> tuple[str, ...]:
        """``pip install --dry-run --report``."""
        arguments = ("--dry-run", "--report", str(files.answer), "--constraint", str(files.constraints))
        return (*self._install(options), *arguments, "--requirement", str(files.requirements))

    def parse_resolved(self, printed: str, answer: str) -> tuple[Pin, ...]:
        """The ``install`` list of the report, digests included."""
        del printed
        report = json.loads(answer)
        known = isinstance(report, dict) and report.get("version") in _REPORTS
        if not known or not isinstance(report.get("install"), list):
            raise ValueError("expected an installation report of version 0 or 1")
        return tuple(_pin(entry) for entry in report["install"])

    def lock_command(self, options: InstallerOptions, files: Files) -> tuple[str, ...]:
        """The report of an install into an empty environment."""
        return (*self.resolve_command(options, files), "--ignore-installed")

    def digest_command(self, options: InstallerOptions, files: Files) -> tuple[str, ...]:
        """The same for exact versions."""
        return (*self.lock_command(options, files), "--no-deps")

    parse_locked = parse_resolved  # the output of ``lock_command`` and ``digest_command``

    def stage_commands(self, options: InstallerOptions, lock: Path, stage: Path) -> tuple[tuple[str, ...], ...]:
        """``pip install --prefix``, ignoring installed packages, so that none is uninstalled."""
        arguments = ("--ignore-installed", "--no-deps", "--require-hashes", "--no-compile", "--no-warn-script-location")
        prefix = (*_NO_REDIRECTION, "--prefix", str(stage))
        return ((*self._install(options), *arguments, *prefix, "--requirement", str(lock)),)

    def cache_command(self) -> tuple[str, ...] | None:
        """None: pip queries the index for every name, so its cache is useless offline (``pip install --help``)."""
        return None

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The user's variables, except those that redirect the install, or turn warnings into errors."""
        kept = {name: value for name, value in variables.items() if name not in _REMOVED}
        kept |= dict.fromkeys(_TURNED_OFF, "0")
        return {**kept, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1", "NO_COLOR": "1"}

    def _install(self, options: InstallerOptions) -> tuple[str, ...]:
        argv = [*self.program, "install", "--only-binary=:all:", "--no-user", "--progress-bar=off"]
        if options.offline or options.find_links is not None:
            argv.append("--no-index")
        if options.find_links is not None:
            argv += ["--find-links", options.find_links]
        if options.break_system_packages:
            argv.append("--break-system-packages")
        return tuple(argv)


def _pin(entry: Any) -> Pin:  # noqa: ANN401 - JSON
    if not isinstance(entry, dict) or not isinstance(entry.get("metadata"), dict):
        raise ValueError("expected an item with its metadata")  # noqa: TRY004 - one kind of error for all input
    metadata, info = entry["metadata"], entry.get("download_info") or {}
    archive = info.get("archive_info") or {}
    sha256 = (archive.get("hashes") or {}).get("sha256") or str(archive.get("hash", "")).removeprefix("sha256=") or None
    return make_pin(metadata.get("name"), metadata.get("version"), sha256, None, file_name(info.get("url")))
