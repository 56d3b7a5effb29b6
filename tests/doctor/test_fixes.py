"""Commands that the user runs, by machine; gpuenv itself runs none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.doctor.driver_requirements import DriverRequirement
from gpuenv.doctor.fixes.distributions import (
    driver_package_fixes,
    driver_update_fixes,
    family,
    headers_package,
    system_of,
)
from gpuenv.model.finding import Fix
from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Container, DkmsBuild, Driver, Host, Module, PciGpu, Snapshot, Source, SourceState
from gpuenv.model.versions import DriverVersion
from tests.support.diagnosis import context_of, diagnosis_of

if TYPE_CHECKING:
    from gpuenv.model.finding import Finding

H100, V100, K80, GTX_1050, RTX_3090, RTX_5090 = "2330", "1db6", "102d", "1c8d", "2204", "2b85"
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
    (finding,) = [f for f in diagnosis_of(snapshot).findings if f.primary]
    assert not any(fix.safe for fix in finding.fix), "gpuenv changes nothing outside the target"
    return finding


def commands(fixes: tuple[Fix, ...]) -> list[str]:
    return [" ".join(fix.command) for fix in fixes if fix.command]


NVIDIA_HOST = "https://developer.download.nvidia.com/compute/cuda/repos"
FUSION = "https://mirrors.rpmfusion.org/{0}/fedora/rpmfusion-{0}-release-42.noarch.rpm"
ADD_FUSION = f"sudo dnf install {FUSION.format('free')} {FUSION.format('nonfree')}"
AKMOD = "sudo dnf install akmod-nvidia xorg-x11-drv-nvidia-cuda"
BUILD_OPEN = "sudo sh -c echo %_with_kmod_nvidia_open 1 > /etc/rpm/macros.nvidia-kmod"
DEBIAN_12 = (
    "sudo sh -c echo deb http://deb.debian.org/debian bookworm contrib non-free non-free-firmware"
    " > /etc/apt/sources.list.d/non-free.list && apt-get update"
)
KEYRING = [
    f"wget {NVIDIA_HOST}/debian12/x86_64/cuda-keyring_1.1-1_all.deb",
    "sudo dpkg -i cuda-keyring_1.1-1_all.deb",
    "sudo apt-get update",
]
RHEL_9 = [
    "sudo dnf install https://dl.fedoraproject.org/pub/epel/epel-release-latest-9.noarch.rpm",
    f"sudo dnf config-manager --add-repo {NVIDIA_HOST}/rhel9/x86_64/cuda-rhel9.repo",
    f"sudo dnf install kernel-devel-{GENERIC}",
]
RESTART_AND_CHECK = ["sudo reboot", "nvidia-smi"]


@pytest.mark.parametrize(
    ("distribution", "device", "expected"),
    [
        ("ubuntu 24.04", H100, ["sudo ubuntu-drivers install"]),
        ("linuxmint 22", H100, ["sudo ubuntu-drivers install"]),
        ("debian 12", H100, [DEBIAN_12, "sudo apt-get install nvidia-driver linux-headers-amd64"]),
        ("debian 12", V100, [DEBIAN_12, "sudo apt-get install nvidia-driver linux-headers-amd64"]),
        ("debian 12", K80, [DEBIAN_12, "sudo apt-get install nvidia-tesla-470-driver linux-headers-amd64"]),
        ("debian 12", RTX_5090, [*KEYRING, "sudo apt-get install nvidia-open linux-headers-amd64"]),
        (
            "fedora 42",
            H100,
            [ADD_FUSION, AKMOD],
        ),
        (
            "fedora 42",
            RTX_5090,
            [ADD_FUSION, BUILD_OPEN, AKMOD],
        ),
        (
            "rocky 9.5",
            H100,
            [
                *RHEL_9,
                "sudo dnf module reset nvidia-driver",
                "sudo dnf module enable nvidia-driver:open-dkms",
                "sudo dnf install nvidia-open",
            ],
        ),
        ("rocky 9.5", V100, [*RHEL_9, "sudo dnf module install nvidia-driver:580-dkms"]),
        ("almalinux 10.0", H100, [*(line.replace("9", "10") for line in RHEL_9), "sudo dnf install nvidia-open"]),
        ("arch", H100, ["sudo pacman -S nvidia-open nvidia-utils"]),
        (
            "opensuse-leap 15.6",
            H100,
            [f"sudo zypper addrepo {NVIDIA_HOST}/opensuse15/x86_64/ cuda", "sudo zypper install nvidia-open"],
        ),
        (
            "sles 15.6",
            H100,
            [f"sudo zypper addrepo {NVIDIA_HOST}/sles15/x86_64/ cuda", "sudo zypper install nvidia-open"],
        ),
    ],
)
def test_the_driver_is_installed_by_every_step_that_it_needs(
    distribution: str, device: str, expected: list[str]
) -> None:
    finding = primary(machine(distribution, device))
    assert finding.cause == "no-driver"
    assert commands(finding.fix) == [*expected, *RESTART_AND_CHECK]


@pytest.mark.parametrize(
    ("distribution", "device"),
    [("slackware 15.0", H100), ("sles 15.6", V100), ("debian 13", K80), ("ubuntu 26.04", K80), ("kali 2026", V100)],
)
def test_a_system_without_a_known_package_gets_no_command(distribution: str, device: str) -> None:
    finding = primary(machine(distribution, device))
    assert commands(finding.fix) == []
    assert finding.fix[0].text.startswith("Install the NVIDIA driver, branch ")


def test_with_secure_boot_the_key_of_the_modules_is_enrolled_before_the_restart() -> None:
    snapshot = machine("debian 12")
    host = snapshot.host._replace(secure_boot=known(value=True, source="efivars"))
    result = commands(primary(snapshot._replace(host=host)).fix)
    assert result[-3:] == ["sudo mokutil --import /var/lib/dkms/mok.pub", *RESTART_AND_CHECK]


@pytest.mark.parametrize(
    ("distribution", "driver", "gpu", "expected"),
    [
        ("debian 12", "470.256.02", H100, "sudo apt-get install nvidia-driver linux-headers-amd64"),
        ("debian 12", "535.261.03", RTX_5090, "sudo apt-get install nvidia-open linux-headers-amd64"),
        ("ubuntu 24.04", "535.309.01", RTX_5090, "sudo apt-get install nvidia-driver-580-open"),
    ],
)
def test_a_driver_that_is_too_old_for_the_gpu_is_updated_from_where_there_is_a_newer_one(
    distribution: str, driver: str, gpu: str, expected: str
) -> None:
    finding = primary(with_driver(machine(distribution, gpu), driver))
    assert finding.cause == "gpu-too-new-for-driver"
    assert expected in commands(finding.fix)


@pytest.mark.parametrize(
    ("distribution", "gpu", "expected"),
    [
        (
            "fedora 42",
            RTX_3090,
            [ADD_FUSION, AKMOD],
        ),
        (
            "fedora 42",
            RTX_5090,
            [ADD_FUSION, BUILD_OPEN, AKMOD],
        ),
        ("arch rolling", RTX_5090, ["sudo pacman -S nvidia-open nvidia-utils"]),
        ("linuxmint 22", RTX_3090, ["sudo ubuntu-drivers install"]),
        ("linuxmint 22", RTX_5090, ["sudo ubuntu-drivers install"]),
    ],
)
def test_a_driver_is_updated_to_the_newest_one_if_no_gpu_needs_an_older_branch(
    distribution: str, gpu: str, expected: list[str]
) -> None:
    snapshot = with_driver(machine(distribution, gpu), "470.256.02")
    fixes = driver_update_fixes(context_of(snapshot), ">= 580.65.06")
    assert fixes[0].text.startswith("Or update the driver to >= 580.65.06, branch 580 or newer")
    assert commands(fixes) == [*expected, *RESTART_AND_CHECK]


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("fedora 42", "sudo dnf install --allowerasing akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda"),
        ("arch rolling", "git clone https://aur.archlinux.org/nvidia-580xx-utils.git"),
        ("linuxmint 22", "sudo apt-get install nvidia-driver-580"),
    ],
)
def test_a_driver_is_updated_to_the_last_branch_of_an_old_gpu(distribution: str, expected: str) -> None:
    snapshot = with_driver(machine(distribution, V100), "470.256.02")
    assert expected in commands(driver_update_fixes(context_of(snapshot), ">= 525.60.13"))


def with_driver(snapshot: Snapshot, version: str) -> Snapshot:
    """The machine with a driver that does not start its GPU."""
    release = DriverVersion.parse(version)
    driver = Driver(
        version=known(release, "nvml"),
        branch=known(release.branch, "nvml"),
        module=known(Module.NOT_LOADED, "/lib/modules"),
        nvml_init=known(int(Nvml.DRIVER_NOT_LOADED), "nvml"),
        cuda_init=known(100, "libcuda"),
    )
    return snapshot._replace(driver=driver, sources=(Source("kernel", SourceState.ANSWERED), *FAILED))


def test_the_driver_of_a_run_file_is_removed_before_packages_are_installed() -> None:
    snapshot = with_driver(machine("ubuntu 24.04", GTX_1050), "590.48.01")
    driver = snapshot.driver._replace(uninstaller=known("/usr/bin/nvidia-uninstall", "/usr/bin"))
    needed = DriverRequirement(None, 580, frozenset({"proprietary"}))
    _, removal, *packages = driver_package_fixes(snapshot._replace(driver=driver), needed, exact=True)
    assert removal.command == ("sudo", "nvidia-uninstall")
    assert (removal, *packages)[1:] == driver_package_fixes(snapshot, needed, exact=True)[1:]


def test_the_branch_of_a_dropped_gpu_is_pinned_and_held() -> None:
    """Of Debian 12, 535 suits a GTX 1050; where only NVIDIA's repository has a branch, apt is kept at it."""
    needed = DriverRequirement(560, 580, frozenset(("proprietary",)))
    fixes = driver_package_fixes(machine("debian 12", GTX_1050), needed, exact=True)
    assert commands(fixes) == [
        *KEYRING,
        "sudo apt-get install nvidia-driver-pinning-580",
        "sudo apt-get install cuda-drivers-580 linux-headers-amd64",
        "sudo apt-mark hold cuda-drivers-580",
        *RESTART_AND_CHECK,
    ]


