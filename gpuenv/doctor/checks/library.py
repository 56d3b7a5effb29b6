"""The CUDA libraries that CuPy loads at run time."""

from __future__ import annotations

import re

from gpuenv.doctor.evidence import fact
from gpuenv.doctor.installed import installed_wheel
from gpuenv.doctor.registry import Facts, NotKnown, Outcome, Symptom, check
from gpuenv.model.causes import Cause
from gpuenv.model.finding import Evidence, Fix
from gpuenv.model.lines import cuda_major
from gpuenv.model.snapshot import Library, SourceState


@check(
    "LIB601",
    Cause.CUDA_LIBRARY_MISSING,
    Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
    requires=("WHL502", "WHL503", "WHL504", "WHL505"),
)
def library_missing(facts: Facts) -> Outcome:
    """A CUDA library that CuPy loads at run time is not found.

    What it means: the wheels of CuPy do not contain NVRTC, cuBLAS, cuFFT and the others; they come from a toolkit, from
    conda or from CUDA wheels in the environment, and must be of the wheel line's CUDA major. import cupy succeeds
    without them; the first kernel or product fails.
    How it is seen: the target's own loader is asked for each library, in the order in which CuPy itself looks.
    What to do: install the extra ctk of the same CuPy (from 14 on), or a toolkit of the same major; if a toolkit of
    another major is what you have, install the wheel line of that major.
    """
    snapshot = facts.snapshot
    state = snapshot.source("libraries")
    if not snapshot.target.cupy:
        return
    if state.state is not SourceState.ANSWERED and not snapshot.target.libraries:
        yield NotKnown(state.detail or "the target's libraries were not asked for")
        return
    missing = [library for library in snapshot.target.libraries if library.path is None]
    if not missing:
        return
    line = snapshot.target.cupy[0]
    major = cuda_major(line.distribution)
    others = _other_majors(facts, major or 0)
    named = ", ".join(library.soname for library in missing)
    evidence = tuple(_evidence(library) for library in snapshot.target.libraries) + others
    if others and not any(library.path for library in snapshot.target.libraries):
        yield Symptom(
            f"{line.distribution} needs the libraries of CUDA {major}, but those there are of another major version",
            evidence,
            _fixes(facts, major),
            cause=Cause.WRONG_CUPY_WHEEL_FOR_CUDA_MAJOR,
        )
        return
    yield Symptom(
        f"CUDA libraries that CuPy loads are not found: {named}", evidence + _searched(facts), _fixes(facts, major)
    )


def _evidence(library: Library) -> Evidence:
    return Evidence(library.soname, library.path or "not found", library.found_via or "the target's loader")


def _searched(facts: Facts) -> tuple[Evidence, ...]:
    told = facts.snapshot.environment.get("LD_LIBRARY_PATH")
    return (
        Evidence("environment.LD_LIBRARY_PATH", told or "not set", "the environment"),
        *fact("target.prefix", facts.snapshot.target.prefix),
    )


def _other_majors(facts: Facts, major: int) -> tuple[Evidence, ...]:
    """CUDA of another major: toolkits on the host, and CUDA wheels in the target."""
    found = [
        Evidence("a toolkit", f"CUDA {kit.toolkit.value} in {kit.path}", kit.found_via)
        for kit in facts.snapshot.toolkits
        if kit.toolkit.value and kit.toolkit.value.major != major and kit.has_nvrtc
    ]
    for name, release in facts.snapshot.target.packages.items():
        if name == "nvidia-cuda-nvrtc" or re.fullmatch(r"nvidia-cuda-nvrtc-cu\d\d", name):
            there = int(release.split(".")[0])
            if there != major:
                found.append(Evidence("a CUDA wheel in the target", f"{name} {release}", "its metadata"))
    return tuple(found)


def _fixes(facts: Facts, major: int | None) -> tuple[Fix, ...]:
    wheel = installed_wheel(facts)
    interpreter = facts.snapshot.target.executable.value or "python"
    toolkit = Fix(f"Install a CUDA {major} toolkit, and let the loader find its lib64 folder.")
    if wheel is None or not wheel.release.extras:
        chosen = facts.resolution.wheel
        if chosen is not None and chosen.extra is not None:
            newer = (interpreter, "-m", "pip", "install", *chosen.requirements)
            text = f"Install the release that brings its libraries along: {' '.join(chosen.requirements)}"
            return (Fix(text, newer, safe=chosen.distribution == facts.snapshot.target.cupy[0].distribution), toolkit)
        return (toolkit,)
    extra = next(iter(wheel.release.extras))
    requirement = f"{wheel.line.name}[{extra}]=={wheel.release.cupy}"
    return (
        Fix(
            f"Install the libraries beside it: {requirement}",
            (interpreter, "-m", "pip", "install", requirement),
            safe=True,
        ),
        toolkit,
    )
