"""The host and the job in reports."""

from __future__ import annotations

import json
from pathlib import Path

import prometheus_client.parser
import pytest

from gpuenv.model.job import Job
from gpuenv.report.job import find_jobs, host_names, job_text
from tests.cli.program import LIMIT, MINIMAL, PROGRAM, run_gpuenv
from tests.cli.snapshots import FIT, write_snapshot

UUID = "GPU-6e7a3c10-52d4-4b1f-9c00-000000000000"
JOB = ("env", "SLURMD_NODENAME=gpunode07", "SLURM_JOB_ID=4711", "SLURM_JOB_NAME=train")


@pytest.mark.parametrize(
    ("environment", "jobs", "text"),
    [
        ({}, (), ""),
        (
            {"SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "train"},
            (Job("slurm", "4711", "train"),),
            "Slurm job 4711 (train)",
        ),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "gpu-work-x7k2p"}, (Job("kubernetes", "gpu-work-x7k2p"),),
         "Kubernetes pod gpu-work-x7k2p"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOSTNAME": "node", "POD_NAME": "pod"}, (Job("kubernetes", "pod"),),
         "Kubernetes pod pod"),
        ({"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "99", "GITHUB_JOB": "test"}, (Job("github", "99", "test"),),
         "GitHub job 99 (test)"),
        ({"GITLAB_CI": "true", "CI_JOB_ID": "7", "CI_JOB_NAME": "gpu"}, (Job("gitlab", "7", "gpu"),),
         "GitLab job 7 (gpu)"),
        ({"GITHUB_RUN_ID": "99", "CI_JOB_ID": "7", "HOSTNAME": "host"}, (), ""),
    ],
)  # fmt: skip
def test_jobs_are_found_by_the_variables_of_each_system(
    environment: dict[str, str], jobs: tuple[Job, ...], text: str
) -> None:
    assert find_jobs(environment) == jobs
    assert "".join(map(job_text, jobs)) == text


def test_the_schedulers_name_of_the_node_comes_first() -> None:
    assert host_names({"SLURMD_NODENAME": "gpu07"}, "gpu07.example.org") == ("gpu07", "gpu07.example.org")
    assert host_names({"NODE_NAME": "node-a"}, "pod-1") == ("node-a", "pod-1")
    assert host_names({}, "") == ()


FORMS = ("text", "json", "junit", "github", "sarif", "markdown", "html")
PREFLIGHT = ("simulate", "h200-580", "--", *JOB, *PROGRAM, "preflight", "--no-config", "--host-only")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a simulated node in every format."""
    folder = tmp_path_factory.mktemp("report")
    formats = [f"--format={form}={folder / form}" for form in (*FORMS, "prometheus")]
    result = run_gpuenv((*PREFLIGHT, *formats), MINIMAL, LIMIT)
    assert result.returncode == 0, result.stderr
    assert "  host    gpunode07; Slurm job 4711 (train)\n" in result.stdout
    return folder


def test_every_form_names_the_job_and_files_hide_the_host(files: Path) -> None:
    report = json.loads((files / "json").read_text(encoding="utf-8"))
    assert report["jobs"] == [{"kind": "slurm", "id": "4711", "name": "train"}]
    assert report["host_name"] == "(redacted)"
    for form in FORMS:
        text = (files / form).read_text(encoding="utf-8")
        assert "4711" in text, form
        assert "gpunode07" not in text, form
    assert 'hostname="(redacted)"' in (files / "junit").read_text(encoding="utf-8")


def test_unredacted_json_names_the_host() -> None:
    result = run_gpuenv((*PREFLIGHT, "--format", "json", "--no-redact"), MINIMAL, LIMIT)
    assert json.loads(result.stdout)["host_name"] == "gpunode07"


def test_a_recorded_machine_has_no_host_name(tmp_path: Path) -> None:
    file = write_snapshot(FIT, tmp_path / "fit.json")
    command = (*JOB, *PROGRAM, "preflight", "--no-config", "--no-redact", "--snapshot", str(file), "--format", "json")
    report = json.loads(run_gpuenv(("simulate", "h200-580", "--", *command), MINIMAL, LIMIT).stdout)
    assert (report["host_name"], len(report["jobs"])) == (None, 1)


def test_metrics_of_gpus_join_those_of_dcgm(files: Path) -> None:
    """The labels of the DCGM exporter, with the real UUID."""
    text = (files / "prometheus").read_text(encoding="utf-8")
    families = prometheus_client.parser.text_string_to_metric_families(text)
    (sample,) = next(f for f in families if f.name == "gpuenv_gpu_memory_total_bytes").samples
    assert sample.labels == {
        "gpu": "0",
        "UUID": UUID,
        "pci_bus_id": "00000000:3A:00.0",
        "Hostname": "gpunode07",
    }