@pytest.mark.parametrize(("system", "wsl"), [("linux", True), ("windows", False)])
def test_the_windows_driver_is_installed_in_windows(system: str, *, wsl: bool) -> None:
    host = Host(os=known(system, "uname"), wsl=known(wsl, "kernel"), container=known(Container.NONE, "marks"))
    finding = primary(Snapshot(host=host, sources=(Source("kernel", SourceState.ANSWERED), *ABSENT)))
    assert "in Windows" in finding.fix[0].text
    assert commands(finding.fix) == (["wsl.exe --shutdown"] if wsl else [])


@pytest.mark.parametrize(
    ("distribution", "device", "expected"),
    [
        ("ubuntu 26.04", GTX_1050, "sudo apt-get install nvidia-driver-580"),
        ("ubuntu 24.04", K80, "sudo apt-get install nvidia-driver-470"),
        ("fedora 44", GTX_1050, "sudo dnf install --allowerasing akmod-nvidia-580xx xorg-x11-drv-nvidia-580xx-cuda"),
        ("arch rolling", GTX_1050, "git clone https://aur.archlinux.org/nvidia-580xx-utils.git"),
        ("nixos 26.05", GTX_1050, "nvidiaPackages.legacy_580"),
        ("slackware 15.0", GTX_1050, "branch 580 or older"),
    ],
)
def test_an_old_gpu_gets_the_last_branch_that_supports_it(distribution: str, device: str, expected: str) -> None:
    snapshot = with_driver(machine(distribution, device), "595.58.03")
    finding = primary(snapshot)
    assert finding.cause == "gpu-removed-from-driver"
    assert expected in " ".join([*(fix.text for fix in finding.fix), *commands(finding.fix)])
    needed = DriverRequirement(None, 580, frozenset())
    (fix,) = driver_package_fixes(machine(distribution, container=Container.DOCKER), needed, exact=True)
    assert fix == Fix("On the host: install the NVIDIA driver, branch 580 or older, then restart it.")


