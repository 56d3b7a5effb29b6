"""Fixes of variables: the exact value, where a variable is set, and the option of a job."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from gpuenv.doctor.fixes.variables import variable_fixes, without_folder_of_fixes
from gpuenv.model.finding import Finding, Severity
from gpuenv.model.nvidia import Cuda
from gpuenv.model.reading import known, missing
from gpuenv.model.snapshot import Container, Grant, Library, Snapshot, Source, SourceState, Toolkit
from gpuenv.model.versions import CudaVersion
from gpuenv.report.text import fix_command
from tests.cli.snapshots import WITHOUT_GPU
from tests.doctor.installed_target import LIBRARIES, findings_by_code, healthy, with_target

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["healthy"]

OF_SLURM = ["sbatch --gpus=1 JOB_SCRIPT", "srun --gres=gpu:1 COMMAND"]
ORIGIN = "~/.bashrc ~/.bash_profile ~/.profile ~/.zshrc /etc/profile.d /etc/environment"


def lines(finding: Finding) -> list[str | None]:
    return [fix_command(fix) for fix in finding.fix]


def hiding(healthy: Snapshot, value: str, **further: str) -> Snapshot:
    """Every GPU is hidden."""
    return healthy._replace(
        environment={"CUDA_VISIBLE_DEVICES": value, **further},
        gpu_count=known(1, "nvml"),
        visible_count=known(0, "libcuda"),
        driver=healthy.driver._replace(cuda_init=known(int(Cuda.NO_DEVICE), "libcuda")),
        sources=(*(Source(name, SourceState.ANSWERED) for name in ("nvml", "libcuda")),),
    )


def in_job(snapshot: Snapshot, by: str, count: int | None = None, *devices: str) -> Snapshot:
    gpus = missing("not granted") if count is None else known(count, "SLURM_JOB_GPUS")
    return snapshot._replace(grant=Grant(known(by, "x"), gpus, known(devices, "x")))


def test_a_variable_is_unset_selected_and_searched(healthy: Snapshot) -> None:
    finding = findings_by_code(hiding(healthy, "-1"))["GPU202"]
    assert lines(finding) == [
        "unset CUDA_VISIBLE_DEVICES",
        "export CUDA_VISIBLE_DEVICES=0",
        f"grep -rns CUDA_VISIBLE_DEVICES {ORIGIN}",
    ]


@pytest.mark.parametrize(
    ("scheduler", "value", "expected"),
    [
        ("slurm", "NoDevFiles", OF_SLURM),
        ("slurm", "", OF_SLURM),
        ("htcondor", "", [None]),
        ("lsf", "-1", ["bsub -gpu num=1 COMMAND"]),
        ("pbs", "", ["qsub -l select=1:ngpus=1 JOB_SCRIPT"]),
    ],
)
def test_what_a_scheduler_set_is_never_unset(
    healthy: Snapshot, scheduler: str, value: str, expected: list[str | None]
) -> None:
    job = {"lsf": {"LSB_JOBID": "4711"}, "pbs": {"PBS_JOBID": "4711.head"}}.get(scheduler, {})
    snapshot = hiding(healthy, value, **job)
    finding = findings_by_code(snapshot if job else in_job(snapshot, scheduler))["GPU202"]
    assert lines(finding) == expected
    assert expected[0] or finding.fix[0].text.endswith("request_gpus = 1")


def test_a_job_whose_grant_is_unknown_gets_no_line_that_shows_it_every_gpu(healthy: Snapshot) -> None:
    finding = findings_by_code(hiding(healthy, "GPU-00000000-0000", PBS_JOBID="4711.head"))["GPU202"]
    assert lines(finding) == [None, f"grep -rns CUDA_VISIBLE_DEVICES {ORIGIN}"]


def test_nodevfiles_is_slurms_without_other_signs_of_it(healthy: Snapshot) -> None:
    finding = findings_by_code(hiding(healthy, "NoDevFiles"))["GPU202"]
    assert finding.title == "Slurm gave this process no GPU: CUDA_VISIBLE_DEVICES=NoDevFiles"
    assert lines(finding) == OF_SLURM


@pytest.mark.parametrize(
    ("variables", "severity"),
    [
        ({"CUDA_FORCE_PTX_JIT": "1"}, Severity.WARNING),
        ({"CUDA_DISABLE_PTX_JIT": "1"}, Severity.NOTE),
        ({"CUDA_DISABLE_PTX_JIT": "1", "CUPY_COMPILE_WITH_PTX": "1"}, Severity.WARNING),
        ({"CUDA_FORCE_PTX_JIT": "0", "CUDA_DISABLE_PTX_JIT": "0"}, None),
    ],
)
def test_a_variable_that_forces_or_forbids_the_compilation_of_ptx_is_unset(
    healthy: Snapshot, variables: dict[str, str], severity: Severity | None
) -> None:
    found = findings_by_code(healthy._replace(environment=variables)).get("LIB614")
    assert (found and found.severity) == severity
    assert found is None or lines(found)[0] == f"unset {next(iter(variables))}"


def test_a_job_on_a_node_without_a_gpu_requests_one() -> None:
    node = WITHOUT_GPU._replace(environment={"CUDA_VISIBLE_DEVICES": "NoDevFiles", "SLURM_JOB_ID": "4711"})
    assert lines(findings_by_code(node)["GPU201"])[1:3] == OF_SLURM
    assert OF_SLURM[0] not in lines(findings_by_code(WITHOUT_GPU)["GPU201"])


def test_a_step_without_the_gpus_of_its_job_requests_them(healthy: Snapshot) -> None:
    snapshot = in_job(hiding(healthy, "NoDevFiles"), "slurm", 1, "0")
    assert lines(findings_by_code(snapshot)["GPU202"]) == ["srun --gpus=1 COMMAND"]


def test_a_job_gets_the_gpus_that_it_was_granted(healthy: Snapshot) -> None:
    snapshot = in_job(hiding(healthy, "-1"), "slurm", 1, "0")
    assert lines(findings_by_code(snapshot)["GPU202"])[0] == "export CUDA_VISIBLE_DEVICES=0"


def test_a_job_that_sees_more_gpus_selects_its_own(healthy: Snapshot) -> None:
    gpus = tuple(healthy.gpus[0]._replace(index=known(number, "nvml")) for number in range(4))
    snapshot = in_job(healthy._replace(gpus=gpus, visible_count=known(4, "libcuda")), "slurm", 2, "2", "3")
    finding = findings_by_code(snapshot)["GPU212"]
    assert lines(finding) == ["export CUDA_VISIBLE_DEVICES=2,3", None]


def test_an_unknown_grant_is_not_replaced(healthy: Snapshot) -> None:
    snapshot = in_job(healthy._replace(visible_count=known(1, "libcuda")), "slurm", 3)
    snapshot = snapshot._replace(environment={"CUDA_VISIBLE_DEVICES": "0"})
    assert lines(findings_by_code(snapshot)["GPU212"]) == [None, f"grep -rns CUDA_VISIBLE_DEVICES {ORIGIN}"]


@pytest.mark.parametrize(
    ("value", "title"),
    [
        ('"0"', 'CUDA_VISIBLE_DEVICES="0": the value contains quote characters, so CUDA finds no GPU'),
        ("", "CUDA_VISIBLE_DEVICES=(empty) hides every GPU"),
    ],
)
def test_a_title_says_why_the_value_hides_every_gpu(healthy: Snapshot, value: str, title: str) -> None:
    assert findings_by_code(hiding(healthy, value))["GPU202"].title == title


def test_a_title_says_that_commas_are_missing(healthy: Snapshot) -> None:
    gpus = tuple(healthy.gpus[0]._replace(index=known(number, "nvml")) for number in range(2))
    snapshot = healthy._replace(
        gpus=gpus,
        environment={"CUDA_VISIBLE_DEVICES": "0 1"},
        gpu_count=known(2, "nvml"),
        visible_count=known(1, "libcuda"),
    )
    title = findings_by_code(snapshot)["GPU202"].title
    assert title == "CUDA_VISIBLE_DEVICES=0 1: CUDA reads only GPU 0 of 0 1; GPUs are separated by commas"


def test_the_origin_in_a_container_is_its_start(healthy: Snapshot) -> None:
    snapshot = healthy._replace(environment={"CUDA_PATH": "/x"})
    docker, pod = (
        variable_fixes(snapshot._replace(host=snapshot.host._replace(container=known(kind, "x"))), "CUDA_PATH")[1]
        for kind in (Container.DOCKER, Container.KUBERNETES)
    )
    assert docker.shell_line == "tr '\\0' '\\n' < /proc/1/environ | grep ^CUDA_PATH="
    assert "--env-file" in docker.text
    assert "pod's specification" in pod.text


@pytest.mark.parametrize(("kind", "script"), [("conda", "/venv/etc/conda"), ("venv", "/venv/bin/activate")])
def test_the_scripts_of_an_environment_are_searched(healthy: Snapshot, kind: str, script: str) -> None:
    snapshot = with_target(healthy, kind=known(kind, "x"))._replace(environment={"CUDA_PATH": "/x"})
    line = variable_fixes(snapshot, "CUDA_PATH")[1].shell_line or ""
    assert line.endswith(f"/etc/environment {script}")


def test_the_search_finds_the_line_that_sets_a_variable(healthy: Snapshot, tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("# cluster\nexport CUDA_PATH=/opt/cuda-9.0\n", encoding="utf-8")
    line = variable_fixes(healthy._replace(environment={"CUDA_PATH": "/opt/cuda-9.0"}), "CUDA_PATH")[1].shell_line
    assert line
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, env={"HOME": str(tmp_path)}
    )
    assert f"{tmp_path}/.profile:2:export CUDA_PATH=/opt/cuda-9.0" in done.stdout


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("/usr/local/cuda/lib64:/opt/mine", "export LD_LIBRARY_PATH=/opt/mine"),
        ("/usr/local/cuda-12/lib64", "unset LD_LIBRARY_PATH"),
        ("/usr/local/cuda-12.4/targets/x86_64-linux/lib", "unset LD_LIBRARY_PATH"),
        ("/usr/local/cuda-12.6/lib64", None),
        ("/usr/local/cuda-utils/lib", None),
        ("", None),
    ],
)
def test_the_folder_of_a_library_is_removed_also_by_the_name_of_a_link(
    healthy: Snapshot, before: str, after: str | None
) -> None:
    snapshot = healthy._replace(environment={"LD_LIBRARY_PATH": before})
    fixes = without_folder_of_fixes(snapshot, "/usr/local/cuda-12.4/targets/x86_64-linux/lib/libnvJitLink.so.12")
    assert (fixes[0].shell_line if fixes else None) == after


def test_a_stub_is_removed_from_the_variable_or_the_configuration(healthy: Snapshot) -> None:
    failing = healthy._replace(driver=healthy.driver._replace(cuda_init=known(int(Cuda.STUB_LIBRARY), "libcuda")))
    path = "/opt/mine:/usr/local/cuda/lib64/stubs"
    by_variable = findings_by_code(failing._replace(environment={"LD_LIBRARY_PATH": path}))["DRV109"]
    assert lines(by_variable)[0] == "export LD_LIBRARY_PATH=/opt/mine"
    assert lines(findings_by_code(failing)["DRV109"]) == [
        "grep -rns stubs /etc/ld.so.conf /etc/ld.so.conf.d",
        "sudo ldconfig",
    ]


def test_a_program_leaves_an_mps_that_no_longer_runs(healthy: Snapshot) -> None:
    snapshot = healthy._replace(
        environment={"CUDA_MPS_PIPE_DIRECTORY": "/run/mps"},
        driver=healthy.driver._replace(cuda_init=known(int(Cuda.MPS_CONNECTION_FAILED), "libcuda")),
    )
    assert lines(findings_by_code(snapshot)["DRV113"])[0] == "unset CUDA_MPS_PIPE_DIRECTORY"


def test_the_installed_toolkit_is_the_value_of_cuda_path(healthy: Snapshot) -> None:
    kit = Toolkit("/usr/local/cuda-12.8", "/usr/local", known(CudaVersion(12, 8), "x"), has_headers=True)
    wrong = healthy._replace(environment={"CUDA_PATH": "/opt/cuda-9.0"}, pointing_nowhere=("CUDA_PATH",))
    unset = findings_by_code(wrong)["LIB608"]
    exported = findings_by_code(wrong._replace(toolkits=(kit,)))["LIB608"]
    assert lines(unset)[0] == "unset CUDA_PATH"
    assert lines(exported)[0] == "export CUDA_PATH=/usr/local/cuda-12.8"


def test_a_title_names_the_wheel_of_the_missing_headers(healthy: Snapshot) -> None:
    snapshot = with_target(healthy, headers=known((), "x"), headers_cuda=missing("none"))
    title = findings_by_code(snapshot)["LIB605"].title
    assert title == "CuPy finds no CUDA headers to compile its kernels: nvidia-cuda-runtime-cu12 is not installed"


def test_an_older_nvrtc_is_taken_from_the_loaders_path(healthy: Snapshot) -> None:
    nvrtc = Library("nvrtc", "libnvrtc.so.12", "/usr/local/cuda-12.4/lib64/libnvrtc.so.12", "loader", release="12.4")
    builtins = LIBRARIES[-1]._replace(path=None, error="libnvrtc-builtins.so.12.4 is missing")
    snapshot = with_target(healthy, libraries=(nvrtc, *LIBRARIES[1:-1], builtins))
    snapshot = snapshot._replace(environment={"LD_LIBRARY_PATH": "/usr/local/cuda-12.4/lib64"})
    assert lines(findings_by_code(snapshot)["LIB604"])[0] == "unset LD_LIBRARY_PATH"
