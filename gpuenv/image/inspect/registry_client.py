"""The registry's interface (OCI Distribution Specification 1.1; Docker's token authentication), for reading alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode, urlsplit

from gpuenv.image.inspect.credentials import Credentials
from gpuenv.image.inspect.http import PlainHttpError, RegistryRequest, RegistryResponse, is_loopback, send
from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, ImagePlatform
from gpuenv.image.inspect.image_names import ImageName
from gpuenv.image.inspect.manifest import (
    INDEX_TYPES,
    LARGEST_CONFIGURATION,
    LARGEST_MANIFEST,
    MANIFEST_TYPES,
    digest_of,
    load_json,
    verify,
)
from gpuenv.image.inspect.manifest_walk import ImageStore, image_of

_HUB, _HUB_HOST = "docker.io", "registry-1.docker.io"
_OK, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_MANY, _FAULT = 200, 400, 401, 403, 404, 429, 500
_PARAMETER = re.compile(r'([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"')
_LARGEST_TOKEN = 1 << 18


@dataclass(slots=True)
class Registry:
    """A client of a registry, for one image.

    Attributes:
        name: the image.
        credentials: who the user is there.
        timeout: seconds without a sign of life.
        authorization: once it was given.
    """

    name: ImageName
    credentials: Credentials | None
    timeout: float
    authorization: str | None = None
    _scheme: str | None = None

    def image(self, wanted: ImagePlatform) -> ImageFacts:
        """The image for a platform.

        Raises:
            ImageError: where there is none, or it cannot be had.
        """
        digest, body = self._manifest(self.name.selector)
        store = ImageStore(
            lambda descriptor: self._manifest(descriptor.digest)[1],
            lambda descriptor: self._blob(descriptor.digest),
            "registry",
        )
        return image_of(body, digest, wanted, str(self.name), store)

    def _manifest(self, selector: str) -> tuple[str, bytes]:
        accept = ", ".join((*INDEX_TYPES, *MANIFEST_TYPES))
        response = self._get(f"manifests/{selector}", {"Accept": accept}, LARGEST_MANIFEST)
        if ":" in selector:
            return selector, verify(response.body, selector, str(self.name))
        digest = response.headers.get("docker-content-digest")
        if digest:
            verify(response.body, digest, str(self.name))
        return digest or digest_of(response.body), response.body

    def _blob(self, digest: str) -> bytes:
        response = self._get(f"blobs/{digest}", {}, LARGEST_CONFIGURATION)
        return verify(response.body, digest, f"{self.name}: the configuration")

    def _get(self, path: str, headers: Mapping[str, str], most: int) -> RegistryResponse:
        response = self._try(path, headers, most)
        if response.status == _UNAUTHORIZED and self.authorization is None:
            self.authorization = self._authorize(response)
            response = self._try(path, headers, most)
        if response.status != _OK:
            raise refusal(response, self.name, known=self.credentials is not None)
        return response

    def _try(self, path: str, headers: Mapping[str, str], most: int) -> RegistryResponse:
        request = RegistryRequest("", headers, self.authorization, None, most, self.timeout, self._certificates)
        target = f"{self._host}/v2/{self.name.repository}/{path}"
        if self._scheme is None:
            self._scheme = self._found_scheme(replace(request, url=f"http://{target}"))
        return send(replace(request, url=f"{self._scheme}://{target}"))

    def _found_scheme(self, query: RegistryRequest) -> str:
        """TLS, but plain HTTP on this machine, as engines do; a server that speaks only TLS refuses a plain request.

        With TLS tried first, a server without TLS may wait for the rest of a line that never comes.
        """
        if not is_loopback(self._host):
            return "https"
        try:
            return "https" if send(query).status == _BAD_REQUEST else "http"
        except PlainHttpError:
            return "https"

    @property
    def _host(self) -> str:
        return _HUB_HOST if self.name.registry == _HUB else self.name.registry

    @property
    def _certificates(self) -> Path:
        return Path("/etc/docker/certs.d") / self._host

    def _authorize(self, response: RegistryResponse) -> str:
        """The header for a registry that requires one: basic, or a token from the service that it names."""
        challenge = response.headers.get("www-authenticate", "")
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic" and self.credentials is not None and self.credentials.user:
            return self.credentials.basic
        parameters = {key.lower(): value for key, value in _PARAMETER.findall(rest)}
        realm = parameters.get("realm")
        if scheme.lower() != "bearer" or not realm:
            raise refusal(response, self.name, known=self.credentials is not None)
        try:
            parts = urlsplit(realm)
        except ValueError as error:
            raise ImageError(f"{self.name}: the registry names {realm[:80]!r} for its tokens: {error}") from error
        near = parts.scheme == "http" and is_loopback(parts.netloc) and self._scheme == "http"
        if parts.scheme != "https" and not near:
            raise ImageError(f"{self.name}: the registry names {realm[:80]!r} for its tokens, which is not encrypted")
        return f"Bearer {self._token(realm, parameters)}"

    def _token(self, realm: str, parameters: Mapping[str, str]) -> str:
        scope = parameters.get("scope") or f"repository:{self.name.repository}:pull"
        fields = {"scope": scope, **({"service": parameters["service"]} if "service" in parameters else {})}
        given = self.credentials
        if given is not None and given.user is None:
            form = {**fields, "grant_type": "refresh_token", "refresh_token": given.secret, "client_id": "gpuenv"}
            request = RegistryRequest(realm, {}, None, urlencode(form).encode(), _LARGEST_TOKEN, self.timeout)
        else:
            query = f"{realm}{'&' if '?' in realm else '?'}{urlencode(fields)}"
            request = RegistryRequest(query, {}, given.basic if given else None, None, _LARGEST_TOKEN, self.timeout)
        response = send(request)
        if response.status != _OK:
            raise refusal(response, self.name, known=given is not None)
        value = load_json(response.body, f"{self.name}: the answer to the question for a token")
        token = (value.get("token") or value.get("access_token")) if isinstance(value, dict) else None
        if not isinstance(token, str) or not token.isascii() or not token.isprintable():
            raise ImageError(f"{self.name}: the registry's token service gave no token")
        return token


def refusal(response: RegistryResponse, name: ImageName, *, known: bool) -> ImageError:
    """What a registry's refusal means, and what to do."""
    error_text = _error_text(response)
    if response.status == _NOT_FOUND:
        return ImageError(
            f"{name}: the registry has no such image{error_text}",
            "check the name and the tag; some are deleted",
            is_input=True,
        )
    if response.status in (_UNAUTHORIZED, _FORBIDDEN):
        who = "the credentials there are not enough" if known else "it is private, or is not there"
        return ImageError(f"{name}: the registry refuses it: {who}{error_text}", f"docker login {name.registry}")
    if response.status == _TOO_MANY:
        wait = response.headers.get("retry-after", "")
        when = f"; it asks to wait {wait} s" if wait.isdigit() else ""
        return ImageError(f"{name}: the registry has received too many requests{when}", f"docker login {name.registry}")
    if response.status >= _FAULT:
        return ImageError(f"{name}: the registry is at fault: status {response.status}{error_text}", "try again later")
    return ImageError(f"{name}: the registry answered with status {response.status}{error_text}")


def _error_text(response: RegistryResponse) -> str:
    """The registry's error message (Distribution Specification, Error Codes); empty if there is none."""
    try:
        value = json.loads(response.body)
        message = value["errors"][0]["message"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f" ({message[:120]})" if isinstance(message, str) and message else ""
