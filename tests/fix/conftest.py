"""The fixture of the install tests."""

from __future__ import annotations

from tests.install.conftest import sandbox

__all__ = ["sandbox"]
