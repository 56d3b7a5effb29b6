"""The report of doctor, preflight and fleet node, with the findings of plug-ins."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.check_codes import plugins
from gpuenv.cli.command_errors import usage_errors
from gpuenv.cli.sources import MachineSource, get_matrix, probing
from gpuenv.model.errors import GpuenvError

if TYPE_CHECKING:
    from gpuenv.cli.gpu_tests import GpuTestRequest
    from gpuenv.doctor.diagnose import DiagnosisOptions
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.report import Report


def make_diagnosis_report(
    source: MachineSource,
    matrix: Path | None,
    make_options: Callable[[Snapshot], DiagnosisOptions],
    started: float | None = None,
    gpu_tests: GpuTestRequest | None = None,
) -> Report:
    """Probes the machine and diagnoses it, with the options that ``make_options`` returns for its snapshot.

    ``started`` is when the command began, in seconds of the monotonic clock; now by default.

    Raises:
        CommandError: when the machine or the matrix cannot be read, or GPU tests are requested for another machine.
    """
    probing_since = time.monotonic()
    address = configured_docs()
    if gpu_tests is not None:
        from gpuenv.cli.gpu_tests import check_source

        check_source(source, gpu_tests)
    with probing(source) as finish:
        from gpuenv.doctor.diagnose import diagnose  # imports overlap with probing
        from gpuenv.report.report import make_report

        rows = get_matrix(matrix)
        found = plugins()
        snapshot = finish(rows)
    options = make_options(snapshot)._replace(python=source.named_target)
    smoke = None
    if gpu_tests is not None:
        from gpuenv.cli.gpu_tests import run_report_tests

        smoke = run_report_tests(gpu_tests, source, snapshot, rows, probing_since, no_gpu=options.no_gpu)
    diagnosis = diagnose(snapshot, rows, time.monotonic, options, smoke)
    if found:
        from gpuenv.plugins.runner import with_plugins

        diagnosis = with_plugins(diagnosis, found, snapshot, options, os.environ, source.timeout)
    if source.paste is not None:
        from gpuenv.cli.pastes import pasted_text
        from gpuenv.explain.explainer import with_pasted_error

        diagnosis = with_pasted_error(diagnosis, snapshot, pasted_text(source.paste))
    begun = probing_since if started is None else started
    is_own = source.snapshot is None and source.paste is None and not source.no_probe
    report = make_report(diagnosis, snapshot, time.monotonic() - begun, options, smoke, address)
    return with_job(report, is_own=is_own)


def configured_docs() -> str | None:
    """The address of the documentation site; None where none is configured.

    Raises:
        CommandError: when it is invalid.
    """
    from gpuenv.report.docs_site import docs_address

    with usage_errors(GpuenvError):
        return docs_address(os.environ)


def with_job(report: Report, *, is_own: bool) -> Report:
    """The report with the jobs in which gpuenv runs and, if it probed this machine, the machine's name."""
    from gpuenv.report.job import find_jobs, host_names

    names = host_names(os.environ, platform.node()) if is_own else ()
    return report._replace(host_name=next(iter(names), None), jobs=find_jobs(os.environ))
