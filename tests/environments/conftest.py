"""The fixtures of the installation tests."""

from __future__ import annotations

from tests.install.conftest import sandbox

__all__ = ["sandbox"]
