"""What the target's own interpreter said, before anything is settled: typed, and nothing more than it said."""

# Annotations are no texts here: what the children say is read by them at every start.

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuenv.model.snapshot import FileFault, JupyterKernel, LeftMetadata, NeedOfCupy, PackagePlace


@dataclass(frozen=True, slots=True)
class Distribution:
    """A distribution in the target.

    Attributes:
        name: canonical.
        release: its version.
        location: the folder that it lies in.
        installer: what INSTALLER says.
        tags: those of the wheel that it was installed from.
        requires: what it requires itself, where it is a CuPy: the lines of its metadata.
        cuda_major: the CUDA that it is linked with, where it is a CuPy whose name does not tell.
        place: whether that folder is the environment's own, and else what leads there.
    """

    name: str
    release: str
    location: str | None = None
    installer: str | None = None
    tags: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    cuda_major: int | None = None
    place: PackagePlace | None = None


@dataclass(frozen=True, slots=True)
class CupyModule:
    """A package ``cupy`` on the path: its file, and whether this interpreter loads its extension modules."""

    module: str
    loads: bool | None = None


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """What the target's own interpreter says; null is what it did not tell.

    Attributes:
        python: ``3.12.4``, or ``3.14.0t`` for a free-threaded build.
        implementation: ``cpython``, ``pypy``.
        executable: the interpreter, as it names itself.
        prefix: its environment.
        exec_prefix: likewise, where what is compiled lies.
        prefix_place: device and number of that folder, as it sees it.
        path: the folders that it imports from.
        kind: ``conda``, ``venv`` or ``system``.
        made_by: the tool that made the environment.
        platform: ``linux-x86_64``, what wheels are built for.
        libc: ``glibc-2.36`` or ``musl-1.2``.
        externally_managed: whether the system forbids installing into it (PEP 668).
        writable: whether this user may install into it.
        user_site: the folder of the user's own packages, where it is on the path.
        distributions: those that have to do with GPUs, in the order in which imports meet them.
        left_metadata: those that are of no files there.
        conda_packages: likewise by conda's records: name to version.
        cupy_modules: every package ``cupy`` on the path.
        cupy_module: the file that ``import cupy`` would take.
        numpy_module: the file that ``import numpy`` would take.
        numpy_fault: why that is no NumPy that this interpreter can import.
        pathfinder_hidden_by: the module named cuda that hides cuda.pathfinder.
        kernels: Jupyter's kernels.
        needs_of_cupy: what other distributions ask of CuPy.
        kernel_cache: the folder of CuPy's compiled kernels; null where memory serves.
        kernel_cache_fault: why this user cannot write there.
        kernel_cache_owners: how many other users own what lies there.
        starts_without: where it told nothing: the variable without which it starts; or ``variables``, Python's own, or
            ``startup``, what runs when it starts.
        startup_files: likewise, the files that run when it starts.
        unstartable: why it cannot even be started.
        unreadable: the environment's own folders of packages that this user may not read.
        lost_environment: the environment that the interpreter lies in, where its settings are gone.
        environments_near: other environments that may have been meant.
    """

    python: str | None = None
    implementation: str | None = None
    executable: str | None = None
    prefix: str | None = None
    exec_prefix: str | None = None
    prefix_place: tuple[int, ...] = ()
    path: tuple[str, ...] = ()
    kind: str | None = None
    made_by: str | None = None
    platform: str | None = None
    libc: str | None = None
    externally_managed: bool | None = None
    writable: bool | None = None
    user_site: str | None = None
    distributions: tuple[Distribution, ...] = ()
    left_metadata: tuple[LeftMetadata, ...] = ()
    conda_packages: Mapping[str, str] = field(default_factory=dict)
    cupy_modules: tuple[CupyModule, ...] = ()
    cupy_module: str | None = None
    numpy_module: str | None = None
    numpy_fault: str | None = None
    pathfinder_hidden_by: str | None = None
    kernels: tuple[JupyterKernel, ...] = ()
    needs_of_cupy: tuple[NeedOfCupy, ...] = ()
    kernel_cache: str | None = None
    kernel_cache_fault: str | None = None
    kernel_cache_owners: int | None = None
    starts_without: str | None = None
    startup_files: tuple[str, ...] = ()
    unstartable: str | None = None
    unreadable: tuple[str, ...] = ()
    lost_environment: str | None = None
    environments_near: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LibraryFact:
    """A CUDA library as the target's loader answers.

    Attributes:
        name: CuPy's name for it.
        soname: what its extension module needs.
        path: the file that was loaded.
        found_via: ``loader``, ``dependency``, or what cuda-pathfinder says.
        error: why there is none.
        finder_path: the file that cuda-pathfinder named.
        release: what it says of its version.
        optional: whether CuPy does without.
    """

    name: str
    soname: str
    path: str | None = None
    found_via: str | None = None
    error: str | None = None
    finder_path: str | None = None
    release: str | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class HeaderVersion:
    """What the headers in a folder say: ``CUDART_VERSION`` and ``CUDA_VERSION``, 12090 for 12.9."""

    folder: str
    runtime: int | None = None
    driver: int | None = None


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """What a child of the target says that has loaded CuPy's libraries.

    Attributes:
        libraries: null where they were not asked for.
        settings: whether CuPy's own module that finds CUDA answered; else what it would take is not known.
        settings_error: why it did not.
        cuda_path: the toolkit that CuPy takes.
        headers: the folders in which run-time compilation looks for headers, in order.
        headers_cuda: what those say that are met first.
        preload: the libraries that the wheel loads beforehand, with the version that it wants.
        extension: CuPy's central module, where it could be loaded.
        extension_error: what the loader says where it could not.
    """

    libraries: tuple[LibraryFact, ...] | None = None
    settings: bool = False
    settings_error: str | None = None
    cuda_path: str | None = None
    headers: tuple[str, ...] | None = None
    headers_cuda: HeaderVersion | None = None
    preload: Mapping[str, str] = field(default_factory=dict)
    extension: str | None = None
    extension_error: str | None = None


@dataclass(frozen=True, slots=True)
class TargetToolkit:
    """A CUDA toolkit that conda or wheels have put into the target.

    Attributes:
        path: the folder.
        found_via: how it was found.
        toolkit: its version.
        source: the header that told it.
        has_nvrtc: whether NVRTC lies in it.
        has_headers: whether the headers of the CUDA runtime do.
    """

    path: str
    found_via: str
    toolkit: str | None = None
    source: str | None = None
    has_nvrtc: bool = False
    has_headers: bool = False


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a child of the target says that has looked at the installed files."""

    toolkits: tuple[TargetToolkit, ...] = ()
    file_faults: tuple[FileFault, ...] = ()
    file_faults_count: int | None = None
