"""Credentials for a registry, from Docker's and Podman's files and from their credential helpers.

Docker's config.json (docs: docker login, Credential store) and Podman's auth.json have the same form; a key of Podman's
may name a namespace of a registry (containers-auth.json(5), read 2026-11-22). A helper is a program
``docker-credential-NAME`` that reads the registry from standard input (docker-credential-helpers, README).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuenv.files import home_folder
from gpuenv.image.engine.docker_contexts import docker_folder, read_object
from gpuenv.image.reference import HUB, ImageReference
from gpuenv.model.redaction import cut_text
from gpuenv.model.strings import error_reason
from gpuenv.probe.children import Ending, run_child

_HUB_KEYS = ("https://index.docker.io/v1/", "index.docker.io", HUB, "registry-1.docker.io")
_TOKEN_USER = "<token>"  # noqa: S105 - the name that stands for an identity token
_HELPER = re.compile(r"[A-Za-z0-9._-]{1,64}")
HELPER_TIMEOUT = 10.0  # seconds for a helper, which may ask a keychain


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a secret; without a user it is an identity token."""

    user: str | None
    secret: str

    @property
    def basic(self) -> str:
        """The value of a header of basic authentication."""
        return "Basic " + base64.b64encode(f"{self.user}:{self.secret}".encode()).decode()


class CredentialError(ValueError):
    """An unreadable file, or a helper that fails."""


def find_credentials(
    image: ImageReference, environment: Mapping[str, str], timeout: float = HELPER_TIMEOUT
) -> tuple[Credentials | None, str | None]:
    """The user's credentials for an image, and the first problem in finding them; None for each if missing.

    The time limit is that of all helpers together, in seconds.
    """
    until = time.monotonic() + timeout
    problem: str | None = None
    for path in _files(environment):
        config: dict[str, Any] = {}
        found = None
        try:
            config = _load(path)
            found = _from_helper(config, image, environment, until)
        except CredentialError as error:
            problem = problem or str(error)
        found = found or _from_file(config, image)
        if found is not None:
            return found, None
    return None, problem


def _files(environment: Mapping[str, str]) -> Iterator[Path]:
    yield docker_folder(environment) / "config.json"
    if environment.get("REGISTRY_AUTH_FILE"):
        yield Path(environment["REGISTRY_AUTH_FILE"])
    if environment.get("XDG_RUNTIME_DIR"):
        yield Path(environment["XDG_RUNTIME_DIR"]) / "containers/auth.json"
    yield Path(environment.get("XDG_CONFIG_HOME") or home_folder(environment) / ".config") / "containers/auth.json"


def _load(path: Path) -> dict[str, Any]:
    try:
        return read_object(path)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise CredentialError(f"{path}: cannot be read: {error_reason(error)}") from error


def _entries(config: Mapping[str, Any], key: str) -> list[tuple[str, Any]]:
    return [*config[key].items()] if isinstance(config.get(key), dict) else []


def _keys(image: ImageReference) -> tuple[str, ...]:
    return _HUB_KEYS if image.registry == HUB else (image.registry,)


def _host(key: str) -> str:
    """The host of a key, which may be a URL."""
    return key.rpartition("://")[2].partition("/")[0]


def _from_file(config: Mapping[str, Any], image: ImageReference) -> Credentials | None:
    """The credentials in the file itself, of the closest namespace."""
    entries = [
        (rank, entry)
        for key, entry in _entries(config, "auths")
        if isinstance(entry, dict) and (rank := _rank(key, image)) is not None
    ]
    found = (_parse_entry(entry) for _, entry in sorted(entries, key=lambda pair: -pair[0]))
    return next((credentials for credentials in found if credentials is not None), None)


def _rank(key: str, image: ImageReference) -> int | None:
    """How closely a key matches a repository: 0 if it matches only the registry, None if not even that."""
    if key not in _keys(image) and _host(key) not in _keys(image):
        return None
    namespace = "" if "://" in key else key.partition("/")[2].rstrip("/")
    if namespace in ("", "v1", "v2"):  # of the registry's own interface
        return 0
    return len(namespace) if f"{image.repository}/".startswith(f"{namespace}/") else None


def _parse_entry(entry: Mapping[str, Any]) -> Credentials | None:
    token, user, password = (entry.get(name) for name in ("identitytoken", "username", "password"))
    if isinstance(token, str) and token:
        return Credentials(None, token)
    if isinstance(user, str) and isinstance(password, str) and user:
        return Credentials(user, password)
    try:
        user, colon, secret = base64.b64decode(str(entry.get("auth") or "")).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return Credentials(user, secret.rstrip("\0")) if colon and user else None


def _from_helper(
    config: Mapping[str, Any], image: ImageReference, environment: Mapping[str, str], until: float
) -> Credentials | None:
    keys = _keys(image)
    helpers = _entries(config, "credHelpers")
    name = next((name for key, name in helpers if key in keys or _host(key) in keys), config.get("credsStore"))
    if not isinstance(name, str):
        return None
    if not _HELPER.fullmatch(name):
        raise CredentialError(f"the credential helper {name[:60]!r} is not a valid name of a program")
    result = run_child([f"docker-credential-{name}", "get"], environment, until, stdin=f"{keys[0]}\n")
    if result.ending is not Ending.EXITED or result.exit_code != 0:
        if "credentials not found" in result.stdout:
            return None
        first_line = (result.stderr or result.stdout).strip().split("\n")[0]
        reason = result.error or cut_text(first_line, 120) or result.ending.value
        raise CredentialError(f"docker-credential-{name} returned no credentials: {reason}")
    try:
        answer = json.loads(result.stdout)
        user, secret = answer["Username"], answer["Secret"]
    except (ValueError, LookupError, TypeError, RecursionError):
        user = secret = None
    if not isinstance(user, str) or not isinstance(secret, str) or not secret:
        raise CredentialError(f"docker-credential-{name} returned no credentials: its answer is invalid")
    return Credentials(None if user == _TOKEN_USER else user, secret)
