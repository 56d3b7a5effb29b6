"""The user's own settings of an installer that bear on an install, and where they stand: asked where one has failed.

uv's files are those of its documentation ("Configuration files"); that the nearest folder with a table of uv's counts,
and which folders of XDG, was tried with uv 0.13.9. pip tells its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuenv.files import is_file, read_at_most
from gpuenv.install.backends.pip import Pip
from gpuenv.model.secrets import hide_secrets
from gpuenv.toml_text import parse_toml

if TYPE_CHECKING:
    from gpuenv.install.resolving import Caller

_LARGEST = 4 * 1024 * 1024
# They leave packages, releases or wheels out, put others in, or send them elsewhere.
_OF_UV = frozenset(
    ("constraint-dependencies", "override-dependencies", "exclude-dependencies", "exclude-newer", "no-index")
    + ("exclude-newer-package", "no-binary", "no-binary-package", "no-deps", "no-emit-package", "offline")
    + ("python-version", "python-platform", "output-file", "all-extras", "extra", "group", "target")
)
_NOT_TAKEN_BACK = {"target": "to install elsewhere", "no-deps": "to leave out what packages need"}
_OF_PIP = frozenset(
    ("constraint", "requirement", "editable", "no-index", "no-binary", "python", "python-version", "platform", "abi")
    + ("implementation", "uploaded-prior-to")
)
_OF_ITS_FILES = "pip's configuration (pip config debug names the file)"
BY_VARIABLE = ":env:"  # the part of pip's configuration that variables make up
_TOLD = re.compile(r"(?P<part>[\w:-]+)\.(?P<key>[\w-]+)=(?P<value>.*)")
_NO = ("", "0", "f", "false", "n", "no", "off")


@dataclass(frozen=True, slots=True)
class Setting:
    """One of them.

    Attributes:
        key: its name.
        place: the file that it stands in, or the program that tells it.
    """

    key: str
    place: str


def joined(settings: Sequence[Setting]) -> str:
    """Those of one place together."""
    by_place: dict[str, list[str]] = {}
    for entry in settings:
        by_place.setdefault(entry.place, []).append(entry.key)
    return "; ".join(f"{', '.join(keys)} in {place}" for place, keys in by_place.items())


def bearing(caller: Caller) -> tuple[Setting, ...]:
    """Those that bear on what this caller is told, each once."""
    if isinstance(caller.installer, Pip):
        return tuple(dict.fromkeys(_of_pip(caller, caller.installer)))
    return tuple(dict.fromkeys(entry for entry, value in uv_settings(caller.environment) if value is not False))


def uv_settings(environment: Mapping[str, str]) -> Iterator[tuple[Setting, object]]:
    """What the files say that uv reads here, with the values; of two for one name the first one counts."""
    for path, table in _tables(environment):
        more = table.get("pip")
        for key, value in {**table, **(more if isinstance(more, dict) else {})}.items():
            if key in _OF_UV:
                yield Setting(key, str(path)), value


def unfit_for_uv(environment: Mapping[str, str]) -> str | None:
    """What makes uv of no use here, since nothing on its command line takes it back."""
    seen = set()
    for entry, value in uv_settings(environment):
        if entry.key in _NOT_TAKEN_BACK and entry.key not in seen and value is not False:
            return f"uv is told {_NOT_TAKEN_BACK[entry.key]}, by {joined([entry])}"
        seen.add(entry.key)
    return None


def _tables(environment: Mapping[str, str]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    named = environment.get("UV_CONFIG_FILE")
    if named:
        yield from _read(Path(named))
    elif environment.get("UV_NO_CONFIG", "").lower() in _NO:
        yield from _of_project()
        home, config = environment.get("HOME"), environment.get("XDG_CONFIG_HOME")
        if config or home:
            yield from _read((Path(config) if config else Path(str(home), ".config")) / "uv/uv.toml")
        yield from _of_system(environment)


def _of_system(environment: Mapping[str, str]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The first folder's that has one: those of XDG, then uv's own."""
    folders = [folder for folder in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":") if folder]
    found = next((path for folder in folders if is_file(path := Path(folder, "uv/uv.toml"))), Path("/etc/uv/uv.toml"))
    yield from _read(found)


def _of_project() -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The nearest folder's that has one."""
    try:
        folder = Path.cwd()
    except FileNotFoundError:  # it has been removed
        return
    for place in (folder, *folder.parents):
        found = list(_read(place / "uv.toml")) or list(_read(place / "pyproject.toml", "tool", "uv"))
        if found:
            yield from found
            return


def _read(path: Path, *within: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The table of a file; nothing where there is none: whatever is wrong with it uv says itself."""
    try:
        table: Any = parse_toml(read_at_most(path, _LARGEST).decode("utf-8")) if is_file(path) else None
    except (OSError, ValueError, RecursionError):
        return
    for name in within:
        table = table.get(name) if isinstance(table, dict) else None
    if isinstance(table, dict):
        yield path, table


def _of_pip(caller: Caller, installer: Pip) -> Iterator[Setting]:
    for part, key, value in told_by_pip(caller, installer):
        if key in _OF_PIP and part != BY_VARIABLE:
            yield pip_setting(part, key, value)


def told_by_pip(caller: Caller, installer: Pip) -> Iterator[tuple[str, str, str]]:
    """What pip says of its configuration: the part of it, the key, and the value as pip quotes it."""
    said = caller.run((*installer.program, "config", "list")).stdout
    for match in (_TOLD.fullmatch(line.strip()) for line in said.splitlines()):
        if match:
            yield match["part"], match["key"], match["value"]


def pip_setting(part: str, key: str, value: str) -> Setting:
    """A setting as it is shown."""
    if part == BY_VARIABLE:
        return Setting(f"PIP_{key.upper().replace('-', '_')}={hide_secrets(value)}", "the environment")
    return Setting(hide_secrets(f"{part}.{key}={value}"), _OF_ITS_FILES)
