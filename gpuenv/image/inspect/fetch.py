"""Fetches the facts of an image, a few kilobytes, from a file, a local engine or its registry."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpuenv.image.engine.docker_contexts import docker_environment, usual_sockets
from gpuenv.image.engine.engine_answers import list_of, object_of
from gpuenv.image.engine.errors import EngineError, engine_error
from gpuenv.image.inspect.archive import read_archive
from gpuenv.image.inspect.credentials import HELPER_TIMEOUT, find_credentials
from gpuenv.image.inspect.image_facts import (
    ImageError,
    ImageFacts,
    ImagePlatform,
    facts_from_configuration,
    objects_in,
    parse_platform,
)
from gpuenv.image.inspect.registry import Registry
from gpuenv.image.reference import ImageReference, ImageReferenceError, digest_in, is_image_id, parse_reference
from gpuenv.model.redaction import cut_text
from gpuenv.net import run_within

_FILE_NAME = re.compile(r"(?:^|/|^(?:docker|oci)-archive:)[^/:]*\.(?:tar|tgz|oci|sif|sqsh)(?:\.\w+)?$")
_NO_FILE = "for an image of such a name, add its tag: NAME:latest"
_NO_NAME = "a registry knows images by name only: NAME:TAG, or NAME@ and the digest of the manifest"
_NO_NETWORK = "Or use its registry: leave out --offline and --from engine."
_ENGINE_TIMEOUT = 5.0  # seconds; an engine that hangs leaves the rest to the registry
_MIN_TIMEOUT = 0.5


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Options of fetching an image: whether engines or the registry may be queried, and the seconds of all of it.

    ``environment`` names the engine, the files with credentials and the proxies; ``announce`` receives warnings.
    """

    environment: Mapping[str, str]
    deadline: float
    engine: bool
    registry: bool
    announce: Callable[[str], None]


def fetch(text: str, wanted: ImagePlatform, options: FetchOptions) -> ImageFacts:
    """Fetches the facts of an image for one platform; ``text`` is a file, a folder or a reference.

    Raises:
        ImageError: if no source has a readable image.
    """
    if os.path.exists(text):  # noqa: PTH110 - a name that is too long, or holds a null, is no file either
        return read_archive(Path(text), wanted)
    if text.startswith(("/", "./", "../", "~")) or _FILE_NAME.search(text):
        raise ImageError(f"{text}: no such file or folder", _NO_FILE, is_input=True)
    try:
        reference = parse_reference(text)
    except ImageReferenceError as error:
        raise ImageError(str(error), is_input=True) from error
    until = time.monotonic() + options.deadline
    local, failure = _from_engines(text, options, until) if options.engine else (None, None)
    if local is not None and (not options.registry or _is_for(local, wanted)):
        return local
    if local is None:
        _require_registry(text, reference, failure, options)
    if failure is not None:
        options.announce(str(failure))
    try:
        return _from_registry(reference, wanted, options, until)
    except ImageError:
        if local is None:
            raise
        return local  # for another platform, which the verdict reports


def _require_registry(text: str, reference: ImageReference, failure: ImageError | None, options: FetchOptions) -> None:
    """Refuses an image that no engine has, if no registry may be queried."""
    if is_image_id(text):
        if failure is not None:
            raise ImageError(f"{reference}: {failure}", failure.remedy)
        raise ImageError(f"{text[:80]}: is the ID of an image, and no engine here has it", _NO_NAME, is_input=True)
    if not options.registry:
        reason, remedy = (failure, failure.remedy) if failure is not None else ("no engine here has it", "Pull it.")
        raise ImageError(
            f"{reference}: {reason}, and the network may not be used", f"{remedy or ''} {_NO_NETWORK}".strip()
        )


def _is_for(image: ImageFacts, wanted: ImagePlatform) -> bool:
    return image.platform is None or parse_platform(image.platform).serves(wanted)


def _from_engines(text: str, options: FetchOptions, until: float) -> tuple[ImageFacts | None, ImageError | None]:
    """The image of the first engine that has it, and the error of the first that failed."""
    failure: ImageError | None = None
    try:
        for address in _engine_addresses(options.environment):
            try:
                image = _from_engine(text, address, options, until)
            except ImageError as error:
                failure = failure or error
            else:
                if image is not None:
                    return image, None
    except ImageError as error:  # no valid address
        failure = error
    return None, failure


def _from_engine(text: str, address: str, options: FetchOptions, until: float) -> ImageFacts | None:
    timeout = max(_MIN_TIMEOUT, min(_ENGINE_TIMEOUT, until - time.monotonic()))
    try:
        return run_within(timeout, lambda: _inspect_local(text, address, timeout, options.environment))
    except TimeoutError as error:
        raise ImageError(
            f"no answer from the engine at {address} within {timeout:g} s", "Look at the engine's log, or restart it."
        ) from error


def _from_registry(reference: ImageReference, wanted: ImagePlatform, options: FetchOptions, until: float) -> ImageFacts:
    half = (until - time.monotonic()) / 2  # the other half is the registry's
    credentials, problem = find_credentials(
        reference, options.environment, min(HELPER_TIMEOUT, max(_MIN_TIMEOUT, half))
    )
    if problem is not None:
        options.announce(problem)
    left = max(_MIN_TIMEOUT, until - time.monotonic())
    registry = Registry(reference, credentials, timeout=min(left, options.deadline))
    try:
        return run_within(left, lambda: registry.read(wanted))
    except TimeoutError as error:
        raise ImageError(
            f"{reference}: the registry has not answered within {left:.{0 if left >= 1 else 1}f} s",
            "try again, or raise the limit with --timeout",
        ) from error


def _engine_addresses(environment: Mapping[str, str]) -> Iterator[str]:
    """The addresses of engines: the caller's choice, else every usual socket that exists."""
    try:
        address = docker_environment(environment)["DOCKER_HOST"]
    except EngineError as error:
        raise ImageError(error.message, error.remedy) from error
    if address:
        yield address
        return
    sockets = usual_sockets(environment)
    yield from (f"unix://{path}" for path in sockets if Path(path).is_socket() and os.access(path, os.W_OK))


def _inspect_local(reference: str, address: str, timeout: float, environment: Mapping[str, str]) -> ImageFacts | None:
    """The facts of an image of an engine; None if it has no such image, or the SDK is not installed."""
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
        raise ImageError(cut_text(found.message.split("\n")[0], 300), found.remedy) from error


def _facts(answer: object, history: object, reference: str) -> ImageFacts:
    """The facts in an engine's answer, which has the fields of the configuration under other names."""
    image = object_of(answer, "an image")
    configuration = {
        "os": image.get("Os"),
        "architecture": image.get("Architecture"),
        "variant": image.get("Variant"),
        "config": image.get("Config"),
        "rootfs": {"diff_ids": object_of(image.get("RootFS"), "an image's layers").get("Layers")},
        "history": [{"created_by": step.get("CreatedBy")} for step in reversed(objects_in(history))],
        "created": image.get("Created"),
    }
    size = image.get("Size")
    return replace(
        facts_from_configuration(configuration, reference, "engine"),
        digest=digest_in(map(str, list_of(image.get("RepoDigests"), "an image's digests")), reference),
        size=size if isinstance(size, int) else None,
    )
