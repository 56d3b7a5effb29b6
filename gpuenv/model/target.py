"""The target environment, and the CUDA toolkits and libraries that CuPy would find from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from gpuenv.model.lines import is_cupy
from gpuenv.model.reading import Reading
from gpuenv.model.versions import CudaVersion, PythonVersion


@dataclass(frozen=True, slots=True)
class Toolkit:
    """A CUDA toolkit on the host or in the target; it says nothing of the driver.

    Attributes:
        path: its folder, links resolved.
        found_via: ``CUDA_PATH``, ``CUDA_HOME``, ``PATH``, the folder searched, ``conda``, or ``wheels`` in the target.
        toolkit: its CUDA version.
        has_nvrtc: whether NVRTC's library is in it.
        has_headers: whether the CUDA headers are in it.
    """

    path: str
    found_via: str
    toolkit: Reading[CudaVersion] = Reading()
    has_nvrtc: bool = False
    has_headers: bool = False

    @property
    def in_target(self) -> bool:
        """Whether it is a part of the target environment, and not of the host."""
        return self.found_via in ("conda", "wheels")


class PackagePlace(str, Enum):
    """Where a distribution on the path lies: in the environment itself, or where its installers do not reach."""

    ENVIRONMENT = "environment"
    PYTHONPATH = "pythonpath"
    USER = "user"
    ELSEWHERE = "elsewhere"


@dataclass(frozen=True, slots=True)
class CupyInstallation:
    """A CuPy distribution in the target.

    Attributes:
        distribution: ``cupy-cuda12x`` and so on.
        release: as in its metadata.
        location: the folder that it is installed in.
        tags: the wheel's tags, such as ``cp312-cp312-manylinux2014_x86_64``.
        for_this_interpreter: whether its extension modules are of the kind that this interpreter loads.
        module: the file of the package ``cupy`` that lies beside its metadata.
        requires: what it requires itself, in the words of its metadata: ``fastrlock>=0.5``.
        cuda_major: the CUDA that its modules are linked with, where its name does not tell; null for a wheel line.
        place: whether the folder is the environment's own, and else what leads there; null where nobody told.
    """

    distribution: str
    release: str
    location: str | None = None
    tags: tuple[str, ...] = ()
    for_this_interpreter: bool | None = None
    module: str | None = None
    requires: tuple[str, ...] = ()
    cuda_major: int | None = None
    place: PackagePlace | None = None

    @property
    def is_own(self) -> bool:
        """Whether the environment's own installers can remove it, as far as is known."""
        return self.place in (None, PackagePlace.ENVIRONMENT)

    @property
    def label(self) -> str:
        """``cupy-cuda12x 14.2.0``."""
        return f"{self.distribution} {self.release}"


@dataclass(frozen=True, slots=True)
class Library:
    """A CUDA library that CuPy loads at run time.

    Attributes:
        name: ``nvrtc``, ``cublas`` and so on.
        soname: the name that was looked for, such as ``libnvrtc.so.12``.
        path: the file that would be loaded; null when there is none.
        found_via: ``loader``, the place that cuda-pathfinder names, or ``dependency`` where another library needs it.
        finder_path: the file that cuda-pathfinder loads first, which may be of another CUDA major version.
        release: its version as the library itself answers, such as ``12.9``.
        optional: whether CuPy works without it.
        error: why it cannot be loaded.
    """

    name: str
    soname: str
    path: str | None = None
    found_via: str | None = None
    finder_path: str | None = None
    release: str | None = None
    optional: bool = False
    error: str | None = None


class FileState(str, Enum):
    """What is wrong with an installed file."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    WRONG_SIZE = "wrong-size"
    CHANGED = "changed"
    OWNED_TWICE = "owned-twice"


@dataclass(frozen=True, slots=True)
class FileFault:
    """An installed file that is not as its distribution's RECORD says, or that two distributions own.

    Attributes:
        path: the file.
        state: what is wrong.
        distributions: those whose RECORD names it.
    """

    path: str
    state: FileState
    distributions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeftMetadata:
    """Metadata that are of no files there, as a removal or an update that was cut short leaves them.

    Attributes:
        path: their folder.
        name: of the distribution.
        release: as they tell it; null where they tell none.
        has_files: whether it is of a CuPy, and a package ``cupy`` lies beside it, be it links to nowhere.
    """

    path: str
    name: str
    release: str | None = None
    has_files: bool = False


@dataclass(frozen=True, slots=True)
class JupyterKernel:
    """A kernel of Jupyter's that the target offers: its name, and the interpreter that it starts."""

    name: str
    executable: str


@dataclass(frozen=True, slots=True)
class NeedOfCupy:
    """What another distribution needs of CuPy: its name and release, and its own words, ``cupy-cuda12x<14,>=12``."""

    name: str
    release: str
    requirement: str


