"""The driver: its kernel module, what blocks it, its libraries and their versions."""

from __future__ import annotations

import pytest

from gpuenv.model.causes import Cause
from gpuenv.model.finding import Finding
from gpuenv.model.nvidia import Cuda, Nvml
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
    Grant,
    Host,
    LibraryOrigin,
    Module,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
    Target,
)
from gpuenv.model.versions import DriverVersion, Libc
from gpuenv.report.text import fix_command
from tests.doctor.kernel_hosts import BUS, KERNEL, findings, log, working
from tests.doctor.module_hosts import ADDED, BUILT, FAILED, OLD, host_without_module, with_reading
from tests.support.diagnosis import diagnosis_of

REFUSED = "Loading of unsigned module is rejected"
LOCKDOWN = "Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7"
TAINTED = "nvidia: module verification failed: signature and/or required key missing - tainting kernel"


@pytest.mark.parametrize(
    ("module", "builds", "code"),
    [
        (Module.NOT_INSTALLED, (ADDED,), "DRV115"),
        (Module.NOT_INSTALLED, (OLD,), "DRV115"),
        (Module.NOT_INSTALLED, (OLD, FAILED), "DRV115"),
        (Module.NOT_INSTALLED, (), "DRV105"),
        (Module.NOT_INSTALLED, (BUILT,), "DRV105"),
        (Module.NOT_LOADED, (OLD,), "DRV105"),
        (Module.NOT_LOADED, (BUILT,), "DRV105"),
    ],
)
def test_a_module_not_built_for_the_running_kernel_is_the_cause(
    module: Module, builds: tuple[DkmsBuild, ...], code: str
) -> None:
    (finding,) = findings(host_without_module(module, *builds))
    assert finding.code == code
    expected = Cause.DRIVER_KERNEL_INCOMPATIBLE if code == "DRV115" else Cause.DRIVER_MODULE_NOT_LOADED
    assert finding.cause is expected
    if FAILED in builds:
        assert any("make.log" in fix.text for fix in finding.fix)


def test_an_unbuilt_module_is_reported_instead_of_nouveau() -> None:
    snapshot = host_without_module(Module.NOT_INSTALLED, OLD)
    bound_to_nouveau = snapshot._replace(pci_gpus=(BUS[0]._replace(kernel_driver="nouveau"),))
    assert [finding.code for finding in findings(bound_to_nouveau)] == ["DRV115"]
    without_dkms = bound_to_nouveau._replace(driver=bound_to_nouveau.driver._replace(dkms=()))
    assert [finding.code for finding in findings(without_dkms)] == ["DRV104"]


@pytest.mark.parametrize(
    ("module", "lines", "code"),
    [
        (Module.NOT_LOADED, (REFUSED,), "DRV116"),
        (Module.NOT_LOADED, (LOCKDOWN,), "DRV116"),
        (Module.NOT_LOADED, ("nvidia: loading of unsigned module is rejected",), "DRV116"),
        (Module.NOT_LOADED, ("vboxdrv: loading of unsigned module is rejected",), "DRV105"),
        (Module.NOT_LOADED, (TAINTED,), "DRV105"),
        (Module.NOT_LOADED, (), "DRV105"),
        (Module.NOT_INSTALLED, (REFUSED,), "DRV105"),
    ],
)
def test_a_rejected_module_in_the_kernel_log_is_the_cause(module: Module, lines: tuple[str, ...], code: str) -> None:
    (finding,) = findings(host_without_module(module, BUILT)._replace(kernel_log=log(*lines)))
    assert finding.code == code


def test_secure_boot_is_evidence_for_a_module_that_is_not_loaded() -> None:
    snapshot = host_without_module(Module.NOT_LOADED, BUILT)
    secure = snapshot._replace(host=snapshot.host._replace(secure_boot=known(True, "SecureBoot")))
    (finding,) = findings(secure)
    assert finding.cause is Cause.DRIVER_MODULE_NOT_LOADED
    assert "host.secure_boot" in {entry.fact for entry in finding.evidence}
    assert any(fix.command and "mokutil" in fix.command for fix in finding.fix)
    assert not any(fix.command and "mokutil" in fix.command for f in findings(snapshot) for fix in f.fix)


OTHER_KERNEL = "6.8.0-41-generic"


def other_kernel_module(distribution: str, kernel: str, *files: str) -> Snapshot:
    """A machine whose running kernel has no module while another installed kernel has one."""
    snapshot = host_without_module(Module.NOT_INSTALLED)
    snapshot = snapshot._replace(host=snapshot.host._replace(kernel=known(kernel, "uname")))
    return with_reading(snapshot, distribution, module_kernels=(OTHER_KERNEL,), module_files=files)


@pytest.mark.parametrize(
    ("distribution", "folder", "expected"),
    [
        ("ubuntu 24.04", "kernel/nvidia-550", f"apt-get install linux-modules-nvidia-550-{KERNEL}"),
        ("ubuntu 24.04", "kernel/nvidia-550-open", f"apt-get install linux-modules-nvidia-550-open-{KERNEL}"),
        ("ubuntu 24.04", "kernel/nvidia-550srv", f"apt-get install linux-modules-nvidia-550-server-{KERNEL}"),
        ("ubuntu 24.04", "kernel/nvidia-550srv-open", f"apt-get install linux-modules-nvidia-550-server-open-{KERNEL}"),
        ("fedora 42", "extra/nvidia", f"dnf install kernel-devel-{KERNEL}"),
        ("debian 13", "updates/dkms", f"apt-get install linux-headers-{KERNEL}"),
        ("ubuntu 24.04", "updates/dkms", f"apt-get install linux-headers-{KERNEL}"),
    ],
)
def test_a_module_of_another_kernel_is_installed_as_it_was_before(
    distribution: str, folder: str, expected: str
) -> None:
    (finding,) = findings(other_kernel_module(distribution, KERNEL, f"{OTHER_KERNEL}/{folder}/nvidia.ko"))
    assert (finding.code, finding.cause) == ("DRV115", Cause.DRIVER_KERNEL_INCOMPATIBLE)
    assert " ".join(finding.fix[0].command or ()) == f"sudo {expected}"
    assert OTHER_KERNEL in {entry.value for entry in finding.evidence}


