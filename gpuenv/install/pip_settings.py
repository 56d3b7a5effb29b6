"""Pip's settings of indexes and constraints, translated for uv, which reads none of pip's configuration."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from gpuenv.files import is_file, others_reach, read_at_most
from gpuenv.install.backends.base import FALSE, LARGEST_CONFIGURATION, InstallerSetting

# Settings of pip that uv has too, by its variables (uv documentation, "Environment variables").
_VARIABLES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "find-links": "UV_FIND_LINKS",
    "trusted-host": "UV_INSECURE_HOST",
}
_NO_INDEX, _CONSTRAINT = "no-index", "constraint"
_INDEXES = (*_VARIABLES, _NO_INDEX)


class PipSettings(NamedTuple):
    """Settings of pip, as uv takes them."""

    constraints: tuple[str, ...]  # files
    variables: tuple[tuple[str, str], ...]  # variables of uv and their values
    no_index: bool  # whether no index is used; uv has an option for it, and no variable
    settings: tuple[InstallerSetting, ...]  # the same for display


def place_for_uv(place: str) -> str:
    """A folder or URL of wheels as one value for uv, which separates several by commas."""
    if "," not in place:
        return place
    return place.replace(",", "%2C") if "://" in place else Path(place).absolute().as_uri()


def settings_for_uv(environment: Mapping[str, str], prefix: str, *, has_indexes: bool) -> PipSettings:
    """Translates pip's settings; those of indexes do not count if uv has some of its own (``has_indexes``)."""
    keys = (_CONSTRAINT,) if has_indexes else (_CONSTRAINT, *_INDEXES)
    found = {key: entry for key, entry in _read_settings(environment, prefix).items() if key in keys}
    if found.get(_NO_INDEX, ("",))[0].lower() in FALSE:
        found.pop(_NO_INDEX, None)
    values = {key: value.split() for key, (value, _) in found.items()}
    variables = {name: " ".join(values[key]) for key, name in _VARIABLES.items() if key in values}
    if "find-links" in values:  # uv separates them by commas, and refuses a folder that does not exist
        places = [place_for_uv(place) for place in values["find-links"] if "://" in place or os.path.isdir(place)]  # noqa: PTH112
        variables["UV_FIND_LINKS"] = ",".join(places)
    if "extra-index-url" in values:  # pip takes the best version of all indexes
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    return PipSettings(
        constraints=tuple(values.get(_CONSTRAINT, ())),
        variables=tuple(variables.items()),
        no_index=_NO_INDEX in found,
        settings=tuple(InstallerSetting(key, origin) for key, (_, origin) in found.items()),
    )


def _read_settings(environment: Mapping[str, str], prefix: str) -> dict[str, tuple[str, str]]:
    """The values of these settings with their origins.

    As pip orders them: [global] of all files, [install] of all files, variables (pip 23.2.1, ``ConfigOptionParser``).
    """
    by_section: dict[str, dict[str, tuple[str, str]]] = {"global": {}, "install": {}}
    for path in _configuration_files(environment, prefix):
        parser = configparser.RawConfigParser()
        try:
            if not is_file(path) or others_reach(path):
                continue
            parser.read_string(read_at_most(path, LARGEST_CONFIGURATION).decode("utf-8"))
        except (OSError, ValueError, configparser.Error):
            continue  # pip reports it
        for section, options in by_section.items():
            for name, value in parser.items(section) if parser.has_section(section) else ():
                options[name.replace("_", "-").removeprefix("--")] = value, str(path)
    found: dict[str, tuple[str, str]] = {}
    for key in (*_INDEXES, _CONSTRAINT):
        variable = f"PIP_{key.replace('-', '_').upper()}"
        entries = [options.get(key, ("", "")) for options in by_section.values()]
        for entry in (*entries, (environment.get(variable, ""), variable)):
            if entry[0]:  # pip ignores an empty value
                found[key] = entry
    return found


def _configuration_files(environment: Mapping[str, str], prefix: str) -> tuple[Path, ...]:
    """Pip's configuration files, the last one first in precedence (pip documentation, Configuration)."""
    named, home = environment.get("PIP_CONFIG_FILE"), environment.get("HOME", "")
    if named == os.devnull:
        return ()
    folders = [Path(folder) for folder in (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")]
    config = Path(environment.get("XDG_CONFIG_HOME") or f"{home}/.config")
    replaces_user = named is not None and os.path.exists(named)  # noqa: PTH110 - never raises
    of_user = () if replaces_user else (Path(home, ".pip/pip.conf"), config / "pip/pip.conf")
    of_system = (*(folder / "pip/pip.conf" for folder in reversed(folders)), Path("/etc/pip.conf"))
    return (*of_system, *of_user, Path(prefix, "pip.conf"), *((Path(named),) if named else ()))
