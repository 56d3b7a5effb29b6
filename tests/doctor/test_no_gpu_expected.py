"""Findings about a missing GPU with and without the option that makes them notes."""

from __future__ import annotations

import pytest

from gpuenv.doctor.diagnose import DEFAULT_OPTIONS, DiagnosisOptions
from gpuenv.model.finding import Finding, Severity, Suppression
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Driver, Host, Module, PciGpu, Snapshot, Source, SourceState
from tests.support.diagnosis import diagnosis_of

ABSENT = tuple(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda"))
HOST = Snapshot(
    host=Host(os=known("linux", "uname")),
    driver=Driver(module=known(Module.NOT_INSTALLED, "/proc/modules")),
    sources=(Source("kernel", SourceState.ANSWERED), *ABSENT),
)
EMPTY_BUS = Snapshot(host=HOST.host, driver=HOST.driver, sources=HOST.sources, pci_gpus=())
PASSED_THROUGH = Snapshot(
    host=HOST.host,
    driver=HOST.driver,
    sources=HOST.sources,
    pci_gpus=(PciGpu("0000:01:00.0", "10de", "2684", "AD102", "vfio-pci"),),
)
MACOS = Snapshot(host=Host(os=known("darwin", "uname")))
MACHINES = {"GPU201": EMPTY_BUS, "DRV106": PASSED_THROUGH, "GPU201 on macOS": MACOS}
OPTION = "--expect-no-gpu"


def finding_of(machine: str, options: DiagnosisOptions) -> Finding:
    snapshot = MACHINES[machine]
    findings = diagnosis_of(snapshot, options).findings
    return next(finding for finding in findings if finding.code == machine.split(maxsplit=1)[0])


def allowing(machine: str) -> DiagnosisOptions:
    entry = Suppression(
        machine.split(maxsplit=1)[0], "a laptop without one", "2999-01-01", "gpuenv.toml", "gpuenv.toml", 1
    )
    return DiagnosisOptions(suppressions=(entry,), day="2026-11-22")


@pytest.mark.parametrize("machine", MACHINES)
def test_an_error_names_the_option_and_its_commands(machine: str) -> None:
    finding = finding_of(machine, DEFAULT_OPTIONS)
    assert finding.severity is Severity.ERROR
    (result,) = [fix.text for fix in finding.fix if OPTION in fix.text]
    assert "doctor and preflight" in result


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("how", ["expected", "allowed"])
def test_a_note_does_not_suggest_the_option_again(machine: str, how: str) -> None:
    finding = finding_of(machine, DiagnosisOptions(no_gpu=True) if how == "expected" else allowing(machine))
    assert finding.severity is Severity.NOTE
    assert [fix.text for fix in finding.fix if OPTION in fix.text] == []
    assert finding.fix
