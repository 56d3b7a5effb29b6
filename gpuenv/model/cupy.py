"""CuPy's wheel lines, the distributions that install the module ``cupy``, and CuPy's environment variables.

Up to CuPy 10 each CUDA minor version has its line. CuPy, Upgrade Guide, CuPy v11: "cupy-cuda11x ... replaces per-CUDA
version binary packages (cupy-cuda112 ~ cupy-cuda117)"; those for CUDA 10.2, 11.0 and 11.1 stay, and ended with CuPy
12. The pages of cupy 8.0.0rc1 to 9.4.0 on the package index name cupy-cuda90 to cupy-cuda114, each "for CUDA X.Y";
cupy-cuda11x has "CUDA 11.2 ~ 11.x" (11.3.0 to 13.0.0; all read 2026-11-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gpuenv.model.strings import parse_integer, pattern
from gpuenv.model.versions import CudaVersion

_LINE = pattern(r"cupy-cuda(?:(1\d)[x\d]|([789])\d)")
_ROCM_LINE = pattern(r"cupy-rocm-(\d+)-(\d+)")
_OF_A_MINOR = pattern(r"cupy-cuda(8|9|1[01])(\d)")
_NEWEST_OF_A_MINOR = CudaVersion(11, 7)
_OLDEST_CUDA = 7  # major
_FIRST_UNITED_CUPY = 11  # major
FIRST_UNITED_CUDA = CudaVersion(11, 2)  # from here on, one line supports all later minor versions
# CuPy, Installation, "Installing CuPy from PyPI" of the releases 4 to 14: former and current lines.
_PUBLISHED = frozenset(
    f"cupy-cuda{tag}"
    for tag in (
        *("70", "75", "80", "90", "91", "92", "100", "101", "102", "110", "111", "112", "113", "114", "115"),
        *("116", "117", "11x", "12x", "13x"),
    )
)
_OTHER_DISTRIBUTIONS = ("cupy", "cupy-core")  # source or conda, and conda's core package


def is_cupy(distribution: str) -> bool:
    """Whether a distribution (canonical name) is CuPy itself, not something built on it."""
    return (
        bool(_LINE.fullmatch(distribution) or _ROCM_LINE.fullmatch(distribution))
        or distribution in _OTHER_DISTRIBUTIONS
    )


def is_published(distribution: str) -> bool:
    """Whether CuPy published a line of this name, for CUDA or ROCm."""
    return distribution in _PUBLISHED or is_rocm(distribution)


def conda_record(distribution: str, conda_packages: Mapping[str, str]) -> str | None:
    """Returns the conda package that installed a distribution; None without one.

    conda-forge's cupy-core is "the CuPy core package without any dependencies on the CUDA libraries" (its page on that
    channel, Description, read 2026-11-22): CuPy's files are its own, and its package cupy only requires it. It is built
    from the sources, whose distribution is called ``cupy``.
    """
    if distribution in conda_packages:
        return distribution
    return "cupy-core" if distribution == "cupy" and "cupy-core" in conda_packages else None


def cuda_major(distribution: str) -> int | None:
    """Returns the CUDA major version of a wheel line: 12 for ``cupy-cuda12x``, 9 for ``cupy-cuda90``; else None."""
    match = _LINE.fullmatch(distribution)
    return int(match[1] or match[2]) if match else None


def cuda_major_of(distribution: str, packages: Mapping[str, str], linked: int | None = None) -> int | None:
    """Returns the CUDA major version of an installed CuPy.

    Args:
        distribution: its name, which decides for a wheel line.
        packages: other packages; for conda builds, ``cuda-version`` or ``cudatoolkit`` decides.
        linked: the version that its modules link to, which has precedence.
    """
    if linked is not None:
        return linked
    if distribution in _OTHER_DISTRIBUTIONS:
        return parse_integer((packages.get("cuda-version") or packages.get("cudatoolkit", "")).split(".")[0])
    return cuda_major(distribution)


def is_rocm(distribution: str) -> bool:
    """Whether a CuPy is built for AMD's ROCm."""
    return bool(_ROCM_LINE.fullmatch(distribution))


def rocm_of(distribution: str) -> str | None:
    """Returns the ROCm version of a line: 5.0 for ``cupy-rocm-5-0``; else None."""
    match = _ROCM_LINE.fullmatch(distribution)
    return f"{match[1]}.{match[2]}" if match else None


def cuda_minor(distribution: str) -> CudaVersion | None:
    """Returns the CUDA version of a line for one minor version: 11.4 for ``cupy-cuda114``; else None."""
    match = _OF_A_MINOR.fullmatch(distribution)
    cuda = CudaVersion(int(match[1]), int(match[2])) if match else None
    return None if cuda is None or cuda > _NEWEST_OF_A_MINOR else cuda


