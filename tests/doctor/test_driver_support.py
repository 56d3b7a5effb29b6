"""GPUs that need the other kind of kernel modules, and CUDA failures that the kernel log explains."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.finding import CheckStatus, Finding, Severity
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import (
    Container,
    DeviceNode,
    Driver,
    Fabric,
    Gpu,
    Host,
    KernelMessage,
    Module,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
)
from gpuenv.model.versions import ComputeCapability, DriverVersion
from tests.support.diagnosis import diagnosis_of

PCI = "0000:01:00.0"
BLACKWELL, PASCAL, ADA, HOPPER, UNKNOWN = "2b85", "1b06", "2684", "2342", "3fff"
NEEDS_OPEN = "NVRM: installed in this system requires use of the NVIDIA open kernel modules."
NEEDS_GSP = "NVRM: installed in this system is not supported by open nvidia.ko because it lacks the required GPU"
NOT_SUPPORTED = "NVRM: installed in this system is not supported by the NVIDIA 550.54.14 driver release."
OPEN = "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.133.07  Release Build"
NO_ROOM = "nvidia-uvm: uvm_pmm_gpu.c:3176 devmem_alloc_pagemap[pid:9] request_free_mem_region() err -34"
NO_POWER = "NVRM: GPU 0000:01:00.0: GPU does not have the necessary power cables connected."
NO_BAR = (
    "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\\x0aNVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)"
)
NO_FIRMWARE = "nvidia 0000:01:00.0: Direct firmware load for nvidia/570.133.07/gsp_ga10x.bin failed with error -2"


def machine(
    device: str = ADA, flavor: str | None = "open", *log: str, driver: str = "570.133.07", arch: str = "x86_64"
) -> Snapshot:
    """A machine with a GPU on the bus that its loaded driver does not list."""
    version = DriverVersion.parse(driver)
    return Snapshot(
        host=Host(
            os=known("linux", "uname"),
            arch=known(arch, "uname"),
            container=known(Container.NONE, "marks"),
            distribution=known("ubuntu 24.04", "os-release"),
        ),
        driver=Driver(
            version=known(version, "nvml"),
            branch=known(version.branch, "nvml"),
            module=known(Module.LOADED, "/proc/modules"),
            flavor=known(flavor, "/proc/driver/nvidia/version") if flavor else Reading(),
            nvml_init=known(0, "nvml"),
            cuda_init=known(100, "libcuda"),
        ),
        gpu_count=known(0, "nvml"),
        pci_gpus=(PciGpu(PCI, "10de", device, None, "nvidia"),),
        kernel_log=known(tuple(KernelMessage(line) for line in log), "/dev/kmsg"),
        sources=(Source("kernel", SourceState.ANSWERED), Source("nvml", SourceState.ANSWERED)),
    )


def driver_findings(snapshot: Snapshot) -> list[Finding]:
    findings = diagnosis_of(snapshot).findings
    return [finding for finding in findings if finding.code.startswith(("DRV", "GPU", "CTR"))]


@pytest.mark.parametrize(
    ("snapshot", "cause", "package"),
    [
        (machine(BLACKWELL, "proprietary"), Cause.GPU_TOO_NEW_FOR_DRIVER, "nvidia-driver-570-open"),
        (machine(HOPPER, "proprietary", arch="aarch64"), Cause.GPU_TOO_NEW_FOR_DRIVER, "nvidia-driver-570-open"),
        (machine(ADA, None, NEEDS_OPEN), Cause.GPU_TOO_NEW_FOR_DRIVER, "nvidia-driver-570-open"),
        (machine(PASCAL, "open"), Cause.GPU_REMOVED_FROM_DRIVER, "nvidia-driver-570"),
        (machine(PASCAL, None, OPEN), Cause.GPU_REMOVED_FROM_DRIVER, "nvidia-driver-570"),
        (machine(UNKNOWN, "open", NEEDS_GSP), Cause.GPU_REMOVED_FROM_DRIVER, "nvidia-driver-570"),
    ],
)
def test_a_gpu_that_needs_other_modules_is_reported_with_the_right_package(
    snapshot: Snapshot, cause: Cause, package: str
) -> None:
    (finding,) = driver_findings(snapshot)
    assert (finding.code, finding.cause) == ("GPU204", cause)
    assert "kernel modules cannot drive" in finding.title
    assert finding.fix[0].command == ("sudo", "apt-get", "install", package)


@pytest.mark.parametrize(
    ("distribution", "driver", "command"),
    [
        ("debian 12", "580.105.08", "sudo apt-get install --autoremove --purge nvidia-open"),
        ("debian 13", "570.133.07", "sudo apt-get install --autoremove --purge nvidia-open"),
        ("debian 12", "550.163.01", "sudo apt-get install --autoremove --purge nvidia-open"),
        ("debian 12", "535.261.03", "sudo apt-get install nvidia-open-kernel-dkms"),
        ("debian 13", "550.163.01", "sudo apt-get install nvidia-open-kernel-dkms"),
    ],
)
def test_the_other_modules_come_from_the_repository_that_has_the_driver(
    distribution: str, driver: str, command: str
) -> None:
    """Debian 12 has branch 535 and Debian 13 has 550; a newer one is from NVIDIA's repository."""
    proprietary = machine(HOPPER, "proprietary", driver=driver, arch="aarch64")
    host = proprietary.host._replace(distribution=known(distribution, "os-release"))
    (finding,) = driver_findings(proprietary._replace(host=host))
    assert finding.code == "GPU204"
    assert finding.fix[0].command == tuple(command.split())


