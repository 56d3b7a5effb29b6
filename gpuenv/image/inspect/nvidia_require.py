"""Evaluates ``NVIDIA_REQUIRE_*``, an image's requirements on the machine, as the container runtime does.

The grammar and its evaluation are those of NVIDIA/libnvidia-container, read 2026-11-21. src/cli/dsl.c, dsl_evaluate and
evaluate_rule: a variable is a list of alternatives, separated by blanks; one of them must hold. An alternative is a
list of conditions, separated by commas; all of them must hold. src/cli/configure.c, configure_command: every variable
must hold for every GPU of the container; check_*: a condition on an unknown driver or device holds. src/driver.c,
driver_get_device_brand_1_svc: a brand is NVML's, compared without case. The runtime stops at the first alternative that
holds; gpuenv reads all of them, and refuses a variable with an invalid part.

NVIDIA/nvidia-container-toolkit, internal/config/image/cuda_image.go, GetRequirements (read 2026-11-21): it takes every
variable with the prefix but those of JetPack, adds ``cuda>=X.Y`` for an image that has ``CUDA_VERSION`` and no
``NVIDIA_REQUIRE_CUDA``, and nothing at all where ``NVIDIA_DISABLE_REQUIRE`` is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest

from gpuenv.model.redaction import cut_text

_PREFIX, _JETPACK = "NVIDIA_REQUIRE_", "NVIDIA_REQUIRE_JETPACK"
_DISABLE, _CUDA, _CUDA_VERSION = "NVIDIA_DISABLE_REQUIRE", "NVIDIA_REQUIRE_CUDA", "CUDA_VERSION"
_TRUE = {"1", "t", "T", "TRUE", "true", "True"}  # what Go's strconv.ParseBool takes for true
_CONDITION = re.compile(r"([^<>=!]+)([<>=!]+)(.+)", re.DOTALL)
_VERSION = re.compile(r"[0-9.]+")
_BRANCH = re.compile(r"\d{1,9}")
_MAX_ALTERNATIVES, _MAX_TEXT = 12, 120

Comparison = Callable[[int], bool]
_COMPARISONS: Mapping[str, Comparison] = {
    "=": lambda sign: sign == 0,
    "!=": lambda sign: sign != 0,
    "!": lambda sign: sign != 0,  # evaluate_rule takes the first operator that begins so
    "<": lambda sign: sign < 0,
    "<=": lambda sign: sign <= 0,
    ">": lambda sign: sign > 0,
    ">=": lambda sign: sign >= 0,
}
_KEYS = ("cuda", "driver", "arch", "brand")


class RequireError(ValueError):
    """An invalid requirement, which the container runtime refuses; the message has the condition."""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """The facts of a host and one of its GPUs that requirements name; a condition on an unknown one (null) holds.

    Attributes:
        cuda: the driver's CUDA level, ``12.4``.
        driver: the driver's version, ``550.54.15``.
        arch: the GPU's compute capability, ``9.0``.
        brand: the GPU's brand as NVML names it, ``tesla``, ``geforce``.
    """

    cuda: str | None = None
    driver: str | None = None
    arch: str | None = None
    brand: str | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition, such as ``driver>=535``."""

    key: str
    operator: str
    value: str

    def __str__(self) -> str:
        return f"{self.key}{self.operator}{self.value}"


Requirement = tuple[tuple[Condition, ...], ...]


def requirements(environment: Mapping[str, str]) -> dict[str, str]:
    """The requirements of an image by variable; empty if NVIDIA_DISABLE_REQUIRE is true."""
    if environment.get(_DISABLE) in _TRUE:
        return {}
    found = {
        name: value for name, value in environment.items() if name.startswith(_PREFIX) and not name.startswith(_JETPACK)
    }
    minor = re.match(r"v?(\d+\.\d+)", environment.get(_CUDA_VERSION, ""))
    if minor and not environment.get(_CUDA):
        found[_CUDA_VERSION] = f"cuda>={minor[1]}"
    return found


def parse(text: str) -> Requirement:
    """Parses a requirement into alternatives of conditions.

    Raises:
        RequireError: if the container runtime refuses it.
    """
    alternatives = (filter(None, alternative.split(",")) for alternative in text.split(" ") if alternative)
    return tuple(tuple(_condition(condition) for condition in alternative) for alternative in alternatives)


