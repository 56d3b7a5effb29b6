"""The base of the errors that gpuenv raises to its callers."""

from __future__ import annotations


class GpuenvError(Exception):
    """An input, a target or a matrix that cannot be used; the message names the fix where there is one."""