@dataclass(frozen=True, slots=True)
class Target:
    """The environment CuPy lives in or shall live in.

    Attributes:
        executable: its interpreter.
        prefix: ``sys.prefix``.
        kind: ``venv``, ``conda`` or ``system``.
        made_by: the tool that made it, where it left its mark: ``venv``, ``virtualenv``, ``uv``, ``conda``, ``pixi``.
        python: its Python version.
        implementation: ``cpython``, ``pypy`` and so on.
        platform: ``linux-x86_64`` and so on, as the interpreter itself says.
        externally_managed: whether the system forbids installing into it.
        writable: whether this user may install into it.
        user_site: the folder of the user's own packages, where this interpreter uses it.
        cupy: every CuPy distribution there.
        cupy_module: the file that ``import cupy`` would take, from the folder where this command runs, as with
            ``python -m`` or ``python -c``; ``python script.py`` begins with the script's folder instead.
        numpy: NumPy's release.
        numpy_module: the file that ``import numpy`` would take, likewise.
        numpy_fault: why that is no NumPy that this interpreter can import.
        pathfinder_hidden_by: the module named ``cuda`` that hides cuda.pathfinder, wherever that lies.
        packages: the distributions there that have to do with GPUs, by canonical name.
        conda_packages: the packages among them that conda has installed.
        libraries: the CUDA libraries that this CuPy would load.
        cuda_path: the toolkit's folder that this CuPy takes, as its own code answers.
        headers: the folders in which run-time compilation looks for CUDA's headers, in that order.
        headers_cuda: the CUDA version of the headers that it meets first.
        preload: the libraries that the CuPy wheel's own configuration loads beforehand, with the version it wants.
        file_faults: files of CuPy and of CUDA distributions that are not as they were installed; at most 50.
        file_faults_count: how many there are; null where nobody looked.
        left_metadata: metadata that are of no files there: of a name that is there twice, or empty.
        kernels: the kernels of Jupyter's that it offers.
        needs_of_cupy: what other distributions there need of CuPy.
        extension: CuPy's central compiled module, as the loader took it.
        kernel_cache: the folder in which CuPy keeps compiled kernels.
        kernel_cache_fault: why this user cannot write there.
        kernel_cache_owners: how many other users own it or what lies in it.
        starts_without: where it told nothing: the variable without which it starts; or ``variables``, Python's own, or
            ``startup``, what runs when it starts.
        startup_files: likewise, the files that run when it starts: of the environment, and of PYTHONPATH.
        unstartable: why it cannot even be started: what it is a link to is not there, or is not to be reached.
        unreadable: the environment's own folders of packages that this user may not read.
        lost_environment: the virtual environment that the interpreter lies in, where its pyvenv.cfg is gone.
        environments_near: other environments that may be meant: one that the interpreter's link leads to, and, for a
            Python of the system's, those in the folder where this command runs.
    """

    executable: Reading[str] = Reading()
    prefix: Reading[str] = Reading()
    kind: Reading[str] = Reading()
    made_by: Reading[str] = Reading()
    python: Reading[PythonVersion] = Reading()
    implementation: Reading[str] = Reading()
    platform: Reading[str] = Reading()
    externally_managed: Reading[bool] = Reading()
    writable: Reading[bool] = Reading()
    user_site: Reading[str] = Reading()
    cupy: tuple[CupyInstallation, ...] = ()
    cupy_module: Reading[str] = Reading()
    numpy: Reading[str] = Reading()
    numpy_module: Reading[str] = Reading()
    numpy_fault: Reading[str] = Reading()
    pathfinder_hidden_by: Reading[str] = Reading()
    packages: Mapping[str, str] = field(default_factory=dict)
    conda_packages: Mapping[str, str] = field(default_factory=dict)
    libraries: tuple[Library, ...] = ()
    cuda_path: Reading[str] = Reading()
    headers: Reading[tuple[str, ...]] = Reading()
    headers_cuda: Reading[CudaVersion] = Reading()
    preload: Mapping[str, str] = field(default_factory=dict)
    file_faults: tuple[FileFault, ...] = ()
    file_faults_count: Reading[int] = Reading()
    left_metadata: tuple[LeftMetadata, ...] = ()
    kernels: tuple[JupyterKernel, ...] = ()
    needs_of_cupy: tuple[NeedOfCupy, ...] = ()
    extension: Reading[str] = Reading()
    kernel_cache: Reading[str] = Reading()
    kernel_cache_fault: Reading[str] = Reading()
    kernel_cache_owners: Reading[int] = Reading()
    starts_without: Reading[str] = Reading()
    startup_files: tuple[str, ...] = ()
    unstartable: Reading[str] = Reading()
    unreadable: tuple[str, ...] = ()
    lost_environment: Reading[str] = Reading()
    environments_near: tuple[str, ...] = ()

    def with_cupy(self, cupy: tuple[CupyInstallation, ...], packages: Mapping[str, str]) -> Target:
        """The same environment with another CuPy, of which nothing but its name is known."""
        return replace(
            self,
            cupy=cupy,
            packages=packages,
            conda_packages={name: told for name, told in self.conda_packages.items() if not is_cupy(name)},
            cupy_module=Reading(),
            libraries=(),
            cuda_path=Reading(),
            headers=Reading(),
            headers_cuda=Reading(),
            preload={},
            file_faults=(),
            file_faults_count=Reading(),
            left_metadata=(),
            extension=Reading(),
        )
