"""Cases in which a plausible tool gives a wrong answer, each measured with the real packages (November 2026).

The numbers are those of the original list. test_installs.py has their effects on pip and uv.
Those of the probe and the doctor are tested elsewhere: 10 and 17 in tests/test_real_cupy.py, 12 in
tests/machines/two-cupy.yaml, 15 in tests/probe/test_nvidia_smi.py.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuenv.matrix.candidates import WheelCandidate, host_toolkit, serving_minors
from gpuenv.matrix.needs import Needs, needs_of
from gpuenv.matrix.resolve import resolve
from gpuenv.matrix.tables import Matrix
from gpuenv.model.cupy import is_cupy
from gpuenv.model.reading import known
from gpuenv.model.resolution import ConstraintName
from gpuenv.model.snapshot import Snapshot, Toolkit
from gpuenv.model.versions import CudaVersion
from gpuenv.probe.nvidia_smi import parse_banner
from tests.matrix.resolutions import choose_wheel, machine, resolution_of


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
    assert choose_wheel(matrix, f"driver={driver}", f"gpu={gpu}").distribution == line


def test_1_every_cuda_13_wheel_is_rejected_on_a_v100_for_both_reasons(matrix: Matrix) -> None:
    rejected = resolution_of(matrix, "driver=580.95.05", "gpu=V100").rejected
    for release in next(line for line in matrix.wheel_lines if line.name == "cupy-cuda13x").releases:
        reasons = {
            entry.constraint
            for entry in rejected
            if (entry.candidate.name, entry.candidate.version) == ("cupy-cuda13x", release.cupy)
        }
        assert {ConstraintName.NVRTC_COMPILES_FOR_GPU, ConstraintName.WHEEL_HAS_CODE_FOR_GPU} <= reasons


@pytest.mark.parametrize(("driver", "line"), [("525.60.13", "cupy-cuda12x"), ("580.65.06", "cupy-cuda13x")])
def test_2_any_minor_of_the_major_runs_on_the_first_driver_of_the_major(driver: str, line: str, matrix: Matrix) -> None:
    """The runtime compares only the major, so that the driver's own minor is not pinned."""
    wheel = choose_wheel(matrix, f"driver={driver}", "gpu=A100")
    assert (wheel.distribution, len(wheel.requirements)) == (line, 1)


@pytest.mark.parametrize("driver", ["525.53", "520.61.05"])
def test_2_a_driver_older_than_the_first_of_the_major_is_rejected(driver: str, matrix: Matrix) -> None:
    assert choose_wheel(matrix, f"driver={driver}", "gpu=A100").distribution == "cupy-cuda11x"


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


def test_6_the_extra_is_requested_only_from_a_release_that_has_it(matrix: Matrix) -> None:
    for python in ("3.8", "3.9", "3.10", "3.13", "3.14t"):
        wheel = choose_wheel(matrix, "driver=580.95.05", "gpu=A100", f"python={python}")
        assert (wheel.extra == "ctk") == (int(wheel.version.split(".")[0]) >= 14)
        assert wheel.requirements[0].endswith(f"=={wheel.version}")


def test_7_the_minor_is_pinned_if_the_newest_or_the_oldest_does_not_fit(matrix: Matrix) -> None:
    assert choose_wheel(matrix, "driver=570.86.15", "gpu=RTX 5090").requirements[1:] == ("cuda-toolkit>=12.8,<13",)
    assert choose_wheel(matrix, "driver=575.57.08", "gpu=B300").requirements[1:] == ("cuda-toolkit>=12.9,<13",)


@pytest.mark.parametrize(
    ("facts", "cupy"),
    [(("python=3.9",), "13.6.0"), (("python=3.8", "driver=535.54.03"), "12.3.0"), (("numpy=1.26.4",), "13.6.0")],
)
def test_8_the_pinned_release_fits_the_interpreter_and_numpy(facts: tuple[str, ...], cupy: str, matrix: Matrix) -> None:
    wheel = choose_wheel(matrix, "driver=580.95.05", "gpu=A100", *facts)
    assert wheel.version == cupy
    assert f"=={cupy}" in wheel.requirements[0]


def test_9_the_embedded_code_differs_by_line_and_platform(matrix: Matrix) -> None:
    twelve = _candidate(matrix, "cupy-cuda12x", "14.2.0").release.platforms
    thirteen = _candidate(matrix, "cupy-cuda13x", "14.2.0").release.platforms
    assert twelve["linux-x86_64"].ptx == ("10.0",)
    assert thirteen["linux-x86_64"].ptx == ("12.0",)
    for platforms in (twelve, thirteen):
        assert set(platforms["linux-aarch64"].sass or ()) > set(platforms["linux-x86_64"].sass or ())


