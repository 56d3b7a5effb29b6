"""The proof on the GPU, for those who have changed an environment: the quick smoke test, where there is a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpuenv.cli.inputs import get_snapshot
from gpuenv.model.enumeration import enumerated

if TYPE_CHECKING:
    from gpuenv.cli.changing.transaction import Examined
    from gpuenv.install.records import Proof
    from gpuenv.model.smoke import SmokeResult, TestResult

_NAME = "smoke test"
_SHOWN = 3


def gpu_proof(examined: Examined, interpreter: str) -> Proof:
    """Runs the quick smoke test in the target; where there is no GPU it says so, and nothing is shown."""
    from gpuenv.install.records import Proof

    facts = examined.facts
    if any(fact.startswith(("gpu", "driver")) for fact in facts.assumed):
        return Proof(_NAME, None, "the GPU or the driver is an assumed one; on the machine that is meant: gpuenv smoke")
    if not facts.gpus:
        return Proof(_NAME, None, "there is no NVIDIA GPU here; on a machine with one: gpuenv smoke")
    from gpuenv.cli.gpu_tests import planted, prove_here
    from gpuenv.smoke.plan import Order
    from gpuenv.smoke.prove import Unusable

    rows, subject = examined.rows, examined.subject
    try:
        result = prove_here(Order(fault=planted()), interpreter, subject, get_snapshot(subject, rows), rows)
    except Unusable as error:
        return Proof(_NAME, False, str(error))
    return verdict(result)


def verdict(result: SmokeResult) -> Proof:
    """A GPU that is busy, or that nothing can be run on, proves nothing; a wrong answer does."""
    from gpuenv.install.records import Proof
    from gpuenv.model.smoke import BROKEN, TestStatus
    from gpuenv.report.text import counted

    passed = counted(sum(test.status is TestStatus.PASSED for test in result.tests), "test")
    gpus = ", ".join(gpu.name or "a GPU" for gpu in result.gpus)
    failed = [test for test in result.tests if test.status in BROKEN]
    if failed:
        planted = f" ({result.fault} was planted on purpose)" if result.fault else ""
        return Proof(_NAME, False, f"{counted(len(failed), 'test')} failed on {gpus}{planted}: {_told(failed)}")
    if result.status is TestStatus.PASSED:
        return Proof(_NAME, True, f"{passed} passed on {gpus}")
    held = [test for test in result.tests if test.status is TestStatus.BUSY]
    if held:
        return Proof(_NAME, None, f"{passed} passed; others use the GPU: {_told(held)}")
    why = next((test.detail for test in result.tests if test.detail), result.status.value)
    return Proof(_NAME, None, f"no test gave a verdict: {why}")


def _told(tests: Sequence[TestResult]) -> str:
    """What the tests said, once where several said the same."""
    same: dict[str, list[str]] = {}
    for test in tests:
        same.setdefault(test.detail or test.status.value, []).append(test.name)
    told = [f"{enumerated(list(dict.fromkeys(names)), _SHOWN)}: {words}" for words, names in same.items()]
    left = len(told) - _SHOWN
    return "; ".join(told[:_SHOWN]) + (f"; and {left} other messages" if left > 0 else "")
