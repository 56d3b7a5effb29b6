"""The order of fixes: what interrupts least comes first, and every step that is known has its command."""

from __future__ import annotations

import pytest

from gpuenv.model.finding import Finding
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import known
from gpuenv.model.snapshot import (
    Container,
    DeviceNode,
    DkmsBuild,
    DriverLibrary,
    Fabric,
    Gpu,
    GpuUser,
    Host,
    LibraryOrigin,
    Module,
    NvLink,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
    Target,
    Virtualization,
)
from gpuenv.model.versions import DriverVersion
from tests.doctor.kernel_hosts import BUS, KERNEL, findings, log, working
from tests.doctor.module_hosts import BUILT, FAILED, OLD, host_without_module, with_reading
from tests.doctor.test_driver import off_loader_path
from tests.doctor.test_fixes_by_facts import lines, only
from tests.doctor.test_immutable_systems import ADA, without_driver
from tests.support.diagnosis import diagnosis_of

LIBCUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"
NO_DEVICE = 100
SHOW_REMAPPING = "nvidia-smi -q -d ROW_REMAPPER,PAGE_RETIREMENT"


def texts(finding: Finding) -> str:
    return "\n".join(fix.text for fix in finding.fix)


def with_sources(snapshot: Snapshot, **states: Source) -> Snapshot:
    kept = tuple(source for source in snapshot.sources if source.name not in {s.name for s in states.values()})
    return snapshot._replace(sources=(*kept, *states.values()))


def on(snapshot: Snapshot, distribution: str) -> Snapshot:
    return snapshot._replace(host=snapshot.host._replace(distribution=known(distribution, "os-release")))


def with_libcuda(snapshot: Snapshot) -> Snapshot:
    library = DriverLibrary(LIBCUDA, DriverVersion.parse("550.163.01"), LibraryOrigin.SYSTEM)
    driver = snapshot.driver._replace(libraries=(library,), branch=known(550, "its version"))
    return snapshot._replace(driver=driver)


def test_a_failed_remapping_needs_a_reset_then_a_look_at_the_remapped_rows() -> None:
    (finding,) = findings(working()._replace(kernel_log=log("NVRM: Xid", xid=64)))
    assert lines(finding) == ["sudo nvidia-smi --gpu-reset -i 0000:01:00.0", SHOW_REMAPPING]
    assert "seating" not in texts(finding)


@pytest.mark.parametrize("xid", [54, 74, 79])
def test_seating_is_checked_after_a_fault_of_contact_power_or_heat(xid: int) -> None:
    (finding,) = findings(working()._replace(kernel_log=log("NVRM: Xid", xid=xid)))
    assert "seating" in texts(finding)
    assert SHOW_REMAPPING not in lines(finding)


@pytest.mark.parametrize(("name", "expected"), [("NVIDIA GeForce RTX 4090", True), ("NVIDIA A100-SXM4-40GB", False)])
def test_a_board_in_a_slot_is_examined_before_it_is_replaced(name: str, *, expected: bool) -> None:
    lost = Gpu(index=known(0, "nvml"), name=known(name, "nvml"), fault=known(int(Nvml.GPU_IS_LOST), "nvml"))
    finding = only(working()._replace(gpus=(lost,)), "GPU203")
    assert ("power cables" in texts(finding)) is expected


@pytest.mark.parametrize(("name", "has_bridge"), [("NVIDIA H100 80GB HBM3", False), ("NVIDIA H100 NVL", True)])
def test_only_a_board_in_a_slot_has_a_bridge(name: str, *, has_bridge: bool) -> None:
    snapshot = working()
    links = tuple(NvLink(number, active=number != 7) for number in range(18))
    gpu = snapshot.gpus[0]._replace(
        name=known(name, "nvml"), nvlinks=links, fabric=Fabric(state=known("completed", "nvml"))
    )
    finding = only(snapshot._replace(gpus=(gpu,)), "GPU207")
    assert ("bridge" in texts(finding)) is has_bridge
    assert ("sudo reboot" in lines(finding)) is not has_bridge


