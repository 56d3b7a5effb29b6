"""``Linux-6.8.0-45-generic-x86_64-with-glibc2.35``: a system as Python's platform module writes it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuenv.model.host import operating_system
from gpuenv.model.pattern import pattern

# platform.platform() of CPython 3.6 to 3.13: up to 3.7 the distribution stands behind "with".
_PLATFORM = pattern(
    r"(?P<os>Linux|Windows|macOS|Darwin)-(?P<kernel>[^-]+(?:-[\w.+~]+)*?)"
    r"(?:-(?P<arch>x86_64|aarch64|arm64|AMD64))?(?:-with-(?:(?P<libc>(?:glibc|musl)\d[\d.]*).*|[A-Za-z].*)|-SP\d)?$"
)


def platform_facts(text: str) -> Iterator[tuple[str, str]]:
    """The facts in it, by name."""
    match = _PLATFORM.match(text)
    if match is None:
        return
    yield "os", operating_system(match["os"])
    if match["os"] == "Linux":
        yield "kernel", match["kernel"]
    if match["arch"]:
        yield "arch", match["arch"].lower()
    if match["libc"]:
        yield "libc-by-python", re.sub(r"^(glibc|musl)", r"\1-", match["libc"])
