"""Selects the installer of wheels or conda packages for a target, and reads the user's configuration of it.

uv's configuration files are those of its documentation ("Configuration files"); that the nearest folder with a table of
uv counts, and which XDG folders, was tried with uv 0.13.9. pip lists its configuration (``pip config list``).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from gpuenv.files import is_file, others_reach, parse_toml, read_at_most
from gpuenv.install.backends import pip, uv
from gpuenv.install.backends.base import (
    FALSE,
    LARGEST_CONFIGURATION,
    InstallerOptions,
    InstallerSetting,
    TimeBudget,
    complaint,
)
from gpuenv.install.backends.conda import CondaTool, tool_version
from gpuenv.install.backends.pip import Pip
from gpuenv.install.backends.uv import Uv
from gpuenv.install.environment import Scheme
from gpuenv.install.exceptions import NothingFits, TargetUnusable
from gpuenv.install.pip_settings import settings_for_uv
from gpuenv.model.redaction import hide_secrets
from gpuenv.probe.children import ChildGroup, ChildResult, OnText, run_child
from gpuenv.probe.interpreters import module_command

Installer = Uv | Pip
# The last two exclude files uploaded after a date.
CONSTRAINTS = ("UV_CONSTRAINT", "UV_OVERRIDE", "PIP_CONSTRAINT", "UV_EXCLUDE_NEWER", "PIP_UPLOADED_PRIOR_TO")
_CONDAS = ("conda", "mamba", "micromamba")
_VERSION_TIMEOUT = 30.0  # seconds for ``--version``; a program that hangs leaves time for the next
_REMEDY = "Install uv, or pip into the target: python -m ensurepip; if one is installed, check its message first."
_LONGEST = 300  # characters
_VERSION = re.compile(r"(?:uv|pip) (\d+(?:\.\d+)+)")
# Settings that exclude or replace packages, releases or wheels, or install to another place.
_OF_UV = frozenset(
    ("constraint-dependencies", "override-dependencies", "exclude-dependencies", "exclude-newer", "no-index")
    + ("exclude-newer-package", "no-binary", "no-binary-package", "no-deps", "no-emit-package", "offline")
    + ("python-version", "python-platform", "output-file", "all-extras", "extra", "group", "target")
)
_INDEXES_OF_UV = ("index", "default-index", "index-url", "extra-index-url", "find-links")
_NOT_OVERRIDABLE = {"target": "to install elsewhere", "no-deps": "to leave out what packages need"}
_OF_PIP = frozenset(
    ("constraint", "requirement", "editable", "no-index", "no-binary", "python", "python-version", "platform", "abi")
    + ("implementation", "uploaded-prior-to")
)
_OF_ITS_FILES = "pip's configuration (pip config debug names the file)"
_BY_VARIABLE = ":env:"  # the part of pip's configuration from environment variables
_PIP_SETTING = re.compile(r"(?P<part>[\w:-]+)\.(?P<key>[\w-]+)=(?P<value>.*)")
_ALL, _NONE = ":all:", ":none:"
# Precedence, the last one highest (pip documentation, Configuration, "Precedence / Override order").
_PARTS: Mapping[str, int] = {"global": 0, "install": 1, _BY_VARIABLE: 2}


@dataclass(frozen=True, slots=True)
class InstallerRun:
    """A run of an installer: its options, the user's variables, the time budget, and its child processes."""

    installer: Installer
    options: InstallerOptions
    environment: Mapping[str, str]
    time_budget: TimeBudget
    group: ChildGroup

    def run(self, command: Sequence[str], on_text: OnText | None = None) -> ChildResult:
        """Runs the installer with the user's settings."""
        return self.time_budget.run(command, self.installer.environment(self.environment), self.group, on_text)

    def without_constraints(self) -> InstallerRun:
        """The same without variables that restrict versions, for versions that are already chosen."""
        kept = {name: value for name, value in self.environment.items() if name not in CONSTRAINTS}
        return replace(self, environment=kept)


