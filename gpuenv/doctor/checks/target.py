"""Can the target environment be used at all?"""

from __future__ import annotations

from gpuenv.doctor.evidence import fact, source
from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Fix
from gpuenv.model.snapshot import SourceState

_BROKEN = (SourceState.FAILED, SourceState.CRASHED, SourceState.TIMED_OUT, SourceState.ABSENT)


@check("ENV401", Cause.TARGET_ENVIRONMENT_BROKEN)
def target_broken(facts: Facts) -> Outcome:
    """The target environment's interpreter cannot be used.

    What it means: the interpreter does not start, crashes, hangs, or is no Python. For a virtual environment the usual
    cause is that the Python it was made from has been removed or moved.
    How it is seen: the interpreter is asked, in a process of its own, to run a small script of the standard library.
    What to do: make the environment again with a Python that is there.
    """
    snapshot = facts.snapshot
    state = snapshot.source("target")
    if state.state not in _BROKEN or snapshot.target.python.known:
        return
    if state.state is SourceState.ABSENT:
        title = "There is no Python on PATH, and no environment is active"
        fixes = (Fix("Name the target with --python, or activate its environment."),)
    elif state.state is SourceState.TIMED_OUT:
        title = f"The target's interpreter does not answer: {snapshot.target.executable.value}"
        fixes = (Fix("Give it more time with --timeout; if that does not help, see what it does when it starts."),)
    else:
        title = f"The target's interpreter {_said(state.state)}: {snapshot.target.executable.value}"
        fixes = (
            Fix(
                "Make the environment again with a Python that is there.",
                ("python3", "-m", "venv", "--clear", "ENVIRONMENT"),
            ),
        )
    yield Symptom(title, fact("target.executable", snapshot.target.executable) + source(snapshot, "target"), fixes)


def _said(state: SourceState) -> str:
    return "crashes" if state is SourceState.CRASHED else "cannot be used"
