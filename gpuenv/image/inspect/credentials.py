"""Credentials for a registry: from Docker's and Podman's own files, and the helpers that these name.

A key of Podman's may be for one namespace of a registry alone (containers-auth.json(5), read 2026-11-22).
The file is Docker's config.json (docs: docker login, Credential store), which Podman's auth.json shares. A helper is a
program ``docker-credential-NAME`` that is given the registry on standard input (docker-credential-helpers, README).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuenv.files import home_folder, read_regular
from gpuenv.image.engine.docker_contexts import docker_folder
from gpuenv.probe.children import Ending, run_child

_HUB = ("https://index.docker.io/v1/", "index.docker.io", "docker.io", "registry-1.docker.io")
_TOKEN_USER = "<token>"  # noqa: S105 - the name that stands for an identity token
_HELPER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_LARGEST = 1 << 20
HELPER_TIMEOUT = 10.0  # seconds for a helper, which may ask a keychain


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a secret; a user of none is an identity token."""

    user: str | None
    secret: str

    @property
    def basic(self) -> str:
        """The value of a header of basic authentication."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


@dataclass(frozen=True, slots=True)
class CredentialLookup:
    """The credentials for a registry, and the first problem in finding them."""

    credentials: Credentials | None = None
    complaint: str | None = None


def credentials_for(
    registry: str, environment: Mapping[str, str], repository: str = "", timeout: float = HELPER_TIMEOUT
) -> CredentialLookup:
    """The credentials in the user's own files for a registry, and a repository there; none if there are none.

    Args:
        registry: its host.
        environment: the caller's variables.
        repository: the one that is meant.
        timeout: seconds that all helpers together may take.
    """
    complaints = []
    until = time.monotonic() + timeout
    for path in _files(environment):
        config, complaint = _load(path)
        found = _from_config(config, (registry, repository), environment, until)
        if found.credentials is not None:
            return found
        complaints += [text for text in (complaint, found.complaint) if text]
    return CredentialLookup(None, complaints[0] if complaints else None)


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    yield docker_folder(environment) / "config.json"
    if environment.get("REGISTRY_AUTH_FILE"):
        yield Path(environment["REGISTRY_AUTH_FILE"])
    if environment.get("XDG_RUNTIME_DIR"):
        yield Path(environment["XDG_RUNTIME_DIR"]) / "containers/auth.json"
    yield Path(environment.get("XDG_CONFIG_HOME") or home_folder(environment) / ".config") / "containers/auth.json"


def _load(path: Path) -> tuple[dict[str, Any], str | None]:
    try:
        value = json.loads(read_regular(path, _LARGEST))
    except FileNotFoundError:
        return {}, None
    except (OSError, ValueError, RecursionError) as error:
        return {}, f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}"
    return (value, None) if isinstance(value, dict) else ({}, f"{path}: expected an object")


def _from_config(
    config: Mapping[str, Any], where: tuple[str, str], environment: Mapping[str, str], until: float
) -> CredentialLookup:
    registry, repository = where
    names = _HUB if registry in _HUB else (registry,)
    helpers = config.get("credHelpers")
    entries = helpers.items() if isinstance(helpers, dict) else ()
    helper = next((name for key, name in entries if key in names or _host(key) in names), None)
    if helper is None and isinstance(config.get("credsStore"), str):
        helper = config["credsStore"]
    from_helper = _ask_helper(helper, names[0], environment, until) if isinstance(helper, str) else CredentialLookup()
    if from_helper.credentials is not None:
        return from_helper
    written = config.get("auths")
    entries = written.items() if isinstance(written, dict) else ()
    meant = [(rank, entry) for key, entry in entries if (rank := _rank(key, names, repository)) is not None]
    for _, entry in sorted(meant, key=lambda pair: -pair[0]):
        found = _written(entry) if isinstance(entry, dict) else None
        if found is not None:
            return CredentialLookup(found)
    return from_helper


def _rank(key: str, names: Sequence[str], repository: str) -> int | None:
    """How closely a key matches a repository: 0 if it matches only the registry, None if not even that."""
    if key not in names and _host(key) not in names:
        return None
    namespace = "" if "://" in key or key in names else key.partition("/")[2].rstrip("/")
    if namespace in ("", "v1", "v2"):  # of the registry's own interface
        return 0
    return len(namespace) if f"{repository}/".startswith(f"{namespace}/") else None


def _host(key: str) -> str:
    """The host of a key, which may be a URL."""
    return key.partition("://")[2].split("/")[0] if "://" in key else key.split("/", maxsplit=1)[0]


def _written(entry: Mapping[str, Any]) -> Credentials | None:
    """Credentials that stand in the file itself."""
    if isinstance(entry.get("identitytoken"), str) and entry["identitytoken"]:
        return Credentials(None, entry["identitytoken"])
    if isinstance(entry.get("username"), str) and isinstance(entry.get("password"), str) and entry["username"]:
        return Credentials(entry["username"], entry["password"])
    try:
        user, colon, secret = base64.b64decode(str(entry.get("auth") or "")).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return Credentials(user, secret.rstrip("\0")) if colon and user else None


def _ask_helper(name: str, server: str, environment: Mapping[str, str], until: float) -> CredentialLookup:
    if not _HELPER.fullmatch(name):
        return CredentialLookup(None, f"the credential helper {name[:60]!r} has a name that no program has")
    command = [f"docker-credential-{name}", "get"]
    result = run_child(command, environment, until, stdin=f"{server}\n")
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        if "credentials not found" in result.stdout:
            return CredentialLookup()
        why = result.error or (result.stderr or result.stdout).strip().split("\n")[0][:120] or result.ending.value
        return CredentialLookup(None, f"docker-credential-{name} gave no credentials: {why}")
    try:
        answer = json.loads(result.stdout)
    except (ValueError, RecursionError):
        answer = None
    user, secret = (answer.get("Username"), answer.get("Secret")) if isinstance(answer, dict) else (None, None)
    if not isinstance(user, str) or not isinstance(secret, str) or not secret:
        return CredentialLookup(None, f"docker-credential-{name} gave what is no credentials")
    return CredentialLookup(Credentials(None if user == _TOKEN_USER else user, secret))