@pytest.mark.parametrize(
    ("distribution", "command"),
    [
        ("rhel 8.10", "sudo dnf module switch-to nvidia-driver:open-dkms --allowerasing"),
        ("rocky 9.5", "sudo dnf module switch-to nvidia-driver:open-dkms --allowerasing"),
        ("amzn 2023", "sudo dnf module switch-to nvidia-driver:open-dkms --allowerasing"),
        ("almalinux 10.0", "sudo dnf install --allowerasing nvidia-open"),
        ("opensuse-leap 15.6", "sudo zypper install --details --force-resolution nvidia-open"),
        ("sles 15.6", "sudo zypper install --details --force-resolution nvidia-open"),
        ("arch", "sudo pacman -S nvidia-open"),
    ],
)
def test_the_open_modules_may_replace_packages_that_conflict_with_them(distribution: str, command: str) -> None:
    proprietary = machine(BLACKWELL, "proprietary")
    host = proprietary.host._replace(distribution=known(distribution, "os-release"))
    (finding,) = driver_findings(proprietary._replace(host=host))
    assert finding.code == "GPU204"
    assert finding.fix[0].command == tuple(command.split())


def test_gpus_of_one_model_share_a_finding_that_lists_their_addresses() -> None:
    """A K80 has two GPUs on one card; another model is a separate finding."""
    places = ("0000:05:00.0", "0000:06:00.0")
    kepler = tuple(PciGpu(place, "10de", "102d", None, "nvidia") for place in places)
    both = machine(driver="580.159.04", flavor="proprietary")._replace(pci_gpus=kepler)
    (finding,) = driver_findings(both)
    assert (finding.code, finding.cause) == ("GPU204", Cause.GPU_REMOVED_FROM_DRIVER)
    assert [place for place in places if any(place in (e.fact + e.value) for e in finding.evidence)] == [*places]
    assert len(set(finding.evidence)) == len(finding.evidence)
    with_blackwell = both._replace(pci_gpus=(*kepler, PciGpu("0000:07:00.0", "10de", BLACKWELL, None, "nvidia")))
    assert [entry.code for entry in driver_findings(with_blackwell)] == ["GPU204", "GPU204"]


@pytest.mark.parametrize(
    ("device", "flavor"), [(ADA, "open"), (ADA, "proprietary"), (BLACKWELL, "open"), (PASCAL, "proprietary")]
)
def test_a_gpu_supported_by_the_modules_fails_for_another_reason(device: str, flavor: str) -> None:
    assert [finding.code for finding in driver_findings(machine(device, flavor))] == ["DRV113"]


def test_a_passed_through_gpu_does_not_need_other_modules() -> None:
    snapshot = machine(BLACKWELL, "proprietary")
    passed = snapshot._replace(pci_gpus=(PciGpu(PCI, "10de", BLACKWELL, None, "vfio-pci"),))
    assert [finding.code for finding in driver_findings(passed)] == ["DRV113"]


@pytest.mark.parametrize(
    ("device", "driver", "cause"),
    [
        (UNKNOWN, "580.95.05", Cause.GPU_TOO_NEW_FOR_DRIVER),  # above every known id
        ("2b8a", "550.54.14", Cause.GPU_TOO_NEW_FOR_DRIVER),  # between ids of Blackwell
        ("1006", "550.54.14", Cause.GPU_REMOVED_FROM_DRIVER),  # between ids of Kepler
    ],
)
def test_an_unlisted_gpu_is_judged_by_its_neighboring_ids(device: str, driver: str, cause: Cause) -> None:
    (finding,) = driver_findings(machine(device, "proprietary", NOT_SUPPORTED, driver=driver))
    assert (finding.code, finding.cause) == ("GPU204", cause)


