"""Converts the profiles of machines to Snapshots with the facts that determine the choice of a wheel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuenv.data import data_path
from gpuenv.matrix.assume import assume
from gpuenv.matrix.tables import Matrix
from gpuenv.model.reading import assumed
from gpuenv.model.snapshot import Gpu, PciGpu, Snapshot
from gpuenv.model.versions import ComputeCapability, CudaVersion
from gpuenv.simulate.profile import Profile, load

_PYTHON, _LIBC = "3.12", "glibc-2.36"  # not part of a profile


def snapshot_of(profile: Profile, matrix: Matrix) -> Snapshot:
    """The facts of a profile that determine the choice of a wheel.

    Raises:
        AssumeError: for a profile with invalid facts.
    """
    snapshot = assume(Snapshot(), tuple(_facts(profile)), matrix)
    gpus = tuple(
        Gpu(
            assumed(number), name=assumed(gpu.name), compute_capability=assumed(ComputeCapability.parse(gpu.capability))
        )
        for number, gpu in enumerate(profile.gpus)
    )
    others = tuple(
        PciGpu(device.pci, device.vendor, device.device)
        for device in profile.other_devices
        if device.pci_class.startswith("0x03")
    )
    return snapshot._replace(gpus=gpus, pci_gpus=others, gpu_count=assumed(len(gpus)))


def _facts(profile: Profile) -> Iterator[str]:
    driver = profile.driver
    yield from ("os=linux", f"arch={profile.host.arch}", f"libc={_LIBC}", f"python={_PYTHON}")
    yield f"wsl={'yes' if profile.driver.folder == 'usr/lib/wsl/lib' else 'no'}"
    has_driver = driver.nvml or driver.libcuda or driver.module.is_loaded
    yield f"driver={driver.version if has_driver else 'none'}"
    if has_driver:
        yield f"driver-cuda={CudaVersion.from_number(driver.cuda)}"
    if profile.toolkit:
        yield f"toolkit={profile.toolkit}"
    for text in (*profile.target.packages, *profile.target.elsewhere):
        name, _, release = text.partition("==")  # the form in profiles
        yield f"package.{name.strip()}={release.strip()}"


def shipped_machines(matrix: Matrix) -> Mapping[str, Snapshot]:
    """The Snapshots of the profiles that ship with gpuenv, by name."""
    profiles = (load(path) for path in sorted(data_path("machines").glob("*.yaml")))
    return {profile.name: snapshot_of(profile, matrix) for profile in profiles}
