"""What a file is that was named as an image and is no tar file: by how it begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_LONGEST = 64


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of file: its magic number, a description and a remedy."""

    magic: bytes
    what: str
    remedy: str


_NOT_BY_IT = "judge the image that it was made from, by its name; gpuenv doctor judges from within"
# RFC 8878, 3.1.1 (Zstandard frames); the LZ4 frame format's and SquashFS's magic numbers; and SIF_MAGIC, which stands
# behind the launch line of Apptainer's files.
_KINDS = (
    _Kind(b"\x28\xb5\x2f\xfd", "is compressed with zstd, which is not read here", "unpack it: zstd -d FILE"),
    _Kind(b"\x04\x22\x4d\x18", "is compressed with lz4, which is not read here", "unpack it: lz4 -d FILE"),
    _Kind(b"hsqs", "is a SquashFS, as Apptainer and enroot keep images", _NOT_BY_IT),
    _Kind(b"SIF_MAGIC", "is an image of Apptainer", _NOT_BY_IT),
)


def kind_of(path: Path) -> tuple[str, str] | None:
    """Description and remedy of a file; none if unknown.

    Args:
        path: a regular file.
    """
    try:
        with path.open("rb") as opened:
            data = opened.read(_LONGEST)
    except OSError:
        return None
    return next(((kind.what, kind.remedy) for kind in _KINDS if _begins(data, kind.magic)), None)


def _begins(data: bytes, magic: bytes) -> bool:
    return data.startswith(magic) or (data.startswith(b"#!") and magic in data)
