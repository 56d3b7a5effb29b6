"""Writes a file whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def replace_file(path: Path, text: str, *, durable: bool = False, private: bool = False, shared: bool = False) -> None:
    """Puts a text in a file's place by one rename: whoever reads it meets the former content or the new one.

    Args:
        path: the file; its permissions stay where it is there already, and a new one is its owner's alone.
        text: in UTF-8; what cannot be written so is written as an escape.
        durable: when this returns, the new content outlives a power cut.
        private: the owner alone may read it, whatever it was before.
        shared: made to be read by others: a new one has the rights that the umask leaves.

    Raises:
        OSError: when it cannot be written; what was there is untouched.
    """
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        if not private:
            new = 0o666 & ~_umask() if shared else 0o600
            temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else new)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes the names in a folder outlive a power cut.

    Raises:
        OSError: when the folder cannot be opened.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _umask() -> int:
    """The permissions that new files lack; reading it means setting it."""
    current = os.umask(0o077)
    os.umask(current)
    return current
