"""CuPy's own variables."""

from __future__ import annotations

from gpuenv.doctor.registry import Facts, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.cupy import is_rocm, refused_variables
from gpuenv.model.finding import Evidence, Fix


@check("ENV402", Cause.CUPY_VARIABLE_INVALID, requires=("WHL503",))
def variable_refused(facts: Facts) -> Outcome:
    """A variable of CuPy's has a value that CuPy refuses.

    What it means: CuPy reads its variables when it is imported, and ends with a ValueError at a value that it cannot
    read; a wrong memory limit ends the first allocation. Nothing else is broken.
    How it is seen: the variables of the caller whose names begin with CUPY_, against what CuPy takes.
    What to do: unset the variable or correct it where the shell, the job script, the container or the notebook sets it.
    """
    cupy = facts.snapshot.target.cupy
    if not cupy or any(is_rocm(entry.distribution) for entry in cupy):
        return
    for wrong in refused_variables(facts.snapshot.environment, cupy[0].release):
        yield Symptom(
            f"{wrong.name}={wrong.value or '(empty)'}: CuPy refuses this value",
            (
                Evidence(f"environment.{wrong.name}", repr(wrong.value), "the environment"),
                Evidence("taken", wrong.taken, f"CuPy {cupy[0].release}"),
            ),
            (Fix(f"Unset it, or correct it: {wrong.taken}.", ("env", "-u", wrong.name, "gpuenv", "doctor")),),
        )
