"""The measured traps of images and of other packages, and what is answered where no wheel for CUDA is to be had."""

from __future__ import annotations

import pytest

from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.nvidia import AMD
from gpuenv.model.reading import Reading, known
from gpuenv.model.resolution import ConstraintName, Resolution
from gpuenv.model.snapshot import AmdGpu, PciGpu
from gpuenv.model.versions import CudaVersion
from tests.matrix.asking import chosen, machine, resolved


def _quarrels(matrix: Matrix, line: str, cupy: str, *given: str) -> set[ConstraintName]:
    rejected = resolved(matrix, *given).rejected
    return {entry.constraint for entry in rejected if (entry.candidate.name, entry.candidate.version) == (line, cupy)}


def test_5_cupy_14_finds_cuda_13_first(matrix: Matrix) -> None:
    """Also where the wheels of CUDA 12 are complete; CuPy 13 does not look for wheels at all."""
    both = ("package.nvidia-cuda-nvrtc-cu12=12.9.86", "package.nvidia-cuda-nvrtc=13.0.88")
    given = ("driver=550.54.14", "gpu=A100", *both)
    assert _quarrels(matrix, "cupy-cuda12x", "14.2.0", *given) == {ConstraintName.AGREES_WITH_PACKAGES}
    assert _quarrels(matrix, "cupy-cuda12x", "13.6.0", *given) == set()
    told = {entry.needed for entry in resolved(matrix, *given).rejected if "nvrtc" in entry.found}
    assert told == {"nvidia-cuda-nvrtc built for CUDA 12, or absent"}


def test_5_wheels_of_cuda_12_do_not_trouble_cuda_13(matrix: Matrix) -> None:
    given = ("driver=580.95.05", "gpu=A100", "package.nvidia-cuda-nvrtc-cu12=12.9.86")
    assert chosen(matrix, *given).distribution == "cupy-cuda13x"


def test_12_another_line_has_to_go_first(matrix: Matrix) -> None:
    given = ("driver=580.95.05", "gpu=A100")
    assert chosen(matrix, *given, "cupy=cupy-cuda12x==13.6.0").replaces == ("cupy-cuda12x",)
    assert chosen(matrix, *given, "cupy=cupy-cuda13x==13.6.0").replaces == ()


@pytest.mark.parametrize("branch", ["525", "545", "555"])
def test_14_an_image_may_refuse_a_driver_that_its_cuda_would_run_on(branch: str, matrix: Matrix) -> None:
    resolution = resolved(matrix, f"driver={branch}", "gpu=A100")
    refused = {
        entry.candidate.version
        for entry in resolution.rejected
        if entry.constraint is ConstraintName.IMAGE_ADMITS_DRIVER
    }
    assert "12.9.1-base-ubuntu24.04" in refused
    assert resolution.wheel is not None
    assert resolution.wheel.distribution == "cupy-cuda12x"
    assert resolution.image is not None
    assert resolution.image.cuda <= CudaVersion(12, 5)


def test_14_brands_shrink_with_time(matrix: Matrix) -> None:
    """A GeForce on 535 gets past the 12.4 image by its branch, and not past the one of 12.6."""
    refused = {
        entry.candidate.version
        for entry in resolved(matrix, "driver=535.104.05", "gpu=RTX 4090").rejected
        if entry.constraint is ConstraintName.IMAGE_ADMITS_DRIVER
    }
    assert "12.6.3-base-ubuntu24.04" in refused
    assert "12.4.1-base-ubuntu22.04" not in refused


def test_14_the_cap_of_cupy_holds_inside_its_own_image(matrix: Matrix) -> None:
    """cupy/cupy:v13.6.0 has CUDA 12.2, and CuPy asks that for 9.0 at most."""
    rejected = resolved(matrix, "driver=580.95.05", "gpu=RTX 5090").rejected
    reasons = {entry.constraint for entry in rejected if entry.candidate.version == "v13.6.0"}
    assert ConstraintName.IMAGE_HOLDS_A_FITTING_WHEEL in reasons


def test_11_without_the_extra_an_image_has_to_be_a_devel_one(matrix: Matrix) -> None:
    image = resolved(matrix, "driver=470.256.02", "gpu=K80").image
    assert image is not None
    assert "-devel-" in image.reference
    assert image.requirements == ("cupy-cuda11x==13.6.0",)


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("torch=2.15.0", "cupy-cuda13x"),
        ("torch=2.11.0", "cupy-cuda13x"),
        ("torch=2.10.0", "cupy-cuda12x"),
        ("torch=2.8.0", "cupy-cuda12x"),
        ("torch=2.6.0", "cupy-cuda12x"),
        ("torch=2.9.0+cu126", "cupy-cuda12x"),
        ("torch=2.9.0+cu130", "cupy-cuda13x"),
        ("torch=2.9.0+cpu", "cupy-cuda13x"),
        ("jax-cuda12-plugin=0.10.2", "cupy-cuda12x"),
        ("jax-cuda13-plugin=0.10.2", "cupy-cuda13x"),
        ("cudf-cu12=26.10.2", "cupy-cuda12x"),
        ("cudf-cu13=26.10.2", "cupy-cuda13x"),
        ("torch=99.0", "cupy-cuda13x"),
    ],
)
def test_16_the_line_is_that_of_the_other_packages(package: str, line: str, matrix: Matrix) -> None:
    wheel = chosen(matrix, "driver=580.95.05", "gpu=A100", f"package.{package}")
    assert (wheel.distribution, wheel.version) == (line, "14.2.0")