OWN_MODULE = f"{OTHER_KERNEL}/kernel/nvidia-550/nvidia.ko"


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (
            other_kernel_module("ubuntu 24.04", KERNEL, f"{OTHER_KERNEL}/kernel/drivers/video/nvidia.ko"),
            "(NVIDIA's .run file)",
        ),
        (
            other_kernel_module("fedora 42", KERNEL, f"{OTHER_KERNEL}/kernel/drivers/video/nvidia.ko"),
            "(NVIDIA's .run file)",
        ),
        (other_kernel_module("ubuntu 24.04", "6.12.1-061201-generic", OWN_MODULE), f"boot {OTHER_KERNEL}"),
        (other_kernel_module("ubuntu 24.04", "6.12.0-061200-generic", OWN_MODULE), f"boot {OTHER_KERNEL}"),
        (other_kernel_module("ubuntu 24.04", "6.8.12-custom", OWN_MODULE), f"boot {OTHER_KERNEL}"),
        (other_kernel_module("ubuntu 24.04", "6.8.0-45-custom", OWN_MODULE), f"boot {OTHER_KERNEL}"),
        (
            other_kernel_module("ubuntu 24.04", KERNEL, f"{OTHER_KERNEL}/kernel/nvidia-535/nvidia.ko"),
            f"boot {OTHER_KERNEL}",
        ),
        (
            other_kernel_module("ubuntu 24.04", KERNEL, OWN_MODULE, OWN_MODULE.replace("550", "550-open")),
            f"boot {OTHER_KERNEL}",
        ),
        (other_kernel_module("ubuntu 24.04", KERNEL), f"boot {OTHER_KERNEL}"),
        (other_kernel_module("rocky 9.5", KERNEL, f"{OTHER_KERNEL}/extra/nvidia/nvidia.ko.xz"), f"boot {OTHER_KERNEL}"),
        (
            other_kernel_module("opensuse-leap 15.6", KERNEL, f"{OTHER_KERNEL}/updates/nvidia.ko"),
            f"boot {OTHER_KERNEL}",
        ),
    ],
)
def test_a_module_of_uncertain_origin_gets_no_install_command(snapshot: Snapshot, expected: str) -> None:
    (finding,) = findings(snapshot)
    assert finding.code == "DRV115"
    assert [fix.command for fix in finding.fix if fix.command] == []
    assert expected in finding.fix[0].text


@pytest.mark.parametrize(("builds", "dkms"), [((BUILT,), True), ((), False)])
def test_a_module_of_another_kernel_is_rebuilt_if_dkms_manages_it(builds: tuple[DkmsBuild, ...], *, dkms: bool) -> None:
    result = log("nvidia: disagrees about version of symbol module_layout")
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, *builds)._replace(kernel_log=result), "rocky 9.5")
    (finding,) = findings(snapshot)
    assert finding.code == "DRV116"
    assert any(fix.command and "dkms" in fix.command for fix in finding.fix) is dkms


def test_leftover_modules_of_a_removed_driver_are_not_a_driver() -> None:
    snapshot = with_reading(host_without_module(Module.NOT_INSTALLED), module_kernels=("6.8.0-41-generic",))
    removed = snapshot._replace(
        driver=snapshot.driver._replace(nvml_init=Reading()),
        sources=(snapshot.sources[0], *(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda"))),
    )
    assert [finding.code for finding in findings(removed)] == ["DRV106"]


def test_a_reboot_follows_an_update_that_removed_the_running_modules() -> None:
    snapshot = with_reading(host_without_module(Module.NOT_LOADED), "arch", module_kernels=("6.18.2-arch2-1",))
    without_module = snapshot._replace(driver=snapshot.driver._replace(module=Reading(reason="not to be seen")))
    (finding,) = findings(without_module)
    assert finding.cause is Cause.DRIVER_MODULE_NOT_LOADED
    assert [fix.command for fix in finding.fix] == [("sudo", "reboot")]


@pytest.mark.parametrize(
    ("running", "restarts"), [("6.18.1-arch1-1", True), ("6.18.2-3-cachyos", False), ("6.12.1-2-lts", False)]
)
def test_a_reboot_is_advised_only_for_a_kernel_of_the_same_flavor(
    running: str,
    restarts: bool,  # noqa: FBT001 - a table
) -> None:
    """Arch Linux and its derivatives ship several kernels, each with its own module package."""
    snapshot = with_reading(host_without_module(Module.NOT_INSTALLED), "cachyos", module_kernels=("6.18.2-arch2-1",))
    snapshot = snapshot._replace(host=snapshot.host._replace(kernel=known(running, "uname")))
    (finding,) = findings(snapshot)
    assert finding.code == "DRV115"
    assert (("sudo", "reboot") in {fix.command for fix in finding.fix}) is restarts
    assert (("sudo", "dkms", "autoinstall", "-k", running) in {fix.command for fix in finding.fix}) is not restarts
    assert not any(fix.command and "linux-headers" in fix.command for fix in finding.fix)


def test_the_module_is_built_before_it_is_loaded() -> None:
    (finding,) = findings(host_without_module(Module.NOT_INSTALLED))
    commands = [fix.command for fix in finding.fix]
    assert finding.code == "DRV105"
    assert commands.index(("sudo", "modprobe", "nvidia")) > commands.index(
        ("sudo", "dkms", "autoinstall", "-k", KERNEL)
    )


@pytest.mark.parametrize(
    ("distribution", "key"),
    [
        ("ubuntu 24.04", "/var/lib/shim-signed/mok/MOK.der"),
        ("debian 12", "/var/lib/dkms/mok.pub"),
        ("fedora 41", "/etc/pki/akmods/certs/public_key.der"),
    ],
)
def test_the_signing_key_path_depends_on_the_distribution(distribution: str, key: str) -> None:
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT), distribution)
    (finding,) = findings(snapshot._replace(kernel_log=log(REFUSED)))
    assert ("sudo", "mokutil", "--import", key) in [fix.command for fix in finding.fix]


