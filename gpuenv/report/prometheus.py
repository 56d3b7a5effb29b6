"""A report as metrics for the text-file collector of Prometheus's node exporter.

The format is Prometheus's text exposition format, version 0.0.4 (Prometheus documentation, "Exposition formats"). GPUs
have the labels of NVIDIA's DCGM exporter, so that both can be joined: gpu, UUID, pci_bus_id and Hostname
(NVIDIA/dcgm-exporter, internal/pkg/rendermetrics/render_metrics.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from statistics import median
from typing import NamedTuple

from gpuenv import __version__
from gpuenv.model.finding import RequirementStatus, Severity
from gpuenv.model.nvidia import pci_key
from gpuenv.model.smoke import TestStatus
from gpuenv.model.snapshot import Gpu
from gpuenv.report.findings import wheel_text
from gpuenv.report.report import Report, Status, verdict
from gpuenv.report.smoke_text import smoke_series

Labels = dict[str, str]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_NUMBERS: tuple[tuple[str, str, Callable[[Gpu], float | None]], ...] = (
    ("gpu_memory_total_bytes", "Memory of a GPU.", lambda gpu: gpu.memory_total.value),
    ("gpu_memory_free_bytes", "Free memory of a GPU.", lambda gpu: gpu.memory_free.value),
    ("gpu_processes", "Compute processes on a GPU.", lambda gpu: gpu.processes.value),
    ("gpu_temperature_celsius", "Temperature of a GPU.", lambda gpu: gpu.health.temperature.value),
    ("gpu_power_watts", "Power draw of a GPU.", lambda gpu: gpu.health.power.value),
    ("gpu_ecc_uncorrected", "Uncorrected memory errors of a GPU.", lambda gpu: gpu.health.ecc_uncorrected.value),
)


class Metric(NamedTuple):
    """One metric with its samples."""

    name: str
    help: str
    samples: tuple[tuple[Labels, float], ...]


def render(report: Report) -> str:
    """The metrics; ``report`` must be sanitized, but names the host and the GPUs."""
    return metrics_text(_metrics(report))


def metrics_text(metrics: Iterable[Metric]) -> str:
    """The metrics that have samples."""
    return "".join(line for metric in metrics if metric.samples for line in _lines(metric))


def _lines(metric: Metric) -> Iterator[str]:
    yield f"# HELP gpuenv_{metric.name} {metric.help}\n# TYPE gpuenv_{metric.name} gauge\n"
    for labels, value in metric.samples:
        pairs = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in labels.items())
        yield f"gpuenv_{metric.name}{f'{{{pairs}}}' if pairs else ''} {float(value)!r}\n"


def _metrics(report: Report) -> Iterator[Metric]:
    status, sentence = verdict(report)
    yield _one("fit", "1 if the machine is fit, 0 if it is unfit or unknown.", float(status.startswith("FIT")))
    yield Metric(
        "status",
        "1 for the status of the report, 0 for the others.",
        tuple(({"status": s.value}, s is report.status) for s in Status),
    )
    yield _one("exit_code", "The exit code.", report.exit_code)
    yield _info("verdict", "The verdict as text.", {"verdict": status, "sentence": sentence})
    yield Metric(
        "findings",
        "Findings by severity.",
        tuple(({"severity": s.value}, sum(f.severity is s for f in report.findings)) for s in Severity),
    )
    infos = (
        {
            "number": str(number),
            "code": finding.code,
            "cause": finding.cause.value,
            "severity": finding.severity.value,
            "primary": str(finding.primary).lower(),
            "title": finding.title,
            "allowed": str(finding.allowed is not None).lower(),
        }
        for number, finding in enumerate(report.findings)
    )
    yield Metric("finding_info", "One sample per finding.", tuple((labels, 1.0) for labels in infos))
    yield Metric(
        "requirement_status",
        "1 for the status of a requirement, 0 for the others.",
        tuple(
            ({"requirement": r.text, "status": s.value, "number": str(n)}, s is r.status)
            for n, r in enumerate(report.requirements)
            for s in RequirementStatus
        ),
    )
    suppressions = (
        {
            "code": entry.allowance.code,
            "state": entry.state.value,
            "expires": entry.allowance.expires,
            "source": entry.allowance.source,
        }
        for entry in report.allow_list
    )
    yield Metric("allowance_info", "One sample per suppression.", tuple((labels, 1.0) for labels in suppressions))
    jobs = ({"number": str(n), **{k: v or "" for k, v in job._asdict().items()}} for n, job in enumerate(report.jobs))
    yield Metric("job_info", "One sample per job in which gpuenv ran.", tuple((labels, 1.0) for labels in jobs))
    yield from _machine(report)
    yield from _smoke(report)
    yield _one("duration_seconds", "Duration of the diagnosis.", report.duration)
    if (taken := _seconds(report.snapshot.taken_at)) is not None:
        yield _one("last_run_timestamp_seconds", "Time at which the machine was probed.", taken)
    build = {"version": __version__, "matrix_revision": report.matrix_revision, "wheel": wheel_text(report)}
    yield _info("build", "Versions of gpuenv and its matrix, and the recommended wheel.", build)


def _machine(report: Report) -> Iterator[Metric]:
    snapshot = report.snapshot
    level, version = snapshot.driver.cuda.value, snapshot.driver.version.value
    yield _info("driver", "The driver.", {"version": str(version or ""), "cuda": str(level or "")})
    yield _one("gpus", "GPUs that the driver lists.", len(snapshot.gpus))
    labelled = [(_labels(number, gpu, report.host_name), gpu) for number, gpu in enumerate(snapshot.gpus)]
    infos = (
        {**labels, "name": gpu.name.value or "", "compute_capability": str(gpu.compute_capability.value or "")}
        for labels, gpu in labelled
    )
    yield Metric("gpu_info", "One sample per GPU.", tuple((labels, 1.0) for labels in infos))
    for name, help_text, read in _NUMBERS:
        values = ((labels, read(gpu)) for labels, gpu in labelled)
        yield Metric(name, help_text, tuple((labels, float(value)) for labels, value in values if value is not None))


def _labels(number: int, gpu: Gpu, host_name: str | None) -> Labels:
    labels = {
        "gpu": str(number if gpu.index.value is None else gpu.index.value),
        "UUID": gpu.uuid.value or "",
        "pci_bus_id": _bus_id(gpu.pci.value),
    }
    return {**labels, "Hostname": host_name} if host_name else labels


def _bus_id(address: str | None) -> str:
    """The address in NVML's form, which DCGM takes over: ``00000000:3B:00.0``."""
    key = pci_key(address)
    return f"0000{key}".upper() if key else ""


