"""The sections of a Windows library (PE/COFF, Microsoft's PE Format specification)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_LONGEST = 8  # characters of a name: .nv_fatbin is written .nv_fatb


class PeError(ValueError):
    """Not a PE file of the usual kind."""


def pe_sections(data: bytes, name: str) -> Iterator[bytes]:
    """The content of every section of a name.

    Raises:
        PeError: where the table of sections cannot be read.
    """
    try:
        (header,) = struct.unpack_from("<I", data, 0x3C)
        if not data.startswith(b"MZ") or data[header : header + 4] != b"PE\0\0":
            raise PeError("not a PE file")
        (count,) = struct.unpack_from("<H", data, header + 6)
        (optional,) = struct.unpack_from("<H", data, header + 20)
        table = header + 24 + optional
        for number in range(count):
            told, used, _, size, start = struct.unpack_from("<8sIIII", data, table + 40 * number)
            if told.rstrip(b"\0") == name[:_LONGEST].encode():
                yield data[start : start + min(size, used or size)]
    except struct.error as error:
        raise PeError(f"a broken table of sections: {error}") from error
