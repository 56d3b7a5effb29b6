"""Commands that the user runs, by machine; gpuenv itself runs none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.data import data_path
from gpuenv.doctor.diagnose import diagnose
from gpuenv.doctor.fixes.distributions import driver_branch_fix, family, headers_package, release_of
from gpuenv.matrix.load import load
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import Fix
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Container, DkmsBuild, Driver, Host, Module, PciGpu, Snapshot, Source, SourceState
from gpuenv.model.versions import DriverVersion

if TYPE_CHECKING:
    from gpuenv.model.finding import Finding

MATRIX = load(data_path("matrix.yaml"))
H100, V100, K80, GTX_1050 = "2330", "1db6", "102d", "1c8d"
ABSENT = tuple(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda", "nvidia-smi"))
FAILED = tuple(Source(name, SourceState.FAILED) for name in ("nvml", "libcuda"))


GENERIC = "6.8.0-45-generic"


def machine(distribution: str, device: str = H100, container: Container = Container.NONE) -> Snapshot:
    return Snapshot(
        host=Host(
            os=known("linux", "uname"),
            distribution=known(distribution, "os-release"),
            kernel=known(GENERIC, "uname"),
            container=known(container, "marks"),
        ),
        pci_gpus=(PciGpu("0000:17:00.0", "10de", device),),
        sources=(Source("kernel", SourceState.ANSWERED), *ABSENT),
    )


def primary(snapshot: Snapshot) -> Finding:
    (finding,) = [f for f in diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), lambda: 0.0).findings if f.primary]
    assert not any(fix.safe for fix in finding.fix), "gpuenv changes nothing outside the target"
    return finding


def commands(fixes: tuple[Fix, ...]) -> list[str]:
    return [" ".join(fix.command) for fix in fixes if fix.command]


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("ubuntu 24.04", ["sudo ubuntu-drivers install"]),
        ("linuxmint 22", ["sudo ubuntu-drivers install"]),
        ("debian 12", ["sudo apt-get install nvidia-driver"]),
        ("fedora 42", ["sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda"]),
        ("rocky 9.5", ["sudo dnf module enable nvidia-driver:open-dkms", "sudo dnf install nvidia-open"]),
        ("rhel 8.10", ["sudo dnf module enable nvidia-driver:open-dkms", "sudo dnf install nvidia-open"]),
        ("almalinux 10.0", ["sudo dnf install nvidia-open"]),
        ("arch", ["sudo pacman -S nvidia-open"]),
        ("opensuse-leap 15.6", ["sudo zypper install nvidia-open"]),
        ("sles 15.6", ["sudo zypper install nvidia-open"]),
        ("slackware 15.0", []),
    ],
)
def test_the_driver_is_installed_with_the_package_manager(distribution: str, expected: list[str]) -> None:
    finding = primary(machine(distribution))
    assert finding.cause == "no-driver"
    assert commands(finding.fix) == expected


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [("rocky 9.5", ["sudo dnf module install nvidia-driver:580-dkms"]), ("arch", []), ("sles 15.6", [])],
)
def test_gpus_before_turing_do_not_get_the_open_modules(distribution: str, expected: list[str]) -> None:
    finding = primary(machine(distribution, V100))
    assert commands(finding.fix) == expected
    assert "branch 580" in finding.fix[0].text


@pytest.mark.parametrize(("system", "wsl"), [("linux", True), ("windows", False)])
def test_the_windows_driver_is_installed_in_windows(system: str, *, wsl: bool) -> None:
    host = Host(os=known(system, "uname"), wsl=known(wsl, "kernel"), container=known(Container.NONE, "marks"))
    finding = primary(Snapshot(host=host, sources=(Source("kernel", SourceState.ANSWERED), *ABSENT)))
    assert "in Windows" in finding.fix[0].text
    assert commands(finding.fix) == []


@pytest.mark.parametrize(
    ("distribution", "device", "expected"),
    [
        ("ubuntu 26.04", GTX_1050, "sudo apt-get install nvidia-driver-580"),
        ("ubuntu 24.04", K80, "sudo apt-get install nvidia-driver-470"),
        (
            "fedora 44",
            GTX_1050,
            "sudo dnf install --allowerasing akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda",
        ),
        ("arch rolling", GTX_1050, "nvidia-580xx-dkms from the AUR"),
        ("nixos 26.05", GTX_1050, "nvidiaPackages.legacy_580"),
        ("slackware 15.0", GTX_1050, "branch 580 or older"),
    ],
)
def test_an_old_gpu_gets_the_last_branch_that_supports_it(distribution: str, device: str, expected: str) -> None:
    version = DriverVersion.parse("595.58.03")
    driver = Driver(
        version=known(version, "nvml"),
        branch=known(version.branch, "nvml"),
        module=known(Module.NOT_LOADED, "/lib/modules"),
        nvml_init=known(int(Nvml.DRIVER_NOT_LOADED), "nvml"),
        cuda_init=known(100, "libcuda"),
    )
    snapshot = machine(distribution, device)._replace(
        driver=driver, sources=(Source("kernel", SourceState.ANSWERED), *FAILED)
    )
    finding = primary(snapshot)
    assert finding.cause == "gpu-removed-from-driver"
    assert expected in " ".join([finding.fix[0].text, *commands(finding.fix)])
    assert driver_branch_fix(machine(distribution, container=Container.DOCKER), None, 580, "Do it") == Fix("Do it.")


@pytest.mark.parametrize(
    ("distribution", "device", "expected"),
    [
        ("arch rolling", K80, "nvidia-470xx-dkms from the AUR"),
        ("fedora 42", K80, "akmod-nvidia-470xx"),
        ("fedora 42", GTX_1050, "akmod-nvidia-580xx"),
        ("debian 12", K80, "branch 470"),
        ("ubuntu 24.04", K80, "ubuntu-drivers install"),
    ],
)
def test_an_old_gpu_without_a_driver_gets_a_supported_branch(distribution: str, device: str, expected: str) -> None:
    finding = primary(machine(distribution, device))
    assert finding.cause == "no-driver"
    assert expected in " ".join([finding.fix[0].text, *commands(finding.fix)])


def mismatched(**host: object) -> Snapshot:
    """A machine whose kernel module and library have different versions."""
    snapshot = machine("ubuntu 24.04")
    return snapshot._replace(
        host=snapshot.host._replace(**host),  # type: ignore[arg-type]  # readings of many kinds
        driver=Driver(
            module=known(Module.LOADED, "/proc/modules"),
            nvml_init=known(int(Nvml.LIB_RM_VERSION_MISMATCH), "nvml"),
            cuda_init=known(803, "libcuda"),
        ),
        sources=(Source("kernel", SourceState.ANSWERED), *FAILED),
    )


@pytest.mark.parametrize(
    ("host", "expected"),
    [({}, ["sudo reboot"]), ({"wsl": known(value=True, source="kernel")}, ["wsl.exe --shutdown"])],
)
def test_a_fix_by_restarting_installs_nothing(host: dict[str, object], expected: list[str]) -> None:
    finding = primary(mismatched(**host))
    assert finding.cause == "driver-library-version-mismatch"
    assert commands(finding.fix) == expected
    assert "nothing needs to be installed" in finding.fix[0].text


@pytest.mark.parametrize(
    ("distribution", "kernel", "headers", "build"),
    [
        ("ubuntu 24.04", GENERIC, f"sudo apt-get install linux-headers-{GENERIC}", "sudo dkms autoinstall"),
        ("fedora 42", GENERIC, f"sudo dnf install kernel-devel-{GENERIC}", "sudo akmods --force"),
        ("arch", "6.18.2-arch2-1", "sudo pacman -S linux-headers", "sudo dkms autoinstall"),
        ("opensuse-leap 15.6", GENERIC, "sudo zypper install kernel-default-devel", "sudo dkms autoinstall"),
    ],
)
def test_an_unbuilt_module_is_built_after_installing_the_headers(
    distribution: str, kernel: str, headers: str, build: str
) -> None:
    snapshot = machine(distribution)
    snapshot = snapshot._replace(host=snapshot.host._replace(kernel=known(kernel, "uname")))
    driver = Driver(
        module=known(Module.NOT_INSTALLED, "/lib/modules"),
        nvml_init=known(int(Nvml.DRIVER_NOT_LOADED), "nvml"),
        dkms=(DkmsBuild("nvidia", "550.54.15"),),
    )
    sources = (Source("kernel", SourceState.ANSWERED), *FAILED)
    result = commands(primary(snapshot._replace(driver=driver, sources=sources)).fix)
    assert headers in result
    assert any(command.startswith(build) for command in result)


def test_a_container_is_recreated_and_the_host_gets_the_toolkit() -> None:
    docker = commands(primary(machine("debian 12", container=Container.DOCKER)).fix)
    assert docker[0].startswith("docker run --gpus all")
    assert "sudo nvidia-ctk runtime configure --runtime=docker" in docker
    podman = commands(primary(machine("debian 12", container=Container.PODMAN)).fix)
    assert podman[-1] == "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    assert not any("apt-get" in command for command in (*docker, *podman)), "the host's distribution is not known"


@pytest.mark.parametrize(
    ("distribution", "command"),
    [
        ("rocky 9.6", ("sudo", "dnf", "module", "install", "nvidia-driver:580-dkms")),
        ("rhel 8.10", ("sudo", "dnf", "module", "install", "nvidia-driver:580-dkms")),
        ("rhel 10.1", None),
        ("centos 7", None),
    ],
)
def test_an_older_branch_is_a_dnf_module_stream_on_rhel_8_and_9(
    distribution: str, command: tuple[str, ...] | None
) -> None:
    snapshot = Snapshot(host=Host(distribution=known(distribution, "os-release")))
    assert driver_branch_fix(snapshot, "rhel", 580, "Install it").command == command


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("ubuntu 24.04", "ubuntu"), ("Ubuntu 22.04.4 LTS", "ubuntu"), ("linuxmint 21.3", "ubuntu")),
        *(("Linux Mint 21.3 Virginia", "ubuntu"), ("Pop!_OS 22.04 LTS", "ubuntu"), ("KDE neon 6.0", "ubuntu")),
        *(("Debian GNU/Linux 12 (bookworm)", "debian"), ("Arch Linux", "arch"), ("EndeavourOS", "arch")),
        *(("Red Hat Enterprise Linux 9.4 (Plow)", "rhel"), ("Oracle Linux Server 8.10", "rhel"), ("amzn 2023", "rhel")),
        *(("Amazon Linux 2023", "rhel"), ("Rocky Linux 9.4 (Blue Onyx)", "rhel"), ("Fedora Linux 40", "fedora")),
        *(("openSUSE Tumbleweed", "suse"), ("SUSE Linux Enterprise Server 15 SP5", "suse")),
        *(("Linux From Scratch", None), ("nixos 24.05", None), ("", None)),
    ],
)
def test_a_distribution_is_recognized_by_its_id_or_display_name(name: str, kind: str | None) -> None:
    assert family(Snapshot(host=Host(distribution=known(name, "paste")))) == kind


@pytest.mark.parametrize(
    ("name", "release"),
    [
        *(("rocky 9.5", "9"), ("Rocky Linux 9.5 (Blue Onyx)", "9"), ("Red Hat Enterprise Linux 8.10 (Ootpa)", "8")),
        *(("ol 8.10", "8"), ("Oracle Linux Server 8.10", "8"), ("CentOS Stream 9", "9"), ("amzn 2023", "2023")),
        *(("arch", ""), ("Arch Linux", ""), ("", "")),
    ],
)
def test_the_release_number_is_read_from_the_id_or_display_name(name: str, release: str) -> None:
    assert release_of(Snapshot(host=Host(distribution=known(name, "paste")))) == release


def test_the_headers_of_amazon_linux_do_not_depend_on_the_name_form() -> None:
    kernel = "6.12.20-23.97.amzn2023.x86_64"
    assert headers_package("rhel", "Amazon Linux 2023.8", kernel) == headers_package("rhel", "amzn 2023", kernel)
