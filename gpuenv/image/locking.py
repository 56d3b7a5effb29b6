"""The exact wheels of an image, with digests, as the user's own installer resolves for its Python and platform."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gpuenv.install.backends.base import Files, Installer, Options
from gpuenv.install.records import Pin
from gpuenv.install.resolving import Caller, make_lock
from gpuenv.model.record import dataclass

_LIBCS = ("2_28", "2_27", "2_24", "2_17")  # no wheel of CuPy or CUDA asks for a newer glibc, and every base has these
_ARCH = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


class NoWheelsError(ValueError):
    """The index has no wheels for an image; the message is the installer's."""


@dataclass(frozen=True, slots=True)
class ForImage:
    """An installer that resolves for another Python than the one it runs beside."""

    inner: Installer
    words: tuple[str, ...]

    @property
    def label(self) -> str:
        """Its name and version."""
        return self.inner.label

    @property
    def locks_as_toml(self) -> bool:
        """As the installer does."""
        return self.inner.locks_as_toml

    def resolving(self, options: Options, files: Files) -> tuple[str, ...]:
        """With the image's Python and platform."""
        return (*self.inner.resolving(options, files), *self.words)

    def resolved(self, printed: str, answer: str) -> tuple[Pin, ...]:
        """As the installer does."""
        return self.inner.resolved(printed, answer)

    def digesting(self, options: Options, files: Files) -> tuple[str, ...] | None:
        """As the installer does."""
        return self.inner.digesting(options, files)

    def digested(self, printed: str) -> tuple[Pin, ...]:
        """As the installer does."""
        return self.inner.digested(printed)

    def locking(self, options: Options, files: Files) -> tuple[str, ...]:
        """With the image's Python and platform."""
        return (*self.inner.locking(options, files), *self.words)

    def staging(self, options: Options, lock: Path, stage: Path) -> tuple[tuple[str, ...], ...]:
        """As the installer does."""
        return self.inner.staging(options, lock, stage)

    def environment(self, given: Mapping[str, str]) -> dict[str, str]:
        """As the installer does."""
        return self.inner.environment(given)


def lock_image(caller: Caller, requirements: Sequence[str], python: str, platform: str) -> tuple[Pin, ...]:
    """The wheels for a Python and a platform such as ``linux/amd64``.

    Raises:
        NoWheelsError: when the index has none that fit together.
        InstallError: when the installer fails.
    """
    words = _words(python, _ARCH[platform], toml=caller.installer.locks_as_toml)
    lock, why = make_lock(replace(caller, installer=ForImage(caller.installer, words)), requirements, ())
    if lock is None:
        raise NoWheelsError(why)
    return tuple(sorted(lock.pins, key=lambda pin: pin.name))


def _words(python: str, arch: str, *, toml: bool) -> tuple[str, ...]:
    """The options of uv, or of pip, that name another Python and platform."""
    if toml:
        return (f"--python-version={python}", f"--python-platform={arch}-manylinux_{_LIBCS[0]}")
    platforms = (*(f"manylinux_{libc}_{arch}" for libc in _LIBCS), f"manylinux2014_{arch}")
    return (f"--python-version={python}", "--implementation=cp", *(f"--platform={name}" for name in platforms))
