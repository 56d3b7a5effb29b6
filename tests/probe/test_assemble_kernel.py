"""Driver libraries, AMD GPUs and ROCm from the kernel's raw facts."""

from __future__ import annotations

import pytest

from gpuenv.model.snapshot import LibraryOrigin
from gpuenv.probe.assembly import amd_gpus, cuda_origin, driver_libraries, rocm
from tests.probe.raw_facts import AmdNode, KernelFacts, RawLibrary

MULTIARCH = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01"


@pytest.mark.parametrize(
    ("path", "mounted", "origin"),
    [
        (MULTIARCH, False, "system"),
        (MULTIARCH, None, "system"),
        (MULTIARCH, True, "mounted"),
        ("/usr/lib64/libcuda.so.550.163.01", False, "system"),
        ("/usr/lib/libcuda.so.550.163.01", False, "system"),
        ("/lib64/libnvidia-ml.so.550.163.01", False, "system"),
        ("/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.535.183.01", False, "system"),
        ("/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1.1", False, "tegra"),
        ("/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1.1", True, "tegra"),
        ("/usr/lib64-nvidia/libcuda.so.550.54.15", True, "cloud"),
        ("/usr/local/nvidia/lib64/libcuda.so.550.54.15", True, "cloud"),
        ("/nix/store/5bqvqa6n-nvidia-x11-545.29.06/lib/libcuda.so.545.29.06", False, "nixos"),
        ("/run/opengl-driver/lib/libcuda.so.1", False, "nixos"),
        ("/usr/lib/wsl/lib/libcuda.so.1.1", True, "wsl"),
        ("/usr/lib/wsl/drivers/nv_dispi.inf_amd64_1/libcuda.so.1.1", True, "wsl"),
        ("/usr/lib/x86_64-linux-gnu/GL/nvidia-580-82-07/lib/libcuda.so.580.82.07", True, "flatpak"),
        ("/usr/local/cuda-12.4/compat/libcuda.so.550.54.15", False, "compat"),
        ("/usr/local/cuda-12.4/compat/libcuda.so.550.54.15", True, "compat"),
        ("/opt/conda/envs/gpu/cuda-compat/libcuda.so.575.57.08", False, "compat"),
        ("/usr/local/cuda/lib64/stubs/libcuda.so", False, "stub"),
        ("/.singularity.d/libs/libcuda.so.1", None, "mounted"),
        ("/home/me/driver/libcuda.so.1", False, "other"),
    ],
)
def test_the_origin_of_a_library_follows_from_its_path_and_the_mounts(
    path: str,
    mounted: bool | None,  # noqa: FBT001 - a table
    origin: str,
) -> None:
    kernel = KernelFacts(libraries=(RawLibrary(path, mounted),))
    (entry,) = driver_libraries(kernel)
    assert (entry.origin.value, entry.mounted) == (origin, mounted)
    assert cuda_origin(path, kernel).value is LibraryOrigin(origin)


def test_the_origin_of_an_unlisted_library_follows_from_its_path() -> None:
    reading = cuda_origin("/home/me/driver/libcuda.so.1", KernelFacts(libraries=(RawLibrary(MULTIARCH, mounted=True),)))
    assert (reading.value, reading.source) == (LibraryOrigin.OTHER, "its path")
    assert cuda_origin(None, KernelFacts()).reason == "no libcuda is in use"


def test_the_release_of_a_library_is_read_from_its_file_name() -> None:
    kernel = KernelFacts(libraries=(RawLibrary(MULTIARCH), RawLibrary("/usr/lib/wsl/lib/libcuda.so.1.1")))
    assert [entry.release and str(entry.release) for entry in driver_libraries(kernel)] == ["550.163.01", None]


@pytest.mark.parametrize(
    ("number", "gfx"),
    [(90010, "gfx90a"), (90402, "gfx942"), (90500, "gfx950"), (110501, "gfx1151"), (100300, "gfx1030"),
     (120001, "gfx1201"), (70001, "gfx701"), (110099, None)],
)  # fmt: skip
def test_the_gfx_target_is_decoded_from_decimal_digits(number: int, gfx: str | None) -> None:
    node = AmdNode(1, "aldebaran", {"gfx_target_version": number, "vendor_id": 4098, "location_id": 37632}, 1024)
    (gpu,) = amd_gpus(KernelFacts(amd_nodes=(node,)))
    assert (gpu.node, gpu.name, gpu.gfx, gpu.pci, gpu.memory_total) == (1, "aldebaran", gfx, "0000:93:00.0", 1024)


@pytest.mark.parametrize(("location", "domain", "pci"), [(0x7500, 1, "0001:75:00.0"), (0x050B, 0, "0000:05:01.3")])
def test_a_pci_address_is_decoded_from_domain_and_location(location: int, domain: int, pci: str) -> None:
    properties = {"gfx_target_version": 90402, "vendor_id": 4098, "location_id": location, "domain": domain}
    assert [gpu.pci for gpu in amd_gpus(KernelFacts(amd_nodes=(AmdNode(1, None, properties),)))] == [pci]


@pytest.mark.parametrize(
    "properties",
    [{}, {"gfx_target_version": 0, "vendor_id": 4098}, {"gfx_target_version": 110000, "vendor_id": 0x10DE}],
)
def test_a_cpu_node_and_another_vendors_gpu_are_not_amd_gpus(properties: dict[str, int]) -> None:
    assert amd_gpus(KernelFacts(amd_nodes=(AmdNode(0, None, properties),))) == ()


def test_rocms_version_file_takes_precedence_over_its_header() -> None:
    reading = rocm(KernelFacts(rocm={"rocm_version.h": "6.1.0", "/opt/rocm/.info/version": "6.2.0"}))
    assert (reading.value, reading.source) == ("6.2.0", "/opt/rocm/.info/version")
    assert [(answer.value, answer.source) for answer in reading.dissent] == [("6.1.0", "rocm_version.h")]
    assert rocm(KernelFacts()).value is None
