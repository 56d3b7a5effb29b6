"""The facts that the resolver derives from a Snapshot."""

from __future__ import annotations

import pytest

from gpuenv.matrix.needs import compat_in_use
from gpuenv.matrix.products import capability_by_beginning, capability_by_name
from gpuenv.matrix.tables import Matrix
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
def test_a_compatibility_libcuda_is_distinguished_from_an_unknown_branch(
    driver: str, level: str, library: str, *, compat: bool, matrix: Matrix
) -> None:
    """JetPack's branch 540 lies between two known ones and has its own CUDA level."""
    facts = Driver(
        version=known(DriverVersion.parse(driver), "nvml"),
        cuda=known(CudaVersion.parse(level), "libcuda"),
        cuda_library=known(library, "the loader"),
    )
    assert compat_in_use(Snapshot()._replace(driver=facts), matrix) is compat


@pytest.mark.parametrize(
    ("name", "capability"),
    [
        ("GeForce 210", "1.2"),  # not the board PG509-210
        ("GeForce 209", None),
        ("GTX 580", "2.0"),
        ("Tesla C2070", "2.0"),
        ("Quadro 6000", "2.0"),
        ("Quadro RTX 6000", "7.5"),
        ("GeForce GT 730", "3.5"),  # an older product has this name too
        ("NVIDIA GeForce RTX 3090", "8.6"),
        ("GRID A100D-20C", "8.0"),
        ("GRID V100DX-32Q", "7.0"),
        ("NVIDIA A16-8Q", "8.6"),
        ("GRID A100D-1-10C", "8.0"),  # backed by a MIG instance
        ("GRID A100D-1-10CME", "8.0"),
        ("GRID A100D-1-10C MIG 1g.9gb", "8.0"),
        ("GRID T4-2B4", "7.5"),
        ("NVIDIA L40S-48C", "8.9"),
    ],
)
def test_a_gpu_name_determines_the_compute_capability(name: str, capability: str | None, matrix: Matrix) -> None:
    result = capability_by_name(name, matrix)
    assert (str(result) if result else None) == capability


@pytest.mark.parametrize(
    ("beginning", "capability"),
    [
        ("Tesla V100-SXM2", "7.0"),
        ("NVIDIA GeForce RTX 306", "8.6"),
        ("NVIDIA GeForce RTX 30", None),
        ("GeForce MX1", None),
        ("NVIDIA GeForce", None),
    ],
)
def test_an_unambiguous_prefix_of_a_gpu_name_determines_the_capability(
    beginning: str, capability: str | None, matrix: Matrix
) -> None:
    result = capability_by_beginning(beginning, matrix)
    assert (str(result) if result else None) == capability
