"""A package index spoilt in each way: an install succeeds all the same, or changes nothing and says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.cells import cell
from tests.faults.servers import Ended, serving, sound, spoilt
from tests.faults.test_installers import tried
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
        "empty: says nothing",
        "empty: nothing is there",
        "empty: an empty page",
        "rubbish",
        "rubbish: as a page",
    ),
    *("huge", "slow", "hung", "hung: in the middle", "dying", "lying"),
)
# Exit codes other than 4. An index that answers and has no such release is told apart from one that does not answer;
# of a page that ends in the middle pip reads what came, and uv is content with a page without links.
ENDS = {
    **{(installer, "slow"): 0 for installer in ("uv", "pip")},
    **{("uv", fault): 3 for fault in ("unreadable", "empty: nothing is there", "empty: an empty page")},
    ("uv", "rubbish: as a page"): 3,
    ("pip", "dying"): 3,
}
PATIENCE = ("--install-timeout", "100")  # so that slowness alone decides nothing
EVERY = [(installer, fault) for installer in ("uv", "pip") for fault in FAULTS]


@pytest.mark.parametrize(("installer", "fault"), EVERY, ids=[f"{by} of {cell('index', fault)}" for by, fault in EVERY])
def test_an_index(sandbox: Sandbox, installer: str, fault: str, record_property: Callable[[str, object], None]) -> None:
    target = sandbox.target("target", "cupy-cuda11x==13.6.0", pip=installer == "pip")
    host, _, port = sandbox.index.address.partition("/")[0].partition(":")
    ended = Ended()

    def answer(request: bytes) -> bytes:
        told = sound((host, int(port)), request)
        # Of another wheel: as long, and with the digits of another.
        return told.replace(b"sha256=", b"sha256=0000")[: len(told)] if fault == "lying" else told

    how = "sound" if fault == "lying" else fault
    with serving(spoilt(how if how != "absent" else "hung", ended, answer), ended) as address:
        place = "http://127.0.0.1:9/simple" if fault == "absent" else f"http://{address}/simple"
        variables = {"UV_DEFAULT_INDEX": place, "PIP_INDEX_URL": place}
        words = ("--installer", installer, *(PATIENCE if fault == "slow" else ()))
        code = tried(sandbox, target, record_property, "index", f"{fault}, by {installer}", *words, **variables)
    assert code == ENDS.get((installer, fault), 4)
