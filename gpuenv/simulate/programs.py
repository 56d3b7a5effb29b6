"""Where the programs of a pretend machine are found: its own, the caller's, the system's; no nvidia-smi of the host."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from gpuenv.files import is_file
from gpuenv.simulate.machine import FOUND_ANYWAY, SimulatedMachine

_OF_THE_DRIVER = "nvidia-smi"


def search_path(machine: SimulatedMachine, given: str | None) -> str:
    """PATH of a program on the machine.

    The caller's folders come before the system's, so that an activated environment stays the caller's. On a machine
    without nvidia-smi, a folder that has one is shown by links to all else in it.

    Args:
        machine: the machine.
        given: the caller's PATH.
    """
    own = machine.root / "usr/bin"
    callers = given.split(os.pathsep) if given else []
    behind = [*callers, *(folder for folder in FOUND_ANYWAY.split(os.pathsep) if folder not in callers)]
    if not (own / _OF_THE_DRIVER).exists():
        behind = [_without_smi(folder, machine.root.parent / f"path-{number}") for number, folder in enumerate(behind)]
    return os.pathsep.join([str(own), *behind])


def _without_smi(folder: str, instead: Path) -> str:
    there = Path(folder).absolute()
    if not is_file(there / _OF_THE_DRIVER):
        return folder
    instead.mkdir()
    with contextlib.suppress(PermissionError):  # one that may not be listed
        for program in there.iterdir():
            if program.name != _OF_THE_DRIVER:
                (instead / program.name).symlink_to(program)
    return str(instead)
