"""What the resolver takes out of a Snapshot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuenv.matrix.needs import compat_in_use
from gpuenv.matrix.records import Matrix
from gpuenv.model.reading import known
from gpuenv.model.snapshot import Driver, Snapshot
from gpuenv.model.versions import CudaVersion, DriverVersion


@pytest.mark.parametrize(
    ("driver", "level", "library", "compat"),
    [
        ("535.104.05", "12.2", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", False),
        ("535.104.05", "13.0", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", True),
        ("535.104.05", "12.2", "/usr/local/cuda/compat/libcuda.so.1", True),
        ("540.4.0", "12.6", "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1", False),
        ("999.10.01", "14.0", "/usr/lib/x86_64-linux-gnu/libcuda.so.1", False),
    ],
)
def test_a_compatibility_libcuda_is_told_from_a_branch_of_its_own(
    driver: str, level: str, library: str, *, compat: bool, matrix: Matrix
) -> None:
    """JetPack's branch 540 lies between two known ones and has a level of its own."""
    read = Driver(
        version=known(DriverVersion.parse(driver), "nvml"),
        cuda=known(CudaVersion.parse(level), "libcuda"),
        cuda_library=known(library, "the loader"),
    )
    assert compat_in_use(replace(Snapshot(), driver=read), matrix) is compat