@pytest.mark.parametrize("device", ["", "unknown"])
def test_a_gpu_without_an_id_is_not_judged_by_neighboring_ids(device: str) -> None:
    snapshot = machine(device, "proprietary", NOT_SUPPORTED)
    diagnosis = diagnosis_of(snapshot)
    assert [run.code for run in diagnosis.checks if run.status is CheckStatus.CRASHED] == []
    assert "GPU204" not in {finding.code for finding in diagnosis.findings}


def test_the_fix_names_the_missing_firmware_package() -> None:
    (finding,) = driver_findings(machine(ADA, "open", NO_FIRMWARE))
    assert (finding.code, finding.cause) == ("DRV119", Cause.DRIVER_INSTALL_BROKEN)
    assert finding.fix[-1].command == ("sudo", "modprobe", "nvidia"), "the unloaded module is loaded again"
    assert finding.fix[0].command == ("sudo", "apt-get", "install", "nvidia-firmware-570-570.133.07")


def test_an_unexplained_failure_lists_the_driver_messages() -> None:
    line = "NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x22:0x56:884)"
    (finding,) = driver_findings(machine(ADA, "open", OPEN, line))
    assert finding.code == "DRV113"
    assert [entry.value for entry in finding.evidence if entry.fact == "kernel_log"] == [line]


def gpu_without_cuda(name: str, fabric: str | None, code: int, *log: str) -> Snapshot:
    """A machine with a GPU that NVML lists and CUDA does not start."""
    state: Reading[str] = known(fabric, "nvml") if fabric else Reading()
    gpu = Gpu(index=known(0, "nvml"), pci=known(PCI, "nvml"), name=known(name, "nvml"), fabric=Fabric(state=state))
    snapshot = machine(ADA, "open", *log)
    driver = snapshot.driver._replace(
        cuda_init=known(code, "libcuda"),
        device_nodes=tuple(DeviceNode(f"/dev/{n}", True, "", "") for n in ("nvidia0", "nvidiactl", "nvidia-uvm")),
    )
    return snapshot._replace(driver=driver, gpus=(gpu,), gpu_count=known(1, "nvml"))


@pytest.mark.parametrize(
    ("name", "fabric", "code"),
    [
        ("NVIDIA H100 80GB HBM3", None, "DRV110"),
        ("NVIDIA H100 80GB HBM3", "in-progress", "DRV110"),
        ("NVIDIA H100 80GB HBM3", "not-supported", "DRV113"),
        ("NVIDIA H100 PCIe", None, "DRV113"),
        ("NVIDIA A100-PCIE-40GB", None, "DRV113"),
        ("NVIDIA H100 NVL", None, "DRV113"),
        ("NVIDIA GeForce RTX 4090", None, "DRV113"),
    ],
)
def test_only_gpus_with_an_nvswitch_need_the_fabric_manager(name: str, fabric: str | None, code: str) -> None:
    (finding,) = driver_findings(gpu_without_cuda(name, fabric, 802))
    assert finding.code == code
    accepting = [fix for fix in finding.fix if fix.command and "conf-compute" in fix.command]
    assert len(accepting) == (fabric is None or code == "DRV113")


@pytest.mark.parametrize("code", [3, 802, 999])
def test_a_kernel_without_an_address_range_for_the_gpu_is_reported(code: int) -> None:
    (finding,) = driver_findings(gpu_without_cuda("NVIDIA H100 80GB HBM3", None, code, NO_ROOM))
    assert (finding.code, finding.cause) == ("DRV118", Cause.DRIVER_KERNEL_INCOMPATIBLE)
    assert driver_findings(gpu_without_cuda("NVIDIA H100 80GB HBM3", None, 0, NO_ROOM)) == []


