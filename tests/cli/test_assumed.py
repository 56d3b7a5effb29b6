"""Verdicts on assumed facts: whatever is not assumed or pasted is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.model.reading import known
from gpuenv.model.snapshot import DeviceNode
from tests.cli.program import answer, gpuenv
from tests.cli.recorded import FIT, changed, record

if TYPE_CHECKING:
    from pathlib import Path

PASTE = """\
| NVIDIA-SMI 580.65.06    Driver Version: 580.65.06    CUDA Version: 13.0  |
Package      Version
------------ -------
cupy-cuda13x 14.2.0
"""
MACHINE = ("driver=580", "gpu=H100")
CUPY = ("cupy=cupy-cuda13x==14.2.0", "toolkit=13.0")
TARGET = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "numpy=2.3.0")


def assuming(*given: str) -> tuple[str, ...]:
    return tuple(part for told in given for part in ("--assume", told))


def undecided(*options: str | Path) -> tuple[int, set[str]]:
    code, report = answer("doctor", *options)
    return code, {run["code"] for run in report["checks"] if run.get("undecided")} & {"WHL506", "WHL507", "LIB601"}


def test_a_driver_a_gpu_and_a_cupy_are_no_machine() -> None:
    code, open_ones = undecided("--no-probe", *assuming(*MACHINE, "cupy=cupy-cuda13x==14.2.0"))
    assert (code, open_ones) == (8, {"WHL506", "WHL507", "LIB601"})
    assert undecided("--no-probe", *assuming(*MACHINE, *CUPY, *TARGET)) == (0, set())


def test_a_paste_is_judged_by_the_same_rule(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text(PASTE, encoding="utf-8")
    told: tuple[str | Path, ...] = ("--paste", paste, *assuming(*MACHINE))
    assert undecided(*told) == (8, {"WHL506", "WHL507", "LIB601"})
    assert undecided(*told, *assuming(*CUPY[1:], *TARGET)) == (0, set())


def test_a_cupy_in_place_of_the_recorded_one_has_libraries_that_nobody_was_asked_for(tmp_path: Path) -> None:
    recorded = record(FIT, tmp_path / "fit.json")
    assert undecided("--snapshot", recorded) == (0, set())
    assert undecided("--snapshot", recorded, *assuming("driver=580")) == (0, set())
    assert undecided("--snapshot", recorded, *assuming("cupy=cupy-cuda12x==14.2.0")) == (0, set())  # as it is there
    assert undecided("--snapshot", recorded, *assuming("driver=580", CUPY[0])) == (8, {"LIB601"})
    assert undecided("--snapshot", recorded, *assuming("driver=580", *CUPY)) == (0, set())


@pytest.mark.parametrize("given", ["gpu=none", "gpu-count=0"])
def test_no_gpu_is_no_gpu_wherever_the_rest_comes_from(given: str, tmp_path: Path) -> None:
    eight = [FIT.gpus[0]._replace(index=known(number, "nvml")) for number in range(8)]
    driver = FIT.driver._replace(device_nodes=(DeviceNode("/dev/nvidia0", accessible=True, mode="0666", owner="root"),))
    machine = changed(FIT, driver=driver, gpus=tuple(eight), gpu_count=known(8, "nvml"))
    recorded = record(machine, tmp_path / "eight.json")
    for options in (("--snapshot", recorded), ("--no-probe",)):
        code, report = answer("doctor", *options, *assuming(given))
        assert (code, report["findings"][0]["code"]) == (1, "GPU201")
    code, report = answer("doctor", "--snapshot", recorded, *assuming(given), "--expect-no-gpu")
    assert code == 0


def test_nothing_fits_without_a_gpu() -> None:
    code, told = answer("resolve", "--no-probe", *assuming("driver=580", "gpu=none"))
    assert (code, told["wheel"], told["conda"], told["image"]) == (3, None, None, None)
    reasons = {entry["constraint"] for entry in told["rejected"] if entry["candidate"]["name"] == "cupy-cuda13x"}
    assert "gpu-present" in reasons
    assert "would fit with a GPU of compute capability" in told["explanation"]


def test_what_a_paste_leaves_open_is_told_by_any_spelling(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text(PASTE, encoding="utf-8")
    assert "does not contain the C library" in gpuenv("doctor", "--paste", paste).stderr
    assert "does not contain the C library" not in gpuenv("doctor", "--paste", paste, *assuming("glibc=2.36")).stderr


def test_another_system_has_no_c_library_of_linux(tmp_path: Path) -> None:
    recorded = record(FIT, tmp_path / "fit.json")
    done = gpuenv("resolve", "--snapshot", recorded, *assuming("os=windows"))
    assert "windows-x86_64" in done.stdout
    assert "glibc" not in done.stdout


def test_where_libcuda_decides_it_is_named_and_not_the_driver() -> None:
    given = ("driver=580", "driver-cuda=12.2")
    code, told = answer("resolve", "--no-probe", *assuming(*given))
    assert (code, told["wheel"]["distribution"]) == (0, "cupy-cuda12x")
    minimum = [entry for entry in told["rejected"] if entry["constraint"] == "driver-minimum"]
    assert {(entry["needed"], entry["found"]) for entry in minimum if entry["candidate"]["name"] == "cupy-cuda13x"} == {
        ("libcuda of CUDA >= 13.0", "CUDA 12.2 (driver 580.65.06)")
    }
    _, report = answer("doctor", "--no-probe", *assuming(*given, "gpu=H100", "cupy=cupy-cuda13x==14.2.0"))
    (found,) = [entry for entry in report["findings"] if entry["primary"]]
    assert found["title"].startswith("The libcuda in use is too old for cupy-cuda13x: needs libcuda of CUDA >= 13.0")
    assert not any("update the driver" in fix["text"] for fix in found["fix"])
