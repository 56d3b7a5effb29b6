"""The GPU tests behind ``smoke``, ``--smoke`` and an install, and the cause that the message of a failure names."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpuenv.cli.clock import now
from gpuenv.cli.errors import CommandError, announce
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.inputs import MachineSource
    from gpuenv.doctor.diagnose import DiagnosisOptions
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.causes import Cause
    from gpuenv.model.smoke import SmokeResult
    from gpuenv.model.smoke_level import SmokeLevel
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.smoke.session import SmokeTarget
    from gpuenv.smoke.tasks import SmokeOptions

_WITHOUT_FILE = "--config FILE names another configuration, and --no-config reads none"
_SURE = 0.5  # confidence from which on the cause that an error text names is taken for the test's


class Proof(NamedTuple):
    """The GPU tests of a report."""

    level: SmokeLevel
    seconds: float | None = None  # for probing and testing together, if that is bounded
    file: str | None = None  # the configuration file that asks for them, where the option does not


def planted() -> str | None:
    """The fault to plant into every test, by an environment variable."""
    from gpuenv.model.smoke import FAULT_VARIABLE

    name = os.environ.get(FAULT_VARIABLE) or None
    if name is not None:
        from gpuenv.smoke.tasks import injectable_faults

        check_names("fault", (name,), injectable_faults())
    return name


def check_names(kind: str, names: Sequence[str], known: Sequence[str], listed: str | None = None) -> None:
    """Refuses unknown names, with the nearest known ones and a list, or with ``listed``: how to list them."""
    import difflib

    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            every = listed or f"one of {', '.join(known)}"
            raise CommandError(ExitCode.USAGE, f"there is no {kind} named {name}", f"{hint}{every}")


def check_subject(subject: MachineSource, proof: Proof) -> None:
    """Refuses GPU tests for another machine than this one, and an unknown fault to plant."""
    planted()
    for is_given, name in (
        (subject.snapshot is not None, "--snapshot"),
        (subject.paste is not None, "--paste"),
        (subject.no_probe, "--no-probe"),
        (bool(subject.assume), "--assume"),
    ):
        if is_given:
            wanted, remedy = ("--smoke", None) if proof.file is None else (f"{proof.file}: smoke", _WITHOUT_FILE)
            message = f"{wanted} and {name} exclude each other: GPU tests run on this machine"
            raise CommandError(ExitCode.USAGE, message, remedy)


def prove_report(
    proof: Proof, subject: MachineSource, snapshot: Snapshot, matrix: Matrix, options: DiagnosisOptions, started: float
) -> SmokeResult:
    """The GPU tests of a report; where they cannot run, each is skipped and says why.

    ``started`` is when probing began, by the monotonic clock in seconds.
    """
    from gpuenv.probe.target import find_interpreter
    from gpuenv.smoke.session import UnusableTarget, skip_all
    from gpuenv.smoke.tasks import SmokeOptions

    order = SmokeOptions(level=proof.level, fault=planted())
    place = place_of(find_interpreter(subject.python, os.environ) or "", subject, snapshot, matrix, started)
    if proof.seconds is not None:
        place = replace(place, until=started + proof.seconds)
    if options.no_gpu:
        return skip_all(order, place, "no GPU is expected here", now())
    try:
        return run_tests(order, place, matrix)
    except UnusableTarget as error:
        return skip_all(order, place, str(error), now())


def place_of(
    interpreter: str, subject: MachineSource, snapshot: Snapshot, matrix: Matrix, started: float
) -> SmokeTarget:
    """Where the tests run; ``started`` is when the command began, by the monotonic clock in seconds."""
    from gpuenv.matrix.products import peaks_of
    from gpuenv.smoke.session import SmokeTarget

    return SmokeTarget(
        interpreter=interpreter,
        environment=dict(os.environ),
        folder=str(Path.cwd()),
        snapshot=snapshot,
        driver_root=subject.driver_root,
        started=started,
        peaks=peaks_of(matrix),
    )


def run_tests(order: SmokeOptions, place: SmokeTarget, matrix: Matrix) -> SmokeResult:
    """Runs the tests; a failure without a known cause is explained by its message.

    Raises:
        Unusable: when the target environment can run no test.
    """
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.matrix.resolve import resolve
    from gpuenv.smoke.session import run_smoke

    def obstacle(facts: Snapshot) -> str | None:
        found = diagnose(facts, matrix, resolve(facts, matrix), time.monotonic).findings
        return f"{found[0].code} {found[0].cause}: {found[0].title}" if found and found[0].primary else None

    return with_causes(run_smoke(order, place, obstacle, announce, now()))


def with_causes(result: SmokeResult) -> SmokeResult:
    """The result, with the cause of each failed test that its message names."""
    from gpuenv.model.smoke import BROKEN, Trouble

    silent = (Trouble.WRONG_ANSWER, Trouble.DEADLINE)  # their words are numbers, and ours
    tests = (
        replace(test, cause=cause_of(test.detail))
        if test.cause is None and test.status in BROKEN and test.trouble not in silent and test.detail
        else test
        for test in result.tests
    )
    return result._replace(tests=tuple(tests))


def cause_of(text: str) -> Cause | None:
    """The cause that a test's message names, if that is sure enough."""
    from gpuenv.explain.answer import explanation
    from gpuenv.explain.scan import Scanner
    from gpuenv.smoke.runner import PROGRAM_CAUSES

    scanner = Scanner()
    scanner.feed(text.encode())
    scanner.close()
    causes = explanation(scanner).causes
    likely = [entry for entry in causes if entry.cause not in PROGRAM_CAUSES]
    return likely[0].cause if likely and likely[0].confidence >= _SURE else None
