"""What pixi installs: its commands, and the tables of its manifest.

Read in pixi's own documentation (prefix-dev/pixi, docs/reference/pixi_manifest.md: "The dependencies table(s)",
"pypi-dependencies", "The target table", "The feature and environments tables"; docs/reference/cli/pixi/install.md and
add.md; 2026-11-22). ``pixi run`` and ``pixi shell-hook`` install the environment that they need.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from packaging.utils import canonicalize_name

from gpuenv.image.dockerfile.install_requests import (
    DependencyFile,
    FileKind,
    Install,
    InstallRequest,
    Manager,
    SourceLocation,
    conda_spec,
    requirement,
)
from gpuenv.image.dockerfile.projects import EVERY, Selection
from gpuenv.image.dockerfile.shell import Command, ShellWord

MANIFESTS = ("pixi.toml", "pyproject.toml")  # the first that is there
_DEFAULT = "default"
_INSTALLING = ("install", "i", "run", "r", "shell-hook", "reinstall")
_RUNNING = ("run", "r")  # what follows their options is another command
_WITH_VALUE = frozenset(
    (
        *("--environment", "-e", "--manifest-path", "-m", "--platform", "-p", "--skip", "--skip-with-deps", "--only"),
        *("--feature", "-f", "--config-file", "--auth-file", "--concurrent-downloads", "--concurrent-solves"),
        *("--pinning-strategy", "--pypi-keyring-provider", "--git", "-g", "--branch", "--tag", "--rev", "--subdir"),
        *("--shell", "-s", "--color", "--workspace", "-w"),
    )
)
# Which of a manifest's targets an image is, the wider first.
_TARGETS = ("unix", "linux", "linux-64")
_TABLES = (("dependencies", Manager.CONDA), ("pypi-dependencies", Manager.PIP))


def install_request(command: Command, file: str, end_line: int | None = None) -> InstallRequest:
    """What a command of pixi installs."""
    location = SourceLocation(file, command.words[0].line, end_line)
    options, rest = _read(command.words[1:], only_options=True)  # some may stand before the verb
    verb = rest[0].text if rest else ""
    more, positional = _read(rest[1:], only_options=verb in _RUNNING)
    options |= more
    path = next(iter(options.get("--manifest-path", options.get("-m", []))), ".")
    if verb == "add":
        read = requirement if "--pypi" in options else conda_spec
        found = (read(word.text, SourceLocation(file, word.line, end_line)) for word in positional)
        elsewhere = bool({"--feature", "-f"} & options.keys())  # for environments that it does not name
        return InstallRequest(tuple(replace(entry, perhaps=elsewhere) for entry in found if entry is not None))
    if verb not in _INSTALLING:
        return InstallRequest()
    named = {*options.get("--environment", []), *options.get("-e", [])}
    every = {EVERY} if {"--all", "-a"} & options.keys() else set[str]()
    wanted = Selection(extras=frozenset(named | every or {_DEFAULT}))
    return InstallRequest(files=(DependencyFile(FileKind.PIXI, path, location, wanted),))


def _read(words: Sequence[ShellWord], *, only_options: bool) -> tuple[dict[str, list[str]], list[ShellWord]]:
    """Options with their values, and the other words; with ``only_options``, all from the first of these on."""
    options: dict[str, list[str]] = {}
    positional: list[ShellWord] = []
    left = list(words)
    while left:
        word = left.pop(0)
        name, equals, value = word.text.partition("=")
        if not word.text.startswith("-"):
            if only_options:
                return options, [word, *left]
            positional.append(word)
        elif equals:
            options.setdefault(name, []).append(value)
        elif name in _WITH_VALUE and left:
            options.setdefault(name, []).append(left.pop(0).text)
        else:
            options.setdefault(name, [])
    return options, positional


def manifest_of(data: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Pixi's tables in a file: the whole of pixi.toml, ``tool.pixi`` of pyproject.toml; none where it has none."""
    if not name.endswith("pyproject.toml"):
        return data
    tool = data.get("tool")
    found = tool.get("pixi") if isinstance(tool, dict) else None
    return found if isinstance(found, dict) else None


def installs(manifest: Mapping[str, Any], environments: frozenset[str], file: str, text: str) -> Iterator[Install]:
    """What the manifest lists for some of its environments.

    Each environment is a folder of its own: where several are meant, what one has may not be where the others are used.

    Args:
        manifest: pixi's tables.
        environments: their names; ``EVERY`` for all.
        file: the manifest's name.
        text: its text, in which the lines are looked up.
    """
    several = EVERY in environments or len(environments) > 1
    for feature in _features(manifest, environments):
        for table, manager in _TABLES:
            merged = dict(_table(feature, table))
            for target in _TARGETS:
                merged.update(_table(_table(_table(feature, "target"), target), table))
            for name, value in merged.items():
                found = _install(manager, name, value, SourceLocation(file, _line_of(name, text)))
                if found is not None:
                    yield replace(found, perhaps=several)


def _table(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = data.get(name)
    return found if isinstance(found, dict) else {}


def _features(manifest: Mapping[str, Any], environments: frozenset[str]) -> Iterator[Mapping[str, Any]]:
    """The default feature, which is the manifest itself, unless every environment leaves it out, and the named ones."""
    known = _table(manifest, "environments")
    wanted = {_DEFAULT, *known} if EVERY in environments else environments
    named: dict[str, None] = {}
    with_default = False
    for environment in sorted(wanted):
        value = known.get(environment, [])
        listed = value.get("features") if isinstance(value, dict) else value
        features = listed if isinstance(listed, list) else []
        with_default = with_default or not (isinstance(value, dict) and value.get("no-default-feature") is True)
        named.update(dict.fromkeys(entry for entry in features if isinstance(entry, str)))
    if with_default:
        yield manifest
    yield from (_table(_table(manifest, "feature"), name) for name in named)


def _install(manager: Manager, name: str, value: object, location: SourceLocation) -> Install | None:
    table = value if isinstance(value, dict) else {"version": value}
    version = table.get("version")
    bare = version.strip() if isinstance(version, str) and version.strip() != "*" else ""
    if manager is Manager.CONDA:
        return conda_spec(f"{name}{_with_operator(bare)}".replace(" ", ""), location)
    if {"git", "path", "url"} & table.keys():
        built = not str(table.get("url", table.get("path", ""))).partition("#")[0].endswith(".whl")
        return Install(Manager.PIP, canonicalize_name(name), None, frozenset(), location, name, from_source=built)
    extras = table.get("extras")
    listed = [entry for entry in extras if isinstance(entry, str)] if isinstance(extras, list) else []
    wanted = f"[{','.join(listed)}]" if listed else ""
    return requirement(f"{name}{wanted}{_with_operator(bare)}", location)


def _with_operator(version: str) -> str:
    return f"=={version}" if version[:1].isdigit() else version


def _line_of(name: str, text: str) -> int:
    """The line in which a key stands: TOML's reader tells none."""
    key = re.compile(rf"\s*(?:[\w.\"-]*dependencies\.)?[\"']?{re.escape(name)}[\"']?\s*(?:=|\.)")
    return next((number for number, line in enumerate(text.splitlines(), 1) if key.match(line)), 1)
