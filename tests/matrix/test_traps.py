"""Cases in which a plausible tool gives a wrong answer, each seen by running the real packages (November 2026).

The numbers are those of the list they were first written down in. What they do to pip and uv is in test_installs.py.
Those of the probe and the doctor are held elsewhere: 10 and 17 in tests/test_real_cupy.py, 12 in
tests/machines/two-cupy.yaml, 15 in tests/probe/test_smi.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpuenv.matrix.candidates import WheelCandidate, host_toolkit, serving_minors
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.matrix.records import Matrix
from gpuenv.matrix.resolve import resolve
from gpuenv.model.host import AmdGpu
from gpuenv.model.identity import AMD
from gpuenv.model.lines import is_cupy
from gpuenv.model.reading import Reading, known
from gpuenv.model.resolution import ConstraintName, Resolution
from gpuenv.model.snapshot import PciGpu, Snapshot, Toolkit
from gpuenv.model.versions import CudaVersion
from gpuenv.probe.smi import parse_banner
from tests.matrix.asking import chosen, machine, resolved


def _candidate(matrix: Matrix, line: str, cupy: str) -> WheelCandidate:
    row = next(entry for entry in matrix.wheel_lines if entry.name == line)
    return WheelCandidate(row, next(entry for entry in row.releases if entry.cupy == cupy), None)


def _minors(matrix: Matrix, line: str, cupy: str, gpu: str) -> list[str]:
    """The NVRTCs that serve a GPU under this CuPy."""
    needs = needs_of(machine(matrix, f"gpu={gpu}"), matrix)
    return [str(row.cuda) for row in serving_minors(_candidate(matrix, line, cupy), needs, matrix)]


@pytest.mark.parametrize(
    ("driver", "gpu", "line"),
    [
        ("580.95.05", "V100", "cupy-cuda12x"),
        ("565.57.01", "A100", "cupy-cuda12x"),
        ("580.95.05", "P100", "cupy-cuda12x"),
    ],
)
def test_1_the_drivers_cuda_level_is_not_the_wheel_line(driver: str, gpu: str, line: str, matrix: Matrix) -> None:
    assert chosen(matrix, f"driver={driver}", f"gpu={gpu}").distribution == line


def test_1_every_cuda_13_wheel_is_refused_on_a_v100_for_both_reasons(matrix: Matrix) -> None:
    rejected = resolved(matrix, "driver=580.95.05", "gpu=V100").rejected
    for release in next(line for line in matrix.wheel_lines if line.name == "cupy-cuda13x").releases:
        reasons = {
            entry.constraint
            for entry in rejected
            if (entry.candidate.name, entry.candidate.version) == ("cupy-cuda13x", release.cupy)
        }
        assert {ConstraintName.NVRTC_COMPILES_FOR_GPU, ConstraintName.WHEEL_HAS_CODE_FOR_GPU} <= reasons


@pytest.mark.parametrize(("driver", "line"), [("525.60.13", "cupy-cuda12x"), ("580.65.06", "cupy-cuda13x")])
def test_2_any_minor_of_the_major_runs_on_the_first_driver_of_the_major(driver: str, line: str, matrix: Matrix) -> None:
    """The runtime looks at the major alone, so no pin to the driver's own minor is asked for."""
    wheel = chosen(matrix, f"driver={driver}", "gpu=A100")
    assert (wheel.distribution, len(wheel.requirements)) == (line, 1)


@pytest.mark.parametrize("driver", ["525.53", "520.61.05"])
def test_2_a_driver_below_the_first_of_the_major_is_refused(driver: str, matrix: Matrix) -> None:
    assert chosen(matrix, f"driver={driver}", "gpu=A100").distribution == "cupy-cuda11x"


@pytest.mark.parametrize(
    ("capability", "minors"),
    [("8.8", ["13.0"]), ("10.1", []), ("10.3", ["13.0"]), ("10.7", ["13.4"]), ("11.0", ["13.0"])],
)
def test_3_capability_lists_have_gaps(capability: str, minors: list[str], matrix: Matrix) -> None:
    """A GPU in a gap of one CUDA major is served by the other one, or by none."""
    needs = needs_of(machine(matrix, f"compute-capability={capability}"), matrix)
    rows = serving_minors(_candidate(matrix, "cupy-cuda13x", "14.2.0"), needs, matrix)
    assert [str(row.cuda) for row in rows][:1] == minors


