"""Where an image's few kilobytes come from: a file, the engine that has it, or its registry."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gpuenv.image.inspect.archive import is_archive, read_archive
from gpuenv.image.inspect.credentials import HELPER_TIMEOUT, credentials_for
from gpuenv.image.inspect.deadline import within
from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, ImagePlatform, parse_platform
from gpuenv.image.inspect.image_names import ImageName, parse_name
from gpuenv.image.inspect.local_images import engines, local_image
from gpuenv.image.inspect.registry_client import Registry
from gpuenv.image.reference import is_identity

_OF_FILE = re.compile(r"(?:^|/|^(?:docker|oci)-archive:)[^/:]*\.(?:tar|tgz|oci|sif|sqsh)(?:\.\w+)?$")
_NO_FILE = "an image whose name is written so has its tag behind it: NAME:latest"
_NO_NAME = "a registry knows images by their names alone: NAME:TAG, or NAME@ and the digest of its manifest"
_LEAVE_OUT = "Or leave out what forbids its registry: --offline, --from engine."
_HANGS = "Look at the engine's log, or restart it."
_ENGINE_TIMEOUT = 5.0  # seconds; one that hangs must not keep the registry from being queried


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """How an image is fetched.

    Attributes:
        environment: names the engine, the files with credentials and the proxies.
        deadline: seconds for all of it.
        engine: whether engines may be queried.
        registry: whether the network may be used.
        announce: receives warnings.
    """

    environment: Mapping[str, str]
    deadline: float
    engine: bool
    registry: bool
    announce: Callable[[str], None]


def fetch(reference: str, wanted: ImagePlatform, options: FetchOptions) -> ImageFacts:
    """Fetches the facts of an image, for one platform.

    Raises:
        ImageError: where it cannot be had.
    """
    if is_archive(reference):
        return read_archive(Path(reference), wanted)
    if _is_path(reference):
        raise ImageError(f"{reference}: no such file or folder", _NO_FILE, is_input=True)
    name = parse_name(reference)
    until = time.monotonic() + options.deadline
    local, failed = _from_engines(reference, options, until) if options.engine else (None, None)
    if local is None and failed is None and is_identity(reference):
        raise ImageError(f"{reference[:80]}: is the ID of an image, and no engine here has it", _NO_NAME, is_input=True)
    if local is not None and (not options.registry or _is_for(local, wanted)):
        return local
    if failed is not None and is_identity(reference):
        raise ImageError(f"{name}: {failed}", failed.remedy)
    if not options.registry:
        why, remedy = (failed, failed.remedy) if failed is not None else ("no engine here has it", "Pull it.")
        raise ImageError(f"{name}: {why}, and the network may not be used", f"{remedy or ''} {_LEAVE_OUT}".strip())
    if failed is not None:
        options.announce(str(failed))
    try:
        return _from_registry(name, wanted, options, until)
    except ImageError:
        if local is None:
            raise
        return local  # for another platform, which the judgement says


def _is_path(reference: str) -> bool:
    """Whether it looks like a path, or a file name that no image has."""
    return reference.startswith(("/", "./", "../", "~")) or _OF_FILE.search(reference) is not None


def _is_for(image: ImageFacts, wanted: ImagePlatform) -> bool:
    return image.platform is None or parse_platform(image.platform).serves(wanted)


def _from_engines(reference: str, options: FetchOptions, until: float) -> tuple[ImageFacts | None, ImageError | None]:
    """The image of the first engine that has it, and the error of the first that failed."""
    failed: ImageError | None = None
    try:
        for address in engines(options.environment):
            try:
                found = _from_engine(reference, address, options, until)
            except ImageError as error:
                failed = failed or error
            else:
                if found is not None:
                    return found, None
    except ImageError as error:  # no valid address
        failed = error
    return None, failed


def _from_engine(reference: str, address: str, options: FetchOptions, until: float) -> ImageFacts | None:
    timeout = max(0.5, min(_ENGINE_TIMEOUT, until - time.monotonic()))
    try:
        return within(timeout, lambda: local_image(reference, address, timeout, options.environment))
    except TimeoutError as error:
        raise ImageError(f"the engine at {address} does not answer within {timeout:g} s", _HANGS) from error


def _from_registry(name: ImageName, wanted: ImagePlatform, options: FetchOptions, until: float) -> ImageFacts:
    helper_timeout = min(HELPER_TIMEOUT, max(0.5, (until - time.monotonic()) / 2))  # the other half is the registry's
    known = credentials_for(name.registry, options.environment, name.repository, helper_timeout)
    if known.complaint:
        options.announce(known.complaint)
    left = max(0.5, until - time.monotonic())
    registry = Registry(name, known.credentials, timeout=min(left, options.deadline))
    try:
        return within(left, lambda: registry.image(wanted))
    except TimeoutError as error:
        seconds = f"{left:.{0 if left >= 1 else 1}f}"
        raise ImageError(
            f"{name}: the registry has not answered within {seconds} s", "try again, or give it more with --timeout"
        ) from error
