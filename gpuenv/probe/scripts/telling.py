"""What the scripts share that run under gpuenv's own interpreter: telling facts, and reading files below a driver root.

Every path is given as a process on that root would write it, ``/proc/modules``; ``root`` is put before it here, and a
link stays below it, as it would after a change of root. Nothing here blocks: a FIFO in the place of a file is no file.
"""

from __future__ import annotations

import json
import os
import stat
import sys

_MOST_LINKS = 40  # as the kernel's own limit
_PIECE = 65536


def tell(key: str, value: object) -> None:
    """Prints one fact at once, so that it survives whatever happens to this process next."""
    body = json.dumps({key: value})
    if "\\udc" in body:  # a file's name that is no text
        replaced = json.dumps({key: value}, ensure_ascii=False).encode("utf-8", "replace")
        body = json.dumps(json.loads(replaced))
    sys.stdout.write(f"gpuenv:{body}\n")
    sys.stdout.flush()


def mapped_file(name: str) -> str | None:
    """The file that this process has mapped first of those whose names begin so; None where there is none."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            paths = (line.split(None, 5)[-1].strip() for line in file if name in line)
            return next((path for path in paths if os.path.basename(path).startswith(name)), None)
    except OSError:
        return None


def real(root: str, path: str) -> str:
    """The path, seen from the root, behind all links of one: absolute links mean places below the root."""
    if not root:
        return os.path.realpath(path)
    done, rest, links = "", [part for part in reversed(path.split("/")) if part], 0
    while rest:
        part = rest.pop()
        if part in (".", ".."):
            done = done if part == "." else done.rpartition("/")[0]
            continue
        try:
            target = os.readlink(f"{root}{done}/{part}")
        except OSError:
            done = f"{done}/{part}"
            continue
        links += 1
        if links > _MOST_LINKS:
            return path
        if target.startswith("/"):
            done, target = "", target.removeprefix(root)
        rest += [piece for piece in reversed(target.split("/")) if piece]
    return done or "/"


def place(root: str, path: str) -> str:
    """Where this process finds a path of the root's."""
    return root + real(root, path) if root else path


def read_bytes(root: str, path: str, limit: int, *, tail: bool = False) -> bytes | None:
    """The first bytes of a file, or the last ones; None where it is none that can be read."""
    try:
        descriptor = os.open(place(root, path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        if tail and status.st_size > limit:
            os.lseek(descriptor, -limit, os.SEEK_END)
        return _all(descriptor, limit)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _all(descriptor: int, limit: int) -> bytes:
    """Files below /proc are given piece by piece."""
    pieces, left = [], limit
    while left > 0:
        piece = os.read(descriptor, min(left, _PIECE))
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def read(root: str, path: str, limit: int = 65536) -> str | None:
    """The text of a file up to a number of bytes, or None where it cannot be read."""
    content = read_bytes(root, path, limit)
    return None if content is None else content.decode("utf-8", "replace")


def word(root: str, path: str) -> str | None:
    """The text of a small file without the blanks around it; None where it is empty too."""
    return (read(root, path) or "").strip() or None


def names(root: str, folder: str, *, begin: str = "", end: str = "") -> list[str]:
    """The names in a folder, in order; none where it cannot be read."""
    try:
        listed = os.listdir(place(root, folder))
    except OSError:
        return []
    return sorted(name for name in listed if name.startswith(begin) and name.endswith(end))


def is_folder(root: str, path: str) -> bool:
    """Whether a folder lies there."""
    return os.path.isdir(place(root, path))


def exists(root: str, path: str) -> bool:
    """Whether anything lies there."""
    return os.path.exists(place(root, path))
