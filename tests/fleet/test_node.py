"""``gpuenv fleet node``: the report that a node leaves behind."""

from __future__ import annotations

import json
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from gpuenv.data import data_path
from gpuenv.fleet.node_report import NodeReport, node_name, parse_node_report
from gpuenv.simulate.layout import materialise
from gpuenv.simulate.profile import load
from tests.cli.program import gpuenv, run_gpuenv

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from gpuenv.simulate.layout import SimulatedMachine
    from gpuenv.simulate.stub_driver import StubDriver
    from tests.support.target import CudaLibraries, Targets

MACHINES = Path(__file__).parents[1] / "machines"


@pytest.fixture
def machine(
    tmp_path: Path, stub_driver: StubDriver, cuda_libraries: CudaLibraries
) -> Callable[[str], SimulatedMachine]:
    return lambda name: materialise(
        load(MACHINES / f"{name}.yaml"), tmp_path / "machine", stub_driver, cuda_libraries.of
    )


def run(node: SimulatedMachine, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_gpuenv(("fleet", "node", *arguments), {**node.environment, **variables}, 30.0)


def read(folder: Path, node: str) -> NodeReport:
    return parse_node_report((folder / f"{node}.json").read_bytes())


def nothing_there(tmp_path: Path) -> tuple[str, ...]:
    """Options for a node without anything of NVIDIA's."""
    root = tmp_path / "root"
    root.mkdir(exist_ok=True)
    return ("--driver-root", str(root))


@pytest.mark.parametrize(
    ("name", "code", "line"),
    [
        ("no-cupy", 0, "FIT: CUDA programs can use the GPU here."),
        ("a100-row-failed", 1, "UNFIT: GPU 0 (NVIDIA A100-SXM4-40GB): a memory row could not be remapped."),
    ],
)
def test_a_node_without_an_environment_reports_its_host(
    machine: Callable[[str], SimulatedMachine], tmp_path: Path, name: str, code: int, line: str
) -> None:
    node = machine(name)
    folder = tmp_path / "shared/reports"
    result = run(node, "-o", folder, SLURMD_NODENAME="gpu7")
    assert (result.returncode, result.stdout) == (code, f"gpu7: {line}\n"), result.stderr
    assert [path.name for path in folder.iterdir()] == ["gpu7.json"]
    assert stat.S_IMODE((folder / "gpu7.json").stat().st_mode) == 0o600
    report = read(folder, "gpu7")
    assert report.report
    assert (report.node, report.run, report.exit_code, report.error) == ("gpu7", None, code, None)
    assert report.report.host_only
    assert report.snapshot
    assert report.snapshot.gpus
    assert report.report.snapshot.gpus == (), "the facts are in the report once"
    assert str(report.snapshot.gpus[0].uuid.value) in (folder / "gpu7.json").read_text(encoding="utf-8")


def test_the_active_environment_is_judged_too(
    machine: Callable[[str], SimulatedMachine], targets: Targets, tmp_path: Path
) -> None:
    node = machine("no-cupy")
    active = str(targets.interpreter(load(MACHINES / "no-cupy.yaml").target).parents[1])
    result = run(node, "-o", tmp_path, VIRTUAL_ENV=active)
    assert result.returncode == 1
    assert "CuPy is not in the target environment" in result.stdout
    assert run(node, "-o", tmp_path, "--host-only", VIRTUAL_ENV=active).returncode == 0


def test_a_hung_driver_ends_within_the_time_limit(machine: Callable[[str], SimulatedMachine], tmp_path: Path) -> None:
    node = machine("hung-nvml")
    started = time.monotonic()
    result = run(node, "-o", tmp_path, "--timeout", "2", NODE_NAME="gpu8")
    assert result.returncode == 1, result.stdout + result.stderr
    assert time.monotonic() - started < 2 + 2
    report = read(tmp_path, "gpu8").report
    assert report
    assert [finding.code for finding in report.findings if finding.primary] == ["DRV100"]


def test_a_node_that_cannot_be_examined_reports_why(tmp_path: Path) -> None:
    (tmp_path / "not-an-environment").mkdir()
    options = ("--python", str(tmp_path / "not-an-environment"), *nothing_there(tmp_path))
    result = gpuenv("fleet", "node", "-o", tmp_path, *options, environment={"NODE_NAME": "gpu1"})
    report = read(tmp_path, "gpu1")
    assert result.returncode == report.exit_code == 2
    assert report.report is None
    assert report.snapshot is None
    assert report.error
    assert "not-an-environment" in report.error
    assert result.stdout.startswith("gpu1: UNKNOWN: ")


def test_a_report_without_a_diagnosis_has_the_fix(tmp_path: Path) -> None:
    """A damaged matrix of the user's own, which takes the place of the shipped one."""
    matrix = tmp_path / "data/gpuenv/matrix.yaml"
    matrix.parent.mkdir(parents=True)
    matrix.write_text("schema: 1\nrevision: '2099-01-01'\n", encoding="utf-8")
    options = ("-o", str(tmp_path / "out"), *nothing_there(tmp_path))
    variables = {"SLURMD_NODENAME": "n1", "XDG_DATA_HOME": str(tmp_path / "data")}
    result = gpuenv("fleet", "node", *options, environment=variables)
    assert result.returncode == 6, result.stderr
    error = read(tmp_path / "out", "n1").error
    assert error
    assert "data/gpuenv/matrix.yaml: line 1: " in error  # the user's name in the path is hidden
    assert "remove it to use the one shipped with gpuenv" in error


def test_a_node_that_takes_too_long_reports_why(tmp_path: Path) -> None:
    """A matrix that is not the compiled one is read from YAML; so long a one takes longer than the time limit."""
    matrix = tmp_path / "matrix.yaml"
    matrix.write_bytes(data_path("matrix.yaml").read_bytes() + 400_000 * b"# of this site\n")
    options = ("--timeout", "0.1", "--matrix", str(matrix), *nothing_there(tmp_path))
    result = gpuenv("fleet", "node", "-o", tmp_path, *options, environment={"NODE_NAME": "gpu1"})
    report = read(tmp_path, "gpu1")
    assert (result.returncode, report.exit_code) == (8, 8)
    assert report.error == "no answer within 0.1 s"


def test_a_link_in_the_folder_is_replaced_and_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "shadow"
    other.write_text("root:x\n", encoding="utf-8")
    (tmp_path / "gpu1.json").symlink_to(other)
    gpuenv("fleet", "node", "-o", tmp_path, *nothing_there(tmp_path), environment={"NODE_NAME": "gpu1"})
    assert other.read_text(encoding="utf-8") == "root:x\n"
    assert not (tmp_path / "gpu1.json").is_symlink()
    assert read(tmp_path, "gpu1").node == "gpu1"


def test_the_name_is_that_of_the_scheduler() -> None:
    assert node_name({"SLURMD_NODENAME": "gpu7", "NODE_NAME": "gpu8"}, "host") == "gpu7"
    assert node_name({}, "host.example") == "host.example"


@pytest.mark.parametrize("name", ["../../etc/cron.d/x", "-rf", "a b", "$(reboot)", "x" * 300, "a\n"])
def test_a_name_that_is_no_host_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be the name of a node"):
        node_name({"NODE_NAME": name}, "host")


def test_the_report_has_no_secret_and_fits_on_one_line_of_standard_output(tmp_path: Path) -> None:
    variables = {"NODE_NAME": "gpu1", "CUDA_API_TOKEN": "hunter2hunter2hunter2", "CUDA_HOME": "/home/someone/cuda"}
    arguments = ("fleet", "node", "-o", "-", "--run", "r1", *nothing_there(tmp_path))
    result = run_gpuenv(arguments, {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **variables}, 30.0)
    assert result.stdout.count("\n") == 1
    report = parse_node_report(result.stdout.encode())
    assert (report.node, report.run) == ("gpu1", "r1")
    assert json.loads(result.stdout)["snapshot"]["environment"]["CUDA_HOME"] != variables["CUDA_HOME"]
    assert "hunter2" not in result.stdout
    assert "someone" not in result.stdout
