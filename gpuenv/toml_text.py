"""Reading TOML: the standard library does from Python 3.11 on."""

from __future__ import annotations

import sys
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML document as plain values.

    Raises:
        ValueError: when it is none.
    """
    return tomllib.loads(text)
