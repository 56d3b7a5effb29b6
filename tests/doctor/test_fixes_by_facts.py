"""Fixes that follow from a fact of the machine, instead of a general piece of advice that the fact refutes."""

from __future__ import annotations

import pytest

from gpuenv.doctor.fixes.distributions import driver_fixes
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.gpus import gpu_is_absent
from gpuenv.model.nvidia import Cuda, Nvml
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import (
    Container,
    ContainerSupport,
    DeviceNode,
    Driver,
    Gpu,
    Grant,
    Host,
    LibraryOrigin,
    Module,
    Mps,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
)
from tests.doctor.kernel_hosts import findings, log, working
from tests.support.diagnosis import context_of

OUT_OF_MEMORY, NO_DEVICE, UNKNOWN = 2, 100, 999
XID = "NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus."


def lines(finding: Finding) -> list[str]:
    """The commands and the shell's lines of its fixes."""
    return [fix.shell_line or " ".join(fix.command or ()) for fix in finding.fix if fix.shell_line or fix.command]


def only(snapshot: Snapshot, code: str) -> Finding:
    (finding,) = [entry for entry in findings(snapshot) if entry.code == code]
    return finding


def test_insufficient_permissions_of_nvidia_smi_are_a_matter_of_the_nodes() -> None:
    snapshot = working()
    detail = "Unable to determine the device handle for GPU 0000:01:00.0: Insufficient Permissions"
    smi = Source("nvidia-smi", SourceState.FAILED, detail)
    finding = only(snapshot._replace(sources=(*snapshot.sources, smi)), "DRV103")
    assert finding.cause == "device-node-permission"
    assert lines(finding) == ["id; ls -l /dev/nvidia*"]
    assert "by hand" not in finding.fix[0].text


@pytest.mark.parametrize(
    ("mode", "expected"), [(2, ["sudo sysctl vm.overcommit_memory=0", "grep -rn overcommit_memory"]), (0, ["sh -c ul"])]
)
def test_strict_overcommit_is_named_if_cuda_cannot_reserve_memory(mode: int, expected: list[str]) -> None:
    snapshot = working(cuda=OUT_OF_MEMORY)
    host = snapshot.host._replace(overcommit=known(mode, "/proc/sys/vm/overcommit_memory"))
    result = lines(only(snapshot._replace(host=host), "DRV113"))
    assert all(line.startswith(begin) for line, begin in zip(result, expected, strict=False))
    assert any("ulimit" in line for line in result) is (mode != 2)


def test_a_folder_that_a_killed_mps_daemon_left_is_named() -> None:
    snapshot = working(cuda=int(Cuda.MPS_CONNECTION_FAILED))
    folder = "/run/leftover-mps"
    left = snapshot._replace(mps=Mps(known(folder, "CUDA's default"), known(value=True, source=f"{folder}/control")))
    assert lines(only(left, "DRV113"))[:2] == ["pgrep -a -f nvidia-cuda-mps-control", f"sudo mv {folder} {folder}.old"]
    started = left._replace(driver=working().driver)
    assert "DRV113" not in {entry.code for entry in findings(started)}, "MPS that works, or is not used"
    contained = left._replace(host=left.host._replace(container=known(Container.DOCKER, "/.dockerenv")))
    assert not any("mv" in (line or "") for line in lines(only(contained, "DRV113")))


def test_a_limit_of_addresses_is_named_if_cuda_cannot_reserve_memory() -> None:
    snapshot = working(cuda=OUT_OF_MEMORY)
    limited = snapshot._replace(host=snapshot.host._replace(address_limit=known(8 << 30, "RLIMIT_AS")))
    finding = only(limited, "DRV113")
    assert "only 8192 MiB of addresses (ulimit -v)" in finding.title
    assert lines(finding)[0] == "ulimit -v unlimited"
    started = limited._replace(driver=working().driver)
    assert "DRV113" not in {entry.code for entry in findings(started)}, "a limit alone is no finding"


