"""A kernel module that was not built, is refused, or has left its GPU to another driver."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import DkmsBuild, Module, Snapshot, Source, SourceState
from tests.doctor.kernel_hosts import BUS, KERNEL, findings, log
from tests.doctor.module_hosts import ADDED, BUILT, FAILED, OLD, host_without_module, with_reading

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
def test_a_module_that_was_not_built_for_this_kernel_is_the_cause(
    matrix: Matrix, module: Module, builds: tuple[DkmsBuild, ...], code: str
) -> None:
    (finding,) = findings(host_without_module(module, *builds), matrix)
    assert finding.code == code
    expected = Cause.DRIVER_KERNEL_INCOMPATIBLE if code == "DRV115" else Cause.DRIVER_MODULE_NOT_LOADED
    assert finding.cause is expected
    if FAILED in builds:
        assert any("make.log" in fix.text for fix in finding.fix)


def test_nouveau_that_has_taken_the_gpu_meanwhile_is_no_cause_of_its_own(matrix: Matrix) -> None:
    snapshot = host_without_module(Module.NOT_INSTALLED, OLD)
    held = replace(snapshot, pci_gpus=(replace(BUS[0], kernel_driver="nouveau"),))
    assert [finding.code for finding in findings(held, matrix)] == ["DRV115"]
    without = replace(held, driver=replace(held.driver, dkms=()))
    assert [finding.code for finding in findings(without, matrix)] == ["DRV104"]


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
def test_a_refusal_in_the_log_is_the_cause(matrix: Matrix, module: Module, lines: tuple[str, ...], code: str) -> None:
    (finding,) = findings(replace(host_without_module(module, BUILT), kernel_log=log(*lines)), matrix)
    assert finding.code == code


def test_secure_boot_without_a_log_is_told_beside_the_module(matrix: Matrix) -> None:
    snapshot = host_without_module(Module.NOT_LOADED, BUILT)
    secure = replace(snapshot, host=replace(snapshot.host, secure_boot=known(True, "SecureBoot")))
    (finding,) = findings(secure, matrix)
    assert finding.cause is Cause.DRIVER_MODULE_NOT_LOADED
    assert "host.secure_boot" in {entry.fact for entry in finding.evidence}
    assert any(fix.command and "mokutil" in fix.command for fix in finding.fix)
    assert not any(fix.command and "mokutil" in fix.command for f in findings(snapshot, matrix) for fix in f.fix)


OTHER = "6.8.0-41-generic"


def of_another_kernel(distribution: str, kernel: str, *files: str) -> Snapshot:
    """The running kernel has no module; those of another one lie there."""
    snapshot = host_without_module(Module.NOT_INSTALLED)
    snapshot = replace(snapshot, host=replace(snapshot.host, kernel=known(kernel, "uname")))
    return with_reading(snapshot, distribution, module_kernels=(OTHER,), module_files=files)


@pytest.mark.parametrize(
    ("distribution", "folder", "told"),
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
def test_a_module_that_another_kernel_has_is_brought_by_a_package_or_built(
    matrix: Matrix, distribution: str, folder: str, told: str
) -> None:
    (finding,) = findings(of_another_kernel(distribution, KERNEL, f"{OTHER}/{folder}/nvidia.ko"), matrix)
    assert (finding.code, finding.cause) == ("DRV115", Cause.DRIVER_KERNEL_INCOMPATIBLE)
    assert " ".join(finding.fix[0].command or ()) == f"sudo {told}"
    assert OTHER in {entry.value for entry in finding.evidence}


OWN = f"{OTHER}/kernel/nvidia-550/nvidia.ko"


@pytest.mark.parametrize(
    ("snapshot", "told"),
    [
        (of_another_kernel("ubuntu 24.04", KERNEL, f"{OTHER}/kernel/drivers/video/nvidia.ko"), "(NVIDIA's .run file)"),
        (of_another_kernel("fedora 42", KERNEL, f"{OTHER}/kernel/drivers/video/nvidia.ko"), "(NVIDIA's .run file)"),
        (of_another_kernel("ubuntu 24.04", "6.12.1-061201-generic", OWN), f"start {OTHER}"),
        (of_another_kernel("ubuntu 24.04", "6.12.0-061200-generic", OWN), f"start {OTHER}"),
        (of_another_kernel("ubuntu 24.04", "6.8.12-custom", OWN), f"start {OTHER}"),
        (of_another_kernel("ubuntu 24.04", "6.8.0-45-custom", OWN), f"start {OTHER}"),
        (of_another_kernel("ubuntu 24.04", KERNEL, f"{OTHER}/kernel/nvidia-535/nvidia.ko"), f"start {OTHER}"),
        (of_another_kernel("ubuntu 24.04", KERNEL, OWN, OWN.replace("550", "550-open")), f"start {OTHER}"),
        (of_another_kernel("ubuntu 24.04", KERNEL), f"start {OTHER}"),
        (of_another_kernel("rocky 9.5", KERNEL, f"{OTHER}/extra/nvidia/nvidia.ko.xz"), f"start {OTHER}"),
        (of_another_kernel("opensuse-leap 15.6", KERNEL, f"{OTHER}/updates/nvidia.ko"), f"start {OTHER}"),
    ],
)
def test_where_it_is_not_certain_what_brings_the_module_no_command_is_told(
    matrix: Matrix, snapshot: Snapshot, told: str
) -> None:
    (finding,) = findings(snapshot, matrix)
    assert finding.code == "DRV115"
    assert [fix.command for fix in finding.fix if fix.command] == []
    assert told in finding.fix[0].text


@pytest.mark.parametrize(("builds", "dkms"), [((BUILT,), True), ((), False)])
def test_a_module_of_another_kernel_is_built_where_dkms_has_it(
    matrix: Matrix, builds: tuple[DkmsBuild, ...], *, dkms: bool
) -> None:
    said = log("nvidia: disagrees about version of symbol module_layout")
    snapshot = with_reading(replace(host_without_module(Module.NOT_LOADED, *builds), kernel_log=said), "rocky 9.5")
    (finding,) = findings(snapshot, matrix)
    assert finding.code == "DRV116"
    assert any(fix.command and "dkms" in fix.command for fix in finding.fix) is dkms


def test_what_a_removed_driver_has_left_for_another_kernel_is_no_driver(matrix: Matrix) -> None:
    snapshot = with_reading(host_without_module(Module.NOT_INSTALLED), module_kernels=("6.8.0-41-generic",))
    removed = replace(
        snapshot,
        driver=replace(snapshot.driver, nvml_init=Reading()),
        sources=(snapshot.sources[0], *(Source(name, SourceState.ABSENT) for name in ("nvml", "libcuda"))),
    )
    assert [finding.code for finding in findings(removed, matrix)] == ["DRV106"]


def test_a_kernel_whose_modules_were_replaced_on_the_disk_is_restarted(matrix: Matrix) -> None:
    snapshot = with_reading(host_without_module(Module.NOT_LOADED), "arch", module_kernels=("6.18.2-arch2-1",))
    gone = replace(snapshot, driver=replace(snapshot.driver, module=Reading(reason="not to be seen")))
    (finding,) = findings(gone, matrix)
    assert finding.cause is Cause.DRIVER_MODULE_NOT_LOADED
    assert [fix.command for fix in finding.fix] == [("sudo", "reboot")]


@pytest.mark.parametrize(
    ("running", "restarts"), [("6.18.1-arch1-1", True), ("6.18.2-3-cachyos", False), ("6.12.1-2-lts", False)]
)
def test_only_a_kernel_of_the_same_kind_is_what_an_update_has_brought(
    matrix: Matrix,
    running: str,
    restarts: bool,  # noqa: FBT001 - a table
) -> None:
    """Arch Linux and those made from it have several kernels side by side, each with its own package of the module."""
    snapshot = with_reading(host_without_module(Module.NOT_INSTALLED), "cachyos", module_kernels=("6.18.2-arch2-1",))
    snapshot = replace(snapshot, host=replace(snapshot.host, kernel=known(running, "uname")))
    (finding,) = findings(snapshot, matrix)
    assert finding.code == "DRV115"
    assert (("sudo", "reboot") in {fix.command for fix in finding.fix}) is restarts
    assert (("sudo", "dkms", "autoinstall", "-k", running) in {fix.command for fix in finding.fix}) is not restarts
    assert not any(fix.command and "linux-headers" in fix.command for fix in finding.fix)


def test_a_kernel_without_any_module_is_not_told_to_load_it_first(matrix: Matrix) -> None:
    (finding,) = findings(host_without_module(Module.NOT_INSTALLED), matrix)
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
def test_the_key_is_where_the_distribution_keeps_it(matrix: Matrix, distribution: str, key: str) -> None:
    snapshot = with_reading(host_without_module(Module.NOT_LOADED, BUILT), distribution)
    (finding,) = findings(replace(snapshot, kernel_log=log(REFUSED)), matrix)
    assert finding.fix[0].command == ("sudo", "mokutil", "--import", key)


@pytest.mark.parametrize(("distribution", "commands"), [("ubuntu 22.04", 3), ("opensuse-leap 15.6", 2)])
def test_the_compiler_that_a_build_lacks_is_installed_first(matrix: Matrix, distribution: str, commands: int) -> None:
    failed = replace(FAILED, compiler="gcc-12")
    snapshot = with_reading(host_without_module(Module.NOT_INSTALLED, failed), distribution)
    (finding,) = findings(snapshot, matrix)
    assert "gcc-12" in finding.fix[0].text
    assert len([fix for fix in finding.fix if fix.command]) == commands
    assert any("gcc-12" in entry.value for entry in finding.evidence)
