"""Target environments as people have them, what is right to say of each, and what may be done to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.install.sandbox import MACHINE

if TYPE_CHECKING:
    from tests.install.sandbox import Sandbox


@dataclass(frozen=True, slots=True)
class Place:
    """An environment that has been made.

    Attributes:
        prefix: its folder, which is watched.
        python: what ``--python`` is given; the folder where nothing else is told, and an empty text for no option.
        variables: further ones of the caller.
        folder: where the program is started; anywhere where it does not matter.
        others: folders that nothing may change, whatever is done to the environment.
    """

    prefix: Path
    python: Path | str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None
    others: tuple[Path, ...] = ()


Build = Callable[["Sandbox"], Place]


@dataclass(frozen=True, slots=True)
class Odd:
    """An environment.

    Attributes:
        name: what is odd about it.
        build: makes it.
        cause: the one to cure first; several that are true alike stand apart by a bar; empty where nothing is wrong.
        error: whether it keeps GPU work from succeeding; else it is a warning.
        first: words of the first two cures.
        unsaid: words that stand in no cure.
        mended: what is there once ``--fix`` has mended it; None where it has nothing to mend.
        code: the exit code of ``--fix`` that mends nothing; None for that of the doctor.
        install: the exit code of ``gpuenv install``, where that is tried.
        options: further ones of the doctor.
        machine: the facts of the driver and the GPU, and whatever else is assumed.
        without_rights: the program runs without root's right to open every file.
    """

    name: str
    build: Build
    cause: str = ""
    error: bool = True
    first: str = ""
    unsaid: tuple[str, ...] = ()
    mended: Mapping[str, str] | None = None
    code: int | None = None
    install: int | None = None
    options: tuple[str, ...] = ()
    machine: tuple[str, ...] = MACHINE
    without_rights: bool = False

    def __str__(self) -> str:
        return f"{self.cause or 'healthy'}: {self.name}"
