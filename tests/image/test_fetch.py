"""Images of registries: platforms, credentials, redirects and every way in which a registry fails."""

from __future__ import annotations

import base64
import json
import os
import socket
import struct
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from gpuenv.image.inspect.credentials import find_credentials
from gpuenv.image.inspect.fetch import FetchOptions, fetch
from gpuenv.image.inspect.image_facts import ImageError, ImageFacts, ImagePlatform
from gpuenv.image.inspect.manifest import MAX_MANIFEST
from gpuenv.image.reference import parse_reference
from gpuenv.model.redaction import hide_secrets
from tests.image.layouts import Made, digest, manifest
from tests.image.registry_server import Handler, Served, serving, silent, trickling, with_token
from tests.support.planted_secrets import LONG_URL, shown_parts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AMD = Made({"CUDA_VERSION": "12.9.1", "ARCH": "amd64"}, {"a": "b"}, ("RUN /bin/sh -c true",))
ARM = Made({"CUDA_VERSION": "12.9.1", "ARCH": "arm64"}, architecture="arm64", variant="v8")
LINUX = ImagePlatform("linux", "amd64")


def get(
    reference: str,
    home: Path,
    wanted: ImagePlatform = LINUX,
    deadline: float = 8.0,
    announced: list[str] | None = None,
    **variables: str,
) -> ImageFacts:
    environment = {"HOME": str(home), "PATH": os.environ["PATH"], **variables}
    return fetch(
        reference,
        wanted,
        FetchOptions(
            environment, deadline, engine=False, registry=True, announce=([] if announced is None else announced).append
        ),
    )


def login(home: Path, served: Served, user: str = "ann", secret: str = "geheim") -> None:  # noqa: S107 - a test
    auth = base64.b64encode(f"{user}:{secret}".encode()).decode()
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker/config.json").write_text(json.dumps({"auths": {f"127.0.0.1:{served.port}": {"auth": auth}}}))


@pytest.mark.parametrize("docker", [False, True], ids=["oci", "docker"])
def test_an_index_gives_the_image_of_the_platform(tmp_path: Path, docker: bool) -> None:  # noqa: FBT001 - a table
    with serving(AMD, ARM, docker=docker, attested=True) as served:
        for wanted, arch in ((LINUX, "amd64"), (ImagePlatform("linux", "arm64"), "arm64")):
            image = get(served.name, tmp_path, wanted)
            assert image.environment["ARCH"] == arch
            assert image.digest == digest(manifest(AMD if arch == "amd64" else ARM, docker=docker))
            assert image.offered == ("linux/amd64", "linux/arm64/v8")
        assert not any("blobs/sha256:1111" in path for path, _ in served.requests), "no layer is asked for"


def test_a_single_image_needs_no_index(tmp_path: Path) -> None:
    with serving(AMD) as served:
        image = get(served.name, tmp_path)
        assert (image.labels, image.history, image.size) == ({"a": "b"}, ("RUN /bin/sh -c true",), 4000)
        by_digest = served.name.replace(":1", "") + "@" + digest(manifest(AMD))
        assert get(by_digest.replace(":1@", "@"), tmp_path).digest == digest(manifest(AMD))


def test_a_token_is_fetched_with_the_users_credentials(tmp_path: Path) -> None:
    with serving(AMD) as served:
        served.respond = with_token("ann", "geheim", served)
        with pytest.raises(ImageError, match="refuses it") as caught:
            get(served.name, tmp_path)
        assert "docker login" in (caught.value.remedy or "")
        login(tmp_path, served)
        assert get(served.name, tmp_path).environment["ARCH"] == "amd64"
        login(tmp_path, served, secret="wrong")  # noqa: S106 - a test
        with pytest.raises(ImageError, match="do not give access"):
            get(served.name, tmp_path)


def helper(folder: Path, body: str) -> None:
    program = folder / "bin/docker-credential-made"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\nread server\n{body}\n")
    program.chmod(0o755)


