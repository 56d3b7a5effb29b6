"""The installed CuPy as a row of the matrix, and leftovers of other releases."""

from __future__ import annotations

from typing import NamedTuple

from gpuenv.doctor.registry import CheckContext
from gpuenv.matrix.candidates import WheelCandidate
from gpuenv.matrix.ranges import same_release, version_of
from gpuenv.matrix.tables import Matrix, Release, WheelLine
from gpuenv.model.cupy import conda_record, cuda_major_of, cuda_minor
from gpuenv.model.nvidia import cuda_major_of_wheel
from gpuenv.model.snapshot import CupyInstallation, PackageLocation, SourceState, StaleMetadata, Target
from gpuenv.model.strings import pattern
from gpuenv.model.versions import CudaVersion

_FIRST_WITH_PATHFINDER = 14


class InstalledCupy(NamedTuple):
    """The CuPy that an import finds first.

    Attributes:
        wheel: the row of the matrix to judge it by, without an extra.
        exact: whether that row is of this release; else it is the nearest one of the same CUDA major.
    """

    cupy: CupyInstallation
    wheel: WheelCandidate
    exact: bool


def installed_cupy(ctx: CheckContext) -> InstalledCupy | None:
    """The installed CuPy as a row of the matrix; None without one, or if its CUDA major is unknown or not covered."""
    found = ctx.snapshot.target.cupy
    if not found:
        return None
    major = installed_cuda_major(ctx.snapshot.target)
    # The CUDA minor, from the name of its line or from conda's cudatoolkit.
    toolkit = ctx.snapshot.target.conda_packages.get("cudatoolkit") if found[0].distribution == "cupy" else None
    try:
        cuda = cuda_minor(found[0].distribution) or (CudaVersion.parse(toolkit) if toolkit else None)
    except ValueError:
        cuda = None
    line = _line_of(found[0].distribution, major, cuda, ctx.matrix)
    if line is None:
        return None
    exact = next((release for release in line.releases if release.cupy == found[0].release), None)
    row = exact or _nearest(line, found[0].release)
    same_line = line.name == found[0].distribution
    return InstalledCupy(found[0], WheelCandidate(line, row, None), exact is not None and same_line) if row else None


def _line_of(distribution: str, major: int | None, cuda: CudaVersion | None, matrix: Matrix) -> WheelLine | None:
    """The wheel line of this name; for a build without such a name, the line for any minor of its CUDA major.

    Before cupy-cuda11x each minor had a line of its own. If the minor is known, the line must be for it: the lines of
    CUDA 10.0 and 10.1, say, were not measured.
    """
    same = [
        line
        for line in matrix.wheel_lines
        if line.cuda_major == major
        and (cuda is None or (line.first_cuda <= cuda and (line.last_cuda is None or cuda <= line.last_cuda)))
    ]
    by_name = (line for line in same if line.name == distribution)
    for_any_minor = (line for line in same if line.last_cuda is None)
    return next(by_name, None) or next(for_any_minor, None) or next(iter(same), None)


def installed_cuda_major(target: Target) -> int | None:
    """CUDA major of the CuPy that an import finds first; None without one, or if it is unknown."""
    if not target.cupy:
        return None
    first = target.cupy[0]
    return cuda_major_of(first.distribution, target.packages, first.cuda_major)


def _nearest(line: WheelLine, release: str) -> Release | None:
    """The newest release that is not newer, else the oldest."""
    ordered = sorted(line.releases, key=lambda entry: version_of(entry.cupy))
    try:
        older = [entry for entry in ordered if version_of(entry.cupy) <= version_of(release)]
    except ValueError:  # InvalidVersion, or more digits than int takes
        return None
    return older[-1] if older else next(iter(ordered), None)


def older_than_the_matrix(ctx: CheckContext) -> tuple[CupyInstallation, ...]:
    """The installed CuPys, if each is older than every release of the matrix; else empty."""
    installed = ctx.snapshot.target.cupy
    oldest = min(version_of(release.cupy) for line in ctx.matrix.wheel_lines for release in line.releases)
    try:
        return installed if all(version_of(entry.release) < oldest for entry in installed) else ()
    except ValueError:  # InvalidVersion, or more digits than int takes
        return ()


