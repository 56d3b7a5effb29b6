"""A client of registries that reads manifests (OCI Distribution Specification 1.1; Docker's token authentication).

The standard library, not the engine's SDK: that is an extra, and an image can be checked without it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from gpuenv.image.inspect.credentials import Credentials
from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, ImagePlatform
from gpuenv.image.inspect.manifest import (
    MAX_CONFIGURATION,
    MAX_MANIFEST,
    MEDIA_TYPES,
    ImageStore,
    compute_digest,
    load_json,
    read_image,
    verify,
)
from gpuenv.image.reference import HUB, ImageReference
from gpuenv.model.redaction import cut_text
from gpuenv.net import NetworkError, Request, Response, is_loopback, send

_HUB_HOST = "registry-1.docker.io"
_PARAMETER = re.compile(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"')
_MAX_TOKEN = 1 << 18
_NO_TLS = (
    "a registry without TLS is used only on this machine; let the engine pull the image (insecure-registries in its "
    "daemon.json), then --from engine"
)


@dataclass(slots=True)
class Registry:
    """A client for one image; the timeout is the longest pause between two bytes, in seconds."""

    image: ImageReference
    credentials: Credentials | None
    timeout: float
    _authorization: str | None = field(default=None, init=False)
    _scheme: str | None = field(default=None, init=False)

    def read(self, wanted: ImagePlatform) -> ImageFacts:
        """The facts of the image for a platform.

        Raises:
            ImageError: if it is missing or cannot be read.
        """
        digest, manifest = self._get_manifest(self.image.selector)
        store = ImageStore("registry", lambda digest: self._get_manifest(digest)[1], self._get_configuration)
        return read_image(manifest, digest, wanted, str(self.image), store)

    def _get_manifest(self, selector: str) -> tuple[str, bytes]:
        response = self._get(f"manifests/{selector}", MAX_MANIFEST)
        digest = selector if ":" in selector else response.headers.get("docker-content-digest")
        if not digest:
            return compute_digest(response.body), response.body
        return digest, verify(response.body, digest, str(self.image))

    def _get_configuration(self, digest: str) -> bytes:
        return verify(self._get(f"blobs/{digest}", MAX_CONFIGURATION).body, digest, f"{self.image}: the configuration")

    def _get(self, path: str, limit: int) -> Response:
        response = self._send(path, limit)
        if response.status == HTTPStatus.UNAUTHORIZED and self._authorization is None:
            self._authorization = self._authorize(response)
            response = self._send(path, limit)
        if response.status != HTTPStatus.OK:
            raise self._refusal(response)
        return response

    def _send(self, path: str, limit: int) -> Response:
        host = _HUB_HOST if self.image.registry == HUB else self.image.registry
        if self._scheme is None:
            self._scheme = self._find_scheme(host)
        return self._request(
            Request(
                f"{self._scheme}://{host}/v2/{self.image.repository}/{path}",
                limit,
                self.timeout,
                {"Accept": ", ".join(MEDIA_TYPES)},
                self._authorization,
                certificates=Path("/etc/docker/certs.d") / host,
            )
        )

    def _find_scheme(self, host: str) -> str:
        """The scheme: TLS, or plain HTTP for a server on this machine that accepts it, as engines do.

        TLS cannot be tried first: a server without TLS may wait for the rest of a line.
        """
        if not is_loopback(host):
            return "https"
        try:
            response = send(Request(f"http://{host}/v2/", MAX_MANIFEST, self.timeout))
        except NetworkError as error:
            if error.no_tls:
                return "https"
            raise ImageError(f"{host}: {error}", error.remedy) from error
        return "https" if response.status == HTTPStatus.BAD_REQUEST else "http"

    def _request(self, request: Request) -> Response:
        """Sends a request; messages only name the host, since a path or a query may contain a token."""
        try:
            return send(request)
        except NetworkError as error:
            parts = request.url.split("/")
            remedy = error.remedy or (_NO_TLS if error.no_tls else None)
            raise ImageError(f"{parts[0]}//{parts[2].rpartition('@')[2]}: {error}", remedy) from error

    def _authorize(self, response: Response) -> str:
        """The authorization that a registry requires: basic, or a token of its token service."""
        scheme, _, rest = response.headers.get("www-authenticate", "").partition(" ")
        if scheme.lower() == "basic" and self.credentials is not None and self.credentials.user:
            return self.credentials.basic
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(rest)}
        realm = parameters.get("realm")
        if scheme.lower() != "bearer" or not realm:
            raise self._refusal(response)
        try:
            parts = urlsplit(realm)
        except ValueError as error:
            raise ImageError(
                f"{self.image}: the registry names {cut_text(realm, 80)!r} for its tokens: {error}"
            ) from error
        is_plain = parts.scheme == "http" and is_loopback(parts.netloc) and self._scheme == "http"
        if parts.scheme != "https" and not is_plain:
            raise ImageError(
                f"{self.image}: the registry names {cut_text(realm, 80)!r} for its tokens, which is not encrypted"
            )
        return f"Bearer {self._get_token(realm, parameters)}"

    def _get_token(self, realm: str, parameters: dict[str, str]) -> str:
        fields = {"scope": parameters.get("scope") or f"repository:{self.image.repository}:pull"}
        fields |= {"service": parameters["service"]} if "service" in parameters else {}
        user = self.credentials
        if user is not None and user.user is None:
            form = {**fields, "grant_type": "refresh_token", "refresh_token": user.secret, "client_id": "gpuenv"}
            request = Request(realm, _MAX_TOKEN, self.timeout, body=urlencode(form).encode())
        else:
            query = f"{realm}{'&' if '?' in realm else '?'}{urlencode(fields)}"
            request = Request(query, _MAX_TOKEN, self.timeout, authorization=user.basic if user else None)
        response = self._request(request)
        if response.status != HTTPStatus.OK:
            raise self._refusal(response)
        value = load_json(response.body, f"{self.image}: the answer of the registry's token service")
        token = (value.get("token") or value.get("access_token")) if isinstance(value, dict) else None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise ImageError(f"{self.image}: the registry's token service returned no token")
        return token

    def _refusal(self, response: Response) -> ImageError:
        """The error for the status of a response, with a remedy."""
        image, text, login = self.image, _error_text(response), f"docker login {self.image.registry}"
        if response.status == HTTPStatus.NOT_FOUND:
            remedy = "check the name and the tag; some are deleted"
            return ImageError(f"{image}: the registry has no such image{text}", remedy, is_input=True)
        if response.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            reason = "the credentials do not give access" if self.credentials else "it is private or does not exist"
            return ImageError(f"{image}: the registry refuses it: {reason}{text}", login)
        if response.status == HTTPStatus.TOO_MANY_REQUESTS:
            wait = response.headers.get("retry-after", "")
            when = f"; wait {wait} s" if wait.isdigit() else ""
            return ImageError(f"{image}: the registry has received too many requests{when}", login)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return ImageError(f"{image}: the registry failed with status {response.status}{text}", "try again later")
        return ImageError(f"{image}: the registry answered with status {response.status}{text}")


def _error_text(response: Response) -> str:
    """The registry's error message (Distribution Specification, Error Codes); empty if missing."""
    try:
        message = json.loads(response.body)["errors"][0]["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f" ({cut_text(message, 120)})" if isinstance(message, str) and message else ""
