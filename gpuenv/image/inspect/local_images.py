"""An image that an engine on this machine has already: Docker's or Podman's, through Docker's SDK."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from gpuenv.image.engine.docker_contexts import ContextError, docker_environment, engine_address
from gpuenv.image.engine.engine_answers import list_of, object_of
from gpuenv.image.engine.errors import engine_error
from gpuenv.image.engine.sockets import usual_sockets
from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, facts_from_configuration
from gpuenv.image.inspect.image_names import digest_in


def engines(environment: Mapping[str, str]) -> Iterator[str]:
    """The addresses at which an engine may be: the one that was named, else every socket that is there.

    Raises:
        ImageError: where a context is named that is none.
    """
    try:
        named = engine_address(environment)
    except ContextError as error:
        raise ImageError(str(error), error.remedy) from error
    if named:
        yield named
        return
    sockets = usual_sockets(environment)
    yield from (f"unix://{path}" for path in sockets if Path(path).is_socket() and os.access(path, os.W_OK))


def local_image(reference: str, address: str, timeout: float, environment: Mapping[str, str]) -> ImageFacts | None:
    """The image as the engine at an address has it; none where it does not, or the SDK is not installed.

    Args:
        reference: its name.
        address: the engine's, as in DOCKER_HOST.
        timeout: seconds for each of its answers.
        environment: names the certificates for one behind TLS (DOCKER_TLS_VERIFY, DOCKER_CERT_PATH).

    Raises:
        ImageError: where the engine does not answer as an engine does.
    """
    try:
        import docker  # noqa: PLC0415 - an extra, and slow to import
        import requests  # noqa: PLC0415 - what the SDK raises beside its own
    except ImportError:
        return None
    try:
        tls = {} if address.startswith(("unix:", "http+unix:")) else docker_environment(environment)
        client = docker.from_env(
            timeout=max(1, int(timeout)), version="auto", environment={**tls, "DOCKER_HOST": address}
        )
        try:
            image = client.api.inspect_image(reference)
            return _facts(image, client.api.history(reference), reference)
        finally:
            client.close()
    except docker.errors.ImageNotFound:
        return None
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError, ValueError) as error:
        found = engine_error(error, f"the engine at {address}")
        raise ImageError(found.message.split("\n")[0][:300], found.remedy) from error


def _facts(answer: object, history: object, reference: str) -> ImageFacts:
    """Facts from an engine's answer, which has the configuration's content under names of its own.

    Raises:
        ValueError: when it is none of an engine's.
    """
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
    digests = list_of(image.get("RepoDigests"), "an image's digests")
    size = image.get("Size")
    return replace(
        facts_from_configuration(configuration, reference, "engine"),
        digest=digest_in(map(str, digests), reference),
        size=size if isinstance(size, int) else None,
    )
