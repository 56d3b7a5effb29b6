"""A kernel module that was not built, is refused, or has left its GPU to another driver."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.records import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.codes import Nvml
from gpuenv.model.reading import known
from gpuenv.model.snapshot import (
    Container,
    DkmsBuild,
    Driver,
    Host,
    Module,
    Snapshot,
    Source,
    SourceState,
)
from tests.doctor.test_kernel_checks import (
    ADDED,
    BUILT,
    BUS,
    FAILED,
    KERNEL,
    LOCKDOWN,
    OLD,
    REFUSED,
    TAINTED,
    findings,
    log,
)


def host_without_module(module: Module, *builds: DkmsBuild) -> Snapshot:
    """A driver whose libraries are there while its module is not loaded."""
    return Snapshot(
        host=Host(
            os=known("linux", "uname"),
            kernel=known(KERNEL, "uname"),
            container=known(Container.NONE, "marks"),
            distribution=known("ubuntu 24.04", "os-release"),
        ),
        driver=Driver(
            module=known(module, "/lib/modules"),
            nvml_init=known(int(Nvml.DRIVER_NOT_LOADED), "nvml"),
            dkms=builds,
        ),
        pci_gpus=BUS,
        sources=(
            Source("kernel", SourceState.ANSWERED),
            *(Source(name, SourceState.FAILED) for name in ("nvml", "libcuda")),
        ),
    )


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