@pytest.mark.parametrize(
    ("cupy", "gpu", "minors"),
    [
        ("14.2.0", "RTX 5090", ["12.8", "12.9"]),
        ("14.2.0", "B200", ["12.8", "12.9"]),
        ("14.2.0", "B300", ["12.9"]),
        ("13.3.0", "RTX 5090", ["12.8", "12.9"]),  # compares its cap as text
        ("14.2.0", "H100", ["12.0", "12.1", "12.2", "12.3", "12.4", "12.5", "12.6", "12.8", "12.9"]),
    ],
)
def test_4_cupy_caps_the_architecture_by_nvrtc(cupy: str, gpu: str, minors: list[str], matrix: Matrix) -> None:
    assert _minors(matrix, "cupy-cuda12x", cupy, gpu) == minors


def test_6_an_extra_is_named_only_with_a_release_that_has_it(matrix: Matrix) -> None:
    for python in ("3.8", "3.9", "3.10", "3.13", "3.14t"):
        wheel = chosen(matrix, "driver=580.95.05", "gpu=A100", f"python={python}")
        assert (wheel.extra == "ctk") == (int(wheel.version.split(".")[0]) >= 14)
        assert wheel.requirements[0].endswith(f"=={wheel.version}")


def test_7_the_minor_is_pinned_where_the_newest_or_the_oldest_would_not_do(matrix: Matrix) -> None:
    assert chosen(matrix, "driver=570.86.15", "gpu=RTX 5090").requirements[1:] == ("cuda-toolkit>=12.8,<13",)
    assert chosen(matrix, "driver=575.57.08", "gpu=B300").requirements[1:] == ("cuda-toolkit>=12.9,<13",)


@pytest.mark.parametrize(
    ("given", "cupy"),
    [(("python=3.9",), "13.6.0"), (("python=3.8", "driver=535.54.03"), "12.3.0"), (("numpy=1.26.4",), "13.6.0")],
)
def test_8_the_release_is_pinned_to_what_the_interpreter_and_numpy_allow(
    given: tuple[str, ...], cupy: str, matrix: Matrix
) -> None:
    wheel = chosen(matrix, "driver=580.95.05", "gpu=A100", *given)
    assert wheel.version == cupy
    assert f"=={cupy}" in wheel.requirements[0]


def test_9_the_embedded_code_differs_by_line_and_platform(matrix: Matrix) -> None:
    twelve = _candidate(matrix, "cupy-cuda12x", "14.2.0").release.platforms
    thirteen = _candidate(matrix, "cupy-cuda13x", "14.2.0").release.platforms
    assert twelve["linux-x86_64"].ptx == ("10.0",)
    assert thirteen["linux-x86_64"].ptx == ("12.0",)
    for platforms in (twelve, thirteen):
        assert set(platforms["linux-aarch64"].sass or ()) > set(platforms["linux-x86_64"].sass or ())


def test_9_code_for_a_gpu_on_one_platform_is_none_on_another(matrix: Matrix) -> None:
    """The code for Thor is in the aarch64 wheel alone; the PTX in both is for a later capability."""
    given = ("driver=580.95.05", "compute-capability=11.0")
    assert chosen(matrix, *given, "arch=aarch64").distribution == "cupy-cuda13x"
    refused = {
        entry.constraint
        for entry in resolved(matrix, *given).rejected
        if (entry.candidate.name, entry.candidate.version) == ("cupy-cuda13x", "14.2.0")
    }
    assert refused == {ConstraintName.WHEEL_HAS_CODE_FOR_GPU}


@pytest.mark.parametrize(("headers", "nvrtc"), [(False, True), (True, False)])
def test_11_a_toolkit_without_headers_or_without_nvrtc_is_none(headers: bool, nvrtc: bool, matrix: Matrix) -> None:  # noqa: FBT001
    """As /usr/local/cuda of a runtime image, which CuPy takes for one as soon as the folder is there."""
    snapshot = machine(matrix, "driver=580.95.05", "gpu=H100")
    empty = Toolkit("/usr/local/cuda", "its folder", known(CudaVersion(13, 0), "test"), nvrtc, headers)
    needs: Needs = needs_of(_with_toolkit(snapshot, empty), matrix)
    assert host_toolkit(_candidate(matrix, "cupy-cuda13x", "14.2.0"), needs, matrix) is None
    resolution = resolve(_with_toolkit(snapshot, empty), matrix)
    assert resolution.wheel is not None
    assert resolution.wheel.extra == "ctk"


