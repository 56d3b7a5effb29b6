"""Every profile of ``machines`` and every set of requirements: all formats agree."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.matrix.assume import assume
from gpuenv.probe.request import DEFAULT_TIMEOUT, ProbeRequest
from gpuenv.probe.session import take_snapshot
from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import Profile, load
from tests.report.table import REQUIRED, assert_formats_agree, resolve_machine, run_preflight
from tests.support.matrix import MATRIX

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

PROFILES = tuple(load(path) for path in sorted((Path(__file__).parents[1] / "machines").glob("*.yaml")))
TAKEN = "2026-11-21T12:00:00+00:00"


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_all_formats_agree_for_every_profile(
    profile: Profile, tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries, targets: Targets
) -> None:
    simulated = materialise(profile, tmp_path, stub_driver, cuda_libraries.of)
    resolved = resolve_machine(_snapshot(profile, dict(simulated.environment), targets))
    codes = {}
    for name in REQUIRED:
        parsed = run_preflight(resolved, name, tmp_path)
        assert_formats_agree(parsed)
        codes[name] = parsed.code
    assert codes["none"] == profile.expect.exit_code
    elsewhere = run_preflight(resolved, "usual", tmp_path, retry=True)
    assert_formats_agree(elsewhere)
    assert elsewhere.code in (codes["usual"], 75)
    assert bool(elsewhere.report["retry_elsewhere"]) == (elsewhere.code == 75)


def _snapshot(profile: Profile, environment: dict[str, str], targets: Targets) -> Snapshot:
    """The snapshot of the machine, independent of the Python that runs the tests."""
    request = ProbeRequest(
        environment=environment,
        python=str(targets.interpreter(profile.target)),
        root=environment["GPUENV_DRIVER_ROOT"],
        timeout=profile.timeout or DEFAULT_TIMEOUT,
        taken_at=TAKEN,
    )
    return assume(take_snapshot(request), ("python=3.12",), MATRIX)