def test_a_busy_gpu_is_left_alone_if_another_one_is_free() -> None:
    snapshot = working()
    gpu = snapshot.gpus[0]._replace(memory_total=known(1 << 34, "nvml"), ordinal=known(0, "libcuda"))
    full = gpu._replace(memory_free=known(1 << 20, "nvml"), users=(GpuUser(4711),))
    free = gpu._replace(
        index=known(1, "nvml"),
        ordinal=known(1, "libcuda"),
        memory_free=known(1 << 34, "nvml"),
        uuid=known("GPU-2", "x"),
    )
    finding = only(snapshot._replace(gpus=(full, free), gpu_count=known(2, "nvml")), "GPU208")
    shell, command = lines(finding)
    assert shell.endswith("CUDA_VISIBLE_DEVICES=1")
    assert command == "ps -o user,pid,etime,args -p 4711"
    assert "if it is yours" in texts(finding)


def test_more_time_comes_before_a_restart_and_a_reinstallation() -> None:
    hung = Source("nvml", SourceState.TIMED_OUT)
    snapshot = on(with_sources(with_libcuda(working()), nvml=hung), "ubuntu 24.04")
    result = lines(only(snapshot, "DRV100"))
    assert result[0] == "gpuenv doctor --timeout 120"
    assert result[-1] == "sudo apt-get install --reinstall libnvidia-compute-550"


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("debian 13", [f"dpkg -S {LIBCUDA}", "sudo apt-get install --reinstall libcuda1 libnvidia-ml1"]),
        ("rocky 9.5", [f"rpm -qf {LIBCUDA}", f'sudo sh -c dnf reinstall "$(rpm -qf {LIBCUDA})"']),
        ("arch", [f"pacman -Qo {LIBCUDA}", "sudo pacman -Syu nvidia-utils"]),
    ],
)
def test_a_crashing_library_is_reinstalled_by_its_package(distribution: str, expected: list[str]) -> None:
    crashed = Source("libcuda", SourceState.CRASHED)
    snapshot = on(with_sources(with_libcuda(working()), libcuda=crashed), distribution)
    assert lines(only(snapshot, "DRV100"))[-2:] == expected


def test_a_hanging_nvidia_smi_is_traced_instead_of_started_again() -> None:
    snapshot = with_sources(working(), smi=Source("nvidia-smi", SourceState.TIMED_OUT))
    result = lines(only(snapshot, "DRV103"))
    assert result[:2] == ["which -a nvidia-smi", "timeout 60 strace -f nvidia-smi"]
    assert "nvidia-smi" not in result


def refused(container: Container) -> Snapshot:
    """A machine whose loader refuses the file of libcuda."""
    state = Source("libcuda", SourceState.FAILED, f"{LIBCUDA}: file too short")
    snapshot = on(with_sources(working(container=container), libcuda=state), "debian 13")
    return snapshot._replace(driver=snapshot.driver._replace(cuda_init=type(snapshot.driver.cuda_init)()))


def test_a_refused_file_is_named_with_the_package_that_restores_it() -> None:
    finding = only(refused(Container.NONE), "DRV114")
    assert LIBCUDA in finding.title
    assert lines(finding) == [
        f"dpkg -S {LIBCUDA}",
        "sudo apt-get install --reinstall libcuda1 libnvidia-ml1",
        f"sudo rm {LIBCUDA}",
    ]


def test_a_refused_file_of_an_image_is_removed_by_its_dockerfile() -> None:
    finding = only(refused(Container.DOCKER), "DRV114")
    assert f"RUN rm -f {LIBCUDA} && ldconfig" in texts(finding)
    assert lines(finding) == [f"dpkg -S {LIBCUDA}", "docker run --gpus all IMAGE"]


def unsigned(distribution: str, *builds: DkmsBuild) -> Snapshot:
    """A machine whose kernel refuses a module without a signature."""
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, *builds), distribution)
    return snapshot._replace(kernel_log=log("Loading of unsigned module is rejected"))


