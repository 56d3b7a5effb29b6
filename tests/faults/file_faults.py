"""Faults of a file or program, as functions that replace the intact one, by their names in the fault matrix.

A name is one of the nine faults of tests/faults/fault_matrix.py, with a variant after a colon.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

Fault = Callable[[Path], None]
HUGE = 64 * 1024 * 1024
# Root may read everything only with this capability (capabilities(7), CAP_DAC_OVERRIDE).
WITHOUT_CAPABILITIES = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
# Faults that tests/native/files.c injects when a file below a folder is opened, read or written.
ON_OPEN = ("unreadable", "slow", "hung", "dying")


def _rename_intact(path: Path) -> Path:
    """Rename the intact file to ``NAME.intact`` in its folder."""
    intact = path.with_name(f"{path.name}.intact")
    path.rename(intact)
    return intact


def _program(text: str) -> Fault:
    """A shell script that replaces a program; the intact program is $intact."""

    def replace(path: Path) -> None:
        intact = _rename_intact(path)
        path.write_text(f"#!/bin/sh\nintact={shlex.quote(str(intact))}\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    return replace


def _file(content: bytes) -> Fault:
    def replace(path: Path) -> None:
        mode = path.stat().st_mode
        path.unlink()
        path.write_bytes(content)
        path.chmod(mode)

    return replace


def _huge(path: Path) -> None:
    """A sparse file, which takes no space on the disk."""
    mode = path.stat().st_mode
    path.unlink()
    with path.open("wb") as file:
        file.truncate(HUGE)
    path.chmod(mode)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _cut(path: Path) -> None:
    """The first half, as if its writer had been killed."""
    content = path.read_bytes()
    _file(content[: len(content) // 2])(path)


def _fifo(path: Path) -> None:
    """A named pipe without a writer: a careless reader waits for ever."""
    path.unlink()
    os.mkfifo(path, 0o755)


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _unreadable(path: Path) -> None:
    """A link is replaced, so that its target stays unchanged."""
    if path.is_symlink():
        path.unlink()
        path.write_bytes(b"")
    path.chmod(0)


RUBBISH = bytes(range(256)) * 64
FILE_FAULTS: dict[str, Fault] = {
    "absent": Path.unlink,
    "unreadable": _unreadable,
    "empty": _file(b""),
    "rubbish": _file(RUBBISH),
    "huge": _huge,
    "hung": _fifo,
    "dying: cut in the middle": _cut,
    "unreadable: a folder": _folder,
    "unreadable: a loop": _loop,
}
PROGRAM_FAULTS: dict[str, Fault] = {
    "absent": Path.unlink,
    "unreadable": _unreadable,
    "empty": _file(b""),
    "rubbish": _file(RUBBISH),
    "unreadable: a folder": _folder,
    "empty: no answer": _program("exit 0"),
    "rubbish: as output": _program("head -c 100000 /dev/urandom"),
    "huge": _program("while :; do head -c 1000000 /dev/zero | tr '\\0' x; done"),
    "slow": _program('sleep 0.5; exec "$intact" "$@"'),
    "hung": _program("exec sleep 600"),
    "hung: with a child": _program("sleep 600 & sleep 600"),
    "dying": _program('"$intact" "$@" | head -c 200; kill -SEGV $$'),
    "dying: fails": _program("echo it went wrong >&2; exit 3"),
}


def faults_on_open(library: Path, folder: Path, fault: str, environment: dict[str, str]) -> dict[str, str]:
    """The variables that inject a fault into files below a folder when they are opened.

    Args:
        library: tests/native/files.c, compiled.
        folder: the folder of the files.
        fault: one of ``ON_OPEN``, or another fault of the library.
        environment: the other variables; libraries in its LD_PRELOAD stay loaded.
    """
    libraries = [str(library), *filter(None, [environment.get("LD_PRELOAD")])]
    return {"LD_PRELOAD": ":".join(libraries), "GPUENV_FAULTY_FOLDER": str(folder), "GPUENV_FILE_FAULT": fault}
