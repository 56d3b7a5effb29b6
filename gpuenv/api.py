"""The functions of ``import gpuenv``: each corresponds to a command and returns its record.

Nothing here changes the state of the caller's process: the driver and CuPy are loaded only in child processes with a
deadline, no signal handler is left behind, and no function prints. They can be called in notebooks, in threads, and in
event loops as blocking calls.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from gpuenv.clock import now, today
from gpuenv.doctor.diagnose import DiagnosisOptions
from gpuenv.doctor.diagnose import diagnose as run_checks
from gpuenv.explain.explanation_types import Explanation
from gpuenv.explain.match import scan
from gpuenv.matrix import resolve as resolver
from gpuenv.matrix.assume import assume as apply_assumptions
from gpuenv.matrix.selection import find_matrix, read_matrix
from gpuenv.matrix.tables import Matrix
from gpuenv.matrix.validate import MatrixError
from gpuenv.model.errors import GpuenvError
from gpuenv.model.resolution import Resolution
from gpuenv.model.snapshot import Snapshot
from gpuenv.model.strings import error_reason
from gpuenv.paste import error_text
from gpuenv.plugins.discovery import find_plugins
from gpuenv.plugins.runner import with_plugins
from gpuenv.preflight.evaluate import contradiction, evaluate, no_cupy_expected, no_gpu_expected
from gpuenv.preflight.requirements import Origin, parse_requirement
from gpuenv.probe import session
from gpuenv.probe.request import ProbeRequest
from gpuenv.report.docs_site import docs_address
from gpuenv.report.report import Report, make_report


def take_snapshot(
    *,
    python: str | os.PathLike[str] | None = None,
    assume: Sequence[str] = (),
    host_only: bool = False,
    deep: bool = False,
    timeout: float = 30.0,
) -> Snapshot:
    """Probes this machine and a Python environment.

    Args:
        python: the environment: an interpreter, a virtual environment or a conda prefix; by default the interpreter
            that runs this.
        assume: facts to replace, as ``KEY=VALUE`` (``driver=580``); see ``gpuenv doctor --help``.
        host_only: probe only the driver, GPUs and container.
        deep: also examine the files of all packages.
        timeout: time limit for probing, in seconds.

    Raises:
        GpuenvError: when ``python`` is not an environment, or an assumption is invalid.
    """
    request = ProbeRequest(
        environment=dict(os.environ),
        python=os.fspath(python) if python is not None else sys.executable,
        root="/",
        timeout=timeout,
        deep=deep,
        host_only=host_only,
        taken_at=now(),
    )
    snapshot = session.take_snapshot(request)
    return apply_assumptions(snapshot, assume, _read_matrix(None)) if assume else snapshot


def diagnose(
    snapshot: Snapshot | None = None,
    *,
    expect_no_gpu: bool = False,
    matrix: str | os.PathLike[str] | None = None,
) -> Report:
    """Diagnoses a machine, as ``gpuenv doctor`` does.

    Args:
        snapshot: the machine; this one by default.
        expect_no_gpu: do not require a GPU.
        matrix: the file of another compatibility matrix; by default the one that the commands use.

    Raises:
        GpuenvError: when the matrix is invalid or cannot be read.
    """
    return _report(snapshot, matrix, DiagnosisOptions(no_gpu=expect_no_gpu))


def check(
    *requirements: str,
    snapshot: Snapshot | None = None,
    matrix: str | os.PathLike[str] | None = None,
) -> Report:
    """Diagnoses a machine and evaluates requirements, as ``gpuenv preflight`` does.

    Args:
        *requirements: such as ``"gpu>=1"`` or ``"cc>=8.0"``; see ``gpuenv preflight --list-requirements``.
        snapshot: the machine; this one by default.
        matrix: the file of another compatibility matrix; by default the one that the commands use.

    Raises:
        GpuenvError: when a requirement is invalid, no machine can meet all of them, or the matrix is invalid or cannot
            be read.
    """
    parsed = tuple(parse_requirement(text, Origin("gpuenv.check")) for text in requirements)
    if contradictory := contradiction(parsed):
        raise GpuenvError(f"no machine can meet {contradictory}: remove one of them")
    facts = snapshot if snapshot is not None else take_snapshot()
    options = DiagnosisOptions(
        requirements=evaluate(parsed, facts),
        no_gpu=no_gpu_expected(parsed),
        no_cupy=no_cupy_expected(parsed),
        hardware_must_be_sound=True,
    )
    return _report(facts, matrix, options)


def resolve(snapshot: Snapshot | None = None, *, matrix: str | os.PathLike[str] | None = None) -> Resolution:
    """Finds the wheel, the conda packages and the image that fit a machine, with the reasons for every rejection.

    Args:
        snapshot: the machine; this one by default.
        matrix: the file of another compatibility matrix; by default the one that the commands use.

    Raises:
        GpuenvError: when the matrix is invalid or cannot be read.
    """
    return resolver.resolve(snapshot if snapshot is not None else take_snapshot(), _read_matrix(matrix))


def explain_text(
    text: str, *, snapshot: Snapshot | None = None, matrix: str | os.PathLike[str] | None = None
) -> Explanation:
    """Finds the likely causes of an error text, traceback or log, as ``gpuenv explain`` does.

    Args:
        text: the text. Outputs of nvidia-smi, pip, conda or ``cupy.show_config()`` may be pasted with the error.
        snapshot: the machine that the text comes from, whose facts decide between causes; by default, only the facts
            in the text.
        matrix: the file of another compatibility matrix; by default the one that the commands use.

    Raises:
        GpuenvError: when the matrix is invalid or cannot be read.
    """
    data = text.encode("utf-8", "replace")  # half a character is none
    scanned = error_text.ScannedText(scan(data), data[: error_text.HEAD])

    def get_machine() -> tuple[Snapshot, Matrix]:
        return snapshot if snapshot is not None else Snapshot(), _read_matrix(matrix)

    return error_text.explain_text(scanned, get_machine, time.monotonic, is_of_text=snapshot is None)


def _read_matrix(path: str | os.PathLike[str] | None) -> Matrix:
    """The named matrix, else the one that the commands use."""
    file = find_matrix(None if path is None else Path(path), os.environ, lambda _: None)
    try:
        return read_matrix(file)
    except MatrixError as error:
        raise MatrixError((*error.faults, file.remedy) if file.remedy else error.faults) from error
    except (OSError, UnicodeDecodeError) as error:
        raise GpuenvError(f"{file.path}: the matrix cannot be read: {error_reason(error)}") from error


def _report(snapshot: Snapshot | None, matrix: str | os.PathLike[str] | None, options: DiagnosisOptions) -> Report:
    started = time.monotonic()
    address = docs_address(os.environ)
    rows = _read_matrix(matrix)
    facts = snapshot if snapshot is not None else take_snapshot()
    options = options._replace(day=today())
    diagnosis = run_checks(facts, rows, time.monotonic, options)
    if plugins := find_plugins():
        diagnosis = with_plugins(diagnosis, plugins, facts, options, os.environ)
    return make_report(diagnosis, facts, time.monotonic() - started, options, docs_address=address)
