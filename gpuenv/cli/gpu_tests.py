"""The GPU tests behind ``smoke``, ``--smoke`` and an install, and the cause that the message of a failure names."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.clock import now
from gpuenv.cli.errors import CommandError, announce
from gpuenv.model.exit_codes import ExitCode

if TYPE_CHECKING:
    from gpuenv.cli.inputs import Subject
    from gpuenv.doctor.diagnose import Terms
    from gpuenv.matrix.records import Matrix
    from gpuenv.model.causes import Cause
    from gpuenv.model.smoke import Level, SmokeResult, TestResult
    from gpuenv.model.snapshot import Snapshot
    from gpuenv.smoke.plan import Order
    from gpuenv.smoke.prove import Place, Unusable

_WITHOUT_FILE = "--config FILE names another configuration, and --no-config reads none"
_SURE = 0.5  # confidence from which on the cause that an error text names is taken for the test's


@dataclass(frozen=True, slots=True)
class Proof:
    """The GPU tests of a report.

    Attributes:
        level: how many.
        seconds: the time for probing and testing together, if it is bounded.
        file: the configuration file that asks for them, where the option does not.
    """

    level: Level
    seconds: float | None = None
    file: str | None = None


def with_level(arguments: Sequence[str]) -> list[str]:
    """The arguments with ``--smoke`` alone as ``--smoke=quick``: Typer has no option whose value may be left out."""
    changed = list(arguments)
    for number, text in enumerate(changed):
        following = changed[number + 1] if number + 1 < len(changed) else "-"
        if text == "--smoke" and following.startswith("-"):
            changed[number] = "--smoke=quick"
    return changed


def planted() -> str | None:
    """The fault to plant into every test, by an environment variable."""
    from gpuenv.model.smoke import FAULT_VARIABLE

    name = os.environ.get(FAULT_VARIABLE) or None
    if name is not None:
        from gpuenv.smoke.plan import known_faults

        check_names("fault", (name,), known_faults())
    return name


def check_names(kind: str, given: Sequence[str], known: Sequence[str], listed: str | None = None) -> None:
    """Refuses unknown names, with the nearest known ones and a list, or with ``listed``: how to list them."""
    import difflib

    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 3)
            hint = f"did you mean {' or '.join(near)}? " if near else ""
            every = listed or f"one of {', '.join(known)}"
            raise CommandError(ExitCode.USAGE, f"there is no {kind} named {name}", f"{hint}{every}")


def check_subject(subject: Subject, proof: Proof) -> None:
    """Refuses GPU tests for another machine than this one, and an unknown fault to plant."""
    planted()
    for given, name in (
        (subject.snapshot is not None, "--snapshot"),
        (subject.paste is not None, "--paste"),
        (subject.no_probe, "--no-probe"),
        (bool(subject.assume), "--assume"),
    ):
        if given:
            asked, remedy = ("--smoke", None) if proof.file is None else (f"{proof.file}: smoke", _WITHOUT_FILE)
            said = f"{asked} and {name} exclude each other: GPU tests run on this machine"
            raise CommandError(ExitCode.USAGE, said, remedy)


def prove_report(
    proof: Proof, subject: Subject, snapshot: Snapshot, matrix: Matrix, terms: Terms, started: float
) -> SmokeResult:
    """The GPU tests of a report; where they cannot run, each is skipped and says why.

    Args:
        proof: which tests.
        subject: the machine and the target.
        snapshot: their facts.
        matrix: the compatibility matrix.
        terms: what is expected.
        started: when probing began, by the monotonic clock in seconds.
    """
    from gpuenv.probe.target import find_interpreter
    from gpuenv.smoke.plan import Order
    from gpuenv.smoke.prove import Unusable, without_proof

    order = Order(level=proof.level, fault=planted())
    interpreter = find_interpreter(subject.python, os.environ) or ""
    place = _place(interpreter, subject, snapshot, matrix, started)
    if proof.seconds is not None:
        place = replace(place, until=started + proof.seconds)
    if terms.no_gpu:
        return without_proof(order, place, "no GPU is expected here", now())
    try:
        return _run(order, place, matrix)
    except Unusable as error:
        return without_proof(order, place, str(error), now())


@dataclass(frozen=True, slots=True)
class Alone:
    """The result of the GPU tests by themselves, with the machine and the matrix that they were run with."""

    result: SmokeResult
    snapshot: Snapshot
    matrix: Matrix
    unusable: Unusable | None = None  # why the target environment can run none of them

    @property
    def interrupted(self) -> bool:
        """Whether not all of it was tried."""
        return self.result.exit_code == ExitCode.INTERRUPTED


def prove_alone(order: Order, subject: Subject, interpreter: str, baseline: SmokeResult | None) -> Alone:
    """The GPU tests by themselves; where the target environment can run none, each is skipped and says why.

    Interrupted ones return what was found by then.

    Raises:
        CommandError: when the matrix cannot be read.
        ValueError: when a GPU is named that is not there.
    """
    from gpuenv.cli.inputs import get_both
    from gpuenv.smoke.prove import ProofInterrupted, Unusable, without_proof

    started = time.monotonic()
    snapshot, matrix = get_both(subject, None)
    place = _place(interpreter, subject, snapshot, matrix, started)
    try:
        result = _run(order, place, matrix)
    except Unusable as error:
        skipped = without_proof(order, place, str(error), now())
        return Alone(replace(skipped, exit_code=int(ExitCode.TARGET_UNUSABLE)), snapshot, matrix, error)
    except ProofInterrupted as stop:
        result = _explained(stop.result)
    return Alone(beside(result, baseline) if baseline else result, snapshot, matrix)


def prove_here(order: Order, interpreter: str, subject: Subject, snapshot: Snapshot, matrix: Matrix) -> SmokeResult:
    """The GPU tests on a machine that has been read already.

    Raises:
        Unusable: when the target environment can run no test.
    """
    return _run(order, _place(interpreter, subject, snapshot, matrix, time.monotonic()), matrix)


def beside(result: SmokeResult, baseline: SmokeResult) -> SmokeResult:
    """The result compared with an earlier one, which may have been saved with pseudonyms for its GPUs."""
    from gpuenv.report.redact import pseudonym
    from gpuenv.smoke.baseline import compare

    known = {pseudonym(gpu.uuid): gpu.uuid for gpu in result.gpus if gpu.uuid}
    tests = tuple(replace(test, gpu=known.get(test.gpu or "", test.gpu)) for test in baseline.tests)
    return replace(result, compared=compare(result, replace(baseline, tests=tests)) + result.compared)


def _run(order: Order, place: Place, matrix: Matrix) -> SmokeResult:
    """Runs the tests; a failure without a known cause is explained by its message."""
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.matrix.resolve import resolve
    from gpuenv.smoke.prove import prove

    def obstacle(facts: Snapshot) -> str | None:
        found = diagnose(facts, matrix, resolve(facts, matrix), time.monotonic).findings
        return f"{found[0].code} {found[0].cause}: {found[0].title}" if found and found[0].primary else None

    return _explained(prove(order, place, obstacle, announce, now()))


def _explained(result: SmokeResult) -> SmokeResult:
    return replace(result, tests=tuple(_with_cause(test) for test in result.tests))


def _place(interpreter: str, subject: Subject, snapshot: Snapshot, matrix: Matrix, started: float) -> Place:
    from gpuenv.matrix.products import peaks_of
    from gpuenv.smoke.prove import Place

    return Place(
        interpreter=interpreter,
        environment=dict(os.environ),
        folder=str(Path.cwd()),
        snapshot=snapshot,
        driver_root=subject.driver_root,
        started=started,
        peaks=peaks_of(matrix),
    )


def _with_cause(test: TestResult) -> TestResult:
    from gpuenv.model.smoke import BROKEN, Trouble

    silent = (Trouble.WRONG_ANSWER, Trouble.DEADLINE)  # their words are numbers, and ours
    if test.cause is not None or test.status not in BROKEN or test.trouble in silent or not test.detail:
        return test
    return replace(test, cause=cause_of(test.detail))


def cause_of(text: str) -> Cause | None:
    """The cause that a test's message names, if that is sure enough."""
    from gpuenv.cli.commands.explain import scanned
    from gpuenv.explain.answer import explanation
    from gpuenv.smoke.run import OF_PROGRAMS

    causes = explanation(scanned([text.encode()]).scanner).causes
    likely = [entry for entry in causes if entry.cause not in OF_PROGRAMS]
    return likely[0].cause if likely and likely[0].confidence >= _SURE else None
