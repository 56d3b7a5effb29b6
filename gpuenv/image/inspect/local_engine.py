"""Reads an image from an engine on this machine, Docker or Podman, through Docker's SDK."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gpuenv.image.engine.docker_contexts import docker_environment, usual_sockets
from gpuenv.image.engine.engine_answers import list_of, object_of
from gpuenv.image.engine.errors import EngineError, engine_error
from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, facts_from_configuration
from gpuenv.image.reference import digest_in


def find_engines(environment: Mapping[str, str]) -> Iterator[str]:
    """The addresses of engines: the caller's choice, else every usual socket that exists.

    Raises:
        ImageError: if the chosen Docker context is missing.
    """
    try:
        address = docker_environment(environment)["DOCKER_HOST"]
    except EngineError as error:
        raise ImageError(error.message, error.remedy) from error
    if address:
        yield address
        return
    sockets = usual_sockets(environment)
    yield from (f"unix://{path}" for path in sockets if Path(path).is_socket() and os.access(path, os.W_OK))


def inspect_local(reference: str, address: str, timeout: float, environment: Mapping[str, str]) -> ImageFacts | None:
    """The facts of an image of an engine; None if it has no such image, or the SDK is not installed.

    Args:
        reference: a name or an ID.
        address: the engine's address, as in DOCKER_HOST.
        timeout: the time limit of each answer, in seconds.
        environment: variables that name the certificates for TLS (DOCKER_TLS_VERIFY, DOCKER_CERT_PATH).

    Raises:
        ImageError: if the engine fails.
    """
    try:
        import docker  # noqa: PLC0415 - an extra, and slow to import
    except ImportError:
        return None
    try:
        tls = {} if address.startswith(("unix:", "http+unix:")) else docker_environment(environment)
        client = docker.from_env(
            timeout=max(1, int(timeout)), version="auto", environment={**tls, "DOCKER_HOST": address}
        )
        try:
            return _facts(client.api.inspect_image(reference), client.api.history(reference), reference)
        finally:
            client.close()
    except docker.errors.ImageNotFound:
        return None
    except (docker.errors.DockerException, EngineError, OSError, ValueError) as error:  # OSError: also of requests
        found = engine_error(error, f"the engine at {address}")
        raise ImageError(found.message.split("\n")[0][:300], found.remedy) from error


def _facts(answer: object, history: object, reference: str) -> ImageFacts:
    """The facts in an engine's answer, which has the fields of the configuration under other names."""
    image = object_of(answer, "an image")
    steps = [step for step in reversed(history) if isinstance(step, dict)] if isinstance(history, list) else []
    configuration = {
        "os": image.get("Os"),
        "architecture": image.get("Architecture"),
        "variant": image.get("Variant"),
        "config": image.get("Config"),
        "rootfs": {"diff_ids": object_of(image.get("RootFS"), "an image's layers").get("Layers")},
        "history": [{"created_by": step.get("CreatedBy")} for step in steps],
        "created": image.get("Created"),
    }
    size = image.get("Size")
    return replace(
        facts_from_configuration(configuration, reference, "engine"),
        digest=digest_in(map(str, list_of(image.get("RepoDigests"), "an image's digests")), reference),
        size=size if isinstance(size, int) else None,
    )
