"""Machines whose driver is installed and whose kernel module is not loaded."""

from __future__ import annotations

from gpuenv.model.nvidia import Nvml
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Container, DkmsBuild, Driver, Host, Module, Snapshot, Source, SourceState
from tests.doctor.kernel_hosts import BUS, KERNEL

BUILT = DkmsBuild("nvidia", "535.183.01", KERNEL, "built")
OLD = DkmsBuild("nvidia", "535.183.01", "6.8.0-41-generic", "built")
ADDED = DkmsBuild("nvidia", "535.183.01")
FAILED = DkmsBuild("nvidia", "535.183.01", KERNEL, "failed")


def host_without_module(module: Module, *builds: DkmsBuild) -> Snapshot:
    """A machine with the driver's libraries and without its module loaded."""
    return Snapshot(
        host=Host(
            os=known("linux", "uname"),
            kernel=known(KERNEL, "uname"),
            container=known(Container.NONE, "marks"),
            distribution=known("ubuntu 24.04", "os-release"),
        ),
        driver=Driver(
            module=known(module, "/lib/modules"), nvml_init=known(int(Nvml.DRIVER_NOT_LOADED), "nvml"), dkms=builds
        ),
        pci_gpus=BUS,
        sources=(
            Source("kernel", SourceState.ANSWERED),
            *(Source(name, SourceState.FAILED) for name in ("nvml", "libcuda")),
        ),
    )


def with_reading(snapshot: Snapshot, distribution: str = "ubuntu 24.04", **readings: tuple[str, ...]) -> Snapshot:
    driver = snapshot.driver._replace(branch=known(550, "x"), **{n: known(v, "x") for n, v in readings.items()})  # type: ignore[arg-type]
    return snapshot._replace(driver=driver, host=snapshot.host._replace(distribution=known(distribution, "x")))