def test_a_gpu_that_an_option_excludes_is_taken_off_its_list() -> None:
    snapshot = working(cuda=NO_DEVICE)
    line = "/etc/modprobe.d/gpu.conf: options nvidia NVreg_ExcludedGpus=GPU-1"
    host = snapshot.host._replace(distribution=known("debian 12", "os-release"))
    driver = snapshot.driver._replace(module_options=known((line,), "modprobe.d"))
    excluded = snapshot._replace(host=host, driver=driver, gpus=(), gpu_count=known(0, "nvml"))
    finding = only(excluded, "DRV113")
    assert finding.title.endswith(": an option of its kernel module leaves it out")
    assert line in finding.fix[0].text
    assert lines(finding) == ["sudo update-initramfs -u", "sudo reboot"]


def with_second_gpu(*options: str, excluded: tuple[str, ...] | None = None) -> Snapshot:
    """One GPU works; another one on the bus is not listed."""
    snapshot = working()
    others = (PciGpu("0000:41:00.0", "10de", "2330", None, "nvidia"),)
    driver = snapshot.driver._replace(
        module_options=known(options, "modprobe.d"),
        excluded_gpus=Reading() if excluded is None else known(excluded, "/proc/driver/nvidia/gpus"),
    )
    return snapshot._replace(driver=driver, pci_gpus=(*(snapshot.pci_gpus or ()), *others))


EXCLUDING = "/etc/modprobe.d/gpu.conf: options nvidia NVreg_ExcludedGpus=0000:41:00.0"


@pytest.mark.parametrize(
    ("snapshot", "first_line"),
    [
        (with_second_gpu(EXCLUDING), ""),
        (with_second_gpu(EXCLUDING.replace("Excluded", "Assign"), excluded=()), ""),
        (with_second_gpu(excluded=("0000:41:00.0",)), "grep -rns -e NVreg_ExcludedGpus"),
    ],
    ids=["line", "assignment", "module"],
)
def test_one_of_several_gpus_that_an_option_excludes_is_a_note(snapshot: Snapshot, first_line: str) -> None:
    finding = only(snapshot, "GPU218")
    assert (finding.severity, "0000:41:00.0" in finding.title) == (Severity.NOTE, True)
    fix = finding.fix[0]
    assert fix.text.startswith("An option leaves GPUs out of the driver.")
    assert (fix.shell_line or "").startswith(first_line)


@pytest.mark.parametrize(
    "snapshot",
    [with_second_gpu(), with_second_gpu(EXCLUDING, excluded=()), working()],
    ids=["no option", "not yet in effect", "one GPU"],
)
def test_no_option_is_blamed_for_a_gpu_that_it_does_not_exclude(snapshot: Snapshot) -> None:
    assert "GPU218" not in {entry.code for entry in findings(snapshot)}


@pytest.mark.parametrize("is_quoted", [True, False])
def test_an_xid_that_is_quoted_is_not_looked_for(*, is_quoted: bool) -> None:
    snapshot = working()
    lost = Gpu(index=known(0, "nvml"), pci=known("0000:01:00.0", "nvml"), fault=known(int(Nvml.GPU_IS_LOST), "nvml"))
    kernel_log = log(XID, xid=79) if is_quoted else log("NVRM: loading")
    finding = only(snapshot._replace(gpus=(lost,), kernel_log=kernel_log), "GPU203")
    assert ("sudo dmesg" in lines(finding)) is not is_quoted
    hung = tuple(Source(name, SourceState.TIMED_OUT) for name in ("nvml", "libcuda"))
    finding = only(snapshot._replace(sources=hung, kernel_log=kernel_log), "DRV100")
    assert ("sudo dmesg" in lines(finding)) is not is_quoted


