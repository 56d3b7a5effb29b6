"""Measured traps of images and of other packages, and answers where no wheel for CUDA fits."""

from __future__ import annotations

import pytest

from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.nvidia import AMD
from gpuenv.model.reading import Reading, known
from gpuenv.model.resolution import ConstraintName, Resolution
from gpuenv.model.snapshot import AmdGpu, PciGpu
from gpuenv.model.versions import CudaVersion
from gpuenv.report.resolution_text import explanation_lines
from tests.matrix.resolutions import choose_wheel, machine, resolution_of


def _violated_constraints(matrix: Matrix, line: str, cupy: str, *facts: str) -> set[ConstraintName]:
    rejected = resolution_of(matrix, *facts).rejected
    return {entry.constraint for entry in rejected if (entry.candidate.name, entry.candidate.version) == (line, cupy)}


def test_5_cupy_14_prefers_cuda_13_packages(matrix: Matrix) -> None:
    """Even if those of CUDA 12 are complete; CuPy 13 ignores CUDA packages."""
    both = ("package.nvidia-cuda-nvrtc-cu12=12.9.86", "package.nvidia-cuda-nvrtc=13.0.88")
    facts = ("driver=550.54.14", "gpu=A100", *both)
    assert _violated_constraints(matrix, "cupy-cuda12x", "14.2.0", *facts) == {ConstraintName.AGREES_WITH_PACKAGES}
    assert _violated_constraints(matrix, "cupy-cuda12x", "13.6.0", *facts) == set()
    needed = {entry.needed for entry in resolution_of(matrix, *facts).rejected if "nvrtc" in entry.found}
    assert needed == {"nvidia-cuda-nvrtc built for CUDA 12 or absent"}


def test_5_cuda_12_packages_do_not_affect_cuda_13_wheels(matrix: Matrix) -> None:
    facts = ("driver=580.95.05", "gpu=A100", "package.nvidia-cuda-nvrtc-cu12=12.9.86")
    assert choose_wheel(matrix, *facts).distribution == "cupy-cuda13x"


def test_12_an_installed_wheel_of_another_line_is_replaced(matrix: Matrix) -> None:
    facts = ("driver=580.95.05", "gpu=A100")
    assert choose_wheel(matrix, *facts, "cupy=cupy-cuda12x==13.6.0").replaces == ("cupy-cuda12x",)
    assert choose_wheel(matrix, *facts, "cupy=cupy-cuda13x==13.6.0").replaces == ()


@pytest.mark.parametrize("branch", ["525", "545", "555"])
def test_14_an_image_may_reject_a_driver_that_its_cuda_supports(branch: str, matrix: Matrix) -> None:
    resolution = resolution_of(matrix, f"driver={branch}", "gpu=A100")
    rejected = {
        entry.candidate.version
        for entry in resolution.rejected
        if entry.constraint is ConstraintName.IMAGE_ADMITS_DRIVER
    }
    assert "12.9.1-base-ubuntu24.04" in rejected
    assert resolution.wheel is not None
    assert resolution.wheel.distribution == "cupy-cuda12x"
    assert resolution.image is not None
    assert resolution.image.cuda <= CudaVersion(12, 5)


def test_14_newer_images_accept_fewer_brands(matrix: Matrix) -> None:
    """The 12.4 image accepts a GeForce on 535 by its branch; the 12.6 image does not."""
    rejected = {
        entry.candidate.version
        for entry in resolution_of(matrix, "driver=535.104.05", "gpu=RTX 4090").rejected
        if entry.constraint is ConstraintName.IMAGE_ADMITS_DRIVER
    }
    assert "12.6.3-base-ubuntu24.04" in rejected
    assert "12.4.1-base-ubuntu22.04" not in rejected


def test_14_the_official_cupy_image_is_subject_to_cupys_cap(matrix: Matrix) -> None:
    """cupy/cupy:v13.6.0 has CUDA 12.2, for which CuPy requests 9.0 at most."""
    rejected = resolution_of(matrix, "driver=580.95.05", "gpu=RTX 5090").rejected
    reasons = {entry.constraint for entry in rejected if entry.candidate.version == "v13.6.0"}
    assert ConstraintName.IMAGE_HOLDS_A_FITTING_WHEEL in reasons


def test_11_a_wheel_without_the_extra_requires_a_devel_image(matrix: Matrix) -> None:
    image = resolution_of(matrix, "driver=470.256.02", "gpu=K80").image
    assert image is not None
    assert "-devel-" in image.reference


@pytest.mark.parametrize(
    ("gpu", "reference", "requirement"),
    [
        (
            "K80",
            "nvidia/cuda:11.4.3-devel-ubuntu20.04",
            "cupy-cuda11x==12.3.0",
        ),  # Python 3.8; libcuda 520 has no Kepler
        ("V100", "nvidia/cuda:11.8.0-devel-ubuntu22.04", "cupy-cuda11x==13.6.0"),  # Python 3.10
        (
            "RTX 3090",
            "nvidia/cuda:11.4.3-devel-ubuntu20.04",
            "cupy-cuda11x==12.3.0",
        ),  # the compat package is not for GeForce
    ],
)
def test_an_image_gets_a_cupy_for_the_python_of_its_distribution(
    gpu: str, reference: str, requirement: str, matrix: Matrix
) -> None:
    image = resolution_of(matrix, "driver=470.256.02", f"gpu={gpu}").image
    assert image is not None
    assert (image.reference, image.requirements) == (reference, (requirement,))


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
def test_16_the_wheel_line_follows_from_the_other_packages(package: str, line: str, matrix: Matrix) -> None:
    wheel = choose_wheel(matrix, "driver=580.95.05", "gpu=A100", f"package.{package}")
    assert (wheel.distribution, wheel.version) == (line, "14.2.0")


