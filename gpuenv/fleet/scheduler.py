"""The schedulers that drain nodes."""

from __future__ import annotations

from enum import Enum


class Scheduler(str, Enum):
    """Whose commands to print."""

    SLURM = "slurm"
    KUBERNETES = "kubernetes"
