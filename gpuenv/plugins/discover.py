"""Which checks other packages bring: the entry points of the group ``gpuenv.checks``. Nothing of theirs is imported."""

from __future__ import annotations

import re
from collections.abc import Collection

from gpuenv.model.record import dataclass

GROUP = "gpuenv.checks"
_CODE = re.compile(r"[A-Z][A-Z0-9]{1,15}\d{3}")


@dataclass(frozen=True, slots=True)
class Plugin:
    """A check of another package.

    Attributes:
        code: the name of its entry point, such as ACME101.
        function: where its function is: ``acme_checks:scratch_disk``.
        package: the distribution that brings it, with its version.
        fault: why it cannot be run at all; null where it can.
    """

    code: str
    function: str
    package: str
    fault: str | None = None


def find_plugins(own: Collection[str] = ()) -> tuple[Plugin, ...]:
    """Every check that the distributions beside this one bring, in the order of their codes.

    Args:
        own: the codes of gpuenv's checks, which nobody else may use.
    """
    from importlib.metadata import entry_points  # noqa: PLC0415 - it costs 30 ms

    found: dict[str, Plugin] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown package"
        if entry.name in found:
            if found[entry.name].function != entry.value:
                first = found[entry.name]
                fault = f"{first.package} and {package} both bring a check of this code"
                found[entry.name] = Plugin(entry.name, first.function, first.package, fault)
            continue
        found[entry.name] = Plugin(entry.name, entry.value, package, _fault(entry.name, own))
    return tuple(found.values())


def is_code(text: str) -> bool:
    """Whether a check could have this code."""
    return _CODE.fullmatch(text) is not None


def _fault(name: str, own: Collection[str]) -> str | None:
    if not is_code(name):
        return f"{name!r} is no code of a check; expected one like ACME101"
    families = tuple(dict.fromkeys(code[:3] for code in own))
    if families and name.startswith(families):
        return f"codes that begin with {', '.join(families)} are gpuenv's own"
    return None