def uses_pathfinder(release: str) -> bool:
    """Whether a CuPy finds CUDA by cuda-pathfinder, as 14 and newer do; older ones leave it to the loader."""
    try:
        return version_of(release).major >= _FIRST_WITH_PATHFINDER
    except ValueError:  # InvalidVersion, or more digits than int takes
        return False


def unknown_cupy_reason(ctx: CheckContext) -> str:
    """Why the installed CuPy cannot be judged."""
    found = ctx.snapshot.target.cupy
    if not found and ctx.snapshot.source("target").state is not SourceState.ANSWERED:
        return "the installed packages are unknown"
    return f"{found[0].label} is not in the matrix" if found else "CuPy is not installed"


def has_cuda_wheels(target: Target) -> bool:
    """Whether CUDA's libraries are installed in the target by wheels."""
    return any(cuda_major_of_wheel(name, release) is not None for name, release in target.packages.items())


def is_managed_by_conda(target: Target) -> bool:
    """Whether conda manages CuPy: the environment is conda's, and no CuPy comes from another installer."""
    records = (conda_record(entry.distribution, target.conda_packages) for entry in target.cupy)
    return target.kind.value == "conda" and all(records)


def is_removable(entry: CupyInstallation, target: Target) -> bool:
    """Whether the environment's own installers can remove it.

    Outside of virtual environments pip removes packages of the user site too, where it installs for a user without
    write access (pip, User Installs). In a virtual environment it does not, and uv never does.
    """
    if entry.place is not PackageLocation.USER:
        return entry.is_own
    managed = target.externally_managed.value
    return target.kind.value == "system" and "pip" in target.packages and not managed


def removable_cupys(target: Target) -> tuple[str, ...]:
    """Names of the CuPy distributions that the environment's own installers can remove."""
    return tuple(dict.fromkeys(entry.distribution for entry in target.cupy if is_removable(entry, target)))


# Where installers put packages below the prefix: venv and conda, Debian, and Windows.
_SITE_PACKAGES = pattern(r"(?:local/)?[Ll]ib(?:64)?/(?:(?:python|pypy)[\d.]+t?/)?(?:site|dist)-packages")


def leftover_location(target: Target) -> str | None:
    """The environment's site-packages folder with a package cupy that no distribution owns; None elsewhere.

    Elsewhere below the prefix it belongs to the user, such as a source tree in PREFIX/src.
    """
    empty = empty_metadata(target)
    if empty:
        path = empty[0].path
        return path[: max(path.rfind("/"), path.rfind("\\"))]  # or a backslash, on Windows
    module = target.cupy_module.value or ""
    package, _, file = module.replace("\\", "/").rpartition("/cupy/")
    return module[: len(package)] if file == "__init__.py" and _is_site_packages(package, target) else None


def _is_site_packages(folder: str, target: Target) -> bool:
    """Whether a folder, written with slashes, is one of the environment's."""
    prefix = (target.prefix.value or "").replace("\\", "/")
    is_below = bool(prefix) and folder.startswith(f"{prefix}/")
    return is_below and bool(_SITE_PACKAGES.fullmatch(folder[len(prefix) + 1 :]))


def empty_metadata(target: Target) -> list[StaleMetadata]:
    """Unreadable metadata of CuPy next to its files, after a power cut or with dangling links."""
    return [entry for entry in target.left_metadata if entry.has_files and entry.release is None]


def stale_metadata(target: Target) -> list[StaleMetadata]:
    """Metadata of releases other than the installed one."""
    packages = target.packages
    known = (entry for entry in target.left_metadata if entry.release and entry.name in packages)
    return [entry for entry in known if not same_release(entry.release or "", packages[entry.name])]


def is_clearable(entry: StaleMetadata, target: Target) -> bool:
    """Whether a transaction in the target can remove it: metadata of a wheel in the environment's site-packages."""
    folder, _, name = entry.path.replace("\\", "/").rpartition("/")
    return name.endswith(".dist-info") and _is_site_packages(folder, target)
