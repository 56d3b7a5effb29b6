"""Several faults at once: the primary one, independent ones and consequences."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.combined_faults import COMBINED, Combined
from tests.scenarios.scenario import BuildContext, run_scenario

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries


@pytest.mark.long
@pytest.mark.parametrize("combined", COMBINED, ids=str)
def test_several_faults_are_distinguished(
    combined: Combined, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> None:
    cause = combined.scenario.cause
    run = run_scenario(combined.scenario, BuildContext(stub_driver, cuda_libraries), tmp_path)
    findings = run.report["findings"]
    details = json.dumps(findings, indent=1)
    primary = next((finding for finding in findings if finding["primary"]), None)
    assert (primary and primary["cause"], run.exit_code) == ((cause, 1) if cause else (None, 0)), details
    others = [finding for finding in findings if not finding["primary"]]
    assert {finding["cause"] for finding in others if not finding["follows_from"]} == {*combined.independent}, details
    assert {finding["cause"] for finding in others if finding["follows_from"]} == {*combined.consequences}, details
    fixes = [
        f"{fix['text']} {fix['shell_line'] or ' '.join(fix['command'] or ())}"
        for finding in findings
        for fix in finding["fix"]
    ]
    assert combined.first_fix in fixes[0]
    assert [fix for fix in fixes if any(words in fix for words in combined.excluded)] == []
