"""The proof on the GPU, for those who have changed an environment: the quick smoke test, where there is a GPU."""

from __future__ import annotations

import os
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from gpuenv.cli.gather import announce, get_snapshot

if TYPE_CHECKING:
    from gpuenv.cli.transaction import Examined
    from gpuenv.install.records import Proof
    from gpuenv.model.smoke import SmokeResult
    from gpuenv.model.snapshot import Snapshot

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
    return _verdict(_run(examined, interpreter))


def _run(examined: Examined, interpreter: str) -> SmokeResult | str:
    from gpuenv.doctor.diagnose import diagnose
    from gpuenv.matrix.resolve import resolve
    from gpuenv.smoke.prove import Order, Place, Unusable, prove

    rows, subject = examined.rows, examined.subject

    def obstacle(facts: Snapshot) -> str | None:
        found = diagnose(facts, rows, resolve(facts, rows), time.monotonic).findings
        return f"{found[0].code} {found[0].cause}: {found[0].title}" if found and found[0].primary else None

    snapshot = get_snapshot(subject, rows)
    place = Place(interpreter, dict(os.environ), str(Path.cwd()), snapshot, subject.driver_root, time.monotonic())
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    try:
        return prove(Order(), place, obstacle, announce, None, now)
    except Unusable as error:
        return str(error)


def _verdict(result: SmokeResult | str) -> Proof:
    """A GPU that is busy, or that nothing can be run on, proves nothing; a wrong answer does."""
    from gpuenv.install.records import Proof
    from gpuenv.model.smoke import TestStatus

    if isinstance(result, str):
        return Proof(_NAME, False, result)
    bad = (TestStatus.FAILED, TestStatus.CRASHED, TestStatus.TIMED_OUT)
    failed = [f"{test.name}: {test.detail or test.status.value}" for test in result.tests if test.status in bad]
    passed = sum(test.status is TestStatus.PASSED for test in result.tests)
    if failed:
        return Proof(_NAME, False, "; ".join(failed[:_SHOWN]))
    if result.status is not TestStatus.PASSED:
        why = next((test.detail for test in result.tests if test.detail), result.status.value)
        return Proof(_NAME, None, f"no test gave a verdict: {why}")
    return Proof(_NAME, True, f"{passed} tests passed on {', '.join(gpu.name or 'a GPU' for gpu in result.gpus)}")
