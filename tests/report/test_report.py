"""The status of a diagnosis, and the agreement of text and report."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from gpuenv import __version__
from gpuenv.data import data_path
from gpuenv.doctor.diagnose import UNKNOWN, Diagnosis, DiagnosisOptions, diagnose
from gpuenv.matrix.assume import assume
from gpuenv.matrix.load import load
from gpuenv.matrix.resolve import resolve
from gpuenv.model.finding import CheckRun, CheckStatus, Evidence, Severity
from gpuenv.model.reading import known
from gpuenv.model.redaction import hide_secrets
from gpuenv.model.snapshot import ContainerSupport, CupyInstallation, DeviceNode, Gpu, Grant, KernelMessage, Snapshot
from gpuenv.report.html import html_text
from gpuenv.report.markdown import render
from gpuenv.report.report import Report, Status, judge, make_report
from gpuenv.report.snapshot_text import fact_lines
from gpuenv.report.text import evidence_text, gpu_rows, report_lines
from gpuenv.report.text_line import Style
from tests.support.planted_secrets import LONG_URL, shown_parts

MATRIX = load(data_path("matrix.yaml"))
HEALTHY = ("os=linux", "arch=x86_64", "libc=glibc-2.36", "python=3.12", "driver=580.95.05", "gpu=H100", "numpy=2.1.0")

CUPY = ("cupy=cupy-cuda13x==14.2.0", "toolkit=13.0")


def _report(*assumptions: str) -> Report:
    snapshot = assume(Snapshot(), assumptions, MATRIX)
    return make_report(diagnose(snapshot, MATRIX, lambda: 0.0), snapshot, 0.5)


@pytest.mark.parametrize(
    ("assumptions", "status", "exit_code"),
    [
        ((*HEALTHY, *CUPY), Status.FIT, 0),
        ((*HEALTHY, "cupy=cupy-cuda13x==14.2.0"), Status.UNKNOWN, 8),  # its libraries are unknown
        ((*HEALTHY, "cupy=cupy-cuda13x==14.2.0", "toolkit=12.9"), Status.UNKNOWN, 8),
        (("driver=580.95.05", "gpu=H100", *CUPY), Status.UNKNOWN, 8),
        ((*HEALTHY, "cupy=none"), Status.UNFIT, 1),
        ((), Status.UNKNOWN, 8),
        (("driver=580.95.05",), Status.UNKNOWN, 8),
        ((*HEALTHY, "cupy=cupy==14.2.0"), Status.UNKNOWN, 8),
        ((*HEALTHY, "cupy=cupy-cuda102==12.3.0"), Status.UNFIT, 1),
        ((*HEALTHY, "cupy=cupy-cuda13x==14.2.0", "env.CUDA_VISIBLE_DEVICES=-1"), Status.UNFIT, 1),
    ],
)
def test_the_facts_determine_status_and_exit_code(assumptions: tuple[str, ...], status: Status, exit_code: int) -> None:
    report = _report(*assumptions)
    assert (report.status, report.exit_code) == (status, exit_code)


@pytest.mark.parametrize("fact", ["os", "arch", "libc", "python", "driver", "gpu", "numpy", "cupy", "toolkit"])
def test_without_one_of_the_facts_the_status_is_unknown(fact: str) -> None:
    report = _report(*(entry for entry in (*HEALTHY, *CUPY) if not entry.startswith(f"{fact}=")))
    assert (report.status, report.exit_code) == (Status.UNKNOWN, 8)


def test_an_assumed_toolkit_must_support_the_gpu() -> None:
    others = [entry for entry in HEALTHY if not entry.startswith("gpu=")]
    report = _report(*others, "gpu=RTX 5090", "cupy=cupy-cuda12x==14.2.0", "toolkit=12.4")
    assert [finding.code for finding in report.findings if finding.primary] == ["LIB610"]


def test_without_an_observed_gpu_the_status_is_not_fit() -> None:
    """A diagnosis without findings proves nothing until CUDA has shown a device to this process."""
    resolution = resolve(Snapshot(), MATRIX)
    no_findings = Diagnosis((), (), resolution)
    with_gpu = Snapshot()._replace(
        visible_count=known(1, "libcuda"), driver=Snapshot().driver._replace(cuda_init=known(0, "libcuda"))
    )
    with_cupy = with_gpu._replace(target=with_gpu.target._replace(cupy=(CupyInstallation("cupy-cuda13x", "14.2.0"),)))
    assert judge(no_findings, Snapshot()) is Status.UNKNOWN
    assert judge(no_findings, with_gpu) is Status.UNKNOWN
    assert judge(no_findings, with_cupy) is Status.FIT
    run = CheckRun("WHL504", CheckStatus.SKIPPED, f"{UNKNOWN}not in the matrix", 0.0, undecided=True)
    unjudged = Diagnosis((), (run,), resolution)
    assert judge(unjudged, with_cupy) is Status.UNKNOWN
    assert judge(no_findings, Snapshot(), DiagnosisOptions(no_gpu=True)) is Status.FIT


def test_a_crashed_check_is_never_fit() -> None:
    report = _report(*HEALTHY, "cupy=cupy-cuda13x==14.2.0")
    run = CheckRun("DRV100", CheckStatus.CRASHED, "ZeroDivisionError", 0.0)
    crashed = Diagnosis((), (run,), report.resolution)
    assert judge(crashed, report.snapshot) is Status.UNKNOWN


@pytest.mark.parametrize("assumptions", [(*HEALTHY, "cupy=none"), ("driver=none", "cupy=none", "python=3.12"), HEALTHY])
def test_the_text_agrees_with_the_report(assumptions: tuple[str, ...]) -> None:
    report = _report(*assumptions)
    text = "\n".join(line.text for line in report_lines(report))
    assert f"exit code {report.exit_code}" in text
    for finding in report.findings:
        assert finding.code in text
        assert finding.cause.value in text
        assert finding.title in text
        assert all(fix.text in text for fix in finding.fix)
        assert finding.severity in Severity
    assert text.isascii()


def test_each_entry_of_the_kernel_log_has_its_line() -> None:
    messages = (KernelMessage("NVRM: loading"), KernelMessage("NVRM: Xid", 79, "0000:3b:00.0"))
    support = ContainerSupport(
        device_rules=known(("c 195:0 rw", "c 511:0 rw"), "devices.list"), runtimes=known((), "x")
    )
    snapshot = Snapshot(kernel_log=known(messages, "/dev/kmsg"), container_support=support)
    lines = [line.text for line in fact_lines(snapshot)]
    assert "kernel_log: 2 lines [/dev/kmsg]" in lines
    assert {"kernel_log[0].text: NVRM: loading", "kernel_log[1].xid: 79", "kernel_log[1].pci: 0000:3b:00.0"} <= {*lines}
    assert "container_support.device_rules: c 195:0 rw, c 511:0 rw [devices.list]" in lines
    assert "container_support.runtimes: none [x]" in lines


def test_no_fact_is_printed_in_python_notation() -> None:
    """Booleans are printed as ``yes`` and ``no``, as in ``--assume wsl=yes``."""
    node = DeviceNode("/dev/nvidia0", True, "crw-rw----", "0:44")
    snapshot = Snapshot()._replace(driver=Snapshot().driver._replace(device_nodes=(node,)))
    lines = [line.text for line in fact_lines(assume(snapshot, ["wsl=yes"], MATRIX))]
    assert {"host.wsl: yes [assumed]", "driver.device_nodes[0].accessible: yes"} <= {*lines}
    assert [line for line in lines if re.search(r": (True|False|None)\b", line)] == []


@pytest.mark.parametrize(
    ("by", "denied"), [("slurm", "not allocated to this job"), (None, "not accessible to this process")]
)
def test_a_gpu_that_a_control_group_denies_is_listed_as_such(by: str | None, denied: str) -> None:
    denied_gpu = Gpu(index=known(0, "nvml"), hidden_by=known("control group: NVML counts the GPU", "nvml"))
    named = denied_gpu._replace(name=known("NVIDIA L4", "nvml"))
    accessible = Gpu(ordinal=known(0, "libcuda"), name=known("NVIDIA H100", "nvml"))
    grant = Grant(by=known(by, "SLURM_JOB_ID")) if by else Grant()
    rows = gpu_rows(Snapshot(gpus=(denied_gpu, denied_gpu, accessible, denied_gpu, named, Gpu()), grant=grant))
    assert [row.text for row in rows] == ["NVIDIA H100", "NVIDIA L4", "unknown", f"3 x {denied}"]


def test_a_lost_gpu_is_marked_in_every_form() -> None:
    sound = Gpu(ordinal=known(0, "libcuda"), name=known("NVIDIA H100", "nvml"))
    lost, stuck, odd = (sound._replace(fault=known(int(code), "nvml")) for code in (15, 16, 999))
    rows = gpu_rows(Snapshot(gpus=(sound, lost, stuck, odd, sound)))
    assert [(row.text, row.style) for row in rows] == [
        ("2 x NVIDIA H100", Style.PLAIN),
        ("NVIDIA H100, LOST (it has fallen off the bus)", Style.BAD),
        ("NVIDIA H100, NEEDS A RESET", Style.BAD),
        ("NVIDIA H100, CANNOT BE OPENED", Style.BAD),
    ]
    page = html_text(_report(*HEALTHY, *CUPY)._replace(snapshot=Snapshot(gpus=(lost,))))
    assert '<dt>GPU</dt><dd class="bad">NVIDIA H100, LOST (it has fallen off the bus)</dd>' in page
    assert "dd.bad { color: var(--bad)" in page


def test_the_head_of_the_page_names_the_machine_and_the_tool() -> None:
    report = _report(*HEALTHY, *CUPY)._replace(host_name="gpu<07>")
    page = html_text(report)
    assert "<title>gpu&lt;07&gt;: FIT - gpuenv</title>" in page
    assert f'<header class="good"><p class="quiet">gpuenv {__version__} on gpu&lt;07&gt;</p>' in page
    assert "<title>FIT - gpuenv</title>" in html_text(report._replace(host_name=None))


def test_long_evidence_is_cut_in_the_text() -> None:
    """Such as the LD_LIBRARY_PATH of a cluster's modules; the report record keeps it in full."""
    folders = ":".join(f"/opt/some/folder/number/{number}/lib64" for number in range(3000))
    report = _report(*HEALTHY, *CUPY, f"env.CUDA_VISIBLE_DEVICES=-1,{folders}")
    shown = [line.text for line in report_lines(report) if "- environment.CUDA_VISIBLE_DEVICES" in line.text]
    assert len(shown) == 1
    assert "cut: " in shown[0]
    assert len(shown[0]) < 1000
    assert any(folders in entry.value for finding in report.findings for entry in finding.evidence)