@pytest.mark.parametrize(
    ("line", "code", "cause", "fix_text"),
    [
        (NO_POWER, "DRV120", Cause.GPU_HARDWARE_FAULT, "power cable"),
        (NO_BAR, "DRV121", Cause.GPU_HARDWARE_FAULT, "Above 4G Decoding"),
    ],
)
def test_a_gpu_that_fails_to_start_is_recognized_by_its_log_message(
    line: str, code: str, cause: Cause, fix_text: str
) -> None:
    snapshot = machine(ADA, "open", line)
    (finding,) = driver_findings(snapshot)
    assert (finding.code, finding.cause, finding.severity) == (code, cause, Severity.ERROR)
    assert fix_text in finding.fix[0].text
    unloaded = snapshot.driver._replace(module=known(Module.NOT_LOADED, "/lib/modules"), nvml_init=known(9, "nvml"))
    assert [entry.code for entry in driver_findings(snapshot._replace(driver=unloaded))] == [code]
    working_gpu = Gpu(index=known(0, "nvml"), pci=known("0000:02:00.0", "nvml"), ordinal=known(0, "libcuda"))
    with_working_gpu = snapshot._replace(
        driver=snapshot.driver._replace(cuda_init=known(0, "libcuda")),
        gpus=(working_gpu,),
        gpu_count=known(1, "nvml"),
        visible_count=known(1, "libcuda"),
        pci_gpus=(*(snapshot.pci_gpus or ()), PciGpu("0000:02:00.0", "10de", ADA, None, "nvidia")),
    )
    assert [(entry.code, entry.severity) for entry in driver_findings(with_working_gpu)] == [(code, Severity.WARNING)]
    started = with_working_gpu._replace(
        gpus=(working_gpu, working_gpu._replace(index=known(1, "nvml"), pci=known(PCI, "nvml")))
    )
    assert driver_findings(started) == [], "messages from before the start do not count"


def with_second_gpu(line: str, cuda: int) -> Snapshot:
    snapshot = machine(ADA, "open", line)
    listed_gpu = Gpu(index=known(0, "nvml"), pci=known("0000:02:00.0", "nvml"), name=known("NVIDIA L4", "nvml"))
    nodes = tuple(DeviceNode(f"/dev/{name}", True, "", "") for name in ("nvidia0", "nvidiactl", "nvidia-uvm"))
    return snapshot._replace(
        driver=snapshot.driver._replace(cuda_init=known(cuda, "libcuda"), device_nodes=nodes),
        gpus=(listed_gpu,),
        gpu_count=known(1, "nvml"),
        pci_gpus=(*(snapshot.pci_gpus or ()), PciGpu("0000:02:00.0", "10de", ADA, None, "nvidia")),
    )


@pytest.mark.parametrize(("line", "code"), [(NO_POWER, "DRV120"), (NO_BAR, "DRV121")])
@pytest.mark.parametrize("cuda", [100, 101, 999])
def test_one_failing_gpu_is_the_cause_if_cuda_finds_none(line: str, code: str, cuda: int) -> None:
    (finding,) = driver_findings(with_second_gpu(line, cuda))
    assert (finding.code, finding.severity, finding.primary) == (code, Severity.ERROR, True)


def test_specific_causes_come_before_a_general_cuda_failure() -> None:
    suspended = with_second_gpu(NO_POWER, 999)
    suspended = suspended._replace(host=suspended.host._replace(suspends=known(1, "/sys/power")))
    assert [finding.code for finding in driver_findings(suspended)] == ["DRV117", "DRV120"]
    busy = with_second_gpu(NO_POWER, 2)
    assert [finding.code for finding in driver_findings(busy)] == ["DRV113", "DRV120"]
    split = with_second_gpu(NO_POWER, 100)
    split = split._replace(gpus=tuple(gpu._replace(mig=known(True, "nvml")) for gpu in split.gpus))
    (first, *_) = driver_findings(split)
    assert first.cause is Cause.MIG_MISCONFIGURED


def test_nvidia_uvm_is_not_suggested_for_gpus_that_nvml_does_not_list() -> None:
    (finding,) = driver_findings(machine(ADA, "open"))
    assert [fix.command for fix in finding.fix if fix.command] == [("sudo", "reboot")]
    assert "RmInitAdapter" in finding.fix[0].text


def test_modules_that_would_disable_a_working_gpu_are_not_advised() -> None:
    snapshot = machine(BLACKWELL, "proprietary", driver="580.95.05")
    pascal = Gpu(
        index=known(0, "nvml"),
        pci=known("0000:02:00.0", "nvml"),
        ordinal=known(0, "libcuda"),
        compute_capability=known(ComputeCapability(6, 1), "nvml"),
    )
    both = snapshot._replace(
        driver=snapshot.driver._replace(cuda_init=known(0, "libcuda")),
        gpus=(pascal,),
        gpu_count=known(1, "nvml"),
        visible_count=known(1, "libcuda"),
        pci_gpus=(*(snapshot.pci_gpus or ()), PciGpu("0000:02:00.0", "10de", PASCAL, None, "nvidia")),
    )
    (finding,) = [entry for entry in driver_findings(both) if entry.code == "GPU204"]
    assert finding.severity is Severity.WARNING
    assert [fix.command for fix in finding.fix] == [None, None]
    assert finding.fix[0].text.startswith("No single driver supports all these GPUs")
    (alone,) = driver_findings(snapshot)
    assert alone.fix[0].command == ("sudo", "apt-get", "install", "nvidia-driver-580-open")
