"""Held-out machines: the primary cause, its fix, and no false findings."""

from __future__ import annotations

import itertools
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.scenarios.expected_checks import expected_checks
from tests.scenarios.scenario import BuildContext, run_scenario
from tests.unseen.bound_gpus import BOUND_GPUS
from tests.unseen.combinations import COMBINATIONS
from tests.unseen.drivers import DRIVERS
from tests.unseen.environments import ENVIRONMENTS
from tests.unseen.foreign_packages import FOREIGN_PACKAGES
from tests.unseen.harmless_facts import HARMLESS_FACTS
from tests.unseen.healthy_containers import HEALTHY_CONTAINERS
from tests.unseen.healthy_machines import HEALTHY_MACHINES
from tests.unseen.kernels import KERNELS
from tests.unseen.misleading_facts import MISLEADING_FACTS
from tests.unseen.missing_drivers import MISSING_DRIVERS
from tests.unseen.other_systems import OTHER_SYSTEMS
from tests.unseen.restrictions import RESTRICTIONS
from tests.unseen.unbuilt_modules import UNBUILT_MODULES
from tests.unseen.variations import VARIATIONS
from tests.unseen.wheels import WHEELS

if TYPE_CHECKING:
    from pathlib import Path

    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries
    from tests.unseen.machine_table import UnseenMachine

MACHINES = (
    *DRIVERS,
    *KERNELS,
    *ENVIRONMENTS,
    *HEALTHY_MACHINES,
    *FOREIGN_PACKAGES,
    *WHEELS,
    *HARMLESS_FACTS,
    *HEALTHY_CONTAINERS,
    *MISSING_DRIVERS,
    *UNBUILT_MODULES,
    *MISLEADING_FACTS,
    *VARIATIONS,
    *BOUND_GPUS,
    *OTHER_SYSTEMS,
    *RESTRICTIONS,
    *COMBINATIONS,
)


@pytest.mark.long
@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_the_doctor_reports_the_expected_cause_and_fix(
    machine: UnseenMachine, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> None:
    scenario = machine.scenario
    if scenario.needs_root and os.geteuid() != 0:
        pytest.skip("only root can change the owner of a file")
    result = run_scenario(scenario, BuildContext(stub_driver, cuda_libraries), tmp_path)
    findings = result.report["findings"]
    details = json.dumps(findings, indent=1)
    assert expected_checks(str(machine)) <= {finding["code"] for finding in findings}, details
    assert [run for run in result.report["checks"] if run["status"] == "crashed"] == []
    primary = next((finding["cause"] for finding in findings if finding["primary"]), None)
    assert (primary, result.exit_code) == ((scenario.cause, 1) if scenario.error else (None, 0)), details
    independent = {finding["cause"] for finding in findings if not finding["follows_from"]}
    assert independent == {*machine.independent, *([scenario.cause] if scenario.cause else [])}, details
    fixes = fix_texts(findings)
    assert machine.first_fix in " ".join(first_way(findings)), details
    assert [fix_text for fix_text in fixes if any(words in fix_text for words in machine.excluded)] == [], details
    fixes_of_cause = fix_texts([finding for finding in findings if finding["cause"] == scenario.cause])
    assert [words for words in machine.included if words not in " ".join(fixes_of_cause)] == [], details


def fix_texts(findings: Any) -> list[str]:  # noqa: ANN401 - JSON
    return [
        f"{fix['text']} {fix['shell_line'] or ' '.join(fix['command'] or ())}"
        for finding in findings
        for fix in finding["fix"]
    ]


def first_way(findings: Any) -> list[str]:  # noqa: ANN401 - JSON
    """The steps of the first finding up to the first alternative, without gpuenv's own command."""
    by_hand = [text for text in fix_texts(findings[:1]) if not text.endswith((" --fix", " gpuenv install"))]
    return list(itertools.takewhile(lambda text: text is by_hand[0] or not text.startswith("Or "), by_hand))