def test_a_module_without_a_signature_is_built_again_before_its_key_is_enrolled() -> None:
    result = lines(only(unsigned("ubuntu 24.04", BUILT), "DRV116"))
    module = f"--force -m nvidia -v 535.183.01 -k {KERNEL}"
    assert "update-secureboot-policy --new-key" in result[0]
    assert result[1:5] == [
        f"sudo dkms build {module}",
        f"sudo dkms install {module}",
        "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der",
        "sudo reboot",
    ]


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("ubuntu 24.04", "sudo apt-get install --reinstall nvidia-dkms-550"),
        ("debian 13", "sudo apt-get install --reinstall nvidia-kernel-dkms"),
        ("fedora 44", "sudo akmods --force --rebuild"),
    ],
)
def test_an_unsigned_module_without_dkms_build_is_signed_by_its_package(distribution: str, expected: str) -> None:
    assert expected in lines(only(unsigned(distribution), "DRV116"))


def test_an_unsigned_module_of_a_gpu_that_needs_the_open_ones_is_signed_by_their_package() -> None:
    snapshot = unsigned("ubuntu 24.04")
    blackwell = snapshot._replace(pci_gpus=(BUS[0]._replace(device="2b85"),))
    assert "sudo apt-get install --reinstall nvidia-dkms-550-open" in lines(only(blackwell, "DRV116"))


def test_a_module_with_an_unknown_key_is_not_built_again() -> None:
    snapshot = unsigned("ubuntu 24.04", BUILT)
    snapshot = snapshot._replace(kernel_log=log("Loading of module with unavailable key is rejected"))
    assert not any("dkms build" in line or "--reinstall" in line for line in lines(only(snapshot, "DRV116")))


def test_the_kernel_that_has_the_module_is_named() -> None:
    finding = only(host_without_module(Module.NOT_INSTALLED, OLD, FAILED), "DRV115")
    assert f"boot {OLD.kernel}, for which" in texts(finding)


def test_microos_gets_a_prebuilt_module_in_two_restarts() -> None:
    (finding,) = findings(without_driver("opensuse-microos 20260101", ADA))
    assert [line.removeprefix("sudo ") for line in lines(finding)] == [
        "transactional-update pkg install openSUSE-repos-MicroOS-NVIDIA",
        "reboot",
        "transactional-update pkg install nvidia-open-driver-G06-signed-kmp-default nvidia-compute-utils-G06",
        "reboot",
        "nvidia-smi",
    ]


def test_nova_is_blocked_after_the_installation_and_before_the_restart() -> None:
    snapshot = without_driver("fedora 44", ADA)
    bound = snapshot._replace(pci_gpus=(PciGpu("0000:01:00.0", "10de", ADA, None, "NovaCore"),))
    result = lines(only(bound, "DRV104"))
    (block,) = [index for index, line in enumerate(result) if "grubby" in line]
    assert "akmod-nvidia" in result[block - 1]
    assert result[block + 1] == "sudo reboot"


def test_a_gpu_reserved_by_vfio_is_given_back_where_it_is_configured() -> None:
    snapshot = on(working(cuda=NO_DEVICE), "debian 13")._replace(gpus=(), gpu_count=known(0, "nvml"))
    bound = PciGpu("0000:31:00.0", "10de", ADA, None, "vfio-pci")
    result = lines(only(snapshot._replace(pci_gpus=(bound,)), "DRV113"))
    assert result[0].startswith(f"grep -rns -e vfio -e 10de:{ADA} /etc/modprobe.d")
    assert result[1:] == ["sudo driverctl unset-override 0000:31:00.0", "sudo update-initramfs -u", "sudo reboot"]


@pytest.mark.parametrize(("name", "expected"), [("NVIDIA A10-4B", True), ("GRID A100-10C", False), ("A40-8Q", False)])
def test_a_virtual_gpu_for_desktops_needs_another_type(name: str, *, expected: bool) -> None:
    snapshot = working(cuda=NO_DEVICE)
    gpu = snapshot.gpus[0]._replace(name=known(name, "nvml"), virtualization=known(Virtualization.VGPU, "nvml"))
    finding = only(snapshot._replace(gpus=(gpu,)), "DRV113")
    assert ("ends in Q or C" in texts(finding)) is expected
    assert bool(lines(finding)) is not expected


