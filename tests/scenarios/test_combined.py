"""Several faults at once are told apart: what comes first, what stands on its own, and nothing is lost or made up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.combined import COMBINED, Combined
from tests.scenarios.ground import Workshop, show

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries


@pytest.mark.long
@pytest.mark.parametrize("combined", COMBINED, ids=str)
def test_several_faults_are_told_apart(
    combined: Combined, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> None:
    cause = combined.scenario.cause
    said = show(combined.scenario, Workshop(stub_driver, cuda_libraries), tmp_path)
    findings = said.report["findings"]
    told = json.dumps(findings, indent=1)
    primary = next((finding for finding in findings if finding["primary"]), None)
    assert (primary and primary["cause"], said.exit_code) == ((cause, 1) if cause else (None, 0)), told
    others = [finding for finding in findings if not finding["primary"]]
    assert {finding["cause"] for finding in others if not finding["follows_from"]} == {*combined.alone}, told
    assert {finding["cause"] for finding in others if finding["follows_from"]} == {*combined.following}, told
    cures = [f"{fix['text']} {' '.join(fix['command'] or ())}" for finding in findings for fix in finding["fix"]]
    assert combined.first in cures[0]
    assert [cure for cure in cures if any(words in cure for words in combined.unsaid)] == []
