"""CuPy's wheel lines by distribution name, and the release that a requirement selects.

A line for one CUDA minor from 11.2 on is taken to run on what cupy-cuda11x runs on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.version import Version

from gpuenv.image.dockerfile.build_target import BuildTarget
from gpuenv.image.dockerfile.install_requests import Install
from gpuenv.matrix.tables import Matrix, Release, WheelLine
from gpuenv.model.cupy import FIRST_UNITED_CUDA, cuda_minor

_OF_A_MAJOR = re.compile(r"cupy-cuda(\d{1,4})x")


def wheel_line(name: str, matrix: Matrix) -> WheelLine | None:
    """The line of a distribution: the matrix's, or one that ended before the matrix begins, without releases."""
    return next((line for line in matrix.wheel_lines if line.name == name), None) or _ended(name)


def _ended(name: str) -> WheelLine | None:
    cuda = cuda_minor(name)
    if cuda is None:
        return None
    united = cuda >= FIRST_UNITED_CUDA
    return WheelLine(name, cuda.major, FIRST_UNITED_CUDA if united else cuda, "its name", (), None if united else cuda)


def is_no_line(name: str, matrix: Matrix) -> bool:
    """Whether a name looks like one of CuPy's lines and is none; of majors after the matrix's nothing is known."""
    match = _OF_A_MAJOR.fullmatch(name)
    later = match is not None and int(match[1]) > max(line.cuda_major for line in matrix.wheel_lines)
    return name.startswith("cupy-cuda") and wheel_line(name, matrix) is None and not later


def release_of(target: BuildTarget, install: Install) -> Release | None:
    """The release that would be installed: the pinned one, else the newest that specifier and Python let in."""
    line = wheel_line(install.name, target.matrix)
    if line is None or install.specifier is None:
        return None
    fitting = [row for row in line.releases if install.specifier.contains(row.cupy)]
    if install.exact is None:
        fitting = _installable(fitting, target)
    return max(fitting, key=lambda row: Version(row.cupy), default=None)


def _installable(rows: Sequence[Release], target: BuildTarget) -> list[Release]:
    """Those that an installer takes unasked."""
    tag = None if target.python is None else target.python.tag
    return [row for row in rows if row.yanked is None and (tag is None or tag in row.pythons)]
