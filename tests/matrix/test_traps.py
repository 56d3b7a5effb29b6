"""Cases in which a plausible tool gives a wrong answer, each seen by running the real packages (November 2026).

The numbers are those of the list they were first written down in. What they do to pip and uv is in test_installs.py.
Those of the probe and the doctor are held elsewhere: 10 and 17 in tests/test_real_cupy.py, 12 in
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
    return snapshot._replace(toolkits=(toolkit,))


def test_13_only_wheels_that_are_known_are_ever_named(matrix: Matrix) -> None:
    """Plain cupy is a source distribution, and a name that was guessed may be a stranger's."""
    names = {line.name for line in matrix.wheel_lines}
    assert "cupy" not in names
    assert all(is_cupy(name) and line.releases for name, line in zip(sorted(names), matrix.wheel_lines, strict=True))


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
    names = ("test_traps.py", "test_traps_beyond_wheels.py", "test_installs.py")
    text = "".join((Path(__file__).parent / name).read_text(encoding="utf-8") for name in names)
    assert {int(number) for number in re.findall(r"^def test_(\d+)_", text, re.MULTILINE)} == set(range(1, 18))