@pytest.mark.parametrize(("device", "kind"), [("2684", ""), ("2b85", "-open")])
@pytest.mark.parametrize(("kernel", "series"), [(KERNEL, "generic-6.8"), ("6.17.0-1010-oem", "oem-6.17")])
def test_a_signed_module_of_ubuntu_replaces_that_of_dkms(device: str, kind: str, kernel: str, series: str) -> None:
    """The package of the kernel's series provides nvidia-dkms-BRANCH, so apt keeps the driver without DKMS's module."""
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT))._replace(
        pci_gpus=(BUS[0]._replace(device=device),), kernel_log=log("Loading of module with unavailable key is rejected")
    )
    (finding,) = findings(snapshot._replace(host=snapshot.host._replace(kernel=known(kernel, "uname"))))
    assert finding.code == "DRV116"
    assert [fix_command(fix) for fix in finding.fix] == [
        "sudo mokutil --import /var/lib/shim-signed/mok/MOK.der",
        "sudo reboot",
        f"sudo apt-get install linux-modules-nvidia-550{kind}-{series} nvidia-driver-550{kind} nvidia-dkms-550{kind}-",
    ]


def test_a_kernel_that_is_not_ubuntus_gets_no_package_of_a_signed_module() -> None:
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT))._replace(kernel_log=log(REFUSED))
    (finding,) = findings(snapshot._replace(host=snapshot.host._replace(kernel=known("6.12.1-xanmod1", "uname"))))
    assert finding.code == "DRV116"
    assert "signed" in finding.fix[-1].text
    assert finding.fix[-1].command is None


@pytest.mark.parametrize(("distribution", "commands"), [("ubuntu 22.04", 3), ("opensuse-leap 15.6", 2)])
def test_a_missing_compiler_is_installed_first(distribution: str, commands: int) -> None:
    failed = FAILED._replace(compiler="gcc-12")
    snapshot = with_reading(host_without_module(Module.NOT_INSTALLED, failed), distribution)
    (finding,) = findings(snapshot)
    assert "gcc-12" in finding.fix[0].text
    assert len([fix for fix in finding.fix if fix.command]) == commands
    assert any("gcc-12" in entry.value for entry in finding.evidence)


def with_library(*, container: Container, mounted: bool | None, release: str, origin: LibraryOrigin) -> Snapshot:
    snapshot = working(container=container)
    path = f"/usr/lib/x86_64-linux-gnu/libcuda.so.{release}"
    driver = snapshot.driver._replace(
        nvml_init=known(int(Nvml.LIB_RM_VERSION_MISMATCH), "nvml"),
        cuda_init=known(803, "libcuda"),
        cuda_library=known(path, "the loader"),
        libraries=(DriverLibrary(path, DriverVersion.parse(release), origin, mounted),),
    )
    return snapshot._replace(driver=driver, gpus=(), gpu_count=Reading(), visible_count=Reading())


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
def test_a_driver_library_in_the_image_differs_from_a_pending_reboot(
    container: Container,
    mounted: bool | None,  # noqa: FBT001 - a table
    release: str,
    origin: str,
    cause: Cause,
) -> None:
    snapshot = with_library(container=container, mounted=mounted, release=release, origin=LibraryOrigin(origin))
    (finding,) = findings(snapshot)
    assert (finding.code, finding.cause) == ("DRV107", cause)
    has_reboot_fix = any(fix.command == ("sudo", "reboot") for fix in finding.fix)
    assert has_reboot_fix is (cause is Cause.DRIVER_LIBRARY_VERSION_MISMATCH)


@pytest.mark.parametrize(
    ("rules", "codes"),
    [
        (("c *:* m",), ["CTR306"]),
        ((), ["CTR306"]),
        (("c 195:* rwm",), ["DRV113"]),
        (("a *:* rwm",), ["DRV113"]),
        (None, ["DRV113"]),
    ],
)
def test_device_rules_without_the_gpu_are_the_cause(rules: tuple[str, ...] | None, codes: list[str]) -> None:
    support = ContainerSupport(device_rules=Reading() if rules is None else known(rules, "devices.list"))
    snapshot = working(cuda=100, container=Container.DOCKER)._replace(container_support=support)
    (finding,) = findings(snapshot)
    assert [finding.code] == codes
    result = {entry.value for entry in finding.evidence if entry.fact == "container_support.device_rules"}
    assert result == ({"c *:* m" if rules else "none"} if codes == ["CTR306"] else set())
    healthy = working(container=Container.DOCKER)._replace(container_support=support)
    assert findings(healthy) == []


@pytest.mark.parametrize(
    ("container", "mode", "nvml", "code"),
    [
        (Container.DOCKER, "crw-rw-rw-", 999, "CTR306"),
        (Container.DOCKER, "crw-rw-rw-", 0, "CTR306"),
        (Container.DOCKER, "crw-rw----", 999, "CTR304"),
        (Container.DOCKER, "crw-rw----", 4, "CTR304"),
        (Container.NONE, "crw-rw----", 4, "CTR304"),
        (Container.NONE, "crw-rw-rw-", 4, "CTR304"),
    ],
)
def test_an_inaccessible_node_with_an_open_mode_is_blocked_by_cgroup(
    container: Container, mode: str, nvml: int, code: str
) -> None:
    snapshot = working(cuda=100, container=container)
    nodes = tuple(
        DeviceNode(f"/dev/nvidia{n}", accessible=False, mode=mode, owner="0:44") for n in ("0", "ctl", "-uvm")
    )
    driver = snapshot.driver._replace(device_nodes=nodes, nvml_init=known(nvml, "nvml"))
    assert [entry.code for entry in findings(snapshot._replace(driver=driver))] == [code]


@pytest.mark.parametrize("container", [Container.NONE, Container.APPTAINER])
@pytest.mark.parametrize(("code", "expected"), [(34, "DRV109"), (804, "DRV111"), (999, "DRV113")])
def test_gpus_granted_to_other_jobs_are_not_why_cuda_fails(container: Container, code: int, expected: str) -> None:
    snapshot = working(cuda=code, container=container)
    of_others = tuple(
        DeviceNode(f"/dev/nvidia{n}", accessible=False, mode="crw-rw-rw-", owner="0:0") for n in range(1, 8)
    )
    driver = snapshot.driver._replace(device_nodes=(*snapshot.driver.device_nodes, *of_others))
    assert [finding.code for finding in findings(snapshot._replace(driver=driver))] == [expected]


