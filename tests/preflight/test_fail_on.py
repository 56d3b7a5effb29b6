"""``--fail-on``, hardware faults, contradictions, and the machines that one call can judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import Container, DriverLibrary, GpuHealth, Source, SourceState
from gpuenv.preflight.evaluate import contradiction
from gpuenv.preflight.requirements import parse_requirement
from tests.cli.program import LIMIT, MINIMAL, PROGRAM, gpuenv, run_gpuenv
from tests.cli.snapshots import FIT, WITHOUT_GPU, replace_facts, write_snapshot

if TYPE_CHECKING:
    from gpuenv.model.snapshot import Snapshot


def with_health(**readings: Any) -> Snapshot:  # noqa: ANN401 - readings of several types
    return replace_facts(FIT, gpus=(FIT.gpus[0]._replace(health=GpuHealth(**readings)),))


HOT = with_health(throttle_reasons=known(("hardware-thermal",), "nvml"))
PENDING = with_health(pages_pending=known(True, "nvml"))
HIDDEN = PENDING._replace(gpus=(FIT.gpus[0], PENDING.gpus[0]._replace(ordinal=missing("hidden"))))


def preflight(snapshot: Snapshot, folder: Path, *arguments: str, cwd: Path | None = None) -> Any:  # noqa: ANN401 - JSON
    file = write_snapshot(snapshot, folder / "machine.json")
    result = gpuenv("preflight", "--snapshot", file, *arguments, "--format", "json", cwd=cwd)
    assert result.stdout, result.stderr
    report = json.loads(result.stdout)
    assert report["exit_code"] == result.returncode
    return report


@pytest.mark.parametrize("name", ["warning", "gpu210", "gpu-throttled"])
def test_a_warning_named_by_fail_on_is_an_error(tmp_path: Path, name: str) -> None:
    report = preflight(HOT, tmp_path, "--no-config", "--fail-on", name)
    (finding,) = report["findings"]
    assert (report["status"], finding["severity"], finding["primary"]) == ("unfit", "error", True)
    assert finding["evidence"][-1]["value"] == "a warning, raised to an error"


def test_fail_on_leaves_other_findings_alone(tmp_path: Path) -> None:
    report = preflight(HOT, tmp_path, "--no-config", "--fail-on", "gpu-busy", "--fail-on", "DRV107")
    assert (report["status"], report["exit_code"]) == ("degraded", 0)


def test_fail_on_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "gpuenv.toml").write_text('fail-on = ["gpu-throttled"]\n', encoding="utf-8")
    assert preflight(HOT, tmp_path, cwd=tmp_path)["status"] == "unfit"


def test_a_suppression_wins_over_fail_on(tmp_path: Path) -> None:
    allowed = 'fail-on = "warning"\nallow = [{code = "GPU210", reason = "fan is ordered", expires = 2999-01-01}]\n'
    (tmp_path / "gpuenv.toml").write_text(allowed, encoding="utf-8")
    report = preflight(HOT, tmp_path, cwd=tmp_path)
    assert [finding["severity"] for finding in report["findings"]] == ["note"]


def test_an_unknown_name_is_a_usage_error_with_the_nearest_one(tmp_path: Path) -> None:
    (tmp_path / "gpuenv.toml").write_text('wait = 1\nfail-on = ["GPU120"]\n', encoding="utf-8")
    result = gpuenv("preflight", "--no-probe", "--fail-on", "gpu-throtled", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert "gpuenv.toml: line 2: expected warning, the code of a check or a cause, found GPU120; did you mean" in (
        result.stderr
    )
    assert (
        "--fail-on: expected warning, the code of a check or a cause, found gpu-throtled; did you mean gpu-throttled?"
        in (result.stderr)
    )


def test_a_hardware_fault_of_any_gpu_is_an_error_of_preflight(tmp_path: Path) -> None:
    """The doctor warns of a fault that cannot reach the process."""
    file = write_snapshot(HIDDEN, tmp_path / "machine.json")
    assert gpuenv("doctor", "--no-config", "--snapshot", file).returncode == 0
    report = preflight(HIDDEN, tmp_path, "--no-config")
    (finding,) = report["findings"]
    assert (report["status"], finding["code"]) == ("unfit", "GPU206")
    assert finding["evidence"][-1]["source"] == "preflight accepts no hardware fault of a GPU"


def test_a_hardware_fault_that_can_reach_the_process_is_an_error_of_the_doctor(tmp_path: Path) -> None:
    file = write_snapshot(PENDING, tmp_path / "machine.json")
    assert gpuenv("doctor", "--no-config", "--snapshot", file).returncode == 1


def test_contradicting_requirements_are_a_usage_error() -> None:
    options = ("--retry-elsewhere", "--require", "gpu>=1", "--expect-no-gpu")
    result = gpuenv("preflight", "--no-config", "--no-probe", *options)
    assert (result.returncode, result.stdout) == (2, "")
    assert "no machine can meet gpu>=1 (--require) and gpu==0 (--expect-no-gpu)" in result.stderr


@pytest.mark.parametrize(
    ("texts", "contradictory"),
    [
        (["gpu>=4,<2"], "gpu>=4,<2 (--require)"),
        (["gpu==0", "cc>=8"], None),
        (["gpu>=2", "gpu<=2"], None),
    ],
)
def test_requirements_contradict_each_other_if_no_number_of_gpus_meets_all(
    texts: list[str], contradictory: str | None
) -> None:
    assert contradiction(map(parse_requirement, texts)) == contradictory


def test_a_second_snapshot_is_a_usage_error(tmp_path: Path) -> None:
    fit, bare = write_snapshot(FIT, tmp_path / "fit.json"), write_snapshot(WITHOUT_GPU, tmp_path / "bare.json")
    result = gpuenv("preflight", "--snapshot", bare, "--snapshot", fit)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--snapshot is given twice" in result.stderr


@pytest.mark.parametrize(
    ("machine", "code"),
    [("baked-driver-in-image", 1), ("empty-libcuda-in-image", 1), ("mismatch-535", 75)],
)
def test_a_driver_in_the_image_is_no_reason_for_another_host(machine: str, code: int) -> None:
    command = ("simulate", machine, "--", *PROGRAM, "preflight", "--no-config", "--retry-elsewhere")
    result = run_gpuenv((*command, "--require", "gpu>=1"), MINIMAL, LIMIT)
    assert result.returncode == code, result.stdout + result.stderr


def test_an_unloadable_libcuda_of_the_image_is_no_reason_for_another_host(tmp_path: Path) -> None:
    """The same file mounted from the host is one; the loader names the link to it, in /lib, which is a link too."""

    def machine(*, mounted: bool) -> Snapshot:
        return replace_facts(
            FIT,
            host=FIT.host._replace(container=known(Container.DOCKER, "/.dockerenv")),
            driver=FIT.driver._replace(
                cuda_library=missing("it cannot be loaded"),
                cuda_init=missing("it cannot be loaded"),
                libraries=(DriverLibrary("/usr/lib/x86_64-linux-gnu/libcuda.so.550.163.01", mounted=mounted),),
            ),
            sources=(
                *(entry for entry in FIT.sources if entry.name != "libcuda"),
                Source("libcuda", SourceState.FAILED, "/lib/x86_64-linux-gnu/libcuda.so.1: file too short"),
            ),
        )

    codes = [
        preflight(machine(mounted=mounted), tmp_path, "--no-config", "--retry-elsewhere")["exit_code"]
        for mounted in (False, True)
    ]
    assert codes == [1, 75]
