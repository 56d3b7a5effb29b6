"""The steps that every verdict takes: the machine, the resolution, the diagnosis, the report."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.inputs import Beginning, Subject, get_matrix
from gpuenv.cli.plugins import plugins, with_plugins

if TYPE_CHECKING:
    from gpuenv.cli.gpu_tests import Proof
    from gpuenv.doctor.diagnose import Terms
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.report.report import Report


def examine(
    subject: Subject,
    matrix: Path | None,
    terms_of: Callable[[Snapshot], Terms],
    started: float | None = None,
    proof: Proof | None = None,
) -> Report:
    """Looks at the machine that is meant and judges it.

    Args:
        subject: which machine.
        matrix: another matrix than the usual one.
        terms_of: on what terms a machine is judged.
        started: when the command began, by the monotonic clock in seconds; now, if not told.
        proof: the GPU tests that are asked for.

    Raises:
        CommandError: when the machine or the matrix cannot be read, or GPU tests are asked for elsewhere.
    """
    looked = time.monotonic()
    begun = looked if started is None else started
    if proof is not None:
        from gpuenv.cli.gpu_tests import check_subject

        check_subject(subject, proof)
    with closing(Beginning(subject)) as beginning:
        from gpuenv.doctor.diagnose import diagnose  # all is imported while the machine answers
        from gpuenv.doctor.registry import all_checks
        from gpuenv.matrix.resolve import resolve
        from gpuenv.report.report import make_report

        rows = get_matrix(matrix)
        found = plugins()
        all_checks()
        facts = beginning.finish(rows)
    resolution = resolve(facts, rows)
    terms = replace(terms_of(facts), python=subject.named)
    smoke = None
    if proof is not None:
        from gpuenv.cli.gpu_tests import prove_report

        smoke = prove_report(proof, subject, facts, rows, terms, looked)
    diagnosis = diagnose(facts, rows, resolution, time.monotonic, terms, smoke)
    diagnosis = with_plugins(diagnosis, found, facts, terms, subject.timeout)
    return make_report(diagnosis, resolution, facts, time.monotonic() - begun, terms, smoke)


def show_phases(snapshot: Snapshot) -> None:
    """Where the time went, on standard error."""
    from gpuenv.cli.output import write_stderr
    from gpuenv.report.snapshot import phase_lines

    write_stderr(phase_lines(snapshot))
