"""The audit against an advisory service of the tests' own: what it flags, and that silence is not called clean."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.audit.__main__ import CLEAN, NOT_AUDITED, PLANTED, VULNERABLE, audit

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("pip_audit", reason="pip install 'gpuenv[audit]'")
SOUND = {"packaging": "26.0", "rich": "14.0.0"}


class Service(BaseHTTPRequestHandler):
    """Answers as OSV's API does: what is known of one package, by name and version."""

    known: frozenset[str] = frozenset(PLANTED)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = asked["package"]["name"].lower()
        found = [_advisory(name)] if name in self.known else []
        body = json.dumps({"vulns": found} if found else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        del arguments


class Silent(Service):
    """Knows nothing of anything."""

    known = frozenset()


class Knowing(Service):
    """Knows of one of the sound ones, too."""

    known = frozenset({*PLANTED, "rich"})


def _advisory(name: str) -> dict[str, object]:
    affected = [{"package": {"name": name, "ecosystem": "PyPI"}, "ranges": [], "versions": []}]
    return {"id": f"PYSEC-0000-{name}", "summary": "planted", "aliases": [], "affected": affected}


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), request.param)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield ("-s", "osv", "--osv-url", f"http://127.0.0.1:{server.server_address[1]}/v1/query")
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("service", [Service], indirect=True)
def test_a_service_that_flags_the_planted_ones_is_believed(service: tuple[str, ...]) -> None:
    verdict = audit(SOUND, service)
    assert verdict.code == CLEAN, verdict.lines


@pytest.mark.parametrize("service", [Service], indirect=True)
def test_a_planted_old_package_is_flagged(service: tuple[str, ...]) -> None:
    verdict = audit({**SOUND, **PLANTED}, service)
    assert verdict.code == VULNERABLE
    assert verdict.lines == (
        "VULNERABLE pyyaml 5.1: PYSEC-0000-pyyaml",
        "VULNERABLE requests 2.19.0: PYSEC-0000-requests",
    )


@pytest.mark.parametrize("service", [Knowing], indirect=True)
def test_what_is_installed_is_flagged(service: tuple[str, ...]) -> None:
    assert audit(SOUND, service).lines == ("VULNERABLE rich 14.0.0: PYSEC-0000-rich",)


@pytest.mark.parametrize("service", [Silent], indirect=True)
def test_a_service_that_knows_nothing_is_not_believed(service: tuple[str, ...]) -> None:
    verdict = audit(SOUND, service)
    assert verdict.code == NOT_AUDITED
    assert verdict.lines[0] == "NOT AUDITED"
    assert "the planted requests 2.19.0 was not flagged" in verdict.lines[2]


def test_a_service_that_cannot_be_reached_is_not_clean() -> None:
    verdict = audit(SOUND, ("-s", "osv", "--osv-url", "http://127.0.0.1:9/v1/query"))
    assert verdict.code == NOT_AUDITED
    assert verdict.lines[0] == "NOT AUDITED"
