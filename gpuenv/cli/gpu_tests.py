"""Runs GPU tests for ``smoke``, ``--smoke`` and installs, and finds the causes of failures by their messages."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuenv.cli.command_errors import CommandError, progress
from gpuenv.clock import now
from gpuenv.model.exit_codes import ExitCode
from gpuenv.model.strings import did_you_mean

if TYPE_CHECKING:
    from gpuenv.cli.sources import MachineSource
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.causes import Cause
    from gpuenv.model.smoke import SmokeResult
    from gpuenv.model.smoke_level import SmokeLevel
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.smoke.session import SmokeTarget
    from gpuenv.smoke.tasks import SmokeOptions

_WITHOUT_FILE = "--config FILE names another configuration, and --no-config reads none"
_MIN_CONFIDENCE = 0.5  # at which the cause of an error text becomes the cause of the failed test


class GpuTestRequest(NamedTuple):
    """The GPU tests that a report includes."""

    level: SmokeLevel
    seconds: float | None = None  # for probing and testing together; None for no limit
    file: str | None = None  # the configuration file that requests them, if not the option


def planted_fault() -> str | None:
    """The fault to plant into every test, from the environment variable."""
    from gpuenv.model.smoke import FAULT_VARIABLE

    name = os.environ.get(FAULT_VARIABLE) or None
    if name is not None:
        from gpuenv.smoke.tasks import injectable_faults

        check_names("fault", (name,), injectable_faults())
    return name


def check_names(kind: str, names: Sequence[str], known: Sequence[str], listed: str | None = None) -> None:
    """Refuses unknown names, with the nearest known ones and a list, or with ``listed``, how to list them."""
    for name in names:
        if name not in known:
            remedy = f"{did_you_mean(name, known, most=3)} {listed or 'one of ' + ', '.join(known)}".lstrip()
            raise CommandError(ExitCode.USAGE, f"there is no {kind} named {name}", remedy)


def check_source(source: MachineSource, tests: GpuTestRequest) -> None:
    """Refuses GPU tests of another machine, and an unknown fault to plant."""
    planted_fault()
    for is_set, name in (
        (source.snapshot is not None, "--snapshot"),
        (source.paste is not None, "--paste"),
        (source.no_probe, "--no-probe"),
        (bool(source.assume), "--assume"),
    ):
        if is_set:
            option, remedy = ("--smoke", None) if tests.file is None else (f"{tests.file}: smoke", _WITHOUT_FILE)
            message = f"{option} and {name} exclude each other: GPU tests run on this machine"
            raise CommandError(ExitCode.USAGE, message, remedy)


def run_report_tests(
    tests: GpuTestRequest,
    source: MachineSource,
    snapshot: Snapshot,
    matrix: Matrix,
    started: float,
    *,
    no_gpu: bool,
) -> SmokeResult:
    """Runs the GPU tests of a report; if they cannot run, or if ``no_gpu`` is expected, skips each with the reason.

    ``started`` is when probing began, in seconds of the monotonic clock.
    """
    from gpuenv.cli.sources import find_target
    from gpuenv.smoke.session import UnusableTarget, skip_all
    from gpuenv.smoke.tasks import SmokeOptions

    options = SmokeOptions(level=tests.level, fault=planted_fault())
    target = smoke_target(find_target(source.python) or "", source, snapshot, matrix, started)
    if tests.seconds is not None:
        target = replace(target, until=started + tests.seconds)
    if no_gpu:
        return skip_all(options, target, "no GPU is expected here", now())
    try:
        return run_tests(options, target, matrix)
    except UnusableTarget as error:
        return skip_all(options, target, str(error), now())


def smoke_target(
    interpreter: str, source: MachineSource, snapshot: Snapshot, matrix: Matrix, started: float
) -> SmokeTarget:
    """The environment and the machine that the tests run in.

    ``started`` is when the command began, in seconds of the monotonic clock.
    """
    from gpuenv.matrix.products import peaks_of
    from gpuenv.smoke.session import SmokeTarget

    return SmokeTarget(
        interpreter=interpreter,
        environment=dict(os.environ),
        folder=_working_folder(),
        snapshot=snapshot,
        driver_root=source.driver_root,
        started=started,
        peaks=peaks_of(matrix),
    )


def _working_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:  # deleted meanwhile
        return os.sep


def run_tests(options: SmokeOptions, target: SmokeTarget, matrix: Matrix) -> SmokeResult:
    """Runs the tests; a failure without a known cause gets the cause of its message.

    Raises:
        UnusableTarget: when the target environment cannot run any test.
    """
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.smoke.session import run_smoke

    def obstacle(snapshot: Snapshot) -> str | None:
        found = diagnose(snapshot, matrix, time.monotonic).findings
        return f"{found[0].code} {found[0].cause}: {found[0].title}" if found and found[0].primary else None

    return with_causes(run_smoke(options, target, obstacle, progress, now()))


def with_causes(result: SmokeResult) -> SmokeResult:
    """The result with the causes of failed tests, by their messages."""
    from gpuenv.model.smoke import BROKEN, Trouble

    silent = (Trouble.WRONG_ANSWER, Trouble.DEADLINE)  # their messages are numbers, or gpuenv's own
    tests = (
        replace(test, cause=cause_of(test.detail))
        if test.cause is None and test.status in BROKEN and test.trouble not in silent and test.detail
        else test
        for test in result.tests
    )
    return result._replace(tests=tuple(tests))


def cause_of(text: str) -> Cause | None:
    """The cause of a test's message, if the confidence suffices."""
    from gpuenv.explain.explainer import explanation
    from gpuenv.explain.match import scan
    from gpuenv.smoke.runner import PROGRAM_CAUSES

    causes = explanation(scan(text.encode())).causes
    likely = [entry for entry in causes if entry.cause not in PROGRAM_CAUSES]
    return likely[0].cause if likely and likely[0].confidence >= _MIN_CONFIDENCE else None
