"""Values that a shell completes, as ``autocompletion`` of Typer takes them: values, or values with their meaning.

Each function reads its source without importing that part of the program, since a shell runs this at every press of the
Tab key. The registry of checks would take ten times as long to return the codes with their titles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuenv.data import data_path
from gpuenv.model.causes import Cause

Completions = Iterator[tuple[str, str]]

_PACKAGE = Path(__file__).parents[1]
_CHECKS, _RULES = ("doctor/checks",), ("image/dockerfile", "image/inspect")
_CODE = re.compile(r'^@(?:check|rule)\(\s*"([A-Z]{3}\d{3})".*?"""(.*?)$', re.MULTILINE | re.DOTALL)
# Likely values; a key without any is completed up to its equals sign.
ASSUMED_VALUES: dict[str, tuple[str, ...]] = {
    "os": ("linux", "windows", "darwin"),
    "arch": ("x86_64", "aarch64"),
    "libc": ("glibc-", "musl-"),
    "container": ("yes", "no"),
    "wsl": ("yes", "no"),
    "python": ("",),
    "driver": ("", "none"),
    "driver-cuda": ("",),
    "gpu": ("", "none"),
    "compute-capability": ("",),
    "gpu-count": ("",),
    "gpu-memory": ("",),
    "gfx": ("",),
    "rocm": ("",),
    "cupy": ("", "none"),
    "numpy": ("", "none"),
    "toolkit": ("", "none"),
}


def profiles() -> list[str]:
    """The simulated machines."""
    return sorted(path.stem for path in data_path("machines").glob("*.yaml"))


def check_codes() -> Completions:
    """The codes of the doctor's checks."""
    return _codes(_CHECKS)


def codes_and_causes() -> Completions:
    """What ``gpuenv explain`` knows: the codes of checks and of rules for images, and the causes."""
    yield from _codes(_CHECKS + _RULES)
    yield from _causes()


def fail_on() -> Completions:
    """The values of ``--fail-on``."""
    yield "warning", "every warning"
    yield from check_codes()
    yield from _causes()


def smoke_fail_on() -> Completions:
    """The values of ``--fail-on`` of ``gpuenv smoke``: of the codes, only those of its own checks."""
    return (entry for entry in fail_on() if entry[0].islower() or entry[0].startswith("SMK"))


def smoke_groups() -> Sequence[str]:
    """The groups of GPU tests."""
    from gpuenv.smoke.tasks import GROUPS

    return GROUPS


def smoke_tests() -> Completions:
    """The GPU tests."""
    from gpuenv.smoke.tasks import all_tests

    return ((test.name, test.title) for test in all_tests())


def smoke_names() -> Completions:
    """The groups of GPU tests, and the tests."""
    yield from ((name, "every test of the group") for name in smoke_groups())
    yield from smoke_tests()


def assumptions() -> list[str]:
    """The keys of ``--assume``, with values where there are few."""
    pairs = [f"{key}={value}" for key, values in ASSUMED_VALUES.items() for value in values]
    return [*pairs, "env.", "package."]


def _codes(folders: Sequence[str]) -> Completions:
    """Codes and titles, by the decorators and docstrings of checks and rules."""
    for path in sorted(path for folder in folders for path in (_PACKAGE / folder).rglob("*.py")):
        yield from ((code, title) for code, title in _CODE.findall(path.read_text(encoding="utf-8")))


def _causes() -> Completions:
    return ((cause.value, cause.sentence) for cause in Cause)