def select_installer(wanted: str, scheme: Scheme, environment: Mapping[str, str], deadline: float) -> Installer:
    """Selects the installer of wheels for a target: ``auto``, or a named one.

    Raises:
        TargetUnusable: when none is usable.
    """
    tried: list[str] = []
    for name, find in (("uv", _find_uv), ("pip", _find_pip)):
        found = find(scheme, environment, deadline, tried) if wanted in ("auto", name) else None
        if found is not None:
            return found
    raise TargetUnusable(
        f"there is no {'uv or pip' if wanted == 'auto' else wanted} to install with: {'; '.join(tried)}",
        _REMEDY,
    )


def select_conda(wanted: str, prefix: str, environment: Mapping[str, str], deadline: float) -> CondaTool:
    """Selects the program for a conda environment: ``auto``, or a named one.

    Searches the variables of conda's shell setup, PATH, and the installation that contains the environment.

    Raises:
        TargetUnusable: when none answers.
    """
    bases = (prefix, os.path.dirname(os.path.dirname(prefix)))
    folders = (environment.get("PATH"), *(os.path.join(base, "bin") for base in bases))
    programs = [environment.get(name) for name in ("CONDA_EXE", "MAMBA_EXE")]
    programs += [shutil.which(name, path=path) for path in folders for name in _CONDAS]
    tried: list[str] = []
    for program in dict.fromkeys(filter(None, programs)):
        family = Path(program).name.removesuffix(".exe").removesuffix(".bat")
        if family not in _CONDAS or wanted not in ("auto", family):
            continue
        version = tool_version(run_child([program, "--version"], environment, _version_deadline(deadline)).stdout)
        if version is not None:
            return CondaTool(program, family, version)
        tried.append(f"{program} does not answer")
    name = "conda, mamba or micromamba" if wanted == "auto" else wanted
    raise TargetUnusable(
        f"{prefix} is a conda environment, and there is no {name} to change it with"
        + (f": {'; '.join(tried)}" if tried else " on PATH"),
        "Put it on PATH, or name it in CONDA_EXE or MAMBA_EXE; or let wheels be installed: --installer uv (or pip).",
    )


def _find_uv(scheme: Scheme, environment: Mapping[str, str], deadline: float, tried: list[str]) -> Installer | None:
    own = os.path.join(os.path.dirname(sys.executable), "uv")
    paths = dict.fromkeys(filter(None, (shutil.which("uv", path=environment.get("PATH")), shutil.which(own))))
    if not paths:
        tried.append("no uv on PATH")
    for path in paths:
        version = _version_in(run_child([path, "--version"], environment, _version_deadline(deadline)))
        if version is None or Version(version) < uv.OLDEST:
            tried.append(f"{path}: uv {version or 'does not answer'}, and {uv.OLDEST} or newer is needed")
            continue
        unfit = _unfit_for_uv(environment)
        if unfit is None:
            # uv cannot use an interpreter that prints something at startup, in a sitecustomize for example.
            answer = run_child([path, "python", "find", scheme.executable], environment, _version_deadline(deadline))
            if answer.exit_code == 0:
                of_pip = settings_for_uv(environment, scheme.prefix, has_indexes=_has_uv_indexes(environment))
                return Uv(path, version, tuple(environment.get("UV_CONSTRAINT", "").split()), of_pip)
            unfit = f"uv cannot be used for this interpreter: {complaint(answer)[:_LONGEST]}"
        tried.append(unfit)
        return None
    return None


def _find_pip(scheme: Scheme, environment: Mapping[str, str], deadline: float, tried: list[str]) -> Installer | None:
    programs: list[tuple[str, ...]] = []
    if scheme.has_pip:
        programs.append(module_command(scheme.executable, "pip"))
    if find_spec("pip") is not None:
        programs.append((*module_command(sys.executable, "pip"), "--python", scheme.executable))
    for program in programs:
        answer = run_child([*program, "--version"], environment, _version_deadline(deadline))
        version = _version_in(answer)
        if version is not None and Version(version) >= pip.OLDEST:
            return Pip(program, version)
        found = version or f"does not answer ({complaint(answer)[-_LONGEST:]})"
        tried.append(f"pip {found}, and {pip.OLDEST} or newer is needed")
    if not programs:
        tried.append("no pip in the target")
    return None


def _version_in(answer: ChildResult) -> str | None:
    match = _VERSION.search(answer.stdout)
    try:
        return str(Version(match[1])) if match else None
    except ValueError:  # InvalidVersion, or more digits than int takes
        return None