def _smoke(report: Report) -> Iterator[Metric]:
    if report.smoke is None:
        return
    yield _one("smoke_passed", "Whether the GPU tests passed.", float(report.smoke.status is TestStatus.PASSED))
    labelled = [
        ({"test": test.name, "group": test.group, "UUID": test.gpu or "", "repeat": str(test.repeat)}, test)
        for test in report.smoke.tests
    ]
    passed = tuple(
        ({**labels, "status": test.status.value}, float(test.status is TestStatus.PASSED)) for labels, test in labelled
    )
    yield Metric("smoke_test_passed", "Whether a GPU test passed.", passed)
    seconds = tuple((labels, test.duration) for labels, test in labelled)
    yield Metric("smoke_test_duration_seconds", "Duration of a GPU test.", seconds)
    rates = tuple(
        ({"name": series.name, "UUID": series.gpu, "unit": series.unit}, median(series.values))
        for series in smoke_series(report.smoke)
    )
    yield Metric("smoke_measured", "Value measured by a GPU test, in its unit; median of the repetitions.", rates)


def _one(name: str, help_text: str, value: float) -> Metric:
    return Metric(name, help_text, (({}, value),))


def _info(name: str, help_text: str, labels: Labels) -> Metric:
    return Metric(f"{name}_info", help_text, ((labels, 1.0),))


def _seconds(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None
