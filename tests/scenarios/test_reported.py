"""Machines of public reports are told as their threads have settled them: the cause, and the cure that helped."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from tests.scenarios.ground import Workshop, show
from tests.scenarios.reported_container import CONTAINER
from tests.scenarios.reported_driver import DRIVER
from tests.scenarios.reported_gpu import GPU
from tests.scenarios.reported_target import TARGET

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.scenarios.reported import Reported
    from tests.support.target import CudaLibraries

FIRST = 3  # a removal may stand before what comes in its place, and a look at the log before that


@pytest.mark.long
@pytest.mark.parametrize("reported", [*DRIVER, *CONTAINER, *GPU, *TARGET], ids=str)
def test_the_cause_and_the_cure_are_those_of_the_report(
    reported: Reported, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> None:
    scenario = reported.scenario
    if scenario.root and os.geteuid() != 0:
        pytest.skip("only root can give a file to somebody else")
    said = show(scenario, Workshop(stub_driver, cuda_libraries), tmp_path)
    findings = said.report["findings"]
    told = json.dumps(findings, indent=1)
    assert [run for run in said.report["checks"] if run["status"] == "crashed"] == []
    primary = [finding for finding in findings if finding["primary"]]
    found = primary if scenario.error else [finding for finding in findings if finding["severity"] != "error"]
    named = [finding for finding in found if finding["cause"] == scenario.cause]
    assert named, told
    assert bool(primary) is scenario.error, told
    cures = " ".join(f"{fix['text']} {' '.join(fix['command'] or ())}" for fix in named[0]["fix"][:FIRST])
    assert reported.cure.lower() in cures.lower(), told