def _version_deadline(deadline: float) -> float:
    return min(deadline, time.monotonic() + _VERSION_TIMEOUT)


def settings_text(settings: Iterable[InstallerSetting]) -> str:
    """The settings as text, grouped by their files."""
    by_origin: dict[str, list[str]] = {}
    for entry in settings:
        by_origin.setdefault(entry.origin, []).append(entry.key)
    return "; ".join(f"{', '.join(keys)} in {origin}" for origin, keys in by_origin.items())


def relevant_settings(installer_run: InstallerRun) -> tuple[InstallerSetting, ...]:
    """The user's settings that may change what is installed, variables first."""
    by_variable = constraining_variables(installer_run)
    if isinstance(installer_run.installer, Pip):
        entries = _pip_configuration(installer_run, installer_run.installer)
        own = (_pip_setting(*entry) for entry in entries if entry[1] in _OF_PIP and entry[0] != _BY_VARIABLE)
        return tuple(dict.fromkeys((*by_variable, *own)))
    of_uv = (entry for entry, value in _uv_settings(installer_run.environment) if value is not False)
    of_pip = (entry for entry in installer_run.installer.pip_settings.settings if entry.key in _OF_PIP)
    return tuple(dict.fromkeys((*by_variable, *of_uv, *of_pip)))


def constraining_variables(installer_run: InstallerRun) -> tuple[InstallerSetting, ...]:
    """The variables of the installer that restrict versions."""
    prefix = "PIP_" if isinstance(installer_run.installer, Pip) else "UV_"
    values = {name: installer_run.environment.get(name) for name in CONSTRAINTS if name.startswith(prefix)}
    return tuple(_by_variable(name, value) for name, value in values.items() if value)


def _by_variable(name: str, value: str) -> InstallerSetting:
    return InstallerSetting(f"{name}={hide_secrets(value)}", "the environment")


def _has_uv_indexes(environment: Mapping[str, str]) -> bool:
    """Whether uv has settings of indexes of its own."""
    variables = (f"UV_{key.replace('-', '_').upper()}" for key in _INDEXES_OF_UV)
    return any(map(environment.get, variables)) or any(_uv_settings(environment, (*_INDEXES_OF_UV, "no-index")))


def _unfit_for_uv(environment: Mapping[str, str]) -> str | None:
    """The setting that makes uv unusable, since no command-line option overrides it."""
    seen = set()
    for entry, value in _uv_settings(environment):
        if entry.key in _NOT_OVERRIDABLE and entry.key not in seen and value is not False:
            return f"uv is configured {_NOT_OVERRIDABLE[entry.key]}, by {settings_text([entry])}"
        seen.add(entry.key)
    return None


def _uv_settings(
    environment: Mapping[str, str], wanted: Collection[str] = _OF_UV
) -> Iterator[tuple[InstallerSetting, object]]:
    """These settings of uv's configuration files with their values; the first of one name counts."""
    for path, table in _uv_tables(environment):
        more = table.get("pip")
        for key, value in {**table, **(more if isinstance(more, dict) else {})}.items():
            if key in wanted:
                yield InstallerSetting(key, str(path)), value


