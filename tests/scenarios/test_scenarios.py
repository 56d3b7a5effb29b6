"""Every cause that a machine, an environment or a container can have has at least two scenarios."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.doctor.checks import all_checks
from gpuenv.model.causes import Cause
from gpuenv.simulate.profile import ContainerEngine, load
from tests.scenarios.expected_checks import MACHINE_OF_CHECK, expected_checks
from tests.scenarios.real_packages import REAL_PACKAGES
from tests.scenarios.scenario import MACHINES, BuildContext, Scenario, run_scenario
from tests.scenarios.scenarios import SCENARIOS
from tests.unseen.test_unseen import MACHINES as UNSEEN

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries

DOCTOR_TESTS = sorted((Path(__file__).parents[1] / "doctor").glob("*.py"))
PROFILES = tuple(load(path) for path in sorted(MACHINES.glob("*.yaml")))
# Causes that no file, library or driver reveals, and where they appear.
IN_TEXTS = {
    "build-arch-list-unsupported": "the output of a build",
    "fabric-manager-not-needed": "the log of a service; harmless",
    "visible-devices-set-too-late": "a program that sets the variable after its first call",
    "invalid-device-ordinal": "a program's own number",
    "cupy-sdist-build-failure": "the output of pip",
    "optional-library-probe-misread": "a warning that was misread",
}
ON_WINDOWS = {"windows-dll-load-failure"}  # profiles simulate no Windows; see tests/doctor/public_report_lines.py
OF_PROGRAMS = {
    *("out-of-memory", "memory-pool-retention", "async-error-surfaced-late", "illegal-memory-access"),
    *("invalid-kernel-launch", "stream-race", "implicit-host-device-conversion", "cross-device-array"),
    *("dtype-mismatch", "numpy-semantics-difference", "fork-after-cuda-init", "library-not-initialized"),
    *("cufft-plan-failure", "cupy-bug"),
}
OF_SMOKE_TESTS = {"gpu-test-failed"}  # found by smoke tests on a GPU
OF_IMAGES = {"image-requires-other-driver", "dockerfile-fault"}  # gpuenv check-image


def machines_by_cause() -> Counter[str]:
    """The number of machines with each cause."""
    by_machines = (cause for profile in PROFILES for cause in set(profile.expect.causes))
    return Counter([*by_machines, *(scenario.cause for scenario in (*SCENARIOS, *REAL_PACKAGES))])


def test_every_cause_of_a_machine_has_two_scenarios() -> None:
    uncovered = {*IN_TEXTS, *ON_WINDOWS, *OF_PROGRAMS, *OF_SMOKE_TESTS, *OF_IMAGES}
    counts = machines_by_cause()
    assert {
        cause.value: counts[cause.value] for cause in Cause if cause.value not in uncovered and counts[cause] < 2
    } == {}
    assert uncovered <= {cause.value for cause in Cause}
    assert {cause for cause in uncovered if counts[cause]} == set(), "a cause with a scenario is not an exception"


def test_every_cause_of_a_machine_has_a_check() -> None:
    """Checks of smoke tests also name causes of programs."""
    named = {cause.value for check in all_checks() if not check.code.startswith("SMK") for cause in check.causes}
    uncovered = {*IN_TEXTS, *OF_PROGRAMS, *OF_SMOKE_TESTS, *OF_IMAGES}
    assert {cause.value for cause in Cause} - named - uncovered == set()
    assert named & uncovered == set()


def test_every_check_is_covered_by_a_machine_or_a_doctor_test() -> None:
    """A check is covered by its code, or by a cause that no other check has."""
    by_code = "".join(path.read_text(encoding="utf-8") for path in DOCTOR_TESTS if path.name != "test_registry.py")
    checks = all_checks()
    names = Counter(cause for check in checks for cause in check.causes)
    counts = machines_by_cause()
    not_covered = [
        check.code
        for check in checks
        if check.code not in MACHINE_OF_CHECK
        and f'"{check.code}"' not in by_code
        and not any(names[cause] == 1 and counts[cause.value] for cause in check.causes)
    ]
    assert not_covered == []
    machines = {*(profile.name for profile in PROFILES), *map(str, SCENARIOS), *(str(entry) for entry in UNSEEN)}
    assert {code: name for code, name in MACHINE_OF_CHECK.items() if name not in machines} == {}
    assert set(MACHINE_OF_CHECK) <= {check.code for check in checks}


def test_the_healthy_profiles_cover_every_kind_of_machine() -> None:
    """tests/test_machines.py verifies that no check reports them."""
    healthy = [profile for profile in PROFILES if not profile.expect.causes]
    generations = {gpu.capability for profile in healthy for gpu in profile.gpus}
    assert {"3.7", "6.0", "6.1", "7.0", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "11.0", "12.0"} <= generations
    assert sum(profile.host.container is not ContainerEngine.NONE for profile in healthy) >= 5
    assert any("WSL" in (profile.host.kernel or "") for profile in healthy)
    assert any(gpu.mig for profile in healthy for gpu in profile.gpus)
    assert any(len({gpu.capability for gpu in profile.gpus}) > 1 for profile in healthy)
    assert len(healthy) >= 10


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_the_doctor_names_the_cause_of_a_scenario(
    scenario: Scenario, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> None:
    if scenario.needs_root and os.geteuid() != 0:
        pytest.skip("only root can change the owner of a file")
    run = run_scenario(scenario, BuildContext(stub_driver, cuda_libraries), tmp_path)
    findings = run.report["findings"]
    details = json.dumps(findings, indent=1)
    assert scenario.cause in {finding["cause"] for finding in findings}, details
    assert expected_checks(str(scenario)) <= {finding["code"] for finding in findings}, details
    assert [check for check in run.report["checks"] if check["status"] == "crashed"] == []
    primary = next((finding["cause"] for finding in findings if finding["primary"]), None)
    assert (primary, run.exit_code) == ((scenario.cause, 1) if scenario.error else (None, 0)), details
