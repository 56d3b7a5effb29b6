"""The user's folders that installers and engines get: none that another user can change.

An installer loads packages from its cache, and configuration names an index or an engine, or holds passwords.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from gpuenv.files import is_file, others_reach

# What is used below a folder: that of a variable, else one in the home.
_CONFIGURED = ("uv/uv.toml", "pip/pip.conf", "conda/.condarc", "conda/condarc", "containers/auth.json")
_BELOW = {
    "XDG_CACHE_HOME": (".cache", ("uv", "pip", "conda")),
    "XDG_CONFIG_HOME": (".config", _CONFIGURED),
    "XDG_DATA_HOME": (".local/share", ("uv",)),
}
# Those of them that name an index of packages, by the variable that names one instead.
_INDEXES = {
    "UV_CONFIG_FILE": (".config/uv/uv.toml", "uv/uv.toml"),
    "PIP_CONFIG_FILE": (".config/pip/pip.conf", ".pip/pip.conf", "pip/pip.conf"),
    "CONDARC": (".condarc", ".conda/.condarc", ".config/conda/.condarc", ".config/conda/condarc", ".mambarc"),
}
_SOCKETS = ("", "podman", "containers/auth.json")  # below XDG_RUNTIME_DIR
_IN_HOME = (
    *(".netrc", ".pip/pip.conf", ".condarc", ".conda/.condarc", ".conda/pkgs", ".mambarc", ".mamba/pkgs"),
    *(".docker/config.json", ".docker/contexts", ".docker/cli-plugins"),
)
_CACHES = {"UV_CACHE_DIR": "UV_NO_CACHE", "PIP_CACHE_DIR": "PIP_NO_CACHE_DIR"}


class ConfigurationIgnoredError(ValueError):
    """The user's own configuration, which names an index, is where another user can change it."""


def with_own_folders(environment: Mapping[str, str], announce: Callable[[str], None]) -> dict[str, str]:
    """The variables for installers: HOME and XDG variables of folders that another user can change are not kept.

    One message says so. Such a home is replaced by that of the account; where that is no better, by none, and a cache
    by none. As root, the configuration of another user is ignored; any other user has chosen it.

    Raises:
        ConfigurationIgnoredError: when packages would come from another index than the user has chosen.
    """
    kept, reasons = dict(environment), {}
    below = {variable: names for variable, (_, names) in _BELOW.items()} | {"XDG_RUNTIME_DIR": _SOCKETS}
    for variable, names in below.items():
        if reason := _problem(kept.get(variable), *names):
            reasons[variable] = reason
            del kept[variable]
    if reason := _problem_of_home(kept.get("HOME")):
        reasons["HOME"] = reason
        account = _account_home()
        kept["HOME"] = os.devnull if account is None or _problem_of_home(account) else account
        if kept["HOME"] == os.devnull:
            kept |= {off: "1" for chosen, off in _CACHES.items() if chosen not in kept}
    for variable, reason in reasons.items():
        _check_index(Path(environment[variable]), environment, reason)
    if reasons:
        ignored = ", ".join(f"{variable}={environment[variable]}" for variable in reasons)
        reason = next(iter(reasons.values()))
        announce(f"HOME={kept.get('HOME', '')} is used for caches and configuration, without {ignored}: {reason}")
    return kept


def _check_index(folder: Path, environment: Mapping[str, str], reason: str) -> None:
    for variable, names in _INDEXES.items():
        for path in (folder / name for name in names if variable not in environment):
            if is_file(path) and (os.geteuid() != 0 or path.lstat().st_uid == 0):
                raise ConfigurationIgnoredError(
                    f"{path} may name your index of packages, but cannot be trusted: {reason}; "
                    f"make yourself the owner of that folder, or name the file with {variable}"
                )


def _problem(folder: str | None, *names: str) -> str | None:
    """How another user can change one of these names below a folder; None if none can, or no folder is given."""
    return next(filter(None, (others_reach(Path(folder, name)) for name in names)), None) if folder else None


def _problem_of_home(home: str | None) -> str | None:
    return _problem(home, *_IN_HOME, *(f"{folder}/{name}" for folder, names in _BELOW.values() for name in names))


def _account_home() -> str | None:
    """The home in the database of users; None without an entry, or on Windows."""
    try:
        import pwd  # noqa: PLC0415 - Windows lacks it

        return pwd.getpwuid(os.geteuid()).pw_dir
    except (ImportError, KeyError):
        return None
