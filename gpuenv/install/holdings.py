"""What a target holds: its distributions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from gpuenv.install.environment import Installed, Scheme, read_installed
from gpuenv.install.wants import Package


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the target holds.

    Attributes:
        scheme: its folders.
        visible: every distribution that its imports meet.
        own: those that are installed in its own folders.
    """

    scheme: Scheme
    visible: tuple[Installed, ...]
    own: Mapping[str, Installed]


def take_stock(scheme: Scheme) -> Holdings:
    """Reads what the target holds."""
    visible = read_installed(scheme.path)
    folders = {os.path.realpath(scheme.purelib), os.path.realpath(scheme.platlib)}
    own = {entry.name: entry for entry in visible if os.path.realpath(entry.folder) in folders}
    return Holdings(scheme, visible, own)


def as_package(entry: Installed) -> Package:
    """A distribution as others see it."""
    return Package(entry.name, entry.release, entry.requires, entry.extras)
