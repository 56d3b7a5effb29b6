"""The verification of an install: the doctor's errors before and after, and the quick smoke test."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpuenv.cli.gpu_tests import planted_fault, run_tests, smoke_target
from gpuenv.cli.sources import MachineSource, get_snapshot
from gpuenv.doctor.checks import find_check
from gpuenv.doctor.diagnose import diagnose
from gpuenv.install.plan import Verification
from gpuenv.model.finding import Severity
from gpuenv.model.smoke import BROKEN, SmokeResult, TestResult, TestStatus
from gpuenv.model.strings import join_words
from gpuenv.report.text_line import counted
from gpuenv.smoke.session import UnusableTarget
from gpuenv.smoke.tasks import SmokeOptions

if TYPE_CHECKING:
    from gpuenv.matrix.tables import Matrix
    from gpuenv.model.snapshot import Snapshot

_SMOKE_TEST = "smoke test"
_MAX_MESSAGES = 3  # of failed tests


def target_errors(snapshot: Snapshot, matrix: Matrix, *, external_libraries: bool) -> Mapping[str, str]:
    """The doctor's errors about the target, by code.

    With ``external_libraries``, CUDA's libraries may be missing from it.
    """
    found = diagnose(snapshot, matrix, time.monotonic).findings
    errors = {}
    for finding in found:
        check = find_check(finding.code)
        if finding.severity is not Severity.ERROR or check is None or not check.concerns_target:
            continue
        if not (check.concerns_libraries and external_libraries):
            errors[finding.code] = finding.title
    return errors


def verify_gpu(interpreter: str, source: MachineSource, snapshot: Snapshot, matrix: Matrix) -> Verification:
    """Runs the quick smoke test in the target; undetermined without a GPU."""
    if any(fact.startswith(("gpu", "driver")) for fact in snapshot.assumed):
        message = "the GPU or the driver is assumed; on the real machine, run: gpuenv smoke"
        return Verification(_SMOKE_TEST, None, message)
    if not snapshot.gpus:
        return Verification(_SMOKE_TEST, None, "there is no NVIDIA GPU here; on a machine with one, run: gpuenv smoke")
    try:
        target = smoke_target(interpreter, source, get_snapshot(source, matrix), matrix, time.monotonic())
        return smoke_verification(run_tests(SmokeOptions(fault=planted_fault()), target, matrix))
    except UnusableTarget as error:
        return Verification(_SMOKE_TEST, False, str(error))


def smoke_verification(result: SmokeResult) -> Verification:
    """The verification by a smoke test; undetermined on a busy or unusable GPU."""
    passed = counted(sum(test.status is TestStatus.PASSED for test in result.tests), "test")
    gpus = ", ".join(gpu.name or "a GPU" for gpu in result.gpus)
    failed = [test for test in result.tests if test.status in BROKEN]
    if failed:
        fault = f" ({result.fault} was planted on purpose)" if result.fault else ""
        return Verification(
            _SMOKE_TEST, False, f"{counted(len(failed), 'test')} failed on {gpus}{fault}: {_messages(failed)}"
        )
    if result.status is TestStatus.PASSED:
        return Verification(_SMOKE_TEST, True, f"{passed} passed on {gpus}")
    busy = [test for test in result.tests if test.status is TestStatus.BUSY]
    if busy:
        return Verification(_SMOKE_TEST, None, f"{passed} passed; other programs use the GPU: {_messages(busy)}")
    reason = next((test.detail for test in result.tests if test.detail), result.status.value)
    return Verification(_SMOKE_TEST, None, f"no test gave a verdict: {reason}")


def _messages(tests: Sequence[TestResult]) -> str:
    """The messages of the tests, each once with its tests."""
    names_by_message: dict[str, list[str]] = {}
    for test in tests:
        names_by_message.setdefault(test.detail or test.status.value, []).append(test.name)
    messages = [
        f"{join_words(list(dict.fromkeys(names)), _MAX_MESSAGES)}: {text}" for text, names in names_by_message.items()
    ]
    left = len(messages) - _MAX_MESSAGES
    return "; ".join(messages[:_MAX_MESSAGES]) + (f"; and {left} other messages" if left > 0 else "")