@pytest.mark.parametrize(
    ("cupy", "cause"),
    [("cupy-cuda12x", Cause.ROCM_MISMATCH), ("cupy-rocm-5-0", Cause.NO_NVIDIA_GPU), (None, Cause.NO_NVIDIA_GPU)],
)
def test_an_amd_gpu_does_not_fit_a_cupy_for_cuda(cupy: str | None, cause: Cause) -> None:
    snapshot = Snapshot(
        host=Host(os=known("linux", "uname"), container=known(Container.NONE, "marks")),
        pci_gpus=(PciGpu("0000:93:00.0", "1002", "740f", None, "amdgpu"),),
        amd_gpus=(AmdGpu(1, "aldebaran", "gfx90a", "0000:93:00.0", 1024),),
        target=Target(cupy=(CupyInstallation(cupy, "13.3.0"),) if cupy else ()),
        sources=tuple(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda")),
    )
    (finding,) = findings(snapshot)
    assert (finding.code, finding.cause) == ("GPU201", cause)
    assert "gfx90a" in finding.title
    assert ("which cupy-cuda12x cannot use" in finding.title) is (cause is Cause.ROCM_MISMATCH)
    commands = [" ".join(fix.command[-2:]) for fix in finding.fix if fix.command]
    look, install, build = "cat /opt/rocm/.info/version", "install cupy-rocm-7-0==14.2.0", "install cupy"
    remove = ["-y cupy-cuda12x"] if cupy == "cupy-cuda12x" else []
    assert commands == ([] if cupy == "cupy-rocm-5-0" else [look, *remove, install, build])
    builds = [fix.command for fix in finding.fix if fix.command and "CUPY_INSTALL_USE_HIP=1" in fix.command]
    assert all("HCC_AMDGPU_TARGET=gfx90a" in command for command in builds)
    assert not any(fix.safe for fix in finding.fix), "experimental"


@pytest.mark.parametrize(("holder", "named"), [("vfio-pci", True), ("nvidia", False), (None, False)])
def test_a_gpu_reserved_for_a_virtual_machine_is_reported_as_such(
    holder: str | None,
    named: bool,  # noqa: FBT001 - a table
) -> None:
    snapshot = working(cuda=100)._replace(gpus=(), gpu_count=known(0, "nvml"))
    bound = snapshot._replace(pci_gpus=(BUS[0]._replace(device="ffff", kernel_driver=holder),))
    (finding,) = findings(bound)
    assert finding.code == "DRV113"
    assert ("vfio-pci holds it" in finding.title) is named
    assert any("virtual machine" in fix.text for fix in finding.fix) is named
    assert (f"kernel driver of {BUS[0].pci}", holder or "none") in {(e.fact, e.value) for e in finding.evidence}


@pytest.mark.parametrize(
    ("mode", "by", "gpus", "expected"),
    [
        ("crw-rw-rw-", None, None, "control group"),
        ("crw-rw----", None, None, "group that owns"),
        ("crw-rw-rw-", "slurm", 0, "Request a GPU for the job"),
        ("crw-rw----", "slurm", 0, "Request a GPU for the job"),
        ("crw-rw-rw-", "slurm", None, "Request a GPU for the job"),
        ("crw-rw----", "slurm", None, "Request a GPU for the job"),
        ("crw-rw----", "slurm", 1, "group that owns"),
    ],
)
def test_access_to_the_nodes_depends_on_mode_and_grant(
    mode: str, by: str | None, gpus: int | None, expected: str
) -> None:
    snapshot = working(cuda=100)
    nodes = (DeviceNode("/dev/nvidia0", accessible=False, mode=mode, owner="0:44"),)
    grant = Grant(
        by=known(by, "SLURM_JOB_ID") if by else Reading(),
        gpus=Reading() if gpus is None else known(gpus, "SLURM_GPUS_ON_NODE"),
    )
    driver = snapshot.driver._replace(
        device_nodes=(*nodes, *snapshot.driver.device_nodes[1:]), nvml_init=known(4, "nvml")
    )
    (finding,) = findings(snapshot._replace(driver=driver, grant=grant))
    assert finding.code == "CTR304"
    assert expected in finding.fix[0].text
    asks = by == "slurm" and not gpus
    assert (finding.fix[0].command == ("sbatch", "--gpus=1", "JOB_SCRIPT")) is asks
    join = 'sudo usermod --append --groups 44 "$USER"'
    joins = mode == "crw-rw----" and gpus != 0
    assert any(fix.shell_line == join for fix in finding.fix) is joins
    assert any("log out and in" in fix.text for fix in finding.fix) is joins


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "grep -rn nvidia /etc/modprobe.d /etc/udev/rules.d /usr/lib/udev/rules.d"),
        (("/etc/modprobe.d/n.conf: options nvidia NVreg_DeviceFileMode=0660",), "NVreg_DeviceFileMode=0660"),
    ],
)
def test_nodes_of_root_alone_get_their_default_mode_and_no_group(options: tuple[str, ...], expected: str) -> None:
    snapshot = working(cuda=100)
    nodes = tuple(
        DeviceNode(f"/dev/nvidia{n}", accessible=False, mode="crw-rw----", owner="0:0") for n in ("0", "ctl", "-uvm")
    )
    driver = snapshot.driver._replace(
        device_nodes=nodes, nvml_init=known(4, "nvml"), module_options=known(options, "modprobe.d")
    )
    (finding,) = findings(snapshot._replace(driver=driver))
    assert finding.code == "CTR304"
    text = " ".join(f"{fix.text} {' '.join(fix.command or ())}" for fix in finding.fix)
    assert expected in text
    assert "usermod" not in text
    assert "default mode, 0666" in text
    assert "chmod" not in text


@pytest.mark.parametrize(("container", "by_docker"), [(Container.DOCKER, True), (Container.LXC, False)])
def test_only_docker_gets_docker_commands(
    container: Container,
    by_docker: bool,  # noqa: FBT001 - a table
) -> None:
    snapshot = working(cuda=100, container=container)
    nodes = (DeviceNode("/dev/nvidia0", accessible=False, mode="crw-rw----", owner="0:44"),)
    driver = snapshot.driver._replace(
        device_nodes=(*nodes, *snapshot.driver.device_nodes[1:]), nvml_init=known(4, "nvml")
    )
    (finding,) = findings(snapshot._replace(driver=driver))
    assert finding.code == "CTR304"
    assert ((finding.fix[0].command or ())[:4] == ("docker", "run", "--group-add", "44")) is by_docker