def _uv_tables(environment: Mapping[str, str]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The tables of uv: of the named file, else of the project, the user and the system."""
    config_file = environment.get("UV_CONFIG_FILE")
    if config_file:
        yield from _read(Path(config_file))
        return
    if environment.get("UV_NO_CONFIG", "").lower() not in FALSE:
        return
    yield from _nearest_uv_table()
    for path in _uv_files(environment):
        yield from _read(path)


def own_uv_configuration(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that keep uv from a configuration file which another user can change; none without such a file.

    uv then reads the user's file or the system's, since without them it would use another index.
    """
    if environment.get("UV_CONFIG_FILE") or environment.get("UV_NO_CONFIG", "").lower() not in FALSE:
        return {}
    used = [*(path for path, _ in _nearest_uv_table()), *filter(is_file, _uv_files(environment))]
    own = [path for path in used if not others_reach(path)]
    if own == used:
        return {}
    kept = next((path for path in own if path in _uv_files(environment)), None)
    return {"UV_CONFIG_FILE": str(kept)} if kept else {"UV_NO_CONFIG": "1"}


def _nearest_uv_table() -> list[tuple[Path, Mapping[str, Any]]]:
    """The table of the nearest project file above the working folder."""
    try:
        working_folder = Path.cwd()
        for folder in (working_folder, *working_folder.parents):
            found = list(_read(folder / "uv.toml")) or list(_read(folder / "pyproject.toml", "tool", "uv"))
            if found:
                return found
    except FileNotFoundError:  # the working folder has been removed
        pass
    return []


def _uv_files(environment: Mapping[str, str]) -> list[Path]:
    """The files of the user and of the system, which need not exist."""
    home, config = environment.get("HOME"), environment.get("XDG_CONFIG_HOME")
    of_user = [(Path(config) if config else Path(str(home), ".config")) / "uv/uv.toml"] if config or home else []
    folders = filter(None, (environment.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"))
    of_system = (path for folder in folders if is_file(path := Path(folder, "uv/uv.toml")))
    return [*of_user, next(of_system, Path("/etc/uv/uv.toml"))]


def _read(path: Path, *within: str) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The table in a file; nothing if it is missing or invalid, which uv reports itself."""
    try:
        table: Any = parse_toml(read_at_most(path, LARGEST_CONFIGURATION).decode("utf-8")) if is_file(path) else None
    except (OSError, ValueError, RecursionError):
        return
    for name in within:
        table = table.get(name) if isinstance(table, dict) else None
    if isinstance(table, dict):
        yield path, table


def _pip_configuration(installer_run: InstallerRun, installer: Pip) -> Iterator[tuple[str, str, str]]:
    """Pip's configuration: part, key and quoted value."""
    printed = installer_run.run((*installer.program, "config", "list")).stdout
    for match in (_PIP_SETTING.fullmatch(line.strip()) for line in printed.splitlines()):
        if match:
            yield match["part"], match["key"], match["value"]


def _pip_setting(part: str, key: str, value: str) -> InstallerSetting:
    """A setting of pip for display."""
    if part == _BY_VARIABLE:
        return _by_variable(f"PIP_{key.upper().replace('-', '_')}", value)
    return InstallerSetting(hide_secrets(f"{part}.{key}={value}"), _OF_ITS_FILES)


def refuse_wheels(installer_run: InstallerRun, names: Iterable[str]) -> None:
    """Refuses packages whose wheels the user's settings forbid, since gpuenv builds nothing from source.

    uv finds no version then, but pip ignores the setting silently if its command line allows only wheels.

    Raises:
        NothingFits: when one of these packages must be built.
    """
    if not isinstance(installer_run.installer, Pip):
        return
    built, wheels = _binary_rules(installer_run, installer_run.installer)
    forbidden = {
        name: setting
        for name in names
        if (setting := built.get(name) or (None if name in wheels else built.get(_ALL))) is not None
    }
    if forbidden:
        raise NothingFits(
            f"{', '.join(forbidden)}: wheels are forbidden, and gpuenv builds nothing from source",
            f"Check your own settings first: {settings_text(dict.fromkeys(forbidden.values()))}.",
        )


def _binary_rules(installer_run: InstallerRun, installer: Pip) -> tuple[dict[str, InstallerSetting], set[str]]:
    """Pip's no-binary, each name with its setting, and only-binary.

    A later entry removes a name from the other list; ``:all:`` empties both lists, ``:none:`` its own.
    """
    built: dict[str, InstallerSetting] = {}
    wheels: set[str] = set()
    entries = [entry for entry in _pip_configuration(installer_run, installer) if entry[0] in _PARTS]
    for part, key, value in sorted(entries, key=lambda entry: _PARTS[entry[0]]):
        if key not in ("no-binary", "only-binary"):
            continue
        rules: dict[str, InstallerSetting] | set[str] = built if key == "no-binary" else wheels
        for text in filter(None, (text.strip() for text in value.strip("'\"").split(","))):
            name = text if text in (_ALL, _NONE) else canonicalize_name(text)
            if name == _ALL:
                built.clear()
                wheels.clear()
            elif name == _NONE:
                rules.clear()
                continue
            built.pop(name, None)
            wheels.discard(name)
            if key == "no-binary":
                built[name] = _pip_setting(part, key, value)
            else:
                wheels.add(name)
    return built, wheels