@pytest.mark.parametrize("key", ["credHelpers", "credsStore"])
def test_a_credential_helper_gives_the_credentials(tmp_path: Path, key: str) -> None:
    with serving(AMD) as served:
        served.respond = with_token("ann", "geheim", served)
        helper(
            tmp_path, 'echo "{\\"ServerURL\\": \\"$server\\", \\"Username\\": \\"ann\\", \\"Secret\\": \\"geheim\\"}"'
        )
        host = f"127.0.0.1:{served.port}"
        config = {key: {host: "made"} if key == "credHelpers" else "made"}
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker/config.json").write_text(json.dumps(config))
        path = f"{tmp_path}/bin:{os.environ['PATH']}"
        assert get(served.name, tmp_path, PATH=path).environment["ARCH"] == "amd64"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo 'no keychain' >&2; exit 1", "no keychain"),
        ("echo rubbish", "no credentials"),
        ("kill -9 $$", "crashed"),
    ],
)
def test_a_helper_that_fails_is_announced_and_the_registry_used_without_credentials(
    tmp_path: Path, body: str, message: str
) -> None:
    with serving(AMD) as served:
        helper(tmp_path, body)
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker/config.json").write_text(json.dumps({"credsStore": "made"}))
        announced: list[str] = []
        image = get(served.name, tmp_path, announced=announced, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
        assert image.environment["ARCH"] == "amd64"
        assert message in "".join(announced)


def test_the_message_of_a_helper_or_a_registry_is_not_cut_within_a_secret(tmp_path: Path) -> None:
    with serving(AMD) as served:
        helper(tmp_path, f"echo 'cannot open {LONG_URL.line}' >&2; exit 1")
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker/config.json").write_text(json.dumps({"credsStore": "made"}))
        served.respond = answering(418, json.dumps({"errors": [{"message": f"see {LONG_URL.line}"}]}).encode())
        announced: list[str] = []
        with pytest.raises(ImageError, match="see ") as caught:
            get(served.name, tmp_path, announced=announced, PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert "cannot open" in announced[0]
    for text in (*announced, str(caught.value)):
        assert shown_parts(LONG_URL, hide_secrets(text)) == []


@pytest.mark.parametrize(
    ("repository", "user"),
    [("team/a/app", "a"), ("team/app", "team"), ("teams/app", "host"), ("team/ab", "team"), ("team/a", "a")],
)
def test_the_credentials_are_those_of_the_closest_namespace(tmp_path: Path, repository: str, user: str) -> None:
    keys = {"team": "quay.io/team", "host": "quay.io", "a": "quay.io/team/a/", "other": "https://ghcr.io/v1/"}
    auths = {key: {"username": name, "password": "x"} for name, key in keys.items()}
    (tmp_path / "auth.json").write_text(json.dumps({"auths": auths}))
    variables = {"HOME": str(tmp_path), "REGISTRY_AUTH_FILE": str(tmp_path / "auth.json")}
    found, _ = find_credentials(parse_reference(f"quay.io/{repository}"), variables)
    assert found is not None
    assert found.user == user
    other, _ = find_credentials(parse_reference(f"ghcr.io/{repository}"), variables)
    assert other is not None
    assert other.user == "other"


def test_a_helper_name_with_a_path_is_refused(tmp_path: Path) -> None:
    with serving(AMD) as served:
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker/config.json").write_text(json.dumps({"credsStore": "../../bin/evil"}))
        announced: list[str] = []
        assert get(served.name, tmp_path, announced=announced).environment["ARCH"] == "amd64"
        assert "not a valid name" in announced[0]


def answering(status: int, body: bytes = b"{}", headers: dict[str, str] | None = None) -> Callable[[Handler], bool]:
    def respond(handler: Handler) -> bool:
        handler.answer(status, body, headers)
        return True

    return respond


@pytest.mark.parametrize(
    ("respond", "message", "is_input"),
    [
        (answering(404, b'{"errors":[{"message":"manifest unknown"}]}'), "no such image.*manifest unknown", True),
        (answering(401), "refuses it", False),
        (answering(403), "refuses it", False),
        (answering(429, b"", {"Retry-After": "60"}), "too many requests; wait 60 s", False),
        (answering(500), "failed with status 500", False),
        (answering(418), "status 418", False),
        (answering(200, b"<html>"), "is a web page, not JSON", False),
        (answering(200, b"rubbish"), "is not JSON: ", False),
        (answering(200, b"[]"), "expected an object", False),
        (answering(200, b"{}"), "neither manifests nor config", False),
        (answering(200, b"[" * 100_000), "is not JSON", False),
        (answering(200, b" " * (MAX_MANIFEST + 1)), "larger than", False),
        (answering(200, b'{"schemaVersion": 1, "history": []}'), "schema 1", False),
        (answering(200, b'{"config": {"digest": "../../etc/passwd", "size": 1}}'), "without a sha256", False),
        (answering(200, b'{"config": {"digest": 7, "size": 1}}'), "without a sha256", False),
        (answering(200, b'{"manifests": []}'), "without images", False),
        (answering(200, b"{}", {"Docker-Content-Digest": "sha256:" + "0" * 64}), "wrong content", False),
        (answering(200, b"{}", {"Docker-Content-Digest": "md5:1"}), "is not a digest", False),
        (answering(401, b"", {"WWW-Authenticate": 'Bearer realm="http://example.com/t"'}), "not encrypted", False),
        (answering(401, b"", {"WWW-Authenticate": 'Bearer realm="http://[bad/t"'}), "for its tokens", False),
        (answering(401, b"", {"WWW-Authenticate": 'Bearer realm="https://[bad]:1/t"'}), "tokens|cannot be", False),
        (answering(401, b"", {"WWW-Authenticate": 'Bearer realm="https://127.0.0.1:99999/t"'}), "cannot be", False),
        (answering(302, b"", {"Location": "file:///etc/passwd"}), ".", False),
        (answering(302, b"", {"Location": "/v2/team/image/manifests/1"}), ".", False),
    ],
)
def test_an_error_says_how_the_registry_failed(
    tmp_path: Path,
    respond: Callable[[Handler], bool],
    message: str,
    is_input: bool,  # noqa: FBT001 - a table
) -> None:
    with serving(AMD) as served:
        served.respond = respond
        with pytest.raises(ImageError, match=message) as caught:
            get(served.name, tmp_path)
        assert caught.value.is_input is is_input
        assert "Traceback" not in str(caught.value)


def test_a_configuration_with_another_digest_is_refused(tmp_path: Path) -> None:
    with serving(AMD) as served:
        name = f"blobs/{digest(AMD.configuration())}"
        served.pieces[name] = (served.pieces[name][0], ARM.configuration())
        with pytest.raises(ImageError, match="wrong content"):
            get(served.name, tmp_path)


def test_a_redirect_to_another_host_gets_no_credentials(tmp_path: Path) -> None:
    with serving(AMD) as served, serving(AMD) as other:
        wants = with_token("ann", "geheim", served)

        def respond(handler: Handler) -> bool:
            if wants(handler):
                return True
            if "/blobs/" in handler.path:
                handler.answer(307, b"", {"Location": f"http://127.0.0.1:{other.port}{handler.path}?sig=1"})
                return True
            return False

        served.respond = respond
        other.pieces = {f"{path}?sig=1": piece for path, piece in other.pieces.items()}
        login(tmp_path, served)
        assert get(served.name, tmp_path).environment["ARCH"] == "amd64"
        assert [authorization for _, authorization in other.requests] == [None]
        assert any(authorization for _, authorization in served.requests)


@pytest.mark.parametrize("kind", ["silent", "trickle"])
def test_a_slow_registry_is_abandoned_at_the_deadline(tmp_path: Path, kind: str) -> None:
    with serving(AMD) as served:
        served.respond = trickling(6.0) if kind == "trickle" else silent(6.0)
        begun = time.monotonic()
        with pytest.raises(ImageError, match=r"not answered within|no answer within"):
            get(served.name, tmp_path, deadline=1.0)
        assert time.monotonic() - begun < 4.0


def test_an_unreachable_registry_is_an_error(tmp_path: Path) -> None:
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises(ImageError, match="cannot be reached"):
            get(f"127.0.0.1:{held.getsockname()[1]}/a:1", tmp_path)


def test_a_broken_connection_is_an_error(tmp_path: Path) -> None:
    with serving(AMD) as served:

        def cut(handler: Handler) -> bool:
            handler.send_response(200)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.write(b"{")
            handler.close_connection = True
            return True

        served.respond = cut
        with pytest.raises(ImageError, match=r"cut short|is not JSON"):
            get(served.name, tmp_path)


@pytest.mark.parametrize("status", [200, 401, 500])
def test_a_connection_that_is_reset_is_an_error(tmp_path: Path, status: int) -> None:
    with serving(AMD) as served:

        def reset(handler: Handler) -> bool:
            handler.send_response(status)
            handler.send_header("Content-Length", "1000")
            handler.end_headers()
            handler.wfile.flush()
            handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            handler.rfile.close()
            handler.wfile.close()
            os.close(handler.connection.detach())
            handler.close_connection = True
            return True

        served.respond = reset
        with pytest.raises(ImageError, match=r"connection broke|speaks no TLS"):
            get(served.name, tmp_path)
