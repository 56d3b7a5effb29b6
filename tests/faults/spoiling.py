"""Ways to spoil a file or a program, each a function of the path of the sound one, under the names of the table.

A name is one of the nine faults of tests/faults/cells.py, and after a colon how it came about.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

Spoil = Callable[[Path], None]
HUGE = 64 * 1024 * 1024
# Root may read everything, but not without this right of its (capabilities(7), CAP_DAC_OVERRIDE).
AS_NOBODY_SPECIAL = ("setpriv", "--inh-caps=-all", "--bounding-set=-all")
# What tests/native/files.c does to each file below a folder as it is opened, read or written.
AS_OPENED = ("unreadable", "slow", "hung", "dying")


def _replaced(path: Path) -> Path:
    """The sound one under another name beside it."""
    kept = path.with_name(f"{path.name}.sound")
    path.rename(kept)
    return kept


def _program(text: str) -> Spoil:
    """A shell script in the place of the sound program, which it knows as $sound."""

    def spoil(path: Path) -> None:
        kept = _replaced(path)
        path.write_text(f"#!/bin/sh\nsound={shlex.quote(str(kept))}\n{text}\n", encoding="utf-8")
        path.chmod(0o755)

    return spoil


def _file(content: bytes) -> Spoil:
    def spoil(path: Path) -> None:
        mode = path.stat().st_mode
        path.unlink()
        path.write_bytes(content)
        path.chmod(mode)

    return spoil


def _huge(path: Path) -> None:
    """Without taking room on the disk."""
    mode = path.stat().st_mode
    path.unlink()
    with path.open("wb") as file:
        file.truncate(HUGE)
    path.chmod(mode)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _cut(path: Path) -> None:
    """Half of it: as if whoever wrote it had died in the middle."""
    content = path.read_bytes()
    _file(content[: len(content) // 2])(path)


def _fifo(path: Path) -> None:
    """Nobody ever writes: a reader that is not careful waits for ever."""
    path.unlink()
    os.mkfifo(path, 0o755)


def _loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def _unreadable(path: Path) -> None:
    """A link is replaced: where it leads is not ours to change."""
    if path.is_symlink():
        path.unlink()
        path.write_bytes(b"")
    path.chmod(0)


RUBBISH = bytes(range(256)) * 64
FILE: dict[str, Spoil] = {
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
PROGRAM: dict[str, Spoil] = {
    "absent": Path.unlink,
    "unreadable": _unreadable,
    "empty": _file(b""),
    "rubbish": _file(RUBBISH),
    "unreadable: a folder": _folder,
    "empty: says nothing": _program("exit 0"),
    "rubbish: says it": _program("head -c 100000 /dev/urandom"),
    "huge": _program("while :; do head -c 1000000 /dev/zero | tr '\\0' x; done"),
    "slow": _program('sleep 0.5; exec "$sound" "$@"'),
    "hung": _program("exec sleep 600"),
    "hung: with a child": _program("sleep 600 & sleep 600"),
    "dying": _program('"$sound" "$@" | head -c 200; kill -SEGV $$'),
    "dying: fails": _program("echo it went wrong >&2; exit 3"),
}


def as_opened(library: Path, folder: Path, how: str, environment: dict[str, str]) -> dict[str, str]:
    """The variables under which files below a folder are spoilt as they are opened.

    Args:
        library: tests/native/files.c, compiled.
        folder: where they lie.
        how: one of the library's words.
        environment: what is loaded beforehand already stays so.
    """
    loaded = [str(library), *filter(None, [environment.get("LD_PRELOAD")])]
    return {"LD_PRELOAD": ":".join(loaded), "GPUENV_SPOILT": str(folder), "GPUENV_SPOILT_HOW": how}
