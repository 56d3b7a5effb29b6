"""How a transaction that was put back is told; the same for wheels and for conda packages. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gpuenv.install.journal import Journal
from gpuenv.install.records import Outcome, Plan, Proof, Result
from gpuenv.install.restoring import Restored
from gpuenv.model.exit_codes import ExitCode

_AFTER_OTHERS = "Let it end; then see what there is, and mend it: gpuenv doctor --fix"


def put_back(
    plan: Plan, journal: Journal, made: tuple[Proof, ...], why: str, back: Restored, others: Sequence[str] = ()
) -> Outcome:
    """The outcome of a failed install.

    Args:
        plan: what was to be done.
        journal: of the transaction, which stays where something is missing.
        made: the proofs that were made.
        why: it failed.
        back: how much is back.
        others: what is otherwise than before all the same, since somebody else has changed it meanwhile.
    """
    missing = back.missing
    former = "the former packages are back" if back.of == "packages" else "the former state is back"
    if others:
        former += f", but something else was at work there meanwhile: {', '.join(others)}"
    return Outcome(
        status=Result.RESTORED if not missing else Result.NOT_RESTORED,
        exit_code=ExitCode.FAILED,
        message=f"The install failed: {why}; {back if missing else former}.",
        transaction=None if not missing else journal.number,
        target=plan.target,
        plan=plan,
        proofs=made,
        undo=None if not missing else plan.undo,
        not_restored=missing,
        remedy=back.remedy or (_AFTER_OTHERS if others else None),
    )
