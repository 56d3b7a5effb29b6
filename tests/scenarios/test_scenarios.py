"""Every cause that a machine, an environment or a container can show is shown by at least two, built for real."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.doctor.registry import all_checks
from gpuenv.model.causes import Cause
from gpuenv.simulate.profile import ContainerEngine, load
from tests.scenarios.checks import SHOWN_BY, shown_by
from tests.scenarios.ground import MACHINES, Scenario, Workshop, show
from tests.scenarios.known import SCENARIOS
from tests.scenarios.real import REAL
from tests.unseen.test_unseen import MACHINES as UNSEEN

if TYPE_CHECKING:
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries

DOCTOR_TESTS = sorted((Path(__file__).parents[1] / "doctor").glob("*.py"))
PROFILES = tuple(load(path) for path in sorted(MACHINES.glob("*.yaml")))
# What no file, library or answer of a driver shows, and who tells it.
IN_TEXTS = {
    "no-kernel-image": "a binary other than CuPy's: its error text",
    "build-arch-list-unsupported": "the output of a build",
    "fabric-manager-not-needed": "the log of a service; harmless",
    "visible-devices-set-too-late": "a program that sets it after its first call",
    "invalid-device-ordinal": "a program's own number",
    "cupy-sdist-build-failure": "the output of pip",
    "optional-library-probe-misread": "a warning that was misread",
}
ON_WINDOWS = {"windows-dll-load-failure"}  # which no profile is of: tests/doctor/public_report_lines.py shows it
BY_PROGRAMS = {
    *("out-of-memory", "memory-pool-retention", "async-error-surfaced-late", "illegal-memory-access"),
    *("invalid-kernel-launch", "stream-race", "implicit-host-device-conversion", "cross-device-array"),
    *("dtype-mismatch", "numpy-semantics-difference", "fork-after-cuda-init", "library-not-initialized"),
    *("cufft-plan-failure", "cupy-bug"),
}
BY_THE_GPU = {"gpu-test-failed"}  # a smoke test on a GPU; what such a test can name is shown with the smoke tests
OF_IMAGES = {"image-requires-other-driver", "dockerfile-fault"}  # gpuenv check-image


def shown() -> Counter[str]:
    """How many machines show each cause."""
    by_machines = (cause for profile in PROFILES for cause in set(profile.expect.causes))
    return Counter([*by_machines, *(scenario.cause for scenario in (*SCENARIOS, *REAL))])


def test_every_cause_that_can_be_shown_has_two_scenarios() -> None:
    apart = {*IN_TEXTS, *ON_WINDOWS, *BY_PROGRAMS, *BY_THE_GPU, *OF_IMAGES}
    counted = shown()
    assert {
        cause.value: counted[cause.value] for cause in Cause if cause.value not in apart and counted[cause] < 2
    } == {}
    assert apart <= {cause.value for cause in Cause}
    assert {cause for cause in apart if counted[cause]} == set(), "what is shown after all stands apart no longer"


def test_every_cause_that_can_be_shown_has_a_check() -> None:
    """The checks of what smoke tests found name causes of programs too."""
    named = {cause.value for check in all_checks() if not check.code.startswith("SMK") for cause in check.causes}
    apart = {*IN_TEXTS, *BY_PROGRAMS, *BY_THE_GPU, *OF_IMAGES}
    assert {cause.value for cause in Cause} - named - apart == set()
    assert named & apart == set()


def test_every_check_is_shown_by_a_machine_or_by_a_test_of_the_doctor() -> None:
    """By its code, or by a cause that no other check names: one that is never true would harm nobody."""
    by_code = "".join(path.read_text(encoding="utf-8") for path in DOCTOR_TESTS if path.name != "test_registry.py")
    checks = all_checks()
    names = Counter(cause for check in checks for cause in check.causes)
    counted = shown()
    unshown = [
        check.code
        for check in checks
        if check.code not in SHOWN_BY
        and f'"{check.code}"' not in by_code
        and not any(names[cause] == 1 and counted[cause.value] for cause in check.causes)
    ]
    assert unshown == []
    machines = {*(profile.name for profile in PROFILES), *map(str, SCENARIOS), *(str(entry) for entry in UNSEEN)}
    assert {code: name for code, name in SHOWN_BY.items() if name not in machines} == {}
    assert set(SHOWN_BY) <= {check.code for check in checks}


def test_the_healthy_machines_are_of_every_kind() -> None:
    """That every check is silent on them is shown where each machine is examined."""
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
def test_the_doctor_names_the_cause(
    scenario: Scenario, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> None:
    if scenario.root and os.geteuid() != 0:
        pytest.skip("only root can give a file to somebody else")
    said = show(scenario, Workshop(stub_driver, cuda_libraries), tmp_path)
    findings = said.report["findings"]
    told = json.dumps(findings, indent=1)
    assert scenario.cause in {finding["cause"] for finding in findings}, told
    assert shown_by(str(scenario)) <= {finding["code"] for finding in findings}, told
    assert [run for run in said.report["checks"] if run["status"] == "crashed"] == []
    primary = next((finding["cause"] for finding in findings if finding["primary"]), None)
    assert (primary, said.exit_code) == ((scenario.cause, 1) if scenario.error else (None, 0)), told