def test_16_a_wheel_is_rejected_if_another_packages_nvrtc_is_too_old(matrix: Matrix) -> None:
    """torch 2.7 pins NVRTC 12.6, which CuPy would use, and which does not support Blackwell."""
    facts = ("driver=570.86.15", "gpu=RTX 5090", "package.torch=2.7.1")
    assert _violated_constraints(matrix, "cupy-cuda12x", "14.2.0", *facts) == {ConstraintName.AGREES_WITH_PACKAGES}


def test_conda_pins_the_cuda_that_serves_the_gpu(matrix: Matrix) -> None:
    conda = resolution_of(matrix, "driver=570.86.15", "gpu=RTX 5090").conda
    assert conda is not None
    assert conda.specs == ("cupy=14.1.1", "cuda-version>=12.8,<13")
    assert conda.channel == "conda-forge"
    assert [entry.fact for entry in conda.assumptions] == ["the GPU code in this platform's wheel"]


@pytest.mark.parametrize("python", ["3.9", "3.12", "3.14"])
def test_conda_pins_cuda_11_for_an_old_gpu(python: str, matrix: Matrix) -> None:
    conda = resolution_of(matrix, "driver=470.256.02", "gpu=K80", f"python={python}").conda
    assert conda is not None
    assert conda.specs == ("cupy=13.6.0", "cuda-version=11")


@pytest.mark.parametrize(
    ("package", "major"),
    [("torch=2.9.0", 12), ("torch=2.15.0", 13), ("cudf-cu12=26.10.2", 12), ("torch=2.9.0+cpu", 13)],
)
def test_16_the_conda_build_follows_from_the_other_packages(package: str, major: int, matrix: Matrix) -> None:
    conda = resolution_of(matrix, "driver=580.95.05", "gpu=A100", f"package.{package}").conda
    assert conda is not None
    assert conda.specs == ("cupy=14.1.1", f"cuda-version={major}")


def test_a_jetson_gets_no_image(matrix: Matrix) -> None:
    resolution = resolution_of(matrix, "driver=540.4.0", "driver-cuda=12.6", "gpu=Jetson AGX Orin", "arch=aarch64")
    assert resolution.image is None


def test_an_amd_gpu_gets_experimental_candidates(matrix: Matrix) -> None:
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
    reading: Reading[str] = known(rocm, "test") if rocm else Reading()
    return resolve(machine(matrix, "driver=none", "gpu=none")._replace(amd_gpus=nodes, rocm=reading), matrix)


def test_rocm_and_the_gfx_target_restrict_the_choice_for_amd_gpus(matrix: Matrix) -> None:
    """As measured in the wheels: their soname of HIP and their code bundles."""
    fitting = _amd(matrix, "7.0.2", "gfx942")
    assert [entry.candidate.label for entry in fitting.experimental] == ["cupy-rocm-7-0 14.2.0"]
    assert [entry.fact for entry in fitting.experimental[0].assumptions] == ["upstream's support"]
    older = {(entry.candidate.name, entry.constraint) for entry in fitting.rejected if "rocm" in entry.candidate.name}
    assert ("cupy-rocm-5-0", ConstraintName.ROCM_VERSION) in older
    unknown = [entry for entry in _amd(matrix, "7.0.2", "gfx906").rejected if entry.candidate.version == "14.2.0"]
    targets = {entry.found for entry in unknown if entry.constraint is ConstraintName.WHEEL_HAS_CODE_FOR_GPU}
    assert "gfx906" in targets
    assert [entry.candidate.name for entry in _amd(matrix, None, "gfx906").experimental][-2:] == [
        "cupy-rocm-5-0",
        "cupy-rocm-4-3",
    ]
    assert _amd(matrix, "6.2.0", "gfx90a").experimental == ()


def test_an_amd_gpu_gets_the_command_of_its_experimental_wheel(matrix: Matrix) -> None:
    facts = ("driver=none", "gpu=MI300X", "rocm=7.0.2", "cupy=cupy-cuda12x==13.6.0")
    resolution = resolution_of(matrix, *facts)
    (entry,) = resolution.experimental
    assert (entry.requirements, entry.replaces) == (("cupy-rocm-7-0==14.2.0",), ("cupy-cuda12x",))
    lines = [line.text for line in explanation_lines(resolution)]
    assert lines[-3:] == [
        "Install with ROCm 7.0 (experimental)",
        "  $ python -m pip uninstall -y cupy-cuda12x",
        "  $ python -m pip install cupy-rocm-7-0==14.2.0",
    ]


def test_an_amd_gpu_without_code_in_any_wheel_gets_no_command(matrix: Matrix) -> None:
    resolution = resolution_of(matrix, "driver=none", "gpu=RX 6700 XT", "rocm=7.0.2")
    assert resolution.experimental == ()
    assert not any("pip install" in line.text for line in explanation_lines(resolution))


def test_a_known_fault_is_reported_with_the_release_that_fixes_it(matrix: Matrix) -> None:
    facts = ("driver=580.95.05", "gpu=A100")
    assert _violated_constraints(matrix, "cupy-cuda13x", "14.0.0", *facts) == {ConstraintName.NO_ADVISORY}
    assert _violated_constraints(matrix, "cupy-cuda13x", "14.1.0", *facts) == set()
    rejections = resolution_of(matrix, *facts, "package.torch=2.11.0").rejected
    (rejection,) = [entry for entry in rejections if entry.candidate.label == "cupy-cuda13x[ctk] 14.1.0"]
    assert rejection.needed == "CuPy 14.1.1 or newer with torch"
    assert "pull request 22702" in rejection.source