def line_of_build(release: str, cuda: CudaVersion) -> str | None:
    """Returns the wheel line of a CuPy by its release and the CUDA it was built with; None if there is none."""
    from packaging.version import Version  # noqa: PLC0415 - slow to load, and only for pastes

    try:
        cupy = Version(release)
    except ValueError:  # InvalidVersion, or more digits than int accepts
        return None
    if cuda.major < _OLDEST_CUDA:
        return None
    is_for_minor = cupy.major < _FIRST_UNITED_CUPY or cuda < FIRST_UNITED_CUDA
    return f"cupy-cuda{cuda.major}{cuda.minor}" if is_for_minor else f"cupy-cuda{cuda.major}x"


# What the wheels of cupy-cuda12x compile with without other headers (their own options and NVRTC 12.1 to 12.9, tried
# 2026-11-21): 14 has none; 13.6.0 has some for 12.1, and none from 12.2 on; 13.5.1 has some for 12.2 to 12.8, of which
# those up to 12.6 want vector_types.h of the runtime. CuPy's Installation, "CuPy always raises NVRTC_ERROR_COMPILATION
# (6)", says of every release: from CUDA 12.2 on the headers of the runtime are required.
_FIRST_WITHOUT_HEADERS, _FIRST_WITH_FEW_HEADERS = "14", "13.6"
_FIRST_CUDA_WITHOUT_HEADERS = CudaVersion(12, 2)


def has_own_headers(release: str, cuda: CudaVersion | None) -> bool | None:
    """Returns whether a CuPy wheel has the CUDA headers that it compiles kernels with; None if that was not tried."""
    from packaging.version import Version  # noqa: PLC0415 - slow to load, and only for images

    if Version(release) >= Version(_FIRST_WITHOUT_HEADERS):
        return False
    if cuda is None or cuda < _FIRST_CUDA_WITHOUT_HEADERS:
        return True
    return False if Version(release) >= Version(_FIRST_WITH_FEW_HEADERS) else None


# Some values of these variables make the import or allocations of CuPy fail. The values were measured by importing
# cupy-cuda12x 13.6.0, 14.0.0, 14.0.1, 14.1.0 and 14.2.0 with each (2026-11-22): the variables of _NUMBERS end in
# "invalid literal for int()", CUPY_ACCELERATORS in "Unknown accelerator" (a blank next to a name counts as part of it),
# CUPY_GPU_MEMORY_LIMIT when the memory pool is created. A share above 100% and a negative size are rejected too:
# SingleDeviceMemoryPool.set_limit of 14.2.0, called with both.
_ACCELERATORS = ("cub", "cutensor", "cutensornet")
_NUMBERS = (
    "CUPY_CUDA_ARRAY_INTERFACE_EXPORT_VERSION",
    "CUPY_CUDA_ARRAY_INTERFACE_SYNC",
    "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM",
    "CUPY_ENABLE_UMP",
)
_LIMIT, _FOLDER = "CUPY_GPU_MEMORY_LIMIT", "CUPY_CACHE_DIR"
_FIRST_TO_MAKE_THE_FOLDER = "14.1.0"  # on import; 14.0.1 does so at the first kernel


class RefusedVariable(NamedTuple):
    """A variable with a value that CuPy rejects, and a description of valid values."""

    name: str
    value: str
    taken: str


def refused_variables(variables: Mapping[str, str], release: str | None) -> Iterator[RefusedVariable]:
    """Yields the variables that CuPy rejects; ``release`` is CuPy's, None if unknown."""
    accelerators = variables.get("CUPY_ACCELERATORS", "").split(",")
    if any(name not in ("", *_ACCELERATORS) for name in accelerators):
        names = f"{', '.join(_ACCELERATORS)}, separated by commas, without blanks"
        yield RefusedVariable("CUPY_ACCELERATORS", variables["CUPY_ACCELERATORS"], names)
    for name in _NUMBERS:
        if name in variables and not _is_number(variables[name], int):
            yield RefusedVariable(name, variables[name], "an integer, such as 0 or 1")
    limit = variables.get(_LIMIT)
    if limit is not None and not _is_limit(limit):
        yield RefusedVariable(_LIMIT, limit, "a number of bytes, such as 8589934592, or a share, such as 80%")
    if variables.get(_FOLDER) == "" and _makes_its_folder(release):
        yield RefusedVariable(_FOLDER, "", "the path of a folder")


def _is_limit(text: str) -> bool:
    """Whether CuPy accepts a limit: a share of the memory, or a non-negative number of bytes."""
    if text.endswith("%"):
        return _is_number(text[:-1], float) and 0 <= float(text[:-1]) / 100 <= 1
    return _is_number(text, int) and int(text) >= 0


def _is_number(text: str, kind: type[int | float]) -> bool:
    """Whether Python, and thus CuPy, parses the text as a number of this type."""
    try:
        kind(text)
    except ValueError:
        return False
    return True


def _makes_its_folder(release: str | None) -> bool:
    from packaging.version import Version  # noqa: PLC0415 - slow to load

    try:
        return release is not None and Version(release) >= Version(_FIRST_TO_MAKE_THE_FOLDER)
    except ValueError:  # InvalidVersion, or more digits than int accepts
        return False
