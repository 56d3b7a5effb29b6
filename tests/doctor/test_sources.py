"""Sources that hang, refuse or disagree."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Severity
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import known
from gpuenv.model.resolution import CandidateKind, ConstraintName
from gpuenv.model.snapshot import KernelMessage, Module, PciGpu, Snapshot, Source, SourceState
from tests.doctor.kernel_hosts import findings, working
from tests.doctor.test_driver_support import ADA, PCI, driver_findings, machine, with_second_gpu
from tests.support.matrix import MATRIX


def with_failing_nvml(smi: SourceState) -> Snapshot:
    """A machine on which NVML fails to start."""
    snapshot = working()
    states = {"kernel": SourceState.ANSWERED, "nvml": SourceState.FAILED, "libcuda": SourceState.ANSWERED}
    return snapshot._replace(
        driver=snapshot.driver._replace(nvml_init=known(int(Nvml.UNKNOWN), "nvml")),
        sources=tuple(Source(name, state) for name, state in {**states, "nvidia-smi": smi}.items()),
    )


@pytest.mark.parametrize("smi", [SourceState.FAILED, SourceState.TIMED_OUT, SourceState.ABSENT])
def test_a_failing_nvml_is_reported_unless_nvidia_smi_works(smi: SourceState) -> None:
    assert [finding.code for finding in findings(with_failing_nvml(smi))] == ["DRV103"]


def test_a_failing_nvml_is_not_reported_if_nvidia_smi_works() -> None:
    assert findings(with_failing_nvml(SourceState.ANSWERED)) == []


LOST = "NVRM: fallen off the bus and is not responding to commands."
ASLEEP = "nvidia 0000:01:00.0: Unable to change power state from D3cold to D0, device inaccessible"


@pytest.mark.parametrize("line", [LOST, ASLEEP])
def test_an_unresponsive_gpu_is_a_hardware_fault_without_a_module(line: str) -> None:
    snapshot = machine(ADA, "open", line)
    unloaded = snapshot.driver._replace(module=known(Module.NOT_LOADED, "/lib/modules"), nvml_init=known(9, "nvml"))
    for one in (snapshot, snapshot._replace(driver=unloaded)):
        (finding,) = driver_findings(one)
        assert (finding.code, finding.cause) == ("DRV122", Cause.GPU_HARDWARE_FAULT)
        assert not any("modprobe" in (fix.command or ()) for fix in finding.fix)


def test_a_fault_is_not_reported_twice() -> None:
    message_of_a_bridge = "pcieport 0000:00:01.0: Unable to change power state from D3cold to D0, device inaccessible"
    assert "DRV122" not in {finding.code for finding in driver_findings(machine(ADA, "open", message_of_a_bridge))}
    snapshot = machine(ADA, "open", LOST)
    event = KernelMessage("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.", 79, PCI)
    result = snapshot._replace(kernel_log=known((*(snapshot.kernel_log.value or ()), event), "/dev/kmsg"))
    assert {finding.code for finding in driver_findings(result)} == {"GPU209"}


def test_a_gpu_that_responds_again_is_healthy() -> None:
    snapshot = with_second_gpu(ASLEEP, 0)
    second_gpu = snapshot.gpus[0]._replace(index=known(1, "nvml"), pci=known(PCI, "nvml"))
    recovered = snapshot._replace(gpus=(*snapshot.gpus, second_gpu), gpu_count=known(2, "nvml"))
    assert driver_findings(recovered._replace(visible_count=known(2, "libcuda"))) == []


@pytest.mark.parametrize(
    ("branch", "cause", "fix_text"),
    [
        (390, Cause.GPU_TOO_OLD_FOR_ANY_DRIVER, "Use another GPU"),
        (470, Cause.GPU_REMOVED_FROM_DRIVER, "branch 470"),
        (580, Cause.GPU_REMOVED_FROM_DRIVER, "branch 580"),
    ],
)
def test_an_unlisted_gpu_is_judged_by_the_branch_in_the_kernel_log(branch: int, cause: Cause, fix_text: str) -> None:
    line = f"NVRM:  supported through the NVIDIA {branch}.xx Legacy drivers. Please"
    (finding,) = driver_findings(machine("0861", "proprietary", line, driver="595.58.03"))
    assert (finding.code, finding.cause) == ("GPU204", cause)
    assert fix_text in finding.fix[0].text
    assert line in {entry.value for entry in finding.evidence}
    with_working_gpu = with_second_gpu(line, 0)
    unknown = PciGpu(PCI, "10de", "0861", None, None)
    ignored = with_working_gpu._replace(
        pci_gpus=(unknown, *(with_working_gpu.pci_gpus or ())[1:]), visible_count=known(1, "libcuda")
    )
    assert driver_findings(ignored) == [], "an old display card does not matter"


@pytest.mark.parametrize(("device", "name", "last"), [("1080", "GeForce GTX 580", 390), ("0a65", "GeForce 210", 340)])
def test_a_gpu_older_than_any_supported_branch_is_too_old(device: str, name: str, last: int) -> None:
    (finding,) = driver_findings(machine(device, "proprietary", "", driver="595.58.03"))
    assert (finding.code, finding.cause) == ("GPU204", Cause.GPU_TOO_OLD_FOR_ANY_DRIVER)
    assert name in finding.title
    assert f"branch {last} was the last one" in finding.fix[0].text
    with_working_gpu = with_second_gpu("", 0)
    old = PciGpu(PCI, "10de", device, None, None)
    ignored = with_working_gpu._replace(
        pci_gpus=(old, *(with_working_gpu.pci_gpus or ())[1:]), visible_count=known(1, "libcuda")
    )
    assert driver_findings(ignored) == [], "an old display card does not matter"


GPUS = ("Tesla K80", "Tesla M60", "P100", "V100", "T4", "A100", "A10", "RTX 4090", "H100", "B200", "RTX 5090")
DRIVERS = ("450.80.02", "470.256.02", "510.47.03", "525.60.13", "550.54.15", "570.133.20", "580.95.05", "595.45.04")
INSTALLABLE = tuple(f"{line.name}=={release.cupy}" for line in MATRIX.wheel_lines for release in line.releases)
# These constraints concern only the choice of a release: an installed release that is yanked or has an advisory runs.
CHOICE_ONLY = {ConstraintName.NOT_YANKED, ConstraintName.NO_ADVISORY, ConstraintName.AGREES_WITH_PACKAGES}


@settings(max_examples=30, deadline=None)
@given(
    gpus=st.lists(st.sampled_from(GPUS), min_size=1, max_size=2),
    driver=st.sampled_from(DRIVERS),
    cupy=st.sampled_from(INSTALLABLE),
    python=st.sampled_from(("3.9", "3.10", "3.11", "3.13")),
    numpy=st.sampled_from(("1.26.4", "2.2.6")),
    arch=st.sampled_from(("x86_64", "aarch64")),
)
def test_errors_match_the_constraints_that_reject_the_installed_cupy(
    gpus: list[str], driver: str, cupy: str, python: str, numpy: str, arch: str
) -> None:
    host = ["os=linux", f"arch={arch}", "libc=glibc-2.36", f"python={python}", f"driver={driver}", f"numpy={numpy}"]
    snapshot = assume(Snapshot(), [*host, *(f"gpu={gpu}" for gpu in gpus), f"cupy={cupy}"], MATRIX)
    resolution = resolve(snapshot, MATRIX)
    name, _, release = cupy.partition("==")
    rejected = {
        entry.constraint
        for entry in resolution.rejected
        if entry.candidate.kind is CandidateKind.WHEEL
        and (entry.candidate.name, entry.candidate.version, entry.candidate.extra) == (name, release, None)
    }
    findings = diagnose(snapshot, MATRIX, lambda: 0.0, resolution=resolution).findings
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    assert bool(errors) == bool(rejected - CHOICE_ONLY), (rejected, errors)
