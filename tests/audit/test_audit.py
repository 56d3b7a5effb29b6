"""The audit against a local advisory service: flagged packages, and services that do not answer."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest

from tests.audit.__main__ import CLEAN, CONTROLS, NOT_AUDITED, VULNERABLE, audit

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("pip_audit", reason="pip install 'gpuenv[audit]'")
INSTALLED = {"packaging": "26.0", "rich": "14.0.0"}


class Service(BaseHTTPRequestHandler):
    """Answers queries for one package as OSV's API does."""

    known: frozenset[str] = frozenset(CONTROLS)

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        name = query["package"]["name"].lower()
        advisories = [_advisory(name)] if name in self.known else []
        body = json.dumps({"vulns": advisories} if advisories else {}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        del arguments


class EmptyService(Service):
    """Has no advisories."""

    known = frozenset()


class FullService(Service):
    """Has an advisory on an installed package, too."""

    known = frozenset({*CONTROLS, "rich"})


def _advisory(name: str) -> dict[str, object]:
    affected = [{"package": {"name": name, "ecosystem": "PyPI"}, "ranges": [], "versions": []}]
    return {"id": f"PYSEC-0000-{name}", "summary": "control", "aliases": [], "affected": affected}


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[tuple[str, ...]]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), request.param)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield ("-s", "osv", "--osv-url", f"http://127.0.0.1:{server.server_address[1]}/v1/query")
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("service", [Service], indirect=True)
def test_packages_are_clean_if_the_service_flags_the_controls(service: tuple[str, ...]) -> None:
    verdict = audit(INSTALLED, service)
    assert verdict.code == CLEAN, verdict.lines


@pytest.mark.parametrize("service", [Service], indirect=True)
def test_a_vulnerable_package_is_flagged(service: tuple[str, ...]) -> None:
    verdict = audit({**INSTALLED, **CONTROLS}, service)
    assert verdict.code == VULNERABLE
    assert verdict.lines == (
        "VULNERABLE pyyaml 5.1: PYSEC-0000-pyyaml",
        "VULNERABLE requests 2.19.0: PYSEC-0000-requests",
    )


@pytest.mark.parametrize("service", [FullService], indirect=True)
def test_a_new_advisory_on_an_installed_package_is_flagged(service: tuple[str, ...]) -> None:
    assert audit(INSTALLED, service).lines == ("VULNERABLE rich 14.0.0: PYSEC-0000-rich",)


@pytest.mark.parametrize("service", [EmptyService], indirect=True)
def test_a_service_that_flags_no_control_gives_no_audit(service: tuple[str, ...]) -> None:
    verdict = audit(INSTALLED, service)
    assert verdict.code == NOT_AUDITED
    assert verdict.lines[0] == "NOT AUDITED"
    assert "the control requests 2.19.0 was not flagged" in verdict.lines[2]


def test_an_unreachable_service_gives_no_audit() -> None:
    verdict = audit(INSTALLED, ("-s", "osv", "--osv-url", "http://127.0.0.1:9/v1/query"))
    assert verdict.code == NOT_AUDITED
    assert verdict.lines[0] == "NOT AUDITED"
