"""What a service has from others: those that it extends, in its own file or another, and an override file. Pure.

The Compose Specification (compose-spec/compose-spec, read 2026-11-21): 05-services.md, extends; 13-merge.md. Docker,
"Merge Compose files" (read 2026-11-22): beside a compose file, its override file is taken unasked. Mappings are merged
here; a sequence is the service's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuenv.matrix.strict_yaml import Plain

# The services of a file that another one names; none where it cannot be read.
Loader = Callable[[str], "Mapping[str, Plain] | None"]
_DEEPEST = 5  # a chain longer than that goes in circles


def chain(name: str, services: Mapping[str, Plain]) -> tuple[str, ...]:
    """A service and those of the same file that it extends, its own first."""
    found: list[str] = []
    following: str | None = name
    while following is not None and following not in found:
        found.append(following)
        file, following = _extends(services.get(following))
        following = None if file else following
    return tuple(found)


def extended(
    body: dict[str, Plain], services: Mapping[str, Plain], load: Loader, depth: int = 0
) -> tuple[dict[str, Plain], bool]:
    """A service with what it extends, its own word first; and whether all of that could be read."""
    file, name = _extends(body)
    if name is None or depth > _DEEPEST:
        return body, True
    others = load(file) if file else services
    other = others.get(name) if others is not None else None
    if others is None or not isinstance(other, dict):
        return body, False
    former, whole = extended(other, others, load, depth + 1)
    return merged(former, body), whole


def _extends(body: Plain) -> tuple[str | None, str | None]:
    """The file, where it is another one, and the service that one extends."""
    named = body.get("extends") if isinstance(body, dict) else None
    if isinstance(named, str):
        return None, named
    if not isinstance(named, dict):
        return None, None
    file, name = named.get("file"), named.get("service")
    return file if isinstance(file, str) else None, name if isinstance(name, str) else None


def merged(former: Mapping[str, Plain], own: Mapping[str, Plain]) -> dict[str, Plain]:
    """A mapping with what another one has besides, at every depth."""
    both = {
        key: merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
        for key, value in own.items()
        for before in [former.get(key)]
    }
    return {**former, **both}
