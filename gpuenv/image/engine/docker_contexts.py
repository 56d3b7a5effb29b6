"""The address of the engine that Docker's command line uses: DOCKER_HOST, else a context, else the usual socket.

Docker, Docker contexts (docs, read November 2026): DOCKER_HOST takes precedence over DOCKER_CONTEXT, which takes
precedence over ``currentContext`` of config.json; ``default`` is no context. docker/cli, cli/context/store: a context's
meta.json lies in contexts/meta below the folder of config.json, in a folder named by the SHA-256 of the context's name;
the certificates for its engine in contexts/tls, in a folder of that name, below docker.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuenv.files import home_folder, read_regular
from gpuenv.image.engine.errors import EngineError
from gpuenv.model.redaction import cut_text

_LARGEST = 1 << 20
_DEFAULT_CONTEXT = ("", "default")
_ENGINE_VARIABLES = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CERT_PATH", "DOCKER_TLS", "DOCKER_TLS_VERIFY")
_ROOTFUL_DOCKER, _ROOTFUL_PODMAN = "/var/run/docker.sock", "/run/podman/podman.sock"
_REMEDY = "docker context ls lists the contexts; docker context use default selects none."


def docker_environment(environment: Mapping[str, str]) -> Mapping[str, str]:
    """The variables, with the address and certificates of the chosen context; without a choice DOCKER_HOST is empty.

    Raises:
        EngineError: if the chosen context is missing or has no address.
    """
    if host := environment.get("DOCKER_HOST", "").strip():
        return {**environment, "DOCKER_HOST": host}
    folder = docker_folder(environment)
    name = environment.get("DOCKER_CONTEXT") or _current(folder)
    if name in _DEFAULT_CONTEXT:
        return {**environment, "DOCKER_HOST": ""}
    host, unverified = _endpoint(folder, name)
    variables = {key: value for key, value in environment.items() if key not in _ENGINE_VARIABLES}
    certificates = folder / "contexts/tls" / _digest(name) / "docker"
    if certificates.is_dir():
        variables |= {"DOCKER_CERT_PATH": str(certificates), "DOCKER_TLS": "1"}
        variables |= {"DOCKER_TLS_VERIFY": "" if unverified else "1"}
    return {**variables, "DOCKER_HOST": host}


def docker_folder(environment: Mapping[str, str]) -> Path:
    """The folder of config.json and the contexts; it may be missing."""
    given = environment.get("DOCKER_CONFIG")
    return Path(given) if given else home_folder(environment) / ".docker"


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file of Docker or Podman.

    Raises:
        OSError: if the file cannot be read.
        ValueError: if it contains no object.
    """
    try:
        value = json.loads(read_regular(path, _LARGEST))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("expected an object")  # noqa: TRY004 - the content of a file
    return value


def _current(folder: Path) -> str:
    """The context in config.json; empty if the file is unreadable (``credentials`` reports that)."""
    try:
        name = read_object(folder / "config.json").get("currentContext")
    except (OSError, ValueError):
        return ""
    return name if isinstance(name, str) else ""


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()


def _endpoint(folder: Path, name: str) -> tuple[str, bool]:
    """The address, and whether its certificate is accepted without verification."""
    path = folder / "contexts/meta" / _digest(name) / "meta.json"
    try:
        endpoint = read_object(path)["Endpoints"]["docker"]
        host, unverified = endpoint["Host"], endpoint.get("SkipTLSVerify") is True
    except FileNotFoundError as error:
        raise EngineError(f"there is no Docker context {cut_text(name, 80)!r}", _REMEDY) from error
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        raise EngineError(f"the Docker context {cut_text(name, 80)!r} cannot be read: {path}", _REMEDY) from error
    if not isinstance(host, str) or not host:
        raise EngineError(f"the Docker context {cut_text(name, 80)!r} has no address of an engine", _REMEDY)
    return host, unverified


def usual_sockets(environment: Mapping[str, str], runtime: str | None = None) -> tuple[str, ...]:
    """The paths of the usual sockets in the order of use, Docker's before Podman's.

    ``XDG_RUNTIME_DIR`` has the sockets of rootless engines; ``runtime`` is the folder to use if it is unset.
    """
    folder = environment.get("XDG_RUNTIME_DIR") or runtime
    own = (f"{folder}/docker.sock", f"{folder}/podman/podman.sock") if folder else ()
    return (_ROOTFUL_DOCKER, *own, _ROOTFUL_PODMAN)
