"""Lock files with exact versions and digests, as ``pylock.toml`` (PEP 751) or requirements; constraint files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from gpuenv.files import parse_toml
from gpuenv.install.backends.base import file_name, make_pin
from gpuenv.install.plan import Pin
from gpuenv.model.cupy import cuda_major, is_cupy
from gpuenv.model.dependencies import logical_lines, marker_holds, parse
from gpuenv.model.nvidia import cuda_major_of_wheel
from gpuenv.model.redaction import hide_secrets

_LINE = re.compile(r"(?P<requirement>[^\s-].*?)(?P<hashes>(?:\s+--hash=sha256:[0-9a-f]{64})+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_CUPY_LINES = ("cupy", "cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x")  # the first is built from source


if TYPE_CHECKING:
    from packaging.requirements import Requirement


def parse_lock(name: str, text: str, markers: Mapping[str, str] | None = None) -> tuple[Pin, ...]:
    """Parses a lock file: ``*.toml`` as PEP 751, any other name as requirements.

    ``markers`` of the target's environment exclude entries for other platforms; None keeps all.

    Raises:
        ValueError: with the line that is not an exact version with digests.
    """
    pins = parse_pylock(text, markers) if name.endswith(".toml") else tuple(_requirements(text, markers))
    names = [pin.name for pin in pins] if markers is not None else []
    duplicates = sorted({entry for entry in names if names.count(entry) > 1})
    if duplicates:
        raise ValueError(f"{duplicates[0]} is listed twice; expected a lock file for one environment")
    if not pins:
        raise ValueError("it contains no package")
    return pins


def _requirements(text: str, markers: Mapping[str, str] | None) -> Iterator[Pin]:
    for number, line in logical_lines(text):
        try:
            requirement, pin = _pinned(line)
            if markers is None or marker_holds(str(requirement.marker or ""), markers):
                yield pin
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error


def _pinned(line: str) -> tuple[Requirement, Pin]:
    match = _LINE.fullmatch(line)
    requirement = parse(match["requirement"]) if match else None
    exact = [entry.version for entry in requirement.specifier if entry.operator == "=="] if requirement else []
    if match is None or requirement is None or len(exact) != len(requirement.specifier) or len(exact) != 1:
        raise ValueError(f"expected name==version --hash=sha256:..., found {hide_secrets(line)[:60]!r}")
    return requirement, replace(make_pin(requirement.name, exact[0]), sha256=tuple(_HASH.findall(match["hashes"])))


def parse_pylock(text: str, markers: Mapping[str, str] | None = None) -> tuple[Pin, ...]:
    """Parses a ``pylock.toml``; ``markers`` as for ``parse_lock``.

    Raises:
        ValueError: when it is invalid, or a package has no wheel.
    """
    document = parse_toml(text)
    if str(document.get("lock-version", "")).split(".")[0] != "1":
        raise ValueError("expected lock-version 1.0")
    requires_python = str(document.get("requires-python") or "")
    if markers and not SpecifierSet(requires_python).contains(markers["python_full_version"], prereleases=True):
        raise ValueError(f"it requires Python {requires_python}, and the target is {markers['python_full_version']}")
    packages = document.get("packages", [])
    if not isinstance(packages, list):
        raise ValueError("packages: expected a list of tables")  # noqa: TRY004 - one kind of error for all input
    if not all(isinstance(entry, dict) for entry in packages):
        raise ValueError("packages: expected a table")
    return tuple(_pylock_pin(entry, markers) for entry in packages if _is_for_target(entry, markers))


def _is_for_target(entry: Mapping[str, Any], markers: Mapping[str, str] | None) -> bool:
    """Whether a package is for the target; without a target, a package with a marker but no wheel is skipped."""
    marker = str(entry.get("marker") or "")
    try:
        holds = marker_holds(marker, markers or {})
    except ValueError as error:
        raise ValueError(f"{entry.get('name')}: {error}") from error
    return holds if markers is not None else not marker or bool(entry.get("wheels"))


def _fits(wheel: str | None, markers: Mapping[str, str]) -> bool:
    """Whether a wheel is for the target's Python and processor, by its tags; true if its name has none."""
    try:
        tags = parse_wheel_filename(wheel or "")[3]
    except ValueError:
        return True
    python = tuple(map(int, markers["python_version"].split(".")))
    name, machine = f"cp{python[0]}{python[1]}", markers["platform_machine"].lower()
    pure = ("any",)  # other platforms are reduced to it
    supported = {*cpython_tags(python, (name, f"{name}t"), pure), *compatible_tags(python, name, pure)}
    return any(
        Tag(tag.interpreter, tag.abi, "any") in supported for tag in tags if tag.platform.endswith(("any", machine))
    )


def _pylock_pin(entry: Mapping[str, Any], markers: Mapping[str, str] | None) -> Pin:
    listed = entry.get("wheels")
    wheels = [wheel for wheel in listed if isinstance(wheel, dict)] if isinstance(listed, list) else []
    name, release = entry.get("name"), entry.get("version")
    if not wheels:
        raise ValueError(f"{name} {release}: no wheel is named; only wheels are installed")
    names = [file_name(wheel.get("url") or wheel.get("path")) for wheel in wheels]
    if markers and not any(_fits(wheel, markers) for wheel in names):
        target = f"Python {markers['python_version']} on {markers['sys_platform']}-{markers['platform_machine']}"
        raise ValueError(f"{name} {release}: no wheel in it is for {target}")
    first = wheels[0]
    pin = make_pin(name, release, size=first.get("size"), wheel=names[0])
    digests: list[str] = []
    for wheel in wheels:
        hashes = wheel.get("hashes")
        sha256 = hashes.get("sha256") if isinstance(hashes, dict) else None
        if not isinstance(sha256, str):
            raise ValueError(f"{pin.name}: a wheel has no SHA-256 digest")  # noqa: TRY004 - one kind of error
        digests += make_pin(pin.name, "0", sha256).sha256
    one = len(wheels) == 1
    return replace(pin, sha256=tuple(digests), size=pin.size if one else None, wheel=pin.wheel if one else None)


def lock_text(pins: tuple[Pin, ...]) -> str:
    """Requirements with digests, as pip and uv verify them."""
    lines = (
        f"{pin.name}=={pin.release}" + "".join(f" \\\n    --hash=sha256:{entry}" for entry in pin.sha256) + "\n"
        for pin in pins
    )
    return "".join(lines)


def guard_text(packages: Mapping[str, str]) -> str:
    """Constraints that pin CuPy and its CUDA wheels, and exclude other CuPy lines."""
    lines = [
        "# Keeps the CuPy that gpuenv install chose. Use it with every later install:",
        "#   pip install --constraint THIS-FILE PACKAGE    or    uv pip install --constraint THIS-FILE PACKAGE",
        "# or for all of them: PIP_CONSTRAINT=THIS-FILE, UV_CONSTRAINT=THIS-FILE.",
    ]
    chosen = next((name for name in packages if is_cupy(name)), None)
    major = cuda_major(chosen) if chosen else None
    lines += [
        f"{name}=={release}"
        for name, release in sorted(packages.items())
        if name == chosen or cuda_major_of_wheel(name, release) == major is not None
    ]
    if major is not None:
        lines += [f"{line}==0  # shares its files with {chosen}" for line in _CUPY_LINES if line != chosen]
    return "".join(f"{line}\n" for line in lines)
