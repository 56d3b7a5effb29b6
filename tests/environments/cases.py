"""Test cases: target environments with the expected findings, fixes and exit codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.install.sandbox import MACHINE

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class BuiltEnvironment:
    """A built environment.

    Attributes:
        prefix: its folder, whose content is compared.
        python: the value of ``--python``, by default the folder; an empty text omits the option.
        variables: additional environment variables.
        folder: the working folder, if it matters.
        other_folders: folders that no command may change.
    """

    prefix: Path
    python: Path | str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    other_folders: tuple[Path, ...] = ()


Build = Callable[["Sandbox"], BuiltEnvironment]


@dataclass(frozen=True, slots=True)
class EnvironmentCase:
    """An environment and its expected results.

    Attributes:
        name: what distinguishes it.
        build: builds it.
        cause: the primary cause, or several possible ones separated by ``|``; empty if the environment is healthy.
        error: whether the cause is an error rather than a warning.
        first_fix: words of the first two fixes.
        forbidden_words: words that occur in no fix.
        fixed_versions: versions after ``--fix``; None if it cannot change anything.
        fix_exit_code: the exit code of ``--fix`` without changes; None for that of the doctor.
        install_exit_code: the exit code of ``gpuenv install``, if it is run.
        options: additional options of the doctor.
        machine: options for the assumed driver and GPU.
        unprivileged: whether gpuenv runs without root's capability to open every file.
    """

    name: str
    build: Build
    cause: str = ""
    error: bool = True
    first_fix: str = ""
    forbidden_words: tuple[str, ...] = ()
    fixed_versions: Mapping[str, str] | None = None
    fix_exit_code: int | None = None
    install_exit_code: int | None = None
    options: tuple[str, ...] = ()
    machine: tuple[str, ...] = MACHINE
    unprivileged: bool = False

    def __str__(self) -> str:
        return f"{self.cause or 'healthy'}: {self.name}"
