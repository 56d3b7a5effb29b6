"""What people write as the value of a fact, such as ``80GiB`` or ``amd64``; ValueError says what is expected. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuenv.model.host import Container, architecture
from gpuenv.model.numbers import whole_number

_ARCHITECTURES = ("x86_64", "amd64", "aarch64", "arm64")
_MOST = 1024  # more GPUs than any machine has


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """What reads one of these names, in whichever case."""

    def read(value: str) -> str:
        if value.lower() not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return value.lower()

    return read


def read_arch(value: str) -> str:
    """An architecture as the kernel names it.

    Raises:
        ValueError: with what was expected.
    """
    if value.lower() not in _ARCHITECTURES:
        raise ValueError(f"expected one of {', '.join(_ARCHITECTURES)}")
    return architecture(value)


def read_yes(value: str) -> bool:
    """Yes or no.

    Raises:
        ValueError: with what was expected.
    """
    if value.lower() not in ("yes", "no", "true", "false"):
        raise ValueError("expected yes or no")
    return value.lower() in ("yes", "true")


def read_container(value: str) -> Container:
    """Whether there is a container; which one is not asked."""
    return Container.OTHER if read_yes(value) else Container.NONE


def read_count(value: str) -> int:
    """A number of GPUs.

    Raises:
        ValueError: with what was expected.
    """
    number = whole_number(value)
    if number is None or number > _MOST:
        raise ValueError(f"expected a whole number up to {_MOST}")
    return number