def test_9_gpu_code_in_one_platforms_wheel_may_be_missing_in_anothers(matrix: Matrix) -> None:
    """Only the aarch64 wheel has code for Thor; the PTX in both is for a later capability."""
    facts = ("driver=580.95.05", "compute-capability=11.0")
    assert choose_wheel(matrix, *facts, "arch=aarch64").distribution == "cupy-cuda13x"
    constraints = {
        entry.constraint
        for entry in resolution_of(matrix, *facts).rejected
        if (entry.candidate.name, entry.candidate.version) == ("cupy-cuda13x", "14.2.0")
    }
    assert constraints == {ConstraintName.WHEEL_HAS_CODE_FOR_GPU}


@pytest.mark.parametrize(("headers", "nvrtc"), [(False, True), (True, False)])
def test_11_a_toolkit_without_headers_or_nvrtc_does_not_count(headers: bool, nvrtc: bool, matrix: Matrix) -> None:  # noqa: FBT001
    """Such as /usr/local/cuda in a runtime image, which CuPy accepts if the folder exists."""
    snapshot = machine(matrix, "driver=580.95.05", "gpu=H100")
    incomplete = Toolkit("/usr/local/cuda", "its folder", known(CudaVersion(13, 0), "test"), nvrtc, headers)
    needs: Needs = needs_of(_with_toolkit(snapshot, incomplete), matrix)
    assert host_toolkit(_candidate(matrix, "cupy-cuda13x", "14.2.0"), needs, matrix) is None
    resolution = resolve(_with_toolkit(snapshot, incomplete), matrix)
    assert resolution.wheel is not None
    assert resolution.wheel.extra == "ctk"


def _with_toolkit(snapshot: Snapshot, toolkit: Toolkit) -> Snapshot:
    return snapshot._replace(toolkits=(toolkit,))


def test_13_only_known_wheels_are_candidates(matrix: Matrix) -> None:
    """Plain cupy is a source distribution, and a guessed name may belong to another project."""
    names = {line.name for line in matrix.wheel_lines}
    assert "cupy" not in names
    assert all(is_cupy(name) and line.releases for name, line in zip(sorted(names), matrix.wheel_lines, strict=True))


def test_10_a_cupy_runs_with_another_minor_than_it_was_built_with(matrix: Matrix) -> None:
    """Every minor of the major serves it."""
    wheel = _candidate(matrix, "cupy-cuda12x", "14.2.0")
    assert str(wheel.release.built_with) == "12.9"
    assert _minors(matrix, "cupy-cuda12x", "14.2.0", "A100")[0] == "12.0"


def test_2_the_cuda_runtime_accepts_every_cuda_level_of_its_major(matrix: Matrix) -> None:
    """As measured against a stub libcuda; PTX, NVRTC and images have further limits."""
    measured = {row.cuda: row.cudart for row in matrix.cuda_minors if row.cudart is not None}
    assert len(measured) == 17
    assert all(level == CudaVersion(cuda.major, 0) for cuda, level in measured.items())


@pytest.mark.parametrize(
    ("banner", "driver", "level"),
    [
        ("NVIDIA-SMI 580.95.05   Driver Version: 580.95.05   CUDA Version: 13.0", "580.95.05", "13.0"),
        ("NVIDIA-SMI 610.43.02   KMD Version: 610.43.02   CUDA UMD Version: 13.3", "610.43.02", "13.3"),
        ("NVIDIA-SMI 570.86.15   Driver Version: 570.86.15   CUDA Version: N/A", "570.86.15", None),
    ],
)
def test_15_each_form_of_nvidia_smis_banner_is_parsed(banner: str, driver: str, level: str | None) -> None:
    assert parse_banner(f"| {banner} |\n") == (driver, level)


def test_17_without_a_driver_the_next_better_wheel_names_the_needed_driver(matrix: Matrix) -> None:
    """tests/test_real_cupy.py and the smoke tests of NVRTC cover what works without one."""
    resolution = resolution_of(matrix, "driver=none", "gpu=H100")
    assert resolution.wheel is None
    assert resolution.next_better is not None
    assert [change.fact for change in resolution.next_better.changes] == ["driver.version"]


def test_every_trap_number_has_a_test() -> None:
    """Seventeen traps, some of them also in test_installs.py with the real pip and uv."""
    names = ("test_traps.py", "test_traps_of_images.py", "test_installs.py")
    text = "".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in names)
    assert {int(number) for number in re.findall(r"^def test_(\d+)_", text, re.MULTILINE)} == set(range(1, 18))