def _with_toolkit(snapshot: Snapshot, toolkit: Toolkit) -> Snapshot:
    return replace(snapshot, toolkits=(toolkit,))


def test_13_only_wheels_that_are_known_are_ever_named(matrix: Matrix) -> None:
    """Plain cupy is a source distribution, and a name that was guessed may be a stranger's."""
    names = {line.name for line in matrix.wheel_lines}
    assert "cupy" not in names
    assert all(is_cupy(name) and line.releases for name, line in zip(sorted(names), matrix.wheel_lines, strict=True))


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


def test_known_faults_are_told_with_what_mends_them(matrix: Matrix) -> None:
    given = ("driver=580.95.05", "gpu=A100")
    assert _quarrels(matrix, "cupy-cuda13x", "14.0.0", *given) == {ConstraintName.NO_ADVISORY}
    assert _quarrels(matrix, "cupy-cuda13x", "14.1.0", *given) == set()
    beside = resolved(matrix, *given, "package.torch=2.11.0").rejected
    (told,) = [entry for entry in beside if entry.candidate.label == "cupy-cuda13x[ctk] 14.1.0"]
    assert told.needed == "CuPy 14.1.1 or newer beside torch"
    assert "pull request 22702" in told.source


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
    snapshot = replace(machine(matrix, "driver=none", "gpu=none"), pci_gpus=(PciGpu("0000:03:00.0", AMD, "744c"),))
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
    return resolve(replace(machine(matrix, "driver=none", "gpu=none"), amd_gpus=nodes, rocm=told), matrix)


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


def test_10_what_a_cupy_was_built_with_is_not_what_is_there(matrix: Matrix) -> None:
    """Every minor of the major serves it, whatever it was built with."""
    wheel = _candidate(matrix, "cupy-cuda12x", "14.2.0")
    assert str(wheel.release.built_with) == "12.9"
    assert _minors(matrix, "cupy-cuda12x", "14.2.0", "A100")[0] == "12.0"


def test_2_a_real_cudart_accepts_every_level_of_its_major(matrix: Matrix) -> None:
    """As measured against a stub libcuda: no word of PTX, of NVRTC or of images."""
    measured = {row.cuda: row.cudart for row in matrix.cuda_minors if row.cudart is not None}
    assert len(measured) == 15
    assert all(level == CudaVersion(cuda.major, 0) for cuda, level in measured.items())


@pytest.mark.parametrize(
    ("banner", "driver", "level"),
    [
        ("NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: 13.0", "580.95.05", "13.0"),
        ("NVIDIA-SMI 610.43.02   KMD Version: 610.43.02   CUDA UMD Version: 13.3", "610.43.02", "13.3"),
        ("NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: N/A", "570.86.15", None),
    ],
)
def test_15_the_banner_of_nvidia_smi_has_changed(banner: str, driver: str, level: str | None) -> None:
    assert parse_banner(f"| {banner} |\n") == (driver, level)


def test_17_without_a_driver_the_wheel_is_named_for_the_driver_that_is_needed(matrix: Matrix) -> None:
    """What can be proven without one is in tests/test_real_cupy.py and the smoke tests of NVRTC."""
    resolution = resolved(matrix, "driver=none", "gpu=H100")
    assert resolution.wheel is None
    assert resolution.next_better is not None
    assert [change.fact for change in resolution.next_better.changes] == ["driver.version"]


def test_every_trap_has_a_test_by_its_number() -> None:
    """Seventeen traps; those about resolving are in test_installs.py too, with the real pip and uv."""
    here = Path(__file__).parent
    text = "".join((here / name).read_text(encoding="utf-8") for name in ("test_traps.py", "test_installs.py"))
    assert {int(number) for number in re.findall(r"^def test_(\d+)_", text, re.MULTILINE)} == set(range(1, 18))
