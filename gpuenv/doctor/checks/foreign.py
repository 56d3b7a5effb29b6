"""A CuPy that is there, and made for another interpreter or another platform."""

from __future__ import annotations

from gpuenv.doctor.checks.cupy import ONE_CUPY
from gpuenv.doctor.evidence import fact
from gpuenv.doctor.fixes.packages import pip_fix
from gpuenv.doctor.installed import install_fix, out_of_the_way, within_reach
from gpuenv.doctor.registry import Facts, Outcome, RepairKind, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.snapshot import CupyInstallation

_PARTS_OF_A_TAG = 2  # hyphens in cp312-cp312-linux_x86_64


@check("WHL512", Cause.PYTHON_UNSUPPORTED, Cause.PLATFORM_WHEEL_MISSING, requires=ONE_CUPY, repair=RepairKind.REPLACE)
def for_another_interpreter(facts: Facts) -> Outcome:
    """CuPy is installed for another interpreter or another platform than this one.

    What it means: CuPy's compiled modules name the Python and the platform that they are built for, such as cpython-312
    and x86_64. They were put here by another Python's pip, by pip's option --platform, by a folder that was copied from
    another machine, or by PYTHONPATH; this interpreter does not load them.
    How it is seen: the names of the extension modules in cupy/_core, against those that this interpreter loads, and the
    tags of the wheel.
    What to do: install CuPy with this interpreter's own pip.
    """
    target = facts.snapshot.target
    for entry in target.cupy:
        if entry.for_this_interpreter is False:
            foreign = _foreign_platforms(entry, target.platform.value)
            what = f"another platform: {', '.join(foreign)}" if foreign else f"another interpreter: {_tags(entry)}"
            yield Symptom(
                f"{entry.distribution} in {entry.location} is for {what}",
                (fact("target.platform", target.platform) if foreign else ())
                + fact("target.python", target.python)
                + (Evidence(entry.distribution, _tags(entry), "its extension modules and tags"),),
                _with_this_interpreter(facts, entry),
                cause=Cause.PLATFORM_WHEEL_MISSING if foreign else None,
            )


def _with_this_interpreter(facts: Facts, entry: CupyInstallation) -> tuple[Fix, ...]:
    """It goes, and one for this interpreter comes where there is none; what lies elsewhere is put out of the way."""
    target = facts.snapshot.target
    anew = install_fix(facts, "Install it with this interpreter.")  # that of another line removes this one too
    if not within_reach(entry, target):
        own = any(other.is_own and other.for_this_interpreter is not False for other in target.cupy)
        return tuple(dict.fromkeys((out_of_the_way(entry), *(() if own else anew))))
    remove = pip_fix(facts.snapshot, "Remove it.", "uninstall", "-y", entry.distribution)
    return (remove, *(fix for fix in anew if fix.command != remove.command or not fix.command))


def _foreign_platforms(entry: CupyInstallation, platform: str | None) -> tuple[str, ...]:
    """The platforms of a wheel's tags, where none of them is the interpreter's own: ``linux_aarch64``."""
    system, _, rest = (platform or "").partition("-")
    machine = rest.rpartition("-")[2]
    told = tuple(dict.fromkeys(tag.rpartition("-")[2] for tag in entry.tags if tag.count("-") == _PARTS_OF_A_TAG))
    either = "universal2"  # of Apple's two machines
    own = [
        name
        for name in told
        if name == "any" or (system in name and (machine == either or name.endswith((machine, either))))
    ]
    return told if platform and not own else ()


def _tags(entry: CupyInstallation) -> str:
    return ", ".join(entry.tags) or "no module of it can be loaded"
