"""``gpuenv fleet node``."""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from gpuenv.cli import options
from gpuenv.cli.command_errors import CommandError, usage_errors
from gpuenv.cli.sources import MachineSource
from gpuenv.clock import today
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.fleet.node_report import NodeReport
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.report import Report

_FOR_PROBES = 0.8  # of the time limit; the rest is for the diagnosis


def node(
    folder: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FOLDER", help="Folder for NODE.json; - prints it on standard output."),
    ],
    host_only: Annotated[
        bool,
        typer.Option(
            "--host-only",
            help="Judge only the driver, GPUs and container. Default without --python and an active environment.",
        ),
    ] = False,
    python: options.Python = None,
    matrix: options.MatrixFile = None,
    run: Annotated[
        Optional[str], typer.Option("--run", metavar="ID", help="Name of the collection that the report belongs to.")
    ] = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=options.SHORTEST_TIMEOUT,
            max=options.LONGEST_TIMEOUT,
            help="Time limit.",
        ),
    ] = options.TIMEOUT,
    driver_root: options.DriverRoot = "/",
) -> None:
    """Write the report of this node.

    For cron, a health check or a DaemonSet. The scheduler's variables (SLURMD_NODENAME, NODE_NAME) name the node, else
    the host name does. If the node cannot be examined in time, the report has the reason. A report contains UUIDs and
    the node's name, but no secrets.

    Exit code: 0 fit, 1 unfit, 8 undetermined.
    """
    from gpuenv.cli.output import identity, write_stdout
    from gpuenv.fleet.node_report import node_name, write_report
    from gpuenv.model.codec import encode
    from gpuenv.report.redact import redact
    from gpuenv.report.report import verdict

    if host_only and python is not None:
        raise CommandError(ExitCode.USAGE, "--host-only and --python exclude each other")
    with usage_errors(ValueError):
        name = node_name(os.environ, platform.node())
    host_only = host_only or not (python or os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX"))
    source = MachineSource(python, timeout=timeout * _FOR_PROBES, driver_root=driver_root, host_only=host_only)
    found = _examined(source, matrix, timeout, name, run)
    hidden = identity()._replace(hosts=(), uuids=False)
    text = json.dumps(redact(encode(found), hidden), separators=(",", ":"))
    if folder == options.STANDARD_OUTPUT:
        write_stdout(f"{text}\n")
        raise typer.Exit(found.exit_code)
    try:
        write_report(folder, name, text)
    except OSError as error:
        message = f"{folder}: the report of {name} cannot be written: {error.strerror or error}"
        raise CommandError(ExitCode.USAGE, message) from error
    status, sentence = "UNKNOWN", found.error
    if found.report and found.snapshot:
        status, sentence = verdict(found.report._replace(snapshot=found.snapshot))
    write_stdout(f"{name}: {status}: {sentence}\n")
    raise typer.Exit(found.exit_code)


def _examined(source: MachineSource, matrix: Path | None, seconds: float, name: str, run: str | None) -> NodeReport:
    """The report of this node, or the reason why there is none."""
    from gpuenv.cli.diagnosis import make_diagnosis_report
    from gpuenv.fleet.node_report import answer, failure
    from gpuenv.net import run_within

    def make_options(_: Snapshot) -> Any:  # noqa: ANN401 - imported while the probes run
        from gpuenv.doctor.diagnose import DiagnosisOptions

        return DiagnosisOptions(host_only=source.host_only, hardware_must_be_sound=True, day=today())

    def examine() -> Report:
        return make_diagnosis_report(source, matrix, make_options)

    taken_at = time.time()
    try:
        return answer(run_within(seconds, examine), name, run, taken_at)
    except TimeoutError as error:
        return failure(str(error), ExitCode.COULD_NOT_CHECK, name, run, taken_at)
    except CommandError as error:
        reason = "; ".join(filter(None, (error.message, error.remedy)))
        return failure(" ".join(reason.split()), error.exit_code, name, run, taken_at)
