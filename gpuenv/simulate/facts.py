"""A machine profile as a Snapshot, without the machine: what the profile says, taken for granted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuenv.matrix.assume import assume
from gpuenv.matrix.records import Matrix
from gpuenv.model.reading import assumed
from gpuenv.model.snapshot import Gpu, PciGpu, Snapshot
from gpuenv.model.versions import ComputeCapability, CudaVersion
from gpuenv.simulate.records import GpuSpec, Profile

PYTHON = "3.12"  # a profile is of a machine; the interpreter is that of whoever tries it
_LIBC = "glibc-2.36"


def snapshot_of(profile: Profile, matrix: Matrix) -> Snapshot:
    """The facts of a profile that a wheel is chosen by.

    Raises:
        AssumeError: for a profile whose facts cannot be understood.
    """
    snapshot = assume(Snapshot(), tuple(_facts(profile)), matrix)
    gpus = tuple(_gpu(number, gpu) for number, gpu in enumerate(profile.gpus))
    others = tuple(
        PciGpu(device.pci, device.vendor, device.device)
        for device in profile.other_devices
        if device.pci_class.startswith("0x03")
    )
    return replace(snapshot, gpus=gpus, pci_gpus=others, gpu_count=assumed(len(gpus)))


def _facts(profile: Profile) -> Iterator[str]:
    driver = profile.driver
    yield from ("os=linux", f"arch={profile.host.arch}", f"libc={_LIBC}", f"python={PYTHON}")
    yield f"wsl={'yes' if profile.driver.folder == 'usr/lib/wsl/lib' else 'no'}"
    has_one = driver.nvml or driver.libcuda or driver.module.loaded
    yield f"driver={driver.version if has_one else 'none'}"
    if has_one:
        yield f"driver-cuda={CudaVersion.from_number(driver.cuda)}"
    if profile.toolkit:
        yield f"toolkit={profile.toolkit}"
    for text in (*profile.target.packages, *profile.target.elsewhere):
        name, _, release = text.partition("==")  # as the profiles are written
        yield f"package.{name.strip()}={release.strip()}"


def _gpu(number: int, spec: GpuSpec) -> Gpu:
    return Gpu(
        index=assumed(number),
        name=assumed(spec.name),
        compute_capability=assumed(ComputeCapability.parse(spec.capability)),
    )
