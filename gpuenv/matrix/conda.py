"""Conda's CuPy: the same constraints as for the wheels, with the rows of its builds. Pure."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from gpuenv.matrix.candidates import WheelCandidate, minors_of, serving_minors
from gpuenv.matrix.needs import Needs
from gpuenv.matrix.packages import CondaBuild, Platform, WheelLine
from gpuenv.matrix.ranges import version_of
from gpuenv.matrix.records import Matrix
from gpuenv.model.resolution import Assumption, CandidateKind, CondaChoice


@lru_cache(maxsize=4)
def conda_candidates(matrix: Matrix) -> tuple[WheelCandidate, ...]:
    """Every build of a conda channel as a candidate, the preferred one first.

    What CuPy makes of each NVRTC comes from the wheel of the same release; what GPU code is in the build is unknown.
    """
    found = [candidate for build in matrix.conda_builds if (candidate := _candidate(build, matrix)) is not None]
    return tuple(sorted(found, key=lambda wheel: (version_of(wheel.release.cupy), wheel.line.cuda_major), reverse=True))


def _candidate(build: CondaBuild, matrix: Matrix) -> WheelCandidate | None:
    line = next((line for line in matrix.wheel_lines if line.serves(build.cuda)), None)
    row = next((row for row in line.releases if row.cupy == build.cupy), None) if line else None
    if line is None or row is None:
        return None
    platforms = {name: Platform(build.channel, build.libc if "linux" in name else None) for name in build.platforms}
    release = replace(
        row,
        pythons=build.pythons,
        platforms=platforms,
        numpy=build.numpy,
        source=build.source,
        extras={},
        built_with=build.cuda,
    )
    name = f"{build.channel}::cupy (CUDA {build.cuda.major})"
    return WheelCandidate(
        WheelLine(name, line.cuda_major, line.first_cuda, build.source, ()), release, None, CandidateKind.CONDA
    )


def conda_choice(
    wheel: WheelCandidate, assumptions: tuple[Assumption, ...], needs: Needs, matrix: Matrix
) -> CondaChoice:
    """The specifications that install this build, with CUDA libraries that serve the GPUs."""
    serving, offered = serving_minors(wheel, needs, matrix), minors_of(wheel, matrix)
    major = wheel.line.cuda_major
    pin = f"cuda-version={major}"
    if serving and len(serving) < len(offered):
        pin = f"cuda-version>={serving[0].cuda},<{major + 1}"
        if serving[-1] is not offered[-1]:
            pin = f"cuda-version={serving[-1].cuda}"
    return CondaChoice(
        (f"cupy={wheel.release.cupy}", pin), next(iter(wheel.release.platforms.values())).tag, assumptions
    )
