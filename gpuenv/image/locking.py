"""The exact wheels of an image, with digests, as the user's own installer resolves for its Python and platform."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.install.elsewhere import Elsewhere
from gpuenv.install.records import Pin
from gpuenv.install.refusing import lacking
from gpuenv.install.resolving import Caller, make_lock

_GLIBC = 28  # no wheel of CuPy or CUDA asks for a newer one, and every base has it
_ARCH = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


class NoWheelsError(ValueError):
    """The index has no wheels for an image; the message is the installer's."""


def lock_image(caller: Caller, requirements: Sequence[str], python: str, platform: str) -> tuple[Pin, ...]:
    """The wheels for a Python and a platform such as ``linux/amd64``.

    Raises:
        NoWheelsError: when the index has none that fit together.
        InstallError: when the installer fails.
    """
    image = Elsewhere(python, _ARCH[platform], _GLIBC)
    words = image.uv_words if caller.installer.locks_as_toml else image.pip_words
    lock, why = make_lock(caller, requirements, (), words)
    if lock is None:
        raise lacking(why, requirements, caller) or NoWheelsError(why)
    return tuple(sorted(lock.pins, key=lambda pin: pin.name))
