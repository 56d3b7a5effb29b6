"""Every profile of ``machines``, every set of requirements, every form: exit code, and the same facts in each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.probe.request import DEFAULT_TIMEOUT, ProbeRequest
from gpuenv.probe.session import take_snapshot
from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import Profile, load
from tests.report.table import REQUIRED, assert_all_say_the_same, machine, row
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

PROFILES = tuple(load(path) for path in sorted((Path(__file__).parents[1] / "machines").glob("*.yaml")))
TAKEN = "2026-11-21T12:00:00+00:00"


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_all_say_the_same(
    profile: Profile, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets
) -> None:
    simulated = materialise(profile, tmp_path, stub_driver, cuda_libraries.of)
    here = machine(_seen(profile, dict(simulated.environment), targets))
    codes = {}
    for name in REQUIRED:
        found = row(here, name, tmp_path)
        assert_all_say_the_same(found)
        codes[name] = found.code
    assert codes["none"] == profile.expect.exit_code
    elsewhere = row(here, "usual", tmp_path, retry=True)
    assert_all_say_the_same(elsewhere)
    assert elsewhere.code in (codes["usual"], 75)
    assert bool(elsewhere.report["retry_elsewhere"]) == (elsewhere.code == 75)


def _seen(profile: Profile, environment: dict[str, str], targets: Targets) -> Snapshot:
    """What the probe reads of the machine, whatever Python runs the tests."""
    request = ProbeRequest(
        environment=environment,
        python=str(targets.interpreter(profile.target)),
        root=environment["GPUENV_DRIVER_ROOT"],
        timeout=profile.timeout or DEFAULT_TIMEOUT,
        taken_at=TAKEN,
    )
    return assume(take_snapshot(request), ("python=3.12",), MATRIX)
