"""Faulty package indexes: an install succeeds anyway, or changes nothing and reports why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.fault_matrix import case_id
from tests.faults.faulty_servers import Stopped, faulty_answers, forward, serving
from tests.faults.test_installers import install_and_check
from tests.install.conftest import sandbox

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.install.sandbox import Sandbox

__all__ = ["sandbox"]
pytestmark = pytest.mark.slow
FAULTS = (
    *(
        "absent",
        "unreadable",
        "empty: no answer",
        "empty: not found",
        "empty: an empty page",
        "rubbish",
        "rubbish: as a page",
    ),
    *("huge", "slow", "hung", "hung: in the middle", "dying", "lying"),
)
# Exit codes other than 4. An index without the release differs from one that does not answer; pip reads an incomplete
# page as far as it goes, and uv accepts a page without links.
EXIT_CODES = {
    **{(installer, "slow"): 0 for installer in ("uv", "pip")},
    **{("uv", fault): 3 for fault in ("empty: not found", "empty: an empty page")},
    ("uv", "rubbish: as a page"): 3,
    ("pip", "dying"): 3,
}
PATIENCE = ("--install-timeout", "100")  # so that a slow index has time to answer
CASES = [(installer, fault) for installer in ("uv", "pip") for fault in FAULTS]


@pytest.mark.parametrize(
    ("installer", "fault"), CASES, ids=[f"{name} of {case_id('index', fault)}" for name, fault in CASES]
)
def test_an_install_from_a_faulty_index_succeeds_or_changes_nothing(
    sandbox: Sandbox, installer: str, fault: str, record_property: Callable[[str, object], None]
) -> None:
    target = sandbox.target("target", "cupy-cuda11x==13.6.0", pip=installer == "pip")
    host, _, port = sandbox.index.address.partition("/")[0].partition(":")
    stopped = Stopped()

    def answer(request: bytes) -> bytes:
        content = forward((host, int(port)), request)
        # Other digests in an answer of the same length.
        return content.replace(b"sha256=", b"sha256=0000")[: len(content)] if fault == "lying" else content

    server_fault = "healthy" if fault == "lying" else fault
    with serving(
        faulty_answers(server_fault if server_fault != "absent" else "hung", stopped, answer), stopped
    ) as address:
        url = "http://127.0.0.1:9/simple" if fault == "absent" else f"http://{address}/simple"
        variables = {"UV_DEFAULT_INDEX": url, "PIP_INDEX_URL": url}
        options = ("--installer", installer, *(PATIENCE if fault == "slow" else ()))
        code = install_and_check(
            sandbox, target, record_property, "index", f"{fault}, by {installer}", *options, **variables
        )
    assert code == EXIT_CODES.get((installer, fault), 4)
