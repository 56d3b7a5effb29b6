"""The CuPy that is installed, as a row of the matrix, and how to install the one that fits. Pure."""

from __future__ import annotations

from gpuenv.doctor.registry import Facts
from gpuenv.matrix.candidates import WheelCandidate
from gpuenv.model.finding import Fix


def installed_wheel(facts: Facts) -> WheelCandidate | None:
    """The one CuPy in the target, where the matrix has its release; without an extra: what is there counts."""
    found = facts.snapshot.target.cupy
    if len(found) != 1:
        return None
    for line in facts.matrix.wheel_lines:
        for release in line.releases:
            if line.name == found[0].distribution and release.cupy == found[0].release:
                return WheelCandidate(line, release, None)
    return None


def install_fix(facts: Facts, text: str) -> tuple[Fix, ...]:
    """The command that installs what the resolver chose into the target; nothing where nothing fits.

    Another CuPy that is there has to go first, since all lines share the module's files.
    """
    wheel = facts.resolution.wheel
    if wheel is None:
        return ()
    interpreter = facts.snapshot.target.executable.value or "python"
    others = [entry.distribution for entry in facts.snapshot.target.cupy if entry.distribution != wheel.distribution]
    fixes = []
    if len(facts.snapshot.target.cupy) == 1 and others:
        remove = (interpreter, "-m", "pip", "uninstall", "-y", *others)
        fixes.append(Fix("Remove the CuPy that is there.", remove, safe=True))
    install = (interpreter, "-m", "pip", "install", *wheel.requirements)
    fixes.append(Fix(f"{text.removesuffix('.')}: {' '.join(wheel.requirements)}", install, safe=True))
    if wheel.needs_toolkit:
        fixes.append(Fix(f"It needs {wheel.needs_toolkit}."))
    return tuple(fixes)
