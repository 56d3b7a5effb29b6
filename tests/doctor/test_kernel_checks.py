"""The checks that the kernel's files decide, each with what looks like it and is healthy. Pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.causes import Cause
from gpuenv.model.codes import Nvml
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import (
    AmdGpu,
    Container,
    ContainerSupport,
    CupyInstallation,
    DeviceNode,
    DkmsBuild,
    Driver,
    DriverLibrary,
    Gpu,
    Grant,
    Host,
    KernelMessage,
    LibraryOrigin,
    Module,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
    Target,
)
from gpuenv.model.versions import DriverVersion
from gpuenv.model.xid import HARDWARE

KERNEL = "6.8.0-45-generic"
BUS = (PciGpu("0000:01:00.0", "10de", "2684", "AD102", None),)
BUILT = DkmsBuild("nvidia", "535.183.01", KERNEL, "built")
OLD = DkmsBuild("nvidia", "535.183.01", "6.8.0-41-generic", "built")
ADDED = DkmsBuild("nvidia", "535.183.01")
FAILED = DkmsBuild("nvidia", "535.183.01", KERNEL, "failed")
REFUSED = "Loading of unsigned module is rejected"
LOCKDOWN = "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7"
TAINTED = "nvidia: module verification failed: signature and/or required key missing - tainting kernel"


def findings(snapshot: Snapshot, matrix: Matrix) -> list[Finding]:
    """Those of the driver, the GPU and the container: the target is another matter."""
    found = diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).findings
    return [finding for finding in found if finding.code.startswith(("DRV", "GPU", "CTR"))]


def log(*lines: str, xid: int | None = None, pci: str = "0000:01:00.0") -> Reading[tuple[KernelMessage, ...]]:
    return known(tuple(KernelMessage(line, xid, pci if xid else None) for line in lines), "/dev/kmsg")


def working(*, cuda: int = 0, container: Container = Container.NONE) -> Snapshot:
    """A machine with one GPU that the driver shows."""
    return Snapshot(
        host=Host(os=known("linux", "uname"), container=known(container, "marks")),
        driver=Driver(
            version=known(DriverVersion.parse("550.163.01"), "nvml"),
            module=known(Module.LOADED, "/proc"),
            module_version=known(DriverVersion.parse("550.163.01"), "/proc"),
            nvml_init=known(0, "nvml"),
            cuda_init=known(cuda, "libcuda"),
            device_nodes=tuple(DeviceNode(f"/dev/nvidia{n}", True, "crw-rw-rw-", "0:0") for n in ("0", "ctl", "-uvm")),
        ),
        gpus=(Gpu(index=known(0, "nvml"), pci=known("0000:01:00.0", "nvml"), name=known("NVIDIA L4", "nvml")),),
        gpu_count=known(1, "nvml"),
        visible_count=known(1, "libcuda") if cuda == 0 else Reading(),
        pci_gpus=BUS,
        sources=tuple(Source(name, SourceState.ANSWERED) for name in ("kernel", "nvml", "libcuda")),
    )


@pytest.mark.parametrize("xid", sorted(HARDWARE))
def test_a_hardware_event_of_a_gpu_that_works_is_a_warning(matrix: Matrix, xid: int) -> None:
    (finding,) = findings(replace(working(), kernel_log=log("NVRM: Xid", xid=xid)), matrix)
    assert (finding.code, finding.cause, finding.severity) == ("GPU209", Cause.GPU_HARDWARE_FAULT, Severity.WARNING)
    assert f"Xid {xid} (" in finding.title
    assert "NVIDIA L4 at 0000:01:00.0" in finding.title


@pytest.mark.parametrize(
    ("places", "reset"),
    [
        (["0000:01:00.0"], ["0000:01:00.0"]),
        (["0000:01:00.0", "0000:41:00.0", "0000:01:00.0"], ["0000:01:00.0", "0000:41:00.0"]),
        (["0000:01:00.0", None], []),
        ([f"0000:{n}1:00.0" for n in range(8)], []),
    ],
    ids=["one", "two", "nobody knows which", "all of eight"],
)
def test_a_reset_names_the_gpus_of_the_events(matrix: Matrix, places: list[str | None], reset: list[str]) -> None:
    """Without -i, nvidia-smi resets all GPUs: its manual, --gpu-reset."""
    told = known(tuple(KernelMessage("NVRM: Xid", 79, place) for place in places), "/dev/kmsg")
    (finding,) = findings(replace(working(), kernel_log=told), matrix)
    commands = [fix.command for fix in finding.fix if fix.command and "--gpu-reset" in fix.command]
    assert commands == [("sudo", "nvidia-smi", "--gpu-reset", "-i", place) for place in reset]
    assert "estart the machine" in " ".join(fix.text for fix in finding.fix)


@pytest.mark.parametrize("xid", [8, 13, 31, 32, 43, 44, 45, 46, 63, 69, 92, 94, 109, 119, 120, 154, None])
def test_an_event_that_an_application_may_cause_is_no_fault(matrix: Matrix, xid: int | None) -> None:
    assert findings(replace(working(), kernel_log=log("NVRM: Xid", xid=xid)), matrix) == []


def test_a_hardware_event_is_the_cause_where_cuda_does_not_start(matrix: Matrix) -> None:
    (finding,) = findings(replace(working(cuda=999), kernel_log=log("NVRM: Xid", xid=79)), matrix)
    assert (finding.code, finding.severity, finding.primary) == ("GPU209", Severity.ERROR, True)


def test_another_gpu_of_the_host_is_not_a_containers_affair(matrix: Matrix) -> None:
    snapshot = replace(working(container=Container.DOCKER), kernel_log=log("NVRM: Xid", xid=79, pci="0000:81:00.0"))
    assert findings(snapshot, matrix) == []
    assert [f.code for f in findings(replace(snapshot, host=working().host), matrix)] == ["GPU209"]


def test_a_gpu_that_nvml_calls_lost_is_told_once_with_its_event(matrix: Matrix) -> None:
    snapshot = replace(working(cuda=101), kernel_log=log("NVRM: Xid (PCI:0000:01:00): 79", xid=79))
    lost = replace(snapshot, gpus=(replace(snapshot.gpus[0], fault=known(int(Nvml.GPU_IS_LOST), "nvml")),))
    (finding,) = findings(lost, matrix)
    assert finding.code == "GPU203"
    assert "NVRM: Xid (PCI:0000:01:00): 79" in {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(
    ("lost", "title"),
    [
        ([2], "GPU 2 (NVIDIA L4) has fallen off the bus"),
        ([0, 3], "GPU 0 (NVIDIA L4), GPU 3 (NVIDIA L4) have fallen off the bus"),
    ],
)
def test_it_is_told_which_of_several_has_fallen_off_the_bus(matrix: Matrix, lost: list[int], title: str) -> None:
    one = working().gpus[0]
    gpus = tuple(
        replace(one, index=known(n, "nvml"), pci=known(f"00000000:{n + 1:02X}:00.0", "nvml")) for n in range(4)
    )
    gone = known(int(Nvml.GPU_IS_LOST), "nvml")
    seen = tuple(replace(gpu, fault=gone) if place in lost else gpu for place, gpu in enumerate(gpus))
    (finding,) = findings(replace(working(cuda=101), gpus=seen, gpu_count=known(4, "nvml")), matrix)
    assert (finding.code, finding.title) == ("GPU203", title)
    places = [entry.fact for entry in finding.evidence if entry.value == str(int(Nvml.GPU_IS_LOST))]
    assert places == [f"NVML's return code for GPU {place} at 0000:{place + 1:02x}:00.0" for place in lost]


def test_a_log_that_cannot_be_read_is_not_called_clean(matrix: Matrix) -> None:
    snapshot = replace(working(), kernel_log=Reading(reason="/dev/kmsg: Operation not permitted"))
    runs = {run.code: run for run in diagnose(snapshot, matrix, resolve(snapshot, matrix), lambda: 0.0).checks}
    assert runs["GPU209"].reason == "unknown: /dev/kmsg: Operation not permitted"


def with_library(*, container: Container, mounted: bool | None, release: str, origin: LibraryOrigin) -> Snapshot:
    snapshot = working(container=container)
    path = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{release}"
    driver = replace(
        snapshot.driver,
        nvml_init=known(int(Nvml.LIB_RM_VERSION_MISMATCH), "nvml"),
        cuda_init=known(803, "libcuda"),
        cuda_library=known(path, "the loader"),
        libraries=(DriverLibrary(path, DriverVersion.parse(release), origin, mounted),),
    )
    return replace(snapshot, driver=driver, gpus=(), gpu_count=Reading(), visible_count=Reading())


@pytest.mark.parametrize(
    ("container", "mounted", "release", "origin", "cause"),
    [
        (Container.DOCKER, False, "610.43", "system", Cause.DRIVER_INSTALL_BROKEN),
        (Container.DOCKER, True, "610.43", "mounted", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (Container.DOCKER, None, "610.43", "system", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (Container.DOCKER, False, "550.163.01", "system", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
        (Container.NONE, False, "610.43", "system", Cause.DRIVER_LIBRARY_VERSION_MISMATCH),
    ],
)
def test_a_library_of_the_image_is_told_from_a_driver_that_waits_for_a_restart(
    matrix: Matrix,
    container: Container,
    mounted: bool | None,  # noqa: FBT001 - a table
    release: str,
    origin: str,
    cause: Cause,
) -> None:
    snapshot = with_library(container=container, mounted=mounted, release=release, origin=LibraryOrigin(origin))
    (finding,) = findings(snapshot, matrix)
    assert (finding.code, finding.cause) == ("DRV107", cause)
    asked_to_restart = any(fix.command == ("sudo", "reboot") for fix in finding.fix)
    assert asked_to_restart is (cause is Cause.DRIVER_LIBRARY_VERSION_MISMATCH)


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        (("c *:* m",), ["CTR306"]),
        ((), ["CTR306"]),
        (("c 195:* rwm",), ["DRV113"]),
        (("a *:* rwm",), ["DRV113"]),
        (None, ["DRV113"]),
    ],
)
def test_rules_without_the_gpu_are_why_cuda_finds_none(
    matrix: Matrix, rules: tuple[str, ...] | None, found: list[str]
) -> None:
    support = ContainerSupport(device_rules=Reading() if rules is None else known(rules, "devices.list"))
    snapshot = replace(working(cuda=100, container=Container.DOCKER), container_support=support)
    (finding,) = findings(snapshot, matrix)
    assert [finding.code] == found
    told = {entry.value for entry in finding.evidence if entry.fact == "container_support.device_rules"}
    assert told == ({"c *:* m" if rules else "none"} if found == ["CTR306"] else set())
    healthy = replace(working(container=Container.DOCKER), container_support=support)
    assert findings(healthy, matrix) == []


@pytest.mark.parametrize(
    ("container", "mode", "nvml", "found"),
    [
        (Container.DOCKER, "crw-rw-rw-", 999, "CTR306"),
        (Container.DOCKER, "crw-rw-rw-", 0, "CTR306"),
        (Container.DOCKER, "crw-rw----", 999, "CTR304"),
        (Container.DOCKER, "crw-rw----", 4, "CTR304"),
        (Container.NONE, "crw-rw----", 4, "CTR304"),
        (Container.NONE, "crw-rw-rw-", 4, "CTR304"),
    ],
)
def test_a_node_that_its_mode_opens_to_all_is_closed_by_the_control_group(
    matrix: Matrix, container: Container, mode: str, nvml: int, found: str
) -> None:
    snapshot = working(cuda=100, container=container)
    nodes = tuple(
        DeviceNode(f"/dev/nvidia{n}", accessible=False, mode=mode, owner="0:44") for n in ("0", "ctl", "-uvm")
    )
    driver = replace(snapshot.driver, device_nodes=nodes, nvml_init=known(nvml, "nvml"))
    assert [entry.code for entry in findings(replace(snapshot, driver=driver), matrix)] == [found]


@pytest.mark.parametrize(
    ("cupy", "cause"),
    [
        ("cupy-cuda12x", Cause.ROCM_MISMATCH),
        ("cupy-rocm-5-0", Cause.NO_NVIDIA_GPU),
        (None, Cause.NO_NVIDIA_GPU),
    ],
)
def test_an_amd_gpu_does_not_fit_a_cupy_for_cuda(matrix: Matrix, cupy: str | None, cause: Cause) -> None:
    snapshot = Snapshot(
        host=Host(os=known("linux", "uname"), container=known(Container.NONE, "marks")),
        pci_gpus=(PciGpu("0000:93:00.0", "1002", "740f", None, "amdgpu"),),
        amd_gpus=(AmdGpu(1, "aldebaran", "gfx90a", "0000:93:00.0", 1024),),
        target=Target(cupy=(CupyInstallation(cupy, "13.3.0"),) if cupy else ()),
        sources=tuple(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda")),
    )
    (finding,) = findings(snapshot, matrix)
    assert (finding.code, finding.cause) == ("GPU201", cause)
    assert "gfx90a" in finding.title
    assert ("which cupy-cuda12x cannot use" in finding.title) is (cause is Cause.ROCM_MISMATCH)


@pytest.mark.parametrize(("holder", "named"), [("vfio-pci", True), ("nvidia", False), (None, False)])
def test_a_gpu_that_is_kept_for_a_virtual_machine_is_told_as_such(
    matrix: Matrix,
    holder: str | None,
    named: bool,  # noqa: FBT001 - a table
) -> None:
    snapshot = replace(working(cuda=100), gpus=(), gpu_count=known(0, "nvml"))
    held = replace(snapshot, pci_gpus=(replace(BUS[0], device="ffff", kernel_driver=holder),))
    (finding,) = findings(held, matrix)
    assert finding.code == "DRV113"
    assert ("vfio-pci holds it" in finding.title) is named
    assert any("virtual machine" in fix.text for fix in finding.fix) is named
    assert (f"kernel driver of {BUS[0].pci}", holder or "none") in {(e.fact, e.value) for e in finding.evidence}


def test_a_driver_that_hangs_is_told_with_the_event_behind_it(matrix: Matrix) -> None:
    snapshot = replace(working(), kernel_log=log("NVRM: Xid (PCI:0000:01:00): 79", xid=79))
    hung = replace(snapshot, sources=(*snapshot.sources[:2], Source("libcuda", SourceState.TIMED_OUT)))
    (finding,) = findings(hung, matrix)
    assert finding.code == "DRV100"
    assert "NVRM: Xid (PCI:0000:01:00): 79" in {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(
    ("mode", "by", "gpus", "told"),
    [
        ("crw-rw-rw-", None, None, "control group"),
        ("crw-rw----", None, None, "group that owns"),
        ("crw-rw-rw-", "slurm", 0, "ask Slurm"),
        ("crw-rw----", "slurm", 0, "ask Slurm"),
        ("crw-rw-rw-", "slurm", None, "control group"),
        ("crw-rw----", "slurm", None, "group that owns"),
        ("crw-rw----", "slurm", 1, "group that owns"),
    ],
)
def test_who_may_open_the_nodes_is_told_by_mode_and_by_grant(
    matrix: Matrix, mode: str, by: str | None, gpus: int | None, told: str
) -> None:
    snapshot = working(cuda=100)
    nodes = (DeviceNode("/dev/nvidia0", accessible=False, mode=mode, owner="0:44"),)
    grant = Grant(
        by=known(by, "SLURM_JOB_ID") if by else Reading(),
        gpus=Reading() if gpus is None else known(gpus, "SLURM_GPUS_ON_NODE"),
    )
    driver = replace(
        snapshot.driver, device_nodes=(*nodes, *snapshot.driver.device_nodes[1:]), nvml_init=known(4, "nvml")
    )
    (finding,) = findings(replace(snapshot, driver=driver, grant=grant), matrix)
    assert finding.code == "CTR304"
    assert told in finding.fix[0].text
    perhaps = "Where this job has asked Slurm for no GPU"
    assert any(perhaps in fix.text for fix in finding.fix) is (by == "slurm" and gpus is None)
    joins = told == "group that owns"
    assert (finding.fix[0].command == ("sudo", "usermod", "-a", "-G", "44", "USER")) is joins
    assert any("NVreg_DeviceFile" in fix.text for fix in finding.fix) is joins


@pytest.mark.parametrize(("container", "by_docker"), [(Container.DOCKER, True), (Container.LXC, False)])
def test_only_docker_is_told_to_docker(
    matrix: Matrix,
    container: Container,
    by_docker: bool,  # noqa: FBT001 - a table
) -> None:
    snapshot = working(cuda=100, container=container)
    nodes = (DeviceNode("/dev/nvidia0", accessible=False, mode="crw-rw----", owner="0:44"),)
    driver = replace(
        snapshot.driver, device_nodes=(*nodes, *snapshot.driver.device_nodes[1:]), nvml_init=known(4, "nvml")
    )
    (finding,) = findings(replace(snapshot, driver=driver), matrix)
    assert finding.code == "CTR304"
    assert ((finding.fix[0].command or ())[:4] == ("docker", "run", "--group-add", "44")) is by_docker