def test_the_default_profile_comes_before_a_container_without_any() -> None:
    snapshot = working(cuda=304, container=Container.DOCKER)
    result = texts(only(snapshot, "DRV113"))
    assert result.index("the engine's default profile allows CUDA") < result.index("As a test only")


def test_a_container_that_lost_its_nodes_is_started_with_each_of_them() -> None:
    snapshot = working(cuda=NO_DEVICE, container=Container.DOCKER)
    driver = snapshot.driver._replace(nvml_init=known(int(Nvml.UNKNOWN), "nvml"))
    finding = only(snapshot._replace(driver=driver, gpus=(), gpu_count=type(snapshot.gpu_count)()), "CTR306")
    nodes = "--device /dev/nvidia0 --device /dev/nvidiactl --device /dev/nvidia-uvm"
    assert sorted(lines(finding)[1].split()) == sorted(f"docker run --gpus all {nodes} IMAGE".split())
    assert lines(finding)[0] == "docker restart CONTAINER"
    assert "daemon-reload" in texts(finding)


def closed_nodes(snapshot: Snapshot, path: str, owner: str) -> Snapshot:
    node = DeviceNode(path, accessible=False, mode="crw-rw----", owner=owner)
    driver = snapshot.driver._replace(device_nodes=(node,), nvml_init=known(int(Nvml.NO_PERMISSION), "nvml"))
    return snapshot._replace(driver=driver)


def test_a_user_of_a_jetson_joins_its_groups_instead_of_an_unmapped_one() -> None:
    snapshot = closed_nodes(working(cuda=NO_DEVICE), "/dev/nvmap", "65534:65534")
    tegra = snapshot._replace(host=snapshot.host._replace(tegra=known("R36", "/etc/nv_tegra_release")))
    finding = only(tegra, "CTR304")
    assert lines(finding) == ['sudo usermod -aG video,render "$USER"']
    assert "65534" not in texts(finding)


def test_podman_needs_a_user_of_the_host_who_is_in_the_group() -> None:
    snapshot = closed_nodes(working(cuda=NO_DEVICE, container=Container.PODMAN), "/dev/nvidia0", "0:44")
    result = lines(only(snapshot, "CTR304"))
    assert result == [
        "ls -l /dev/nvidia0",
        'sudo usermod -aG GROUP "$USER"',
        "podman run --group-add=keep-groups --device nvidia.com/gpu=all IMAGE",
    ]


def test_wslconfig_is_read_before_a_driver_is_installed() -> None:
    snapshot = Snapshot(
        host=Host(
            os=known("linux", "uname"),
            wsl=known(value=True, source="kernel"),
            kernel=known("6.6.87.2-microsoft-standard-WSL2", "uname"),
        ),
        sources=(Source("kernel", SourceState.ANSWERED), *(Source(n, SourceState.ABSENT) for n in ("nvml", "libcuda"))),
    )
    finding = only(snapshot, "DRV106")
    assert lines(finding) == ["grep -n -i gpuSupport /mnt/c/Users/*/.wslconfig", "wsl.exe --shutdown"]
    assert "nstall the NVIDIA driver in Windows" in finding.fix[-1].text


def test_a_pod_keeps_the_other_folders_of_the_loader_path() -> None:
    snapshot = off_loader_path("/usr/local/nvidia/lib64", container=Container.KUBERNETES)
    (finding,) = findings(snapshot._replace(environment={"LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64"}))
    value = "LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/cuda-12.4/lib64"
    assert f"set {value} in env of the pod's specification" in texts(finding)


def test_a_python_of_another_architecture_is_replaced_with_its_packages() -> None:
    target = Target(executable=known("/venv/bin/python", "--python"), venv_python=known("3.11.9", "pyvenv.cfg"))
    sources = (Source("target", SourceState.FAILED, "Exec format error"),)
    snapshot = Snapshot(host=Host(os=known("linux", "uname")), target=target, sources=sources)
    every = diagnosis_of(snapshot).findings
    (finding,) = [entry for entry in every if entry.code == "ENV401"]
    assert lines(finding) == ["ls /venv/lib/python3.11/site-packages", "python3 -m venv /venv-new"]
    assert "gone" not in texts(finding)
