"""The fixtures of the installation tests."""

from __future__ import annotations

from tests.install.conftest import ground

__all__ = ["ground"]