def container_without_gpu(kernel: str, *, bus: tuple[PciGpu, ...] | None = ()) -> Snapshot:
    return Snapshot(
        host=Host(
            os=known("linux", "uname"), kernel=known(kernel, "uname"), container=known(Container.DOCKER, "/.dockerenv")
        ),
        environment={"NVIDIA_VISIBLE_DEVICES": "all"},
        pci_gpus=bus,
        driver=Driver(module=known(Module.NOT_INSTALLED, "/lib/modules")),
        sources=(
            Source("kernel", SourceState.ANSWERED),
            *(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda")),
        ),
    )


@pytest.mark.parametrize("bus", [(), None], ids=["empty", "hidden"])
def test_a_linuxkit_kernel_is_docker_desktop(bus: tuple[PciGpu, ...] | None) -> None:
    """Its virtual machine has no GPU, which says nothing about the host."""
    snapshot = container_without_gpu("6.10.14-linuxkit", bus=bus)
    assert not gpu_is_absent(snapshot)
    assert "GPU201" not in {entry.code for entry in findings(snapshot)}
    finding = only(snapshot, "CTR301")
    assert "Docker Desktop" in finding.title
    assert "Windows with WSL 2 only" in finding.fix[0].text
    assert not any("nvidia-ctk" in line for line in lines(finding))


def test_a_container_of_an_engine_without_a_gpu_on_the_bus_is_on_a_host_without_one() -> None:
    snapshot = container_without_gpu("6.8.0-48-generic")
    assert gpu_is_absent(snapshot)
    assert only(snapshot, "GPU201").title == "This machine has no NVIDIA GPU"


@pytest.mark.parametrize("suspends", [1, None])
def test_a_stale_uvm_module_is_reloaded_by_two_commands(suspends: int | None) -> None:
    snapshot = working(cuda=UNKNOWN)
    host = snapshot.host._replace(suspends=known(suspends, "/sys/power") if suspends else Reading())
    (finding,) = [entry for entry in findings(snapshot._replace(host=host)) if entry.code in ("DRV113", "DRV117")]
    assert lines(finding)[:2] == ["sudo rmmod nvidia_uvm", "sudo modprobe nvidia_uvm"]


def test_a_linux_driver_in_wsl_is_removed_and_wsl_restarted() -> None:
    snapshot = working(cuda=NO_DEVICE)
    host = snapshot.host._replace(wsl=known(value=True, source="kernel"), distribution=known("ubuntu 24.04", "x"))
    driver = snapshot.driver._replace(cuda_origin=known(LibraryOrigin.SYSTEM, "x"))
    finding = only(snapshot._replace(host=host, driver=driver), "DRV112")
    assert lines(finding)[0].startswith("sudo apt-get purge ^(libcuda1|libnvidia-compute|nvidia-driver|")
    assert "deletes" in finding.fix[0].text
    assert lines(finding)[1:] == ["wsl.exe --shutdown"]


def test_wsl_1_is_converted_by_its_own_name() -> None:
    host = Host(
        os=known("linux", "uname"),
        wsl=known(value=True, source="kernel"),
        kernel=known("4.4.0-19041-Microsoft", "uname"),
    )
    sources = (Source("kernel", SourceState.ANSWERED),)
    fixes = driver_fixes(context_of(Snapshot(host=host, sources=sources)))
    assert fixes[0].command == ("wsl.exe", "-l", "-v")
    assert fixes[1].command == ("wsl.exe", "--set-version", "DISTRO", "2")
    named = Snapshot(host=host, sources=sources, environment={"WSL_DISTRO_NAME": "Ubuntu-24.04"})
    assert driver_fixes(context_of(named))[0].command == ("wsl.exe", "--set-version", "Ubuntu-24.04", "2")


def test_a_jetson_gets_jetpack_6() -> None:
    host = Host(os=known("linux", "uname"), tegra=known("R35", "/etc/nv_tegra_release"), arch=known("aarch64", "uname"))
    fixes = driver_fixes(context_of(Snapshot(host=host)))
    assert "JetPack 6" in fixes[0].text
    assert fixes[0].command == ("sudo", "apt-get", "install", "nvidia-jetpack")
    assert "deletes" in fixes[1].text


def test_a_slurm_job_without_a_gpu_requests_one() -> None:
    snapshot = working(cuda=NO_DEVICE)
    nodes = (DeviceNode("/dev/nvidia0", accessible=False, mode="crw-rw-rw-", owner="0:0"),)
    grant = Grant(by=known("slurm", "SLURM_JOB_ID"), gpus=known(0, "SLURM_GPUS"))
    driver = snapshot.driver._replace(
        device_nodes=(*nodes, *snapshot.driver.device_nodes[1:]), nvml_init=known(4, "nvml")
    )
    finding = only(snapshot._replace(driver=driver, grant=grant), "CTR304")
    assert lines(finding) == ["sbatch --gpus=1 JOB_SCRIPT", "srun --gres=gpu:1 COMMAND"]


def test_the_note_on_docker_is_two_lines() -> None:
    support = ContainerSupport(docker=known("/usr/bin/docker", "x"), has_toolkit=known(value=False, source="x"))
    finding = only(working()._replace(container_support=support), "CTR307")
    assert finding.evidence == ()
    assert [fix.command for fix in finding.fix] == [None]
