"""The fixture of the install tests."""

from __future__ import annotations

from tests.install.conftest import ground

__all__ = ["ground"]
