"""The lines of the kernel's log that concern the driver: of the kernel's own buffer, else of the files of syslog."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable

from kernel_buffer import records
from telling import place, read_bytes

_FILES = ("/var/log/kern.log", "/var/log/messages", "/var/log/dmesg")
_TAIL = 1_000_000  # bytes of a file that are read, from its end
_MOST, _MOST_DECISIVE, _LONGEST = 50, 30, 400
# Without regard to case; a search for each is far cheaper than one pattern for all.
_OURS = (
    *("nvrm", "nvidia", "nouveau", "xid", "module verification failed", "unsigned module", "is rejected"),
    *("key was rejected", "lockdown: ", "pkcs#7"),
)
_NOBODYS = ("serial", "segfault at")  # a board's number; whose program crashed
# What may be behind a fault, and shall not be driven out by what is said again and again after it.
_DECISIVE = (
    r"NVRM: Xid|is rejected|unsigned module|Key was rejected|fallen off the bus|power cables|NVIDIA device is invalid"
)
_BOOT = r"^Linux version \d"
_PREFIX = r"^.*? kernel: "  # date and host of a line of syslog
_STAMP = r"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?"


def kernel_log(root: str) -> dict[str, object]:
    """The lines with their source, the newest last, or why there are none."""
    told, complaint = _buffer(root)
    if told is not None:
        return {"source": "/dev/kmsg", "lines": chosen(filter(None, map(_of_buffer, told)))}
    for path in _FILES:
        content = read_bytes(root, path, _TAIL, tail=True)
        if content is not None:
            lines = [_of_file(line, path) for line in content.decode("utf-8", "replace").splitlines()]
            return {"source": path, "lines": chosen(_since_boot([line for line in lines if line]))}
    return {"reason": f"/dev/kmsg: {complaint}; nor can a file of syslog be read"}


def _buffer(root: str) -> tuple[list[str] | None, str]:
    """The records of the kernel's own buffer; a plain file stands in for it below another root."""
    try:
        descriptor = os.open(place(root, "/dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        return None, error.strerror or str(error)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISREG(mode):
            return os.read(descriptor, _TAIL).decode("utf-8", "replace").splitlines(), ""
        # Some containers have a terminal there: what is read from it is taken from whoever types.
        is_log = stat.S_ISCHR(mode) and not os.isatty(descriptor)
        return (_records(descriptor), "") if is_log else (None, "it is no log")
    except OSError as error:
        return None, error.strerror or str(error)
    finally:
        os.close(descriptor)


def _records(descriptor: int) -> list[str]:
    return [record.split(b"\n", 1)[0].decode("utf-8", "replace") for record in records(descriptor)]


def _of_buffer(record: str) -> str | None:
    """The text of ``6,339,5140900,-;text``; a line that begins with a blank is an annotation."""
    numbers, separator, text = record.partition(";")
    return text if separator and numbers[:1].isdigit() else None


def _of_file(line: str, path: str) -> str | None:
    """The text without date, host and time stamp; in a file of all of syslog, the kernel's lines alone."""
    text, count = re.subn(_PREFIX, "", line, count=1)
    if not count and path != "/var/log/dmesg":
        return None
    return re.sub(_STAMP, "", text)


def _since_boot(lines: list[str]) -> list[str]:
    """A file has lines of former starts too, which say nothing of this one."""
    starts = [number for number, line in enumerate(lines) if re.match(_BOOT, line)]
    return lines[starts[-1] :] if starts else lines


def chosen(lines: Iterable[str]) -> list[str]:
    """The newest lines that concern the driver, each once; those that decide are not driven out by the others."""
    kept: dict[str, None] = {}
    for line in lines:
        small = line.lower()
        if any(mark in small for mark in _OURS) and not any(mark in small for mark in _NOBODYS):
            text = line[:_LONGEST]
            kept.pop(text, None)
            kept[text] = None
    found = list(kept)
    decisive = [line for line in found if re.search(_DECISIVE, line)][-_MOST_DECISIVE:]
    others = [line for line in found if line not in decisive]
    room = _MOST - len(decisive)
    taken = {*decisive, *others[-room:]}
    return [line for line in found if line in taken]
