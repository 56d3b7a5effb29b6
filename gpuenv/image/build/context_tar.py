"""The build context that the engine receives: a tar file that is the same for the same plan."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping


def pack(files: Mapping[str, str], created: int, mode: int = 0o644) -> bytes:
    """A tar file of texts, without user names or current times."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in sorted(files.items()):
            data = text.encode()
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(data), mode, created
            tar.addfile(info, io.BytesIO(data))
        end = tar.offset
    # Two empty blocks end it. Padding to a tape's record is never read, and Podman, whose reader is gone by then, calls
    # that a broken pipe.
    return buffer.getvalue()[: end + 2 * tarfile.BLOCKSIZE]