def test_long_evidence_is_not_cut_within_a_secret() -> None:
    entry = Evidence("environment.CUDA_PATH", f"{LONG_URL.line} {'/opt' * 300}", "environment")
    assert shown_parts(LONG_URL, hide_secrets(evidence_text(entry))) == []


@pytest.mark.parametrize("form", ["text", "markdown", "html", "junit", "github"])
def test_every_form_shows_a_line_for_the_users_shell(form: str) -> None:
    result = _report(*HEALTHY, *CUPY, "env.CUDA_VISIBLE_DEVICES=-1")
    if form == "text":
        text = "\n".join(line.text for line in report_lines(result))
    else:
        module = import_module(f"gpuenv.report.{form}")
        text = module.html_text(result, ()) if form == "html" else module.render(result)
    assert "unset CUDA_VISIBLE_DEVICES" in text


def test_an_unknown_status_of_this_machine_names_the_command_that_decides_it() -> None:
    elsewhere = _report(*HEALTHY, "cupy=cupy==14.2.0")
    python = known("/my envs/venv/bin/python", "--python")
    target = elsewhere.snapshot.target._replace(executable=python)
    here = elsewhere._replace(host_name="node1", snapshot=elsewhere.snapshot._replace(target=target))
    command = "gpuenv smoke --python '/my envs/venv/bin/python'"
    assert any(command in line.text for line in report_lines(here))
    assert any(command in line for line in render(here).splitlines())
    assert not any("gpuenv smoke" in line.text for line in report_lines(elsewhere))