def _condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None or match[2] not in _COMPARISONS or match[1].lower() not in _KEYS:
        raise RequireError(f"{text!r} is not a condition: expected one of {', '.join(_KEYS)}, an operator and a value")
    key, operator, value = match[1].lower(), match[2], match[3]
    if key == "brand" and operator not in ("=", "!=", "!"):
        raise RequireError(f"{text!r}: a brand is equal or not, it has no order")
    if key != "brand" and not _VERSION.fullmatch(value):
        raise RequireError(f"{text!r}: {value} is not a version")
    return Condition(key, operator, value)


def holds(requirement: Requirement, facts: HostFacts) -> bool:
    """Whether one of the alternatives holds; an empty requirement always holds."""
    return not unmet(requirement, facts)


def certain(requirement: Requirement, facts: HostFacts) -> bool:
    """Whether it holds for every value of the unknown facts."""
    known = (entries for entries in requirement if all(getattr(facts, entry.key) is not None for entry in entries))
    return not requirement or any(all(_holds(entry, facts) for entry in entries) for entries in known)


def unmet(requirement: Requirement, facts: HostFacts) -> tuple[tuple[Condition, ...], ...]:
    """The conditions that do not hold, for each alternative; empty if the requirement holds."""
    failed = tuple(tuple(entry for entry in entries if not _holds(entry, facts)) for entries in requirement)
    return failed if all(failed) else ()


def _holds(condition: Condition, facts: HostFacts) -> bool:
    actual: str | None = getattr(facts, condition.key)
    if actual is None:
        return True
    if condition.key == "brand":
        return (actual.lower() == condition.value.lower()) == (condition.operator == "=")
    return _COMPARISONS[condition.operator](_sign(actual, condition.value))


def _sign(first: str, second: str) -> int:
    """Compares two versions as numbers, part by part: -1, 0 or 1. Missing parts are zeros."""
    for one, other in zip_longest(_parts(first), _parts(second), fillvalue=_parts("0")[0]):
        if one != other:
            return 1 if one > other else -1
    return 0


def _parts(version: str) -> list[tuple[int, str]]:
    """Numbers of any length, in their order: Python refuses to make a number of more than 4300 digits."""
    return [(len(digits), digits) for part in version.split(".") if part for digits in [part.lstrip("0")]]


def summarize(requirement: Requirement) -> str:
    """The first alternative of a requirement in words, with a summary of the others."""
    first = ", ".join(map(str, requirement[0])) if requirement else "nothing"
    first = cut_text(first, _MAX_TEXT)
    branches, _ = _branch_windows(requirement)
    if branches:
        return f"{first} (or a driver of branch {_join_or(branches)} with a GPU of a listed brand)"
    more = len(requirement) - 1
    return f"{first} (or one of {more} alternatives)" if more > 0 else first


def requirement_text(requirement: Requirement) -> str:
    """All of a requirement in words, with its windows of driver branches as one alternative."""
    alternatives = [", ".join(map(str, entries)) for entries in requirement if _window(entries) is None]
    alternatives = list(dict.fromkeys(alternatives))[:_MAX_ALTERNATIVES]
    branches, brands = _branch_windows(requirement)
    if branches:
        alternatives.append(f"a driver of branch {_join_or(branches)} with brand {', '.join(brands) or 'any'}")
    return "; or ".join(alternatives)


def _branch_windows(requirement: Requirement) -> tuple[list[str], list[str]]:
    """The driver branches, and the brands, of the alternatives such as ``brand=tesla,driver>=535,driver<536``."""
    windows = [(branch, entries) for entries in requirement if (branch := _window(entries)) is not None]
    brands = {entry.value for _, entries in windows for entry in entries if entry.key == "brand"}
    return [str(branch) for branch in sorted({branch for branch, _ in windows})], sorted(brands)


def _window(entries: tuple[Condition, ...]) -> int | None:
    """The branch of ``driver>=535,driver<536``."""
    bounds = {entry.operator: entry.value for entry in entries if entry.key == "driver"}
    low, high = bounds.get(">=", ""), bounds.get("<", "")
    if not _BRANCH.fullmatch(low) or not _BRANCH.fullmatch(high) or int(high) != int(low) + 1:
        return None
    return int(low)


def _join_or(texts: list[str]) -> str:
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"
