"""CUDA wheels of another major version than CuPy's: which they are, who has brought them, and the ways out. Pure."""

from __future__ import annotations

from dataclasses import replace

from gpuenv.doctor.evidence import cuda_bringers
from gpuenv.doctor.installed import install_fix, installed_cuda_major
from gpuenv.doctor.packages import pip_fix
from gpuenv.doctor.registry import Facts
from gpuenv.model.cuda_wheels import cuda_major_of_wheel
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.pattern import pattern

_NVRTC = pattern(r"nvidia-cuda-nvrtc(-cu\d\d)?")


def nvrtcs(facts: Facts) -> tuple[Evidence, ...]:
    """NVRTC of another major among the distributions of the target: it stands for the CUDA wheels of that major."""
    own = installed_cuda_major(facts)
    return tuple(
        _told(facts, name)
        for name, release in facts.snapshot.target.packages.items()
        if _NVRTC.fullmatch(name) and cuda_major_of_wheel(name, release) not in (None, own)
    )


def wheels(facts: Facts) -> tuple[Evidence, ...]:
    """What tells of them: their NVRTC, or all of them where that is not there."""
    return nvrtcs(facts) or tuple(_told(facts, name) for name in _names(facts))


def bringers(facts: Facts) -> tuple[Evidence, ...]:
    """The frameworks that have brought them: not one that goes with CuPy's own major, as the matrix knows."""
    own = installed_cuda_major(facts)
    same = {entry.distribution for entry in facts.needs.brings if not entry.is_library and entry.cuda_major == own}
    return tuple(
        entry for entry in cuda_bringers(facts.snapshot) if entry.fact.removeprefix("target.packages.") not in same
    )


def ways_out(facts: Facts) -> tuple[Fix, ...]:
    """What to do about them: all go that nobody needs; where a framework needs them, CuPy follows it or moves out."""
    needed, names = tuple(entry.fact.removeprefix("target.packages.") for entry in bringers(facts)), _names(facts)
    if needed:
        return _with_a_framework(facts, needed, names)
    if not names:
        return install_fix(facts, "Install the CuPy that fits.")
    removal = pip_fix(facts.snapshot, "Remove the CUDA wheels of the other major.", "uninstall", "-y", *names)
    return (removal, *install_fix(facts, "Or install the CuPy that fits."))


def _with_a_framework(facts: Facts, needed: tuple[str, ...], names: tuple[str, ...]) -> tuple[Fix, ...]:
    """CuPy follows the framework; one whose CUDA this driver does not run is of no use on the GPU, and goes first."""
    level, told, said = facts.needs.driver_cuda, facts.snapshot.target.packages, " and ".join(needed)
    majors = [cuda_major_of_wheel(name, told[name]) or 0 for name in names]
    words = f"emove {said} with the CUDA wheels of its major"
    apart = f"eep CuPy and {said} in environments of their own."
    gone = ("uninstall", "-y", *needed, *names)
    if level is not None and majors and min(majors) > level.major:
        first = pip_fix(facts.snapshot, f"R{words}, for which this driver is too old.", *gone)
        return (replace(first, safe=False), *install_fix(facts, "Or install the CuPy that fits."), Fix(f"Or k{apart}"))
    followed = install_fix(facts, "Install the CuPy that fits.")
    alone = replace(pip_fix(facts.snapshot, f"Or r{words}, where CuPy alone is needed.", *gone), safe=False)
    return (*followed, Fix(f"Or k{apart}" if followed else f"K{apart}"), alone)


def _names(facts: Facts) -> tuple[str, ...]:
    """All of them: each library is looked for by itself, and one that stays is still loaded first."""
    own, packages = installed_cuda_major(facts), facts.snapshot.target.packages
    majors = {name: major for name, release in packages.items() if (major := cuda_major_of_wheel(name, release))}
    of_nvrtc = {majors[name] for name in majors if _NVRTC.fullmatch(name)} - {own}
    others = of_nvrtc or {*majors.values()} - {own}
    return tuple(name for name, major in majors.items() if major in others) if own is not None else ()


def _told(facts: Facts, name: str) -> Evidence:
    return Evidence(f"target.packages.{name}", facts.snapshot.target.packages[name], "its metadata")
