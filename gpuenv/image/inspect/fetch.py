"""Fetches the facts of an image, a few kilobytes, from a file, a local engine or its registry."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuenv.image.inspect.archive import is_archive, read_archive
from gpuenv.image.inspect.credentials import HELPER_TIMEOUT, find_credentials
from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, ImagePlatform, parse_platform
from gpuenv.image.inspect.local_engine import find_engines, inspect_local
from gpuenv.image.inspect.registry import Registry
from gpuenv.image.reference import ImageReference, ImageReferenceError, is_image_id, parse_reference
from gpuenv.net import run_within

_FILE_NAME = re.compile(r"(?:^|/|^(?:docker|oci)-archive:)[^/:]*\.(?:tar|tgz|oci|sif|sqsh)(?:\.\w+)?$")
_NO_FILE = "for an image of such a name, add its tag: NAME:latest"
_NO_NAME = "a registry knows images by name only: NAME:TAG, or NAME@ and the digest of the manifest"
_NO_NETWORK = "Or use its registry: leave out --offline and --from engine."
_ENGINE_TIMEOUT = 5.0  # seconds; an engine that hangs leaves the rest to the registry
_MIN_TIMEOUT = 0.5


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """Options of fetching an image.

    Attributes:
        environment: variables that name the engine, the files with credentials and the proxies.
        deadline: the time limit in seconds.
        engine: whether to query local engines.
        registry: whether to use the network.
        announce: receives warnings.
    """

    environment: Mapping[str, str]
    deadline: float
    engine: bool
    registry: bool
    announce: Callable[[str], None]


def fetch(text: str, wanted: ImagePlatform, options: FetchOptions) -> ImageFacts:
    """Fetches the facts of an image for one platform.

    Args:
        text: a file, a folder or a reference.
        wanted: the platform.
        options: the sources and limits.

    Raises:
        ImageError: if no source has a readable image.
    """
    if is_archive(text):
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
    """Refuses an image that no engine has, if no registry may be queried.

    Raises:
        ImageError: with the reason.
    """
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
        for address in find_engines(options.environment):
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
        return run_within(timeout, lambda: inspect_local(text, address, timeout, options.environment))
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
