"""Machines of public reports get the cause and the fix on which their threads settled."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.public_reports_container import CONTAINER
from tests.scenarios.public_reports_driver import DRIVER
from tests.scenarios.public_reports_gpu import GPU
from tests.scenarios.public_reports_target import TARGET
from tests.scenarios.scenario import BuildContext, run_scenario

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.scenarios.public_reports import ReportedMachine
    from tests.support.target import CudaLibraries

FIRST_FIXES = 3  # a look at the log and a removal may precede the installation


@pytest.mark.long
@pytest.mark.parametrize("reported", [*DRIVER, *CONTAINER, *GPU, *TARGET], ids=str)
def test_the_cause_and_the_fix_are_those_of_the_report(
    reported: ReportedMachine, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> None:
    scenario = reported.scenario
    if scenario.needs_root and os.geteuid() != 0:
        pytest.skip("only root can change the owner of a file")
    run = run_scenario(scenario, BuildContext(stub_driver, cuda_libraries), tmp_path)
    findings = run.report["findings"]
    details = json.dumps(findings, indent=1)
    assert [check for check in run.report["checks"] if check["status"] == "crashed"] == []
    primary = [finding for finding in findings if finding["primary"]]
    candidates = primary if scenario.error else [finding for finding in findings if finding["severity"] != "error"]
    named = [finding for finding in candidates if finding["cause"] == scenario.cause]
    assert named, details
    assert bool(primary) is scenario.error, details
    fixes = " ".join(
        f"{fix['text']} {' '.join(fix['command'] or ())} {fix['shell_line'] or ''}"
        for fix in named[0]["fix"][:FIRST_FIXES]
    )
    assert reported.fix_text.lower() in fixes.lower(), details
