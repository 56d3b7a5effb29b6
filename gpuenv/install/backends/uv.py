"""uv: command lines, and its dry runs and locks.

The lines of ``--dry-run`` and the options are those of uv 0.13.9 and 0.6.15, which were run; 0.5.0 has no ``--format``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from packaging.version import Version

from gpuenv.install.backends.base import Files, InstallerOptions, make_pin
from gpuenv.install.lockfile import parse_pylock
from gpuenv.install.pip_settings import PipSettings, place_for_uv
from gpuenv.install.plan import Pin

OLDEST = Version("0.6.15")
_ADDED = re.compile(r" [+~] (\S+?)==(\S+)(?: \(.*\))?\s*")
_LOCK = ("compile", "--format=pylock.toml", "--no-header", "--quiet")
# Variables that select another environment, or change what is installed and how.
_REMOVED = frozenset(
    ("UV_SYSTEM_PYTHON", "UV_PYTHON", "UV_PROJECT_ENVIRONMENT", "UV_REQUIRE_HASHES", "UV_NO_VERIFY_HASHES")
    + ("UV_BREAK_SYSTEM_PACKAGES", "UV_PROJECT", "UV_WORKING_DIRECTORY", "UV_CONSTRAINT")
    + ("UV_WORKING_DIR",)
)


@dataclass(frozen=True, slots=True)
class Uv:
    """uv: the program, its reported version, the user's constraint files, and pip's settings where uv has none.

    Constraints on the command line replace those of UV_CONSTRAINT, so both are passed there.
    """

    locks_as_toml: ClassVar[bool] = True  # whether ``lock_command`` prints a ``pylock.toml``
    offline_variable: ClassVar[str] = "UV_OFFLINE"  # ``--offline`` as a variable
    program: str
    version: str
    constraints: tuple[str, ...]
    pip_settings: PipSettings

    @property
    def label(self) -> str:
        """Its name and version."""
        return f"uv {self.version}"

    def resolve_command(self, options: InstallerOptions, files: Files) -> tuple[str, ...]:
        """``uv pip install --dry-run``, which considers installed packages."""
        arguments = ["install", "--dry-run", *self._common(options), *self._constraint_options(files)]
        if options.break_system_packages:
            arguments.append("--break-system-packages")
        return (self.program, "pip", *arguments, f"--requirements={files.requirements}")

    def parse_resolved(self, printed: str, answer: str) -> tuple[Pin, ...]:
        """Parses lines with a plus, or a tilde for a reinstall."""
        del answer
        if "Would" not in printed:
            raise ValueError("expected what would be done")
        found = (_ADDED.fullmatch(line) for line in printed.splitlines())
        return tuple(make_pin(match[1], match[2]) for match in found if match)

    def lock_command(self, options: InstallerOptions, files: Files) -> tuple[str, ...]:
        """``uv pip compile``."""
        arguments = (*_LOCK, *self._common(options), *self._constraint_options(files))
        return (self.program, "pip", *arguments, str(files.requirements))

    def digest_command(self, options: InstallerOptions, files: Files) -> tuple[str, ...]:
        """``uv pip compile`` of exact versions, which also selects the wheel of each."""
        command, *arguments = _LOCK
        return (self.program, "pip", command, "--no-deps", *arguments, *self._common(options), str(files.requirements))

    def parse_locked(self, printed: str, answer: str) -> tuple[Pin, ...]:
        """Parses the lock file that ``lock_command`` and ``digest_command`` print."""
        del answer
        return parse_pylock(printed)

    def stage_commands(self, options: InstallerOptions, lock: Path, stage: Path) -> tuple[tuple[str, ...], ...]:
        """``uv pip install --prefix``: scripts get the target's interpreter, and the target is unchanged.

        Tried offline first: exact, cached versions need no index, whose queries can take longer than the install.
        Every line of ``lock`` has digests, and uv verifies them: ``--require-hashes`` does no more, and refuses the
        user's ``constraint-dependencies`` unless each is pinned.
        """
        tries = (options,) if options.offline else (replace(options, offline=True), options)
        arguments = (f"--prefix={stage}", f"--requirements={lock}")
        head = (self.program, "pip", "install", "--no-deps", "--verify-hashes", "--no-require-hashes")
        return tuple((*head, *self._common(entry), *arguments) for entry in tries)

    def cache_command(self) -> tuple[str, ...] | None:
        """``uv cache dir``, which respects the user's settings."""
        return (self.program, "cache", "dir")

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """The user's variables, except those that select another environment."""
        kept = {name: value for name, value in variables.items() if name not in _REMOVED}
        return {**kept, **dict(self.pip_settings.variables), "NO_COLOR": "1", "UV_NO_WRAP": "1"}  # its output is parsed

    def _constraint_options(self, files: Files) -> tuple[str, ...]:
        return tuple(
            f"--constraints={path}"
            for path in (str(files.constraints), *self.constraints, *self.pip_settings.constraints)
        )

    def _common(self, options: InstallerOptions) -> tuple[str, ...]:
        argv = [f"--python={options.executable}", "--only-binary=:all:"]
        if options.offline:
            argv.append("--offline")
        if options.python_version is not None:
            argv += [f"--python-version={options.python_version}", f"--python-platform={options.platform}"]
        if self.pip_settings.no_index or options.find_links is not None:
            argv.append("--no-index")
        if options.find_links is not None:
            argv.append(f"--find-links={place_for_uv(options.find_links)}")
        return tuple(argv)
