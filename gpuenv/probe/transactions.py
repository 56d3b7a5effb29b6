"""The transactions that gpuenv recorded in the folder ``.gpuenv`` of an environment; reads them and changes nothing."""

from __future__ import annotations

import json
import os
import sys
import time
from enum import Enum
from pathlib import Path

from gpuenv.files import open_regular, read_regular
from gpuenv.model.snapshot import OpenTransaction
from gpuenv.model.strings import parse_integer

JOURNALS = ".gpuenv"  # the folder in the root of an environment
JOURNAL, LOCK = "journal.json", "lock"
_LARGEST_STATE = 4096  # bytes


class TransactionState(str, Enum):
    """The progress of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    UNDOING = "undoing"
    UNDONE = "undone"


def numbers_in(folder: Path) -> tuple[str, ...]:
    """The numbers of all transactions, the oldest first.

    Raises:
        OSError: when the folder cannot be read.
    """
    found = (entry.name for entry in folder.iterdir() if parse_integer(entry.name) is not None and entry.is_dir())
    return tuple(sorted(found, key=int))


def state_of(transaction: Path) -> TransactionState:
    """The state of a transaction; open if none is recorded."""
    try:
        return TransactionState(json.loads(read_regular(transaction / "state.json", _LARGEST_STATE))["state"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return TransactionState.OPEN


def journals_folder(*prefixes: str | None) -> Path | None:
    """The first folder of journals in these environments; the root of a system's Python may be ``local`` in it."""
    folders = (Path(prefix, root, JOURNALS) for prefix in prefixes if prefix for root in ("", "local"))
    return next((folder for folder in folders if os.path.isdir(folder)), None)  # noqa: PTH112 - raises nothing


def prefix_of(interpreter: str) -> str:
    """The environment of an interpreter by its path alone, since the interpreter may be missing."""
    return str(Path(os.path.abspath(interpreter)).parent.parent)  # noqa: PTH100 - no links


def open_transaction(folder: Path) -> OpenTransaction | None:
    """The newest transaction that was interrupted; None while another gpuenv uses the environment.

    Raises:
        OSError: when the folder cannot be read.
    """
    for number in reversed(numbers_in(folder)):
        state = state_of(folder / number)
        if state in (TransactionState.OPEN, TransactionState.UNDOING):
            try:
                written = (folder / number / JOURNAL).lstat().st_mtime
            except FileNotFoundError:  # it had not begun to move files
                continue
            if is_locked(folder / LOCK):
                return None
            since = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(written))
            return OpenTransaction(number, "rollback" if state is TransactionState.UNDOING else "install", since)
    return None


def is_locked(path: Path) -> bool:
    """Whether another process holds the lock of an environment."""
    if sys.platform == "win32":
        return False
    import fcntl  # noqa: PLC0415 - Windows lacks it

    try:
        handle = open_regular(path, follow=False)
    except OSError:  # missing, or not gpuenv's
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks, on which gpuenv installs nothing
        return False
    finally:
        os.close(handle)
    return False
