"""CuPy's lines by the names of their distributions, and the release that a requirement comes to. Pure.

Lines for one CUDA minor: the pages of cupy 8.0.0rc1 to 9.4.0 on the package index name cupy-cuda90 to cupy-cuda114,
each "for CUDA X.Y"; cupy-cuda11x has "CUDA 11.2 ~ 11.x" (11.3.0 to 13.0.0; all read 2026-11-22). The lines up to
cupy-cuda117 ended with CuPy 12; those for 11.2 and later are taken to run on what cupy-cuda11x runs on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from packaging.version import Version

from gpuenv.image.check.built import Built
from gpuenv.image.check.installs import Install
from gpuenv.matrix.packages import Release, WheelLine
from gpuenv.matrix.records import Matrix
from gpuenv.model.versions import CudaVersion

_OF_A_MINOR = re.compile(r"cupy-cuda(8|9|1[01])(\d)")
_OF_A_MAJOR = re.compile(r"cupy-cuda(\d+)x")
_NEWEST_OF_A_MINOR = CudaVersion(11, 7)
_FIRST_UNITED = CudaVersion(11, 2)  # from here on one line serves all later minors of the major


def line_of(name: str, matrix: Matrix) -> WheelLine | None:
    """The line of a distribution: the matrix's, or one that ended before the matrix begins, without releases."""
    return next((line for line in matrix.wheel_lines if line.name == name), None) or _ended(name)


def _ended(name: str) -> WheelLine | None:
    match = _OF_A_MINOR.fullmatch(name)
    cuda = CudaVersion(int(match[1]), int(match[2])) if match else None
    if cuda is None or cuda > _NEWEST_OF_A_MINOR:
        return None
    united = cuda >= _FIRST_UNITED
    return WheelLine(name, cuda.major, _FIRST_UNITED if united else cuda, "its name", (), None if united else cuda)


def is_no_line(name: str, matrix: Matrix) -> bool:
    """Whether a name looks like one of CuPy's lines and is none; of majors after the matrix's nothing is known."""
    match = _OF_A_MAJOR.fullmatch(name)
    later = match is not None and int(match[1]) > max(line.cuda_major for line in matrix.wheel_lines)
    return name.startswith("cupy-cuda") and line_of(name, matrix) is None and not later


def release_of(built: Built, install: Install) -> Release | None:
    """The release that would be installed: the pinned one, else the newest that specifier and Python let in."""
    line = line_of(install.name, built.matrix)
    if line is None or install.specifier is None:
        return None
    fitting = [row for row in line.releases if install.specifier.contains(row.cupy)]
    if install.exact is None:
        fitting = _installable(fitting, built)
    return max(fitting, key=lambda row: Version(row.cupy), default=None)


def _installable(rows: Sequence[Release], built: Built) -> list[Release]:
    """Those that an installer takes unasked."""
    tag = None if built.python is None else built.python.tag
    return [row for row in rows if row.yanked is None and (tag is None or tag in row.pythons)]
