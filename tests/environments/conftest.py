"""The same ground as the tests of installing stand on."""

from __future__ import annotations

from tests.install.conftest import ground

__all__ = ["ground"]
