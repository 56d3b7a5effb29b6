"""What NVML answers made plain; a number that no GPU can have is no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST_GPUS = 1024
MOST_BYTES = 1 << 50
MOST_ERRORS = 1 << 62
MOST_ROWS = 1 << 20
MOST_DEGREES, MOST_WATTS, MOST_MEGAHERTZ = 200, 20_000, 20_000
MOST_GENERATION, MOST_LANES = 16, 64
MOST_TEXT = 256
MOST_CAPABILITY = 99


class OddAnswerError(ValueError):
    """An answer that makes no sense."""


def text(value: object) -> str:
    """Old releases of nvidia-ml-py answer bytes where the new ones answer text."""
    found = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(found, str) or not found or len(found) > MOST_TEXT:
        raise OddAnswerError(repr(found)[:60])
    return found


def within(most: int, least: int = 0) -> Callable[[Any], int]:
    """A whole number in a range."""

    def check(value: Any) -> int:  # noqa: ANN401 - what NVML answers
        if not least <= int(value) <= most:
            raise OddAnswerError(str(value))
        return int(value)

    return check


def flag(value: Any) -> bool:  # noqa: ANN401 - what NVML answers
    """Off or on; another number is neither."""
    return bool(within(1)(value))


def flags(values: Any) -> list[bool]:  # noqa: ANN401 - what NVML answers
    """Now, and after the next restart."""
    return [flag(value) for value in values[:2]]


def watts(milliwatts: Any) -> float:  # noqa: ANN401 - what NVML answers
    """NVML counts in milliwatts."""
    return within(MOST_WATTS * 1000)(milliwatts) / 1000


def capability(pair: Any) -> str:  # noqa: ANN401 - what NVML answers
    """``9.0``."""
    return f"{within(MOST_CAPABILITY, 1)(pair[0])}.{within(MOST_CAPABILITY)(pair[1])}"


def memory(info: Any) -> list[int]:  # noqa: ANN401 - what NVML answers
    """Total and free, bytes."""
    total = within(MOST_BYTES, 1)(info.total)
    return [total, within(total)(info.free)]


def rows(values: Any) -> list[int]:  # noqa: ANN401 - what NVML answers
    """Remapped for corrected and for uncorrected errors; whether one is pending; whether one failed."""
    corrected, uncorrected, pending, failed = values
    return [within(MOST_ROWS)(corrected), within(MOST_ROWS)(uncorrected), int(flag(pending)), int(flag(failed))]


def count_of(pages: Any) -> int:  # noqa: ANN401 - what NVML answers
    """How many pages are in a list."""
    return within(MOST_ROWS)(len(pages))


def same(value: Any) -> Any:  # noqa: ANN401 - what NVML answers
    """As it is."""
    return value
