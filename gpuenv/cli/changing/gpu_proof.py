"""The proof on the GPU, for those who have changed an environment: the quick smoke test, where there is a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuenv.cli.inputs import get_snapshot

if TYPE_CHECKING:
    from gpuenv.cli.changing.transaction import Examined
    from gpuenv.install.records import Proof
    from gpuenv.model.smoke import SmokeResult

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
    from gpuenv.smoke.prove import Order, Unusable

    rows, subject = examined.rows, examined.subject
    try:
        result = prove_here(Order(fault=planted()), interpreter, subject, get_snapshot(subject, rows), rows)
    except Unusable as error:
        return Proof(_NAME, False, str(error))
    return _verdict(result)


def _verdict(result: SmokeResult) -> Proof:
    """A GPU that is busy, or that nothing can be run on, proves nothing; a wrong answer does."""
    from gpuenv.install.records import Proof
    from gpuenv.model.smoke import BROKEN, TestStatus
    from gpuenv.report.lines import counted

    failed = [f"{test.name}: {test.detail or test.status.value}" for test in result.tests if test.status in BROKEN]
    passed = sum(test.status is TestStatus.PASSED for test in result.tests)
    if failed:
        return Proof(_NAME, False, "; ".join(failed[:_SHOWN]))
    if result.status is not TestStatus.PASSED:
        why = next((test.detail for test in result.tests if test.detail), result.status.value)
        return Proof(_NAME, None, f"no test gave a verdict: {why}")
    return Proof(
        _NAME, True, f"{counted(passed, 'test')} passed on {', '.join(gpu.name or 'a GPU' for gpu in result.gpus)}"
    )