def test_16_a_gpu_newer_than_the_pinned_minor_of_another_package_is_no_fit(matrix: Matrix) -> None:
    """torch 2.7 pins NVRTC 12.6, which CuPy would find, and which knows no Blackwell."""
    given = ("driver=570.86.15", "gpu=RTX 5090", "package.torch=2.7.1")
    assert _quarrels(matrix, "cupy-cuda12x", "14.2.0", *given) == {ConstraintName.AGREES_WITH_PACKAGES}


def test_conda_pins_the_cuda_that_serves_the_gpu(matrix: Matrix) -> None:
    conda = resolved(matrix, "driver=570.86.15", "gpu=RTX 5090").conda
    assert conda is not None
    assert conda.specs == ("cupy=14.1.1", "cuda-version>=12.8,<13")
    assert conda.channel == "conda-forge"
    assert [entry.fact for entry in conda.assumptions] == ["the GPU code in this platform's wheel"]


def test_conda_of_an_old_gpu(matrix: Matrix) -> None:
    assert resolved(matrix, "driver=470.256.02", "gpu=K80").conda is None
    old = resolved(matrix, "driver=470.256.02", "gpu=K80", "python=3.14").conda
    assert old is not None
    assert old.specs == ("cupy=13.6.0", "cuda-version=11")


def test_a_jetson_has_images_of_its_own(matrix: Matrix) -> None:
    resolution = resolved(matrix, "driver=540.4.0", "driver-cuda=12.6", "gpu=Jetson AGX Orin", "arch=aarch64")
    assert resolution.image is None


def test_an_amd_gpu_is_answered_with_what_could_be_tried(matrix: Matrix) -> None:
    snapshot = machine(matrix, "driver=none", "gpu=none")._replace(pci_gpus=(PciGpu("0000:03:00.0", AMD, "744c"),))
    resolution = resolve(snapshot, matrix)
    assert resolution.wheel is None
    assert [entry.candidate.label for entry in resolution.experimental] == [
        "cupy-rocm-7-0 14.2.0",
        "cupy-rocm-5-0 13.3.0",
        "cupy-rocm-4-3 13.3.0",
    ]
    assert "Experimental: cupy-rocm-7-0 14.2.0, if ROCm is 7.0 on the host" in resolution.explanation
    assert resolve(machine(matrix, "driver=580.95.05", "gpu=H100"), matrix).experimental == ()


def _amd(matrix: Matrix, rocm: str | None, *targets: str) -> Resolution:
    nodes = tuple(AmdGpu(number, "some", target) for number, target in enumerate(targets, 1))
    told: Reading[str] = known(rocm, "test") if rocm else Reading()
    return resolve(machine(matrix, "driver=none", "gpu=none")._replace(amd_gpus=nodes, rocm=told), matrix)


def test_rocm_and_the_gfx_target_bind_the_choice_for_amd_gpus(matrix: Matrix) -> None:
    """As the wheels themselves tell: the soname of HIP that they need, and the bundles of code in them."""
    fitting = _amd(matrix, "7.0.2", "gfx942")
    assert [entry.candidate.label for entry in fitting.experimental] == ["cupy-rocm-7-0 14.2.0"]
    assert [entry.fact for entry in fitting.experimental[0].assumptions] == ["upstream's support"]
    older = {(entry.candidate.name, entry.constraint) for entry in fitting.rejected if "rocm" in entry.candidate.name}
    assert ("cupy-rocm-5-0", ConstraintName.ROCM_VERSION) in older
    unknown = [entry for entry in _amd(matrix, "7.0.2", "gfx906").rejected if entry.candidate.version == "14.2.0"]
    told = {entry.found for entry in unknown if entry.constraint is ConstraintName.WHEEL_HAS_CODE_FOR_GPU}
    assert "gfx906" in told
    assert [entry.candidate.name for entry in _amd(matrix, None, "gfx906").experimental][-2:] == [
        "cupy-rocm-5-0",
        "cupy-rocm-4-3",
    ]
    assert _amd(matrix, "6.2.0", "gfx90a").experimental == ()


def test_known_faults_are_told_with_what_mends_them(matrix: Matrix) -> None:
    given = ("driver=580.95.05", "gpu=A100")
    assert _quarrels(matrix, "cupy-cuda13x", "14.0.0", *given) == {ConstraintName.NO_ADVISORY}
    assert _quarrels(matrix, "cupy-cuda13x", "14.1.0", *given) == set()
    beside = resolved(matrix, *given, "package.torch=2.11.0").rejected
    (told,) = [entry for entry in beside if entry.candidate.label == "cupy-cuda13x[ctk] 14.1.0"]
    assert told.needed == "CuPy 14.1.1 or newer beside torch"
    assert "pull request 22702" in told.source
