"""Machines that no check was written for: the cause to cure first, its cure, and nothing that is not true."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.checks import shown_by
from tests.scenarios.ground import Workshop, show
from tests.unseen.again import AGAIN
from tests.unseen.astray import ASTRAY
from tests.unseen.confined import CONFINED
from tests.unseen.content import CONTENT
from tests.unseen.drivers import DRIVERS
from tests.unseen.elsewhere import ELSEWHERE
from tests.unseen.environments import ENVIRONMENTS
from tests.unseen.further import FURTHER
from tests.unseen.healthy import HEALTHY
from tests.unseen.kept import KEPT
from tests.unseen.kernels import KERNELS
from tests.unseen.quiet import QUIET
from tests.unseen.unbooted import UNBOOTED
from tests.unseen.unbuilt import UNBUILT
from tests.unseen.wheels import WHEELS

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries
    from tests.unseen.table import Unseen

MACHINES = (
    *DRIVERS,
    *KERNELS,
    *ENVIRONMENTS,
    *HEALTHY,
    *FURTHER,
    *WHEELS,
    *QUIET,
    *CONTENT,
    *UNBOOTED,
    *UNBUILT,
    *ASTRAY,
    *AGAIN,
    *KEPT,
    *ELSEWHERE,
    *CONFINED,
)


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_one_true_cause(
    machine: Unseen, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> None:
    scenario = machine.scenario
    if scenario.root and os.geteuid() != 0:
        pytest.skip("only root can give a file to somebody else")
    shown = show(scenario, Workshop(stub_driver, cuda_libraries), tmp_path)
    findings = shown.report["findings"]
    told = json.dumps(findings, indent=1)
    assert shown_by(str(machine)) <= {finding["code"] for finding in findings}, told
    assert [run for run in shown.report["checks"] if run["status"] == "crashed"] == []
    primary = next((finding["cause"] for finding in findings if finding["primary"]), None)
    assert (primary, shown.exit_code) == ((scenario.cause, 1) if scenario.error else (None, 0)), told
    standing = {finding["cause"] for finding in findings if not finding["follows_from"]}
    assert standing == {*machine.alone, *([scenario.cause] if scenario.cause else [])}, told
    cures = cures_of(findings)
    assert machine.first in " ".join(cures[:2]), told
    assert [cure for cure in cures if any(words in cure for words in machine.unsaid)] == [], told
    of_the_cause = cures_of([finding for finding in findings if finding["cause"] == scenario.cause])
    assert [words for words in machine.named if words not in " ".join(of_the_cause)] == [], told


def cures_of(findings: Any) -> list[str]:  # noqa: ANN401 - JSON
    return [f"{fix['text']} {' '.join(fix['command'] or ())}" for finding in findings for fix in finding["fix"]]