@pytest.mark.parametrize(
    ("block", "distribution", "commands"),
    [
        ("/lib/modprobe.d/blacklist-nvidia.conf: alias nvidia off", "ubuntu 24.04", ["sudo prime-select on-demand"]),
        (
            "/usr/lib/modprobe.d/blacklist-nvidia.conf: alias nvidia off",
            "linuxmint 22",
            ["sudo prime-select on-demand"],
        ),
        (
            "/etc/modprobe.d/blacklist-nvidia.conf: alias nvidia off",
            "ubuntu 24.04",
            ["sudo envycontrol -s hybrid", "sudo update-initramfs -u"],
        ),
        (
            "/etc/modprobe.d/blacklist-nvidia.conf: alias nvidia off",
            "fedora 42",
            ["sudo envycontrol -s hybrid", "sudo dracut --force"],
        ),
        ("/usr/lib/modprobe.d/blacklist-nvidia.conf: alias nvidia off", "fedora 42", ["sudo dracut --force"]),
        ("/etc/modprobe.d/system76-power.conf: alias nvidia off", "pop 22.04", ["sudo update-initramfs -u"]),
        (
            "/etc/modprobe.d/x.conf: blacklist nvidia",
            "ubuntu 24.04",
            ["sudo modprobe nvidia", "sudo update-initramfs -u"],
        ),
        ("/etc/modprobe.d/x.conf: install nvidia /bin/false", "fedora 42", ["sudo dracut --force"]),
        ("/etc/modprobe.d/x.conf: blacklist nvidia", "arch", ["sudo modprobe nvidia", "sudo mkinitcpio -P"]),
        ("/proc/cmdline: modprobe.blacklist=nvidia", "arch", ["sudo modprobe nvidia"]),
        ("/proc/cmdline: module_blacklist=nvidia", "arch", []),
    ],
)
def test_the_modprobe_line_that_blocks_the_module_is_removed(
    block: str, distribution: str, commands: list[str]
) -> None:
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT), distribution, module_blocks=(block,))
    (finding,) = findings(snapshot)
    assert finding.cause is Cause.DRIVER_MODULE_NOT_LOADED
    assert block in {entry.value for entry in finding.evidence}
    assert [" ".join(fix.command) for fix in finding.fix if fix.command] == commands
    loaded = snapshot._replace(driver=snapshot.driver._replace(module=known(Module.LOADED, "x"), nvml_init=Reading()))
    assert not any(entry.code == "DRV105" for entry in findings(loaded))


@pytest.mark.parametrize(
    ("module", "code"), [(Module.NOT_LOADED, "DRV105"), (Module.NOT_INSTALLED, "DRV105"), (None, "DRV106")]
)
@pytest.mark.parametrize("nouveau", [True, False])
def test_a_host_with_passed_through_gpus_gets_no_install_command(
    module: Module | None,
    code: str,
    nouveau: bool,  # noqa: FBT001 - a table
) -> None:
    block = "/etc/modprobe.d/passthrough.conf: blacklist nvidia"
    snapshot = with_reading(host_without_module(module or Module.NOT_INSTALLED), "debian 12", module_blocks=(block,))
    driver = snapshot.driver._replace(nouveau=known(nouveau, "x"))
    sources = snapshot.sources
    if module is None:
        driver = driver._replace(nvml_init=Reading())
        sources = (sources[0], *(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda")))
    gpus = tuple(BUS[0]._replace(pci=pci, kernel_driver="vfio-pci") for pci in ("0000:01:00.0", "0000:02:00.0"))
    passed_through = snapshot._replace(driver=driver, sources=sources, pci_gpus=gpus)
    (finding,) = findings(passed_through)
    assert finding.code == code
    assert "vfio-pci" in finding.title
    assert {f"kernel driver of {gpu.pci}" for gpu in gpus} <= {entry.fact for entry in finding.evidence}
    assert [fix.command for fix in finding.fix] == [None, None]
    assert not any(word in fix.text for fix in finding.fix for word in ("Remove the lines", "nstall", "Load"))
    unbuilt = DkmsBuild("nvidia", "550.163.01")
    (finding,) = findings(passed_through._replace(driver=driver._replace(dkms=(unbuilt,))))
    assert (finding.code, "vfio-pci" in finding.title) == (code, True)
    one_unbound = passed_through._replace(pci_gpus=(gpus[0], gpus[1]._replace(kernel_driver=None)))
    assert not any("virtual machine" in fix.text for finding in findings(one_unbound) for fix in finding.fix)


def test_a_blacklist_line_does_not_replace_the_other_fixes() -> None:
    block = "/etc/modprobe.d/x.conf: blacklist nvidia"
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT), module_blocks=(block,))
    secure = snapshot._replace(host=snapshot.host._replace(secure_boot=known(True, "SecureBoot")))
    (finding,) = findings(secure)
    programs = [(fix.command or ("",) * 2)[1] for fix in finding.fix]
    assert [name for name in programs if name] == ["modprobe", "mokutil", "reboot", "apt-get", "update-initramfs"]
    assert any(block in fix.text for fix in finding.fix)


def test_an_initramfs_only_blacklist_does_not_change_the_fixes() -> None:
    unblocked = with_reading(host_without_module(Module.NOT_LOADED, BUILT))
    block = "/proc/cmdline: rd.driver.blacklist=nvidia"
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT), module_blocks=(block,))
    (finding,), (usual,) = findings(snapshot), findings(unblocked)
    assert finding.fix == usual.fix


def test_a_blocked_module_that_is_not_installed_is_installed_first() -> None:
    block = "/etc/modprobe.d/x.conf: blacklist nvidia"
    snapshot = with_reading(host_without_module(Module.NOT_INSTALLED), module_blocks=(block,))
    (finding,) = findings(snapshot)
    texts = [fix.text for fix in finding.fix]
    (out,) = (number for number, text in enumerate(texts) if block in text)
    assert 0 < out < texts.index("Then load it.")


