"""The exact wheels of an image, with digests, as the user's own installer resolves for its Python and platform."""

from __future__ import annotations

from collections.abc import Sequence

from packaging.version import Version

from gpuenv.install.backends.pip import Pip
from gpuenv.install.exceptions import InstallError
from gpuenv.install.installer_config import InstallerRun
from gpuenv.install.plan import Pin
from gpuenv.install.solver import make_lock, offline_failure
from gpuenv.install.target_platform import TargetPlatform

_GLIBC = 28  # no wheel of CuPy or CUDA asks for a newer one, and every base has it
# Before, pip held what a wheel says of its Python against the one that pip itself runs in, and before 23.3 it took no
# platform at all (measured on 2026-11-22 of 22.2, 22.3.1, 23.2.1, 23.3, 24.0, 24.1, 24.1.2, 24.2, 25.0, 26.0).
_FIRST_PIP = Version("24.2")
_ARCH = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}


class NoWheelsError(ValueError):
    """The index has no wheels for an image; the message is the installer's."""


def lock_image(caller: InstallerRun, requirements: Sequence[str], python: str, platform: str) -> tuple[Pin, ...]:
    """The wheels for a Python and a platform such as ``linux/amd64``.

    Raises:
        NoWheelsError: when the index has none that fit together.
        InstallError: when the installer fails.
    """
    _require_cross_platform_pip(caller)
    image = TargetPlatform(python, _ARCH[platform], _GLIBC)
    words = image.uv_options if caller.installer.locks_as_toml else image.pip_options
    lock, why = make_lock(caller, requirements, (), words)
    if lock is None:
        raise offline_failure(why, requirements, caller) or NoWheelsError(why)
    return tuple(sorted(lock.pins, key=lambda pin: pin.name))


def _require_cross_platform_pip(caller: InstallerRun) -> None:
    installer = caller.installer
    if isinstance(installer, Pip) and Version(installer.version) < _FIRST_PIP:
        raise InstallError(
            f"{installer.label} tells the wheels for its own Python alone, and an image has another one",
            f"Install uv: python -m pip install uv; or a pip of {_FIRST_PIP} or newer: python -m pip install -U pip",
        )