@pytest.mark.parametrize(
    ("distribution", "device", "expected"),
    [
        ("arch rolling", K80, "git clone https://aur.archlinux.org/nvidia-470xx-utils.git"),
        ("fedora 42", K80, "akmod-nvidia-470xx"),
        ("fedora 42", GTX_1050, "akmod-nvidia-580xx"),
        ("debian 12", K80, "branch 470"),
        ("ubuntu 24.04", K80, "ubuntu-drivers install"),
    ],
)
def test_an_old_gpu_without_a_driver_gets_a_supported_branch(distribution: str, device: str, expected: str) -> None:
    finding = primary(machine(distribution, device))
    assert finding.cause == "no-driver"
    assert expected in " ".join([*(fix.text for fix in finding.fix), *commands(finding.fix)])


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
    ("host", "expected"), [({}, ["sudo reboot"]), ({"wsl": known(value=True, source="kernel")}, ["wsl.exe --shutdown"])]
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
    assert system_of(Snapshot(host=Host(distribution=known(name, "paste")))).release == release


def test_the_headers_of_amazon_linux_do_not_depend_on_the_name_form() -> None:
    kernel = "6.12.20-23.97.amzn2023.x86_64"
    systems = [
        system_of(Snapshot(host=Host(distribution=known(name, "x")))) for name in ("Amazon Linux 2023.8", "amzn 2023")
    ]
    assert headers_package(systems[0], kernel) == headers_package(systems[1], kernel) == f"kernel6.12-devel-{kernel}"
