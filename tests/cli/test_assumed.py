"""Verdicts on assumed facts: a fact that is neither assumed nor pasted is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpuenv.model.reading import known
from gpuenv.model.snapshot import DeviceNode
from tests.cli.program import answer, gpuenv
from tests.cli.snapshots import FIT, replace_facts, write_snapshot

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


def assume(*assumptions: str) -> tuple[str, ...]:
    return tuple(part for assumption in assumptions for part in ("--assume", assumption))


def undecided(*options: str | Path) -> tuple[int, set[str]]:
    code, report = answer("doctor", *options)
    return code, {run["code"] for run in report["checks"] if run.get("undecided")} & {"WHL506", "WHL507", "LIB601"}


def test_a_driver_a_gpu_and_a_cupy_leave_checks_undecided() -> None:
    code, undecided_codes = undecided("--no-probe", *assume(*MACHINE, "cupy=cupy-cuda13x==14.2.0"))
    assert (code, undecided_codes) == (8, {"WHL506", "WHL507", "LIB601"})
    assert undecided("--no-probe", *assume(*MACHINE, *CUPY, *TARGET)) == (0, set())


def test_a_paste_leaves_the_same_checks_undecided(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text(PASTE, encoding="utf-8")
    options: tuple[str | Path, ...] = ("--paste", paste, *assume(*MACHINE))
    assert undecided(*options) == (8, {"WHL506", "WHL507", "LIB601"})
    assert undecided(*options, *assume(*CUPY[1:], *TARGET)) == (0, set())


def test_an_assumed_cupy_has_unknown_libraries(tmp_path: Path) -> None:
    snapshot_file = write_snapshot(FIT, tmp_path / "fit.json")
    assert undecided("--snapshot", snapshot_file) == (0, set())
    assert undecided("--snapshot", snapshot_file, *assume("driver=580")) == (0, set())
    assert undecided("--snapshot", snapshot_file, *assume("cupy=cupy-cuda12x==14.2.0")) == (
        0,
        set(),
    )  # as in the snapshot
    assert undecided("--snapshot", snapshot_file, *assume("driver=580", CUPY[0])) == (8, {"LIB601"})
    assert undecided("--snapshot", snapshot_file, *assume("driver=580", *CUPY)) == (0, set())


@pytest.mark.parametrize("assumption", ["gpu=none", "gpu-count=0"])
def test_an_assumed_lack_of_gpus_replaces_all_facts_about_gpus(assumption: str, tmp_path: Path) -> None:
    eight = [FIT.gpus[0]._replace(index=known(number, "nvml")) for number in range(8)]
    driver = FIT.driver._replace(device_nodes=(DeviceNode("/dev/nvidia0", accessible=True, mode="0666", owner="root"),))
    machine = replace_facts(FIT, driver=driver, gpus=tuple(eight), gpu_count=known(8, "nvml"))
    snapshot_file = write_snapshot(machine, tmp_path / "eight.json")
    for options in (("--snapshot", snapshot_file), ("--no-probe",)):
        code, report = answer("doctor", *options, *assume(assumption))
        assert (code, report["findings"][0]["code"]) == (1, "GPU201")
    code, report = answer("doctor", "--snapshot", snapshot_file, *assume(assumption), "--expect-no-gpu")
    assert code == 0


def test_no_candidate_fits_without_a_gpu() -> None:
    code, resolution = answer("resolve", "--no-probe", *assume("driver=580", "gpu=none"))
    assert (code, resolution["wheel"], resolution["conda"], resolution["image"]) == (3, None, None, None)
    reasons = {entry["constraint"] for entry in resolution["rejected"] if entry["candidate"]["name"] == "cupy-cuda13x"}
    assert "gpu-present" in reasons
    assert "would fit with a GPU of compute capability" in resolution["explanation"]


def test_an_alias_of_an_assumption_completes_a_paste(tmp_path: Path) -> None:
    paste = tmp_path / "paste.txt"
    paste.write_text(PASTE, encoding="utf-8")
    gaps = " ".join(gpuenv("doctor", "--paste", paste).stderr.split()).partition("the paste does not contain ")[2]
    assert "the C library" in gaps.partition(";")[0]
    assert "the C library" not in gpuenv("doctor", "--paste", paste, *assume("glibc=2.36")).stderr


def test_an_assumed_windows_has_no_glibc(tmp_path: Path) -> None:
    snapshot_file = write_snapshot(FIT, tmp_path / "fit.json")
    result = gpuenv("resolve", "--snapshot", snapshot_file, *assume("os=windows"))
    assert "windows-x86_64" in result.stdout
    assert "glibc" not in result.stdout


def test_a_rejection_by_libcuda_names_libcuda_instead_of_the_driver() -> None:
    assumptions = ("driver=580", "driver-cuda=12.2")
    code, resolution = answer("resolve", "--no-probe", *assume(*assumptions))
    assert (code, resolution["wheel"]["distribution"]) == (0, "cupy-cuda12x")
    minimum = [entry for entry in resolution["rejected"] if entry["constraint"] == "driver-minimum"]
    assert {(entry["needed"], entry["found"]) for entry in minimum if entry["candidate"]["name"] == "cupy-cuda13x"} == {
        ("libcuda of CUDA >= 13.0", "CUDA 12.2 (driver 580.65.06)")
    }
    _, report = answer("doctor", "--no-probe", *assume(*assumptions, "gpu=H100", "cupy=cupy-cuda13x==14.2.0"))
    (finding,) = [entry for entry in report["findings"] if entry["primary"]]
    assert finding["title"].startswith("The libcuda in use is too old for cupy-cuda13x: needs libcuda of CUDA >= 13.0")
    assert not any("update the driver" in fix["text"] for fix in finding["fix"])
