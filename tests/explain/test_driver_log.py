"""Log lines of a GPU that the driver cannot start yield the same answer alone and from the machine."""

from __future__ import annotations

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.explain.explainer import explanation, verdict_of
from gpuenv.explain.match import scan
from tests.doctor.test_driver_support import ADA, machine
from tests.support.matrix import MATRIX

REGION = "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:"
BAR = "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)"
POWER = "NVRM: GPU 0000:01:00.0: GPU does not have the necessary power cables connected."
FAILED = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x24:0x1c:1435)"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ((REGION,), "DRV121"),
        ((BAR,), "DRV121"),
        ((REGION, BAR, "nvidia: probe of 0000:01:00.0 failed with error -1"), "DRV121"),
        ((POWER,), "DRV120"),
        ((POWER, FAILED), "DRV120"),
        ((FAILED, POWER), "DRV120"),
    ],
)
def test_log_lines_alone_yield_the_cause_and_code_of_the_doctors_finding(lines: tuple[str, ...], code: str) -> None:
    snapshot = machine(ADA, "open", *lines)
    (finding,) = [f for f in diagnose(snapshot, MATRIX, lambda: 0.0).findings if f.primary]
    first = explanation(scan("\n".join(lines).encode())).causes[0]
    assert (finding.code, first.code) == (code, code)
    assert first.cause is finding.cause


def test_on_the_machine_the_fixes_of_the_finding_come_first() -> None:
    snapshot = machine(ADA, "open", POWER)
    diagnosis = diagnose(snapshot, MATRIX, lambda: 0.0)
    (finding,) = [one for one in diagnosis.findings if one.primary]
    first = explanation(scan(POWER.encode()), verdict_of(diagnosis, snapshot)).causes[0]
    assert first.code == "DRV120"
    assert first.fix[: len(finding.fix)] == finding.fix


def test_another_hardware_fault_keeps_its_own_fixes() -> None:
    first = explanation(scan(b"NVRM: GPU 0000:01:00.0: GPU has fallen off the bus.")).causes[0]
    assert first.code not in ("DRV120", "DRV121")
    assert not any("power cable" in fix.text or "4G" in fix.text for fix in first.fix)
