"""What a person is told to run, by the machine at hand; gpuenv itself runs nothing of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from gpuenv.data import data_path
from gpuenv.doctor.diagnose import diagnose
from gpuenv.matrix.load import load
from gpuenv.matrix.resolve import resolve
from gpuenv.model.codes import Nvml
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Container, DkmsBuild, Driver, Host, Module, PciGpu, Snapshot, Source, SourceState

if TYPE_CHECKING:
    from gpuenv.model.finding import Finding, Fix

MATRIX = load(data_path("matrix.yaml"))
H100, V100 = "2330", "1db6"
ABSENT = tuple(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda", "nvidia-smi"))
FAILED = tuple(Source(name, SourceState.FAILED) for name in ("nvml", "libcuda"))


def machine(distribution: str, device: str = H100, container: Container = Container.NONE) -> Snapshot:
    return Snapshot(
        host=Host(
            os=known("linux", "uname"),
            distribution=known(distribution, "os-release"),
            kernel=known("6.8.0-45-generic", "uname"),
            container=known(container, "marks"),
        ),
        pci_gpus=(PciGpu("0000:17:00.0", "10de", device),),
        sources=(Source("kernel", SourceState.ANSWERED), *ABSENT),
    )


def primary(snapshot: Snapshot) -> Finding:
    (found,) = [f for f in diagnose(snapshot, MATRIX, resolve(snapshot, MATRIX), lambda: 0.0).findings if f.primary]
    assert not any(fix.safe for fix in found.fix), "what is outside of the target is for a person"
    return found


def commands(fixes: tuple[Fix, ...]) -> list[str]:
    return [" ".join(fix.command) for fix in fixes if fix.command]


@pytest.mark.parametrize(
    ("distribution", "told"),
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
def test_the_driver_by_distribution(distribution: str, told: list[str]) -> None:
    found = primary(machine(distribution))
    assert found.cause == "no-driver"
    assert commands(found.fix) == told


@pytest.mark.parametrize("distribution", ["rocky 9.5", "arch", "sles 15.6"])
def test_the_open_modules_are_not_for_gpus_before_turing(distribution: str) -> None:
    found = primary(machine(distribution, V100))
    assert commands(found.fix) == []
    assert "branch 580" in found.fix[0].text


@pytest.mark.parametrize(("system", "wsl"), [("linux", True), ("windows", False)])
def test_the_driver_of_windows_is_installed_there(system: str, *, wsl: bool) -> None:
    host = Host(os=known(system, "uname"), wsl=known(wsl, "kernel"), container=known(Container.NONE, "marks"))
    found = primary(Snapshot(host=host, sources=(Source("kernel", SourceState.ANSWERED), *ABSENT)))
    assert "in Windows" in found.fix[0].text
    assert commands(found.fix) == []


def outdated(**host: object) -> Snapshot:
    """Kernel module and library are of two versions."""
    snapshot = machine("ubuntu 24.04")
    return replace(
        snapshot,
        host=replace(snapshot.host, **host),  # type: ignore[arg-type]  # readings of many kinds
        driver=Driver(
            module=known(Module.LOADED, "/proc/modules"),
            nvml_init=known(int(Nvml.LIB_RM_VERSION_MISMATCH), "nvml"),
            cuda_init=known(803, "libcuda"),
        ),
        sources=(Source("kernel", SourceState.ANSWERED), *FAILED),
    )


@pytest.mark.parametrize(
    ("host", "told"),
    [({}, ["sudo reboot"]), ({"wsl": known(value=True, source="kernel")}, ["wsl.exe --shutdown"])],
)
def test_where_a_restart_is_the_cure_nothing_is_installed(host: dict[str, object], told: list[str]) -> None:
    found = primary(outdated(**host))
    assert found.cause == "driver-library-version-mismatch"
    assert commands(found.fix) == told
    assert "nothing needs to be installed" in found.fix[0].text


@pytest.mark.parametrize(
    ("distribution", "headers", "build"),
    [
        ("ubuntu 24.04", "sudo apt-get install linux-headers-6.8.0-45-generic", "sudo dkms autoinstall"),
        ("fedora 42", "sudo dnf install kernel-devel-6.8.0-45-generic", "sudo akmods --force"),
        ("arch", "sudo pacman -S linux-headers", "sudo dkms autoinstall"),
        ("opensuse-leap 15.6", "sudo zypper install kernel-default-devel", "sudo dkms autoinstall"),
    ],
)
def test_a_module_that_was_not_built(distribution: str, headers: str, build: str) -> None:
    snapshot = machine(distribution)
    driver = Driver(
        module=known(Module.NOT_INSTALLED, "/lib/modules"),
        nvml_init=known(int(Nvml.DRIVER_NOT_LOADED), "nvml"),
        dkms=(DkmsBuild("nvidia", "550.54.15"),),
    )
    sources = (Source("kernel", SourceState.ANSWERED), *FAILED)
    told = commands(primary(replace(snapshot, driver=driver, sources=sources)).fix)
    assert headers in told
    assert any(command.startswith(build) for command in told)


def test_a_container_is_started_anew_and_the_host_gets_its_toolkit() -> None:
    docker = commands(primary(machine("debian 12", container=Container.DOCKER)).fix)
    assert docker[0].startswith("docker run --gpus all")
    assert "sudo nvidia-ctk runtime configure --runtime=docker" in docker
    podman = commands(primary(machine("debian 12", container=Container.PODMAN)).fix)
    assert podman[-1] == "sudo nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    assert not any("apt-get" in command for command in (*docker, *podman)), "the host's distribution is not known"