@pytest.mark.parametrize(
    ("module", "block", "chosen"),
    [
        (Module.NOT_LOADED, "/etc/modprobe.d/x.conf: blacklist nvidia", True),
        (Module.NOT_LOADED, "/proc/cmdline: modprobe.blacklist=nvidia", True),
        (Module.NOT_LOADED, "/proc/cmdline: rd.driver.blacklist=nvidia", False),
        (Module.NOT_INSTALLED, "/etc/modprobe.d/x.conf: blacklist nvidia", False),
        (Module.NOT_LOADED, None, False),
    ],
)
def test_a_blacklist_that_favors_nouveau_is_named_in_the_fix(
    module: Module,
    block: str | None,
    chosen: bool,  # noqa: FBT001 - a table
) -> None:
    snapshot = with_reading(host_without_module(module), module_blocks=(block,) if block else ())
    bound_to_nouveau = snapshot._replace(pci_gpus=(BUS[0]._replace(kernel_driver="nouveau"),))
    (finding,) = findings(bound_to_nouveau)
    assert finding.code == "DRV104"
    assert any(block is not None and block in fix.text for fix in finding.fix) is chosen
    missing = module is Module.NOT_INSTALLED
    assert any("Install the NVIDIA driver" in fix.text for fix in finding.fix) is missing
    assert (block in {entry.value for entry in finding.evidence}) or not chosen


OPERATOR = "/run/nvidia/driver/usr/lib/x86_64-linux-gnu"
STORE = "/nix/store/5bqvqa6n0hyb1vbjbsqvwvwaqw1sd9cz-nvidia-x11/lib"


