"""Checks whether an install or rollback of gpuenv was interrupted in the target environment."""

from __future__ import annotations

from gpuenv.doctor.registry import CheckContext, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence


@check("ENV403", Cause.INSTALL_INTERRUPTED)
def transaction_open(ctx: CheckContext) -> Outcome:
    """An install or rollback of gpuenv was interrupted and has to be undone first.

    What it means: gpuenv was killed, or the machine lost power, while it moved files of the environment. Files of the
    former and of the new packages may be mixed or missing. The former files are kept in the environment's folder
    .gpuenv. If another program changes the packages first, gpuenv can no longer restore the former files. Until then,
    the other checks of the environment therefore offer no fix.
    How it is seen: that folder has the journal of a change that was neither completed nor undone, and no running gpuenv
    holds its lock.
    What to do: run gpuenv rollback; it restores the state before the interrupted install. gpuenv install and gpuenv
    doctor --fix do so first, too.
    """
    reading = ctx.snapshot.target.open_transaction
    found = reading.value
    if found is not None:
        label = found.label
        yield Symptom(
            f"{label[0].upper()}{label[1:]} was interrupted: files of this environment may be mixed or missing",
            (Evidence("target.open_transaction", f"{label}, begun {found.since}", reading.source or ""),),
            tuple(fix._replace(safe=True) for fix in Cause.INSTALL_INTERRUPTED.fix),
        )
