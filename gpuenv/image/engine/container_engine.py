"""A container engine, Docker or Podman, through Docker's SDK.

Every exception of the SDK becomes an EngineError, including those of requests (OSErrors) and urllib3.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import docker
import urllib3
from docker.errors import APIError, DockerException, NotFound
from docker.types import DeviceRequest

from gpuenv.image.engine.build_output import Progress
from gpuenv.image.engine.docker_contexts import docker_environment, usual_sockets
from gpuenv.image.engine.engine_answers import (
    CDI_GPU,
    ContainerEnd,
    EngineFacts,
    EngineImage,
    engine_facts,
    engine_image,
    object_of,
)
from gpuenv.image.engine.errors import EngineError, engine_error, error_from_text
from gpuenv.image.reference import parse_reference

_ALL = (DockerException, urllib3.exceptions.HTTPError, OSError, ValueError)
_ANSWER = 60  # seconds that a call other than a build may take
_MOST_OUTPUT = 16 << 20  # bytes of a container's stream; a verification prints some kilobytes


@contextlib.contextmanager
def _engine_errors(doing: str) -> Iterator[None]:
    """Turns the exceptions of the SDK into an EngineError."""
    try:
        yield
    except _ALL as error:
        raise engine_error(error, doing) from error


def connect(environment: Mapping[str, str], seconds: float) -> Engine:
    """The engine that DOCKER_HOST or a context names, or the first that answers on one of the usual sockets.

    Raises:
        EngineError: if no engine answers.
    """
    environment = docker_environment(environment)
    chosen = environment["DOCKER_HOST"]
    usual = [f"unix://{path}" for path in usual_sockets(environment, f"/run/user/{os.getuid()}")]
    there = [host for host in usual if os.path.lexists(host.removeprefix("unix://"))]
    first: EngineError | None = None
    for host in [chosen] if chosen else there or usual[:1]:
        try:
            with _engine_errors(f"the engine at {host}"):
                return _connected(host, environment, seconds)
        except EngineError as error:
            first = first or error
    assert first is not None  # noqa: S101 - there is at least one address
    raise first


def _connected(host: str, environment: Mapping[str, str], seconds: float) -> Engine:
    client = docker.from_env(environment={**environment, "DOCKER_HOST": host}, timeout=seconds)
    with contextlib.ExitStack() as on_error:
        on_error.callback(client.close)
        facts = engine_facts(client.version(), client.info(), host)
        on_error.pop_all()
    client.api.timeout = _ANSWER
    return Engine(client, facts)


class Engine:
    """A connected engine. Its methods raise an EngineError if it refuses, fails or does not answer."""

    def __init__(self, client: Any, facts: EngineFacts) -> None:  # noqa: ANN401 - the SDK has no types
        self._client = client
        self.facts = facts

    def inspect(self, reference: str) -> EngineImage | None:
        """An image of the engine; None if it has no image of that name."""
        with _engine_errors(f"inspecting {reference}"):
            try:
                return engine_image(self._client.api.inspect_image(reference))
            except NotFound:
                return None

    def digest_of(self, reference: str) -> str | None:
        """The digest of an image in the registry of its name; None if the engine has no such image or digest."""
        found = self.inspect(reference)
        return found.digest_of(reference) if found else None

    def build(self, context: bytes, how: Mapping[str, Any], progress: Progress) -> str:
        """Builds a tar file with the classic builder, or with Podman's, and returns the image's id.

        ``how`` are arguments of the SDK, such as ``labels``, ``buildargs`` and ``platform``.
        """
        stream = None
        found = ""
        try:
            with _engine_errors("building"):
                stream = self._client.api.build(
                    fileobj=context, custom_context=True, decode=True, rm=True, forcerm=True, **how
                )
                for event in _events(stream):
                    if "error" in event:
                        raise error_from_text(f"{progress.log}\n{event['error']}", "the build failed")
                    progress.feed(_text(event))
                    found = _id_of(event) or found
        finally:
            if stream is not None:
                stream.close()  # which ends a build that still runs
        if not found:
            raise EngineError(
                "building: the engine ended in the middle of the work",
                "Start it again; what was built so far is in its cache.",
            )
        return found

    def tag(self, image: str, reference: str) -> None:
        """Tags an image; another image with that tag loses it."""
        parsed = parse_reference(reference)
        with _engine_errors(f"tagging the image {reference}"):
            self._client.api.tag(image, parsed.familiar, parsed.tag or "latest", force=True)

    def remove(self, image: str) -> None:
        """Removes an image, if the engine allows it."""
        with contextlib.suppress(*_ALL):
            self._client.api.remove_image(image)

    def push(self, reference: str, progress: Progress) -> str | None:
        """Pushes an image and returns the digest of its manifest."""
        parsed = parse_reference(reference)
        digest = None
        with _engine_errors(f"pushing {reference}"):
            stream = self._client.api.push(parsed.familiar, parsed.tag or "latest", stream=True, decode=True)
            for event in _events(stream):
                if "error" in event:
                    raise error_from_text(str(event["error"]), f"pushing {reference}")
                progress.feed(_text(event))
                aux = event.get("aux")
                digest = (aux.get("Digest") if isinstance(aux, dict) else None) or digest
        return digest or self.digest_of(reference)  # Podman reports no digest during the push

    def run(self, image: str, command: list[str], files: bytes, gpus: str | None, seconds: float) -> ContainerEnd:
        """Runs a command in a new container without a network, and removes the container.

        The command replaces the image's entry point. ``files`` is a tar file to unpack below ``/tmp`` first, and
        ``gpus`` the way to give it all GPUs: ``cdi``, ``gpus``, or None for no GPUs. After ``seconds`` it is killed.
        The result has the first 16 MiB of each of its streams.
        """
        with _engine_errors("running the verification"):
            api = self._client.api
            config = api.create_host_config(network_mode="none", **_devices(gpus))
            made = api.create_container(image, entrypoint=command[:1], command=command[1:], host_config=config)
            try:
                api.put_archive(made["Id"], "/tmp", files)  # noqa: S108 - the container's own
                api.start(made["Id"])
                code = self._wait(made["Id"], seconds)
                return ContainerEnd(code, *(self._output(made["Id"], stdout=out) for out in (True, False)))
            finally:
                with contextlib.suppress(*_ALL):
                    api.remove_container(made["Id"], force=True)

    def _wait(self, container: str, seconds: float) -> int | None:
        try:
            return int(self._client.api.wait(container, timeout=seconds)["StatusCode"])
        except (OSError, urllib3.exceptions.HTTPError):
            # A container that has just ended cannot be killed.
            with contextlib.suppress(APIError):
                self._client.api.kill(container)
            return None

    def _output(self, container: str, *, stdout: bool) -> str:
        """The beginning of a stream of a container; the rest is read and dropped, since the SDK cannot stop early."""
        output = bytearray()
        for piece in self._client.api.logs(container, stdout=stdout, stderr=not stdout, stream=True):
            output += piece[: _MOST_OUTPUT - len(output)]
        return output.decode("utf-8", "replace")

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()


def _devices(gpus: str | None) -> dict[str, Any]:
    if gpus == "cdi":
        return {"device_requests": [DeviceRequest(driver="cdi", device_ids=[f"{CDI_GPU}=all"])]}
    if gpus == "gpus":
        return {"device_requests": [DeviceRequest(count=-1, capabilities=[["gpu"]])]}
    return {}


def _events(stream: Iterable[object]) -> Iterator[Mapping[str, Any]]:
    """The lines of the stream of a build or a push."""
    return (object_of(event, "its work") for event in stream)


def _text(event: Mapping[str, Any]) -> str:
    if "stream" in event:
        return str(event["stream"])
    # A pull or a push: one line a change, without the bars.
    if event.get("status") and not event.get("progressDetail"):
        return f"{event.get('id', '')} {event['status']}".strip() + "\n"
    return ""


def _id_of(event: Mapping[str, Any]) -> str | None:
    aux = event.get("aux")
    if isinstance(aux, dict) and isinstance(aux.get("ID"), str):
        return aux["ID"] or None
    words = str(event.get("stream", "")).split()
    return words[-1] if words[:2] == ["Successfully", "built"] else None