def off_loader_path(
    folder: str,
    *,
    container: Container = Container.NONE,
    release: str = "550.163.01",
    origin: LibraryOrigin = LibraryOrigin.OTHER,
    distribution: str = "ubuntu 22.04",
) -> Snapshot:
    snapshot = working(cuda=0, container=container)
    library = DriverLibrary(f"{folder}/libcuda.so.{release}", DriverVersion.parse(release), origin)
    return snapshot._replace(
        host=snapshot.host._replace(distribution=known(distribution, "x"), arch=known("x86_64", "uname")),
        driver=snapshot.driver._replace(
            libraries=(library,), nvml_init=Reading(), cuda_init=Reading(), branch=known(550, "x")
        ),
        gpus=(),
        gpu_count=Reading(),
        visible_count=Reading(),
        sources=(
            Source("kernel", SourceState.ANSWERED),
            *(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda")),
        ),
    )


@pytest.mark.parametrize(
    ("snapshot", "folder", "commands"),
    [
        (off_loader_path(OPERATOR), "/run/nvidia/driver", []),
        (off_loader_path("/usr/lib64-nvidia"), "/usr/lib64-nvidia", ["export", "sudo"]),
        (
            off_loader_path(STORE, origin=LibraryOrigin.NIXOS, distribution="nixos 25.11"),
            "/run/opengl-driver/lib",
            ["export", "sudo"],
        ),
        (off_loader_path("/usr/lib/x86_64-linux-gnu", origin=LibraryOrigin.SYSTEM), "libcuda.so.1", ["sudo"]),
        (
            off_loader_path("/usr/lib/x86_64-linux-gnu", container=Container.DOCKER, origin=LibraryOrigin.MOUNTED),
            "links to the driver's libraries alone",
            ["ldconfig"],
        ),
        (
            off_loader_path("/usr/local/nvidia/lib64", container=Container.KUBERNETES),
            "/usr/local/nvidia/lib64",
            ["export"],
        ),
        (off_loader_path("/var/lib/nvidia/lib64", distribution="cos 117"), "remount,exec", ["sudo", "export", "sudo"]),
    ],
    ids=["operator", "colab", "nixos", "ldconfig", "image", "gke", "cos"],
)
def test_a_driver_library_off_the_loader_path_is_not_reinstalled(
    snapshot: Snapshot, folder: str, commands: list[str]
) -> None:
    (finding,) = findings(snapshot)
    assert (finding.code, finding.cause) == ("DRV108", Cause.DRIVER_INSTALL_BROKEN)
    assert [line.split()[0] for fix in finding.fix if (line := fix_command(fix))] == commands
    assert any(folder in f"{fix.text} {fix_command(fix)}" for fix in finding.fix)
    assert not any("nstall" in fix.text or "install" in (fix.command or ()) for fix in finding.fix)


@pytest.mark.parametrize("folder", [OPERATOR, "/usr/lib/x86_64-linux-gnu"])
def test_a_directory_with_a_c_library_is_not_added_to_the_loader_path(folder: str) -> None:
    (finding,) = findings(off_loader_path(folder))
    assert not any(f"LD_LIBRARY_PATH={folder}" in f"{fix.text} {fix_command(fix)}" for fix in finding.fix)


@pytest.mark.parametrize(
    "snapshot",
    [
        off_loader_path("/usr/lib64-nvidia", release="535.183.01"),
        off_loader_path("/usr/local/cuda-12.4/compat", origin=LibraryOrigin.COMPAT),
        off_loader_path("/usr/local/cuda/lib64/stubs", origin=LibraryOrigin.STUB),
        off_loader_path("/usr/lib", distribution="fedora 42"),
    ],
    ids=["another release", "compat", "stub", "32-bit"],
)
def test_an_unusable_libcuda_leads_to_installing_the_compute_package(snapshot: Snapshot) -> None:
    (finding,) = findings(snapshot)
    assert finding.code == "DRV108"
    assert "libcuda" in finding.fix[0].text
    assert finding.fix[0].command is not None


def test_a_musl_loader_is_not_given_the_path_of_a_glibc_library() -> None:
    snapshot = off_loader_path("/usr/lib64", container=Container.DOCKER, distribution="alpine 3.20")
    codes = {}
    for libc in ("musl-1.2.5", "glibc-2.36"):
        host = snapshot.host._replace(libc=known(Libc.parse(libc), "x"))
        codes[libc] = [finding.code for finding in findings(snapshot._replace(host=host))]
    assert "DRV108" not in codes["musl-1.2.5"]
    assert "CTR305" in codes["musl-1.2.5"]
    assert "DRV108" in codes["glibc-2.36"]


MODULE, OLDER, NEWER = "550.163.01", "535.183.01", "580.95.05"
PLACE, STRAY = "/usr/lib/x86_64-linux-gnu", "/usr/lib64"
MISMATCH, BROKEN = "driver-library-version-mismatch", "driver-install-broken"
DOCKER, LXC, HOST = Container.DOCKER, Container.LXC, Container.NONE


def library(name: str, release: str, folder: str = PLACE, *, mounted: bool | None = False) -> DriverLibrary:
    return DriverLibrary(f"{folder}/{name}.so.{release}", DriverVersion.parse(release), LibraryOrigin.SYSTEM, mounted)


def machine(container: Container, nvml: int, used: tuple[DriverLibrary, ...], *more: DriverLibrary) -> Snapshot:
    nodes = tuple(DeviceNode(f"/dev/{n}", True, "crw-rw-rw-", "0:0") for n in ("nvidia0", "nvidiactl", "nvidia-uvm"))
    by_name = {entry.path.rpartition("/")[2].partition(".so")[0]: entry for entry in used}
    nvml_library = by_name.get("libnvidia-ml", by_name["libcuda"])
    driver = Driver(
        version=known(DriverVersion.parse(MODULE), "x"),
        branch=known(550, "x"),
        module=known(Module.LOADED, "x"),
        module_version=known(DriverVersion.parse(MODULE), "x"),
        library_version=known(nvml_library.release or DriverVersion.parse(MODULE), "x"),
        cuda_library=known(by_name["libcuda"].path, "x"),
        nvml_library=known(nvml_library.path, "x"),
        cuda_origin=known(LibraryOrigin.SYSTEM, "x"),
        libraries=(*used, *more),
        nvml_init=known(nvml, "nvml"),
        cuda_init=known(int(Cuda.SYSTEM_DRIVER_MISMATCH), "libcuda"),
        device_nodes=nodes,
    )
    state = SourceState.ANSWERED if nvml == 0 else SourceState.FAILED
    return Snapshot(
        host=Host(
            os=known("linux", "x"),
            distribution=known("ubuntu 22.04", "x"),
            arch=known("x86_64", "x"),
            container=known(container, "x"),
            wsl=known(value=False, source="x"),
        ),
        driver=driver,
        pci_gpus=(PciGpu("0000:31:00.0", "10de", "27b8", kernel_driver="nvidia"),),
        gpu_count=known(1, "nvml") if nvml == 0 else Reading(),
        sources=(Source("kernel", SourceState.ANSWERED), Source("nvml", state), Source("libcuda", SourceState.FAILED)),
    )


def finding_of(snapshot: Snapshot) -> Finding:
    all_findings = diagnosis_of(snapshot).findings
    (only,) = [finding for finding in all_findings if finding.code == "DRV107"]
    assert only.primary
    return only


def driver_libraries(release: str, *, mounted: bool | None = False) -> tuple[DriverLibrary, ...]:
    return tuple(library(name, release, mounted=mounted) for name in ("libcuda", "libnvidia-ml"))


@pytest.mark.parametrize(
    ("container", "used", "cause", "first", "restart"),
    [
        (HOST, driver_libraries(NEWER), MISMATCH, "Restart the machine", True),
        (HOST, driver_libraries(OLDER), MISMATCH, "Restart the machine", True),
        (DOCKER, driver_libraries(NEWER, mounted=True), MISMATCH, "Restart the host", True),
        (DOCKER, driver_libraries(OLDER, mounted=True), MISMATCH, "Restart the container", False),
        (DOCKER, driver_libraries(OLDER, mounted=None), MISMATCH, "Restart the container", False),
        (DOCKER, driver_libraries(OLDER), BROKEN, "from the image", False),
        (LXC, driver_libraries(OLDER), MISMATCH, f"exactly {MODULE} in the container", False),
        (LXC, driver_libraries(NEWER), MISMATCH, f"exactly {MODULE} in the container", False),
        (LXC, driver_libraries(NEWER, mounted=True), MISMATCH, f"exactly {MODULE} in the container", True),
    ],
)
def test_the_container_and_its_libraries_decide_whether_to_restart(
    container: Container,
    used: tuple[DriverLibrary, ...],
    cause: str,
    first: str,
    restart: bool,  # noqa: FBT001 - a table
) -> None:
    finding = finding_of(machine(container, int(Nvml.LIB_RM_VERSION_MISMATCH), used))
    assert finding.cause.value == cause
    assert first in finding.fix[0].text
    assert any(fix.command == ("sudo", "reboot") for fix in finding.fix) is restart
    assert ("image" in finding.title) is (container is DOCKER and cause == BROKEN)


def test_a_held_back_libcuda_is_installed_without_a_reboot() -> None:
    used = (library("libcuda", OLDER), library("libnvidia-ml", MODULE))
    finding = finding_of(machine(HOST, 0, used))
    assert finding.cause.value == BROKEN
    assert finding.fix[0].command == ("sudo", "apt-get", "install", f"libnvidia-compute-550={MODULE}-*")


@pytest.mark.parametrize("nvml", [0, int(Nvml.LIB_RM_VERSION_MISMATCH)])
def test_libraries_of_a_second_driver_are_removed(nvml: int) -> None:
    stray = library("libcuda", OLDER, STRAY)
    used = (stray, library("libnvidia-ml", MODULE) if nvml == 0 else library("libnvidia-ml", OLDER, STRAY))
    right = driver_libraries(MODULE) if nvml else (library("libcuda", MODULE),)
    finding = finding_of(machine(HOST, nvml, used, *right))
    assert finding.cause.value == BROKEN
    assert stray.path in finding.fix[0].text
    assert f"{PLACE}/libcuda.so.{MODULE}" in finding.fix[0].text
    assert [fix.command for fix in finding.fix] == [None]


@pytest.mark.parametrize(("release", "command"), [(OLDER, ("sudo", "ldconfig")), (NEWER, ("sudo", "reboot"))])
def test_older_libraries_in_the_same_directory_are_leftovers(release: str, command: tuple[str, ...]) -> None:
    """Newer libraries require a restart even if older files are left."""
    finding = finding_of(
        machine(HOST, int(Nvml.LIB_RM_VERSION_MISMATCH), driver_libraries(release), *driver_libraries(MODULE))
    )
    assert finding.cause.value == MISMATCH
    assert [fix.command for fix in finding.fix] == [command]


def test_ldconfig_repairs_the_link_to_one_of_two_libcudas() -> None:
    used = (library("libcuda", OLDER), library("libnvidia-ml", MODULE))
    finding = finding_of(machine(HOST, 0, used, library("libcuda", MODULE)))
    assert OLDER in finding.title
    assert [fix.command for fix in finding.fix] == [("sudo", "ldconfig")]


def test_a_container_older_than_the_host_driver_is_recreated() -> None:
    used = driver_libraries(OLDER, mounted=True)
    finding = finding_of(machine(DOCKER, int(Nvml.LIB_RM_VERSION_MISMATCH), used))
    assert [word in fix.text for fix, word in zip(finding.fix, ("Restart", "CDI", "recreate"), strict=True)] == [
        True
    ] * 3


def on(distribution: str, snapshot: Snapshot) -> Snapshot:
    return snapshot._replace(host=snapshot.host._replace(distribution=known(distribution, "x")))


def fix_texts(finding: Finding) -> str:
    return " ".join(fix.text for fix in finding.fix)


@pytest.mark.parametrize(
    ("distribution", "place", "left"),
    [
        ("ubuntu 22.04", PLACE, driver_libraries(MODULE)),
        (
            "fedora 42",
            "/usr/lib64",
            (library("libcuda", MODULE, "/usr/lib"), library("libnvidia-ml", MODULE, "/usr/lib")),
        ),
        ("ubuntu 22.04", PLACE, (library("libcuda", MODULE, "/usr/local/cuda-12.4/compat"),)),
        ("ubuntu 22.04", PLACE, (library("libcuda", MODULE, "/usr/local/cuda-12.4/lib64/stubs"),)),
        ("ubuntu 22.04", PLACE, (library("libcuda", MODULE, "/usr/lib64"),)),
        ("ubuntu 22.04", PLACE, (library("libcuda", MODULE),)),
    ],
)
def test_newer_libraries_require_a_reboot_despite_leftover_files(
    distribution: str, place: str, left: tuple[DriverLibrary, ...]
) -> None:
    used = (library("libcuda", NEWER, place), library("libnvidia-ml", NEWER, place))
    finding = finding_of(on(distribution, machine(HOST, int(Nvml.LIB_RM_VERSION_MISMATCH), used, *left)))
    assert finding.cause.value == MISMATCH
    assert [fix.command for fix in finding.fix] == [("sudo", "reboot")]
    assert "emove" not in fix_texts(finding)
    assert {entry.path for entry in used} <= {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(
    "there",
    [
        (library("libcuda", MODULE),),  # and no NVML of the module's version
        tuple(library(n, MODULE, "/usr/lib") for n in ("libcuda", "libnvidia-ml")),  # possibly 32-bit
        tuple(
            DriverLibrary(
                f"/usr/local/cuda-12.4/compat/{n}.so.{MODULE}", DriverVersion.parse(MODULE), LibraryOrigin.COMPAT
            )
            for n in ("libcuda", "libnvidia-ml")
        ),
    ],
)
def test_libraries_without_a_matching_counterpart_are_not_removed(there: tuple[DriverLibrary, ...]) -> None:
    finding = finding_of(machine(HOST, int(Nvml.LIB_RM_VERSION_MISMATCH), driver_libraries(OLDER), *there))
    assert "emove" not in fix_texts(finding)
    assert "from the loader" not in fix_texts(finding)


def test_usr_lib_is_the_library_directory_on_arch() -> None:
    used = tuple(library(n, OLDER, "/usr/lib64") for n in ("libcuda", "libnvidia-ml"))
    right = tuple(library(n, MODULE, "/usr/lib") for n in ("libcuda", "libnvidia-ml"))
    finding = finding_of(on("arch", machine(HOST, int(Nvml.LIB_RM_VERSION_MISMATCH), used, *right)))
    assert all(entry.path in fix_texts(finding) for entry in (*used, *right))
    assert {entry.path for entry in right} <= {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(("release", "has_module_version"), [(OLDER, True), (OLDER, False), (NEWER, True)])
def test_a_libcuda_on_ld_library_path_is_removed_from_the_path(
    release: str,
    has_module_version: bool,  # noqa: FBT001 - a table
) -> None:
    """NVML works, so it matches the module, and a restart would not change libcuda."""
    folder = "/home/someone/driver"
    snapshot = machine(HOST, 0, (library("libcuda", release, folder), library("libnvidia-ml", MODULE)))
    right = (library("libcuda", MODULE),) if has_module_version else ()
    driver = snapshot.driver._replace(
        libraries=(library("libnvidia-ml", MODULE), *right), cuda_origin=known(LibraryOrigin.OTHER, "x")
    )
    finding = finding_of(snapshot._replace(driver=driver, environment={"LD_LIBRARY_PATH": folder}))
    assert finding.cause.value == BROKEN
    assert f"{folder}/libcuda.so.{release} from the loader's path" in finding.fix[0].text
    assert [fix.command for fix in finding.fix] == [None] * len(finding.fix)
    assert (right[0].path in fix_texts(finding)) if right else (MODULE in fix_texts(finding))
    assert folder in {entry.value for entry in finding.evidence}


@pytest.mark.parametrize(
    ("distribution", "command"),
    [
        ("arch", ("sudo", "pacman", "-Syu", "nvidia-utils")),
        ("debian 12", ("sudo", "apt-get", "install", f"libcuda1={MODULE}-*")),
        ("ubuntu 22.04", ("sudo", "apt-get", "install", f"libnvidia-compute-550={MODULE}-*")),
    ],
)
def test_the_fix_for_a_held_back_libcuda_names_the_required_release(
    distribution: str, command: tuple[str, ...] | None
) -> None:
    place = "/usr/lib" if distribution == "arch" else PLACE
    used = (library("libcuda", OLDER, place), library("libnvidia-ml", MODULE, place))
    finding = finding_of(on(distribution, machine(HOST, 0, used)))
    assert [fix.command for fix in finding.fix] == [command]
    assert distribution == "arch" or str(MODULE) in finding.fix[0].text


def test_a_newer_system_libcuda_is_an_unfinished_update() -> None:
    used = (library("libcuda", NEWER), library("libnvidia-ml", MODULE))
    finding = finding_of(machine(HOST, 0, used, library("libcuda", MODULE)))
    assert "emove" not in fix_texts(finding)
    assert "update the whole driver and restart" in fix_texts(finding)
