"""A machine, its driver and GPUs, and a target environment, as they were read: the input of every decision.

The paths (``driver.version``, ``gpus[].name`` and so on) are a contract: additions only.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from gpuenv.model.cupy import is_cupy
from gpuenv.model.reading import Reading
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

SCHEMA = "gpuenv.snapshot/1"
_EMPTY: Mapping[str, str] = MappingProxyType({})


class Container(str, Enum):
    """What this process is contained in."""

    NONE = "none"
    DOCKER = "docker"
    PODMAN = "podman"
    KUBERNETES = "kubernetes"
    APPTAINER = "apptainer"
    LXC = "lxc"
    NSPAWN = "systemd-nspawn"
    OTHER = "other"


def operating_system(name: str) -> str:
    """``linux``, ``windows`` or ``darwin``, however people and programs write it (``Windows``, ``macOS``)."""
    lowered = name.strip().lower()
    return {"macos": "darwin", "win32": "windows"}.get(lowered, lowered)


def architecture(name: str) -> str:
    """``x86_64`` or ``aarch64``, however people and programs write it (``amd64``, ``arm64``)."""
    lowered = name.strip().lower()
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(lowered, lowered)


class Host(NamedTuple):
    """The operating system.

    Attributes:
        os: ``linux``, ``windows`` or ``darwin``.
        distribution: ``debian 12``, from os-release.
        kernel: the kernel's release.
        arch: ``x86_64`` or ``aarch64``, as the target's interpreter sees it.
        libc: the C library that the target is linked with.
        container: what this process is contained in.
        sandbox: ``gvisor`` where that kernel stands in for Linux; its files tell nothing of the driver.
        wsl: whether this is the Windows Subsystem for Linux.
        tegra: the release line of a Jetson's root file system.
        secure_boot: whether the firmware lets signed kernels alone start, which then refuse unsigned modules.
        lockdown: the kernel's lockdown mode: ``none``, ``integrity`` or ``confidentiality``.
        module_signatures: whether the kernel refuses modules without a valid signature.
        suspends: how often it has gone to sleep since its start.
        image: ``ostree`` where the root is an image onto which packages are layered, as in Fedora Silverblue.
    """

    os: Reading[str] = Reading()
    distribution: Reading[str] = Reading()
    kernel: Reading[str] = Reading()
    arch: Reading[str] = Reading()
    libc: Reading[Libc] = Reading()
    container: Reading[Container] = Reading()
    sandbox: Reading[str] = Reading()
    wsl: Reading[bool] = Reading()
    tegra: Reading[str] = Reading()
    secure_boot: Reading[bool] = Reading()
    lockdown: Reading[str] = Reading()
    module_signatures: Reading[bool] = Reading()
    suspends: Reading[int] = Reading()
    image: Reading[str] = Reading()

    @property
    def contained(self) -> bool:
        """Whether this process is known to be in a container."""
        return self.container.value not in (None, Container.NONE)


class KernelMessage(NamedTuple):
    """A line of the kernel's log that concerns the driver.

    Attributes:
        text: the line without its time stamp.
        xid: the number of the Xid event that it reports.
        pci: PCI address of the GPU that it names.
    """

    text: str
    xid: int | None = None
    pci: str | None = None


class CdiFile(NamedTuple):
    """A file that describes devices for container engines (Container Device Interface).

    Attributes:
        kind: ``nvidia.com/gpu`` and so on; null where the file could not be understood.
        devices: the names of its devices.
    """

    path: str
    kind: str | None = None
    devices: tuple[str, ...] = ()


class ContainerSupport(NamedTuple):
    """What gives containers their GPUs: inside one, its rules; on a host, what the engine knows.

    Attributes:
        device_rules: the control group's rules for devices, as version 1 shows them.
        docker: Docker's program on this host.
        has_toolkit: whether the NVIDIA container toolkit is there.
        toolkit: release of the NVIDIA container toolkit.
        runtimes: the runtimes that the engine's configuration names.
        default_runtime: the one that is used where none is asked for.
        cdi_files: the files of the Container Device Interface.
    """

    device_rules: Reading[tuple[str, ...]] = Reading()
    docker: Reading[str] = Reading()
    has_toolkit: Reading[bool] = Reading()
    toolkit: Reading[str] = Reading()
    runtimes: Reading[tuple[str, ...]] = Reading()
    default_runtime: Reading[str] = Reading()
    cdi_files: tuple[CdiFile, ...] = ()


class Grant(NamedTuple):
    """The GPUs that a scheduler or a container engine has granted to this process.

    Attributes:
        by: ``slurm``, ``kubernetes``, ``container-engine`` and so on.
        gpus: how many; null where all there are, or unknown.
        devices: their indices or UUIDs, as the grantor names them.
    """

    by: Reading[str] = Reading()
    gpus: Reading[int] = Reading()
    devices: Reading[tuple[str, ...]] = Reading()


class Mps(NamedTuple):
    """NVIDIA's Multi-Process Service.

    Attributes:
        pipe_directory: where clients look for its control daemon.
        daemon: whether a control daemon has left its pipe there.
    """

    pipe_directory: Reading[str] = Reading()
    daemon: Reading[bool] = Reading()


class AmdGpu(NamedTuple):
    """An AMD GPU as the kernel's KFD nodes describe it.

    Attributes:
        node: the number of its KFD node.
        name: the code name that the kernel gives, such as ``aldebaran``.
        gfx: the compiler's target, such as ``gfx90a``.
        pci: PCI address.
        memory_total: bytes of its own memory.
    """

    node: int
    name: str | None = None
    gfx: str | None = None
    pci: str | None = None
    memory_total: int | None = None


class Module(str, Enum):
    """The state of the ``nvidia`` kernel module."""

    LOADED = "loaded"
    NOT_LOADED = "not-loaded"
    NOT_INSTALLED = "not-installed"


class DeviceNode(NamedTuple):
    """A device file: ``accessible`` tells whether this process may read and write it."""

    path: str
    accessible: bool
    mode: str
    owner: str


class DkmsBuild(NamedTuple):
    """A driver's kernel module in DKMS's tree.

    Attributes:
        module: DKMS's name for it, such as ``nvidia``.
        kernel: the kernel it was built for; null where it has only been added.
        state: ``added``, ``built`` or ``failed``.
        compiler: the compiler that the kernel was built with, such as ``gcc-12``, where the build failed since another
            one, or none, is there.
    """

    module: str
    release: str
    kernel: str | None = None
    state: str = "added"
    compiler: str | None = None


class LibraryOrigin(str, Enum):
    """Where a library of the driver's comes from."""

    SYSTEM = "system"
    MOUNTED = "mounted"
    COMPAT = "compat"
    STUB = "stub"
    WSL = "wsl"
    TEGRA = "tegra"
    NIXOS = "nixos"
    FLATPAK = "flatpak"
    CLOUD = "cloud"
    OTHER = "other"


class DriverLibrary(NamedTuple):
    """A file of libcuda or libnvidia-ml.

    Attributes:
        path: the file, links resolved.
        release: the driver version in its name.
        mounted: whether it is mounted there, and so no part of a container's image; null where mounts are not to be
            seen.
    """

    path: str
    release: DriverVersion | None = None
    origin: LibraryOrigin = LibraryOrigin.OTHER
    mounted: bool | None = None


class Driver(NamedTuple):
    """The NVIDIA driver.

    Attributes:
        version: the version in use.
        cuda: the newest CUDA version that the libcuda in use supports (not a toolkit, not a runtime).
        branch: the driver branch, such as 580.
        module: state of the kernel module.
        module_version: the kernel module's version.
        library_version: the version in the file name of the user-space library.
        flavor: ``open`` or ``proprietary`` kernel module.
        nouveau: whether the nouveau module is loaded.
        nvml_library: file that the loader takes for ``libnvidia-ml.so.1``.
        cuda_library: file that the loader takes for ``libcuda.so.1``.
        cuda_origin: where that file comes from: ``compat`` is a forward-compatibility package.
        libraries: every file of libcuda and libnvidia-ml in the folders that drivers use.
        dkms: the driver's modules in DKMS's tree.
        module_kernels: kernels other than the running one for which a module is installed, where that has none.
        module_files: the files of those modules, below ``/lib/modules``: where one lies tells what has put it there.
        module_blocks: files with the line, and kernel parameters, that keep the module from being loaded.
        nvml_init: return code of ``nvmlInit`` (0 is success).
        cuda_init: return code of ``cuInit`` (0 is success).
        device_nodes: device files under ``/dev`` that belong to the driver.
    """

    version: Reading[DriverVersion] = Reading()
    cuda: Reading[CudaVersion] = Reading()
    branch: Reading[int] = Reading()
    module: Reading[Module] = Reading()
    module_version: Reading[DriverVersion] = Reading()
    library_version: Reading[DriverVersion] = Reading()
    flavor: Reading[str] = Reading()
    nouveau: Reading[bool] = Reading()
    nvml_library: Reading[str] = Reading()
    cuda_library: Reading[str] = Reading()
    cuda_origin: Reading[LibraryOrigin] = Reading()
    libraries: tuple[DriverLibrary, ...] = ()
    dkms: tuple[DkmsBuild, ...] = ()
    module_kernels: Reading[tuple[str, ...]] = Reading()
    module_files: Reading[tuple[str, ...]] = Reading()
    module_blocks: Reading[tuple[str, ...]] = Reading()
    nvml_init: Reading[int] = Reading()
    cuda_init: Reading[int] = Reading()
    device_nodes: tuple[DeviceNode, ...] = ()


class MigInstance(NamedTuple):
    """A MIG instance of a GPU; memory in bytes."""

    uuid: str
    name: str | None = None
    memory_total: int | None = None


class ComputeMode(str, Enum):
    """Who may use a GPU."""

    DEFAULT = "default"
    EXCLUSIVE_THREAD = "exclusive-thread"
    PROHIBITED = "prohibited"
    EXCLUSIVE_PROCESS = "exclusive-process"


class Virtualization(str, Enum):
    """What stands between a GPU and this system."""

    NONE = "none"
    PASSTHROUGH = "passthrough"
    VGPU = "vgpu"
    HOST_VGPU = "host-vgpu"
    HOST_VSGA = "host-vsga"


# Reasons for a low clock that say something of heat, power or a fault; the others are the clock's usual ones.
GRAVE_REASONS = frozenset({"hardware-slowdown", "software-thermal", "hardware-thermal", "hardware-power-brake"})


class GpuHealth(NamedTuple):
    """The state of a GPU's memory, heat, power and clock.

    Attributes:
        ecc: whether error correction is on.
        ecc_pending: whether it will be on after the next restart.
        ecc_corrected: corrected memory errors since the driver was loaded.
        ecc_corrected_ever: corrected memory errors over the GPU's life.
        ecc_uncorrected: uncorrected memory errors since the driver was loaded.
        ecc_uncorrected_ever: uncorrected memory errors over the GPU's life.
        pages_retired: how many memory pages are retired.
        pages_pending: whether a page waits to be retired, which the next restart does.
        rows_corrected: memory rows remapped after corrected errors.
        rows_uncorrected: memory rows remapped after uncorrected errors.
        rows_pending: whether a row waits to be remapped, which a reset does.
        rows_failed: whether a remapping has failed.
        temperature: degrees Celsius.
        power: watts now.
        power_limit: watts at most.
        clock: MHz of the multiprocessors now.
        clock_most: MHz at most.
        throttle_reasons: why the clock is held down; an idle GPU has ``gpu-idle``.
    """

    ecc: Reading[bool] = Reading()
    ecc_pending: Reading[bool] = Reading()
    ecc_corrected: Reading[int] = Reading()
    ecc_corrected_ever: Reading[int] = Reading()
    ecc_uncorrected: Reading[int] = Reading()
    ecc_uncorrected_ever: Reading[int] = Reading()
    pages_retired: Reading[int] = Reading()
    pages_pending: Reading[bool] = Reading()
    rows_corrected: Reading[int] = Reading()
    rows_uncorrected: Reading[int] = Reading()
    rows_pending: Reading[bool] = Reading()
    rows_failed: Reading[bool] = Reading()
    temperature: Reading[int] = Reading()
    power: Reading[float] = Reading()
    power_limit: Reading[float] = Reading()
    clock: Reading[int] = Reading()
    clock_most: Reading[int] = Reading()
    throttle_reasons: Reading[tuple[str, ...]] = Reading()


class PcieLink(NamedTuple):
    """The PCIe link; an idle one trains down, which is no fault.

    Attributes:
        generation: of the link now.
        generation_most: the highest that GPU and slot can do together.
        width: lanes now.
        width_most: lanes at most.
    """

    generation: Reading[int] = Reading()
    generation_most: Reading[int] = Reading()
    width: Reading[int] = Reading()
    width_most: Reading[int] = Reading()


class NvLink(NamedTuple):
    """One NVLink of a GPU, by its number."""

    link: int
    active: bool


class Fabric(NamedTuple):
    """A GPU's place in an NVSwitch fabric.

    Attributes:
        state: ``not-supported``, ``not-started``, ``in-progress`` or ``completed``; CUDA starts only
            once it is completed.
        status: NVML's return code of the registration, where it is completed.
    """

    state: Reading[str] = Reading()
    status: Reading[int] = Reading()


class Peer(NamedTuple):
    """Another GPU as seen from one.

    Attributes:
        index: the other's NVML index.
        connection: how far they are apart: ``internal``, ``single-switch``, ``multiple-switches``, ``host-bridge``,
            ``node`` or ``system``.
        read: whether one can read the other's memory directly: ``ok``, or why not.
    """

    index: int  # type: ignore[assignment] # hides tuple.index
    connection: str | None = None
    read: str | None = None


class GpuUser(NamedTuple):
    """A compute process that holds a GPU, as far as NVML shows this user.

    Attributes:
        pid: its process number, in the host's counting.
        name: the kernel's short name for it, where this process can see it.
        memory: bytes of the GPU's memory.
    """

    pid: int
    name: str | None = None
    memory: int | None = None


class Gpu(NamedTuple):
    """One GPU, known by UUID or PCI address.

    Attributes:
        index: the NVML index, in PCI order.
        ordinal: the CUDA device number in this process; null where this process does not see the GPU.
        hidden_by: why this process does not see a GPU that the driver has: a variable, a mode or a control group.
        uuid: ``GPU-…``.
        pci: PCI address, ``00000000:17:00.0``.
        name: product name as the driver prints it.
        compute_capability: such as 9.0.
        architecture: ``hopper`` and so on.
        brand: ``geforce``, ``tesla``, ``nvidia`` and so on, as NVIDIA_REQUIRE_CUDA of an image spells it.
        memory_total: bytes.
        memory_free: bytes.
        mig: whether MIG mode is on.
        mig_instances: the instances that exist.
        fault: NVML's return code for a GPU that it could not open.
        compute_mode: who may use it.
        persistence: whether the driver stays loaded while unused.
        processes: how many compute processes hold it, as far as NVML shows this user.
        users: these processes.
        virtualization: what stands between it and this system.
        health: memory errors, heat, power and clock.
        pcie: the link to the host.
        nvlinks: the links to other GPUs or switches.
        nvlink_count: how many there are; none is a number, no answer is not.
        fabric: its place in an NVSwitch fabric.
        peers: the other GPUs.
    """

    index: Reading[int] = Reading()  # type: ignore[assignment] # hides tuple.index
    ordinal: Reading[int] = Reading()
    hidden_by: Reading[str] = Reading()
    uuid: Reading[str] = Reading()
    pci: Reading[str] = Reading()
    name: Reading[str] = Reading()
    compute_capability: Reading[ComputeCapability] = Reading()
    architecture: Reading[str] = Reading()
    brand: Reading[str] = Reading()
    memory_total: Reading[int] = Reading()
    memory_free: Reading[int] = Reading()
    mig: Reading[bool] = Reading()
    mig_instances: tuple[MigInstance, ...] = ()
    fault: Reading[int] = Reading()
    compute_mode: Reading[ComputeMode] = Reading()
    persistence: Reading[bool] = Reading()
    processes: Reading[int] = Reading()
    users: tuple[GpuUser, ...] = ()
    virtualization: Reading[Virtualization] = Reading()
    health: GpuHealth = GpuHealth()
    pcie: PcieLink = PcieLink()
    nvlinks: tuple[NvLink, ...] = ()
    nvlink_count: Reading[int] = Reading()
    fabric: Fabric = Fabric()
    peers: tuple[Peer, ...] = ()


class PciGpu(NamedTuple):
    """A display or 3D controller on the PCI bus.

    Attributes:
        pci: PCI address, ``0000:17:00.0``.
        vendor: ``10de`` for NVIDIA.
        device: PCI device id, four hexadecimal digits.
        name: product name of the machine's PCI id table, where it has one.
        kernel_driver: the kernel driver bound to it; null when none is.
    """

    pci: str
    vendor: str
    device: str
    name: str | None = None
    kernel_driver: str | None = None


class Toolkit(NamedTuple):
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


class CupyInstallation(NamedTuple):
    """A CuPy distribution in the target.

    Attributes:
        distribution: ``cupy-cuda12x`` and so on.
        location: the folder that it is installed in.
        tags: the wheel's tags, such as ``cp312-cp312-manylinux2014_x86_64``.
        for_this_interpreter: whether its extension modules are of the kind that this interpreter loads.
        module: the file of the package ``cupy`` that lies next to its metadata.
        requires: what it requires itself, in the words of its metadata: ``fastrlock>=0.5``.
        cuda_major: the CUDA that its modules are linked with, where its name does not tell; null for a wheel line.
        place: whether the folder is the environment's own, and else what leads there; null where unknown.
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


class Library(NamedTuple):
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


class FileFault(NamedTuple):
    """An installed file that is not as its distribution's RECORD says, or that two distributions own.

    Attributes:
        distributions: those whose RECORD names it.
    """

    path: str
    state: FileState
    distributions: tuple[str, ...]


class LeftMetadata(NamedTuple):
    """Metadata that are of no files there, as a removal or an update that was cut short leaves them.

    Attributes:
        release: as they tell it; null where they tell none.
        has_files: whether it is of a CuPy, and a package ``cupy`` lies next to it, be it links to nowhere.
    """

    path: str
    name: str
    release: str | None = None
    has_files: bool = False


class JupyterKernel(NamedTuple):
    """A kernel of Jupyter's that the target offers: its name, and the interpreter that it starts."""

    name: str
    executable: str


class NeedOfCupy(NamedTuple):
    """What another distribution needs of CuPy: its name and release, and its own words, ``cupy-cuda12x<14,>=12``."""

    name: str
    release: str
    requirement: str


class Target(NamedTuple):
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
        numpy_module: the file that ``import numpy`` would take.
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
        file_faults_count: how many there are; null where not looked for.
        left_metadata: metadata that are of no files there: of a name that is there twice, or empty.
        kernels: the kernels of Jupyter's that it offers.
        needs_of_cupy: what other distributions there need of CuPy.
        extension: CuPy's central compiled module, as the loader took it.
        kernel_cache: the folder in which CuPy keeps compiled kernels.
        kernel_cache_fault: why this user cannot write there.
        kernel_cache_owners: how many other users own it or what lies in it.
        starts_without: where it told nothing: the variable without which it starts; or ``variables``, Python's own, or
            ``startup``, what runs when it starts.
        startup_files: where it fails to start, files that run when it starts: of the environment, and of PYTHONPATH.
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
    packages: Mapping[str, str] = _EMPTY
    conda_packages: Mapping[str, str] = _EMPTY
    libraries: tuple[Library, ...] = ()
    cuda_path: Reading[str] = Reading()
    headers: Reading[tuple[str, ...]] = Reading()
    headers_cuda: Reading[CudaVersion] = Reading()
    preload: Mapping[str, str] = _EMPTY
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

    def with_cupy(self, cupy: tuple[CupyInstallation, ...], packages: Mapping[str, str]) -> "Target":
        """The same environment with another CuPy, of which nothing but its name is known."""
        return self._replace(
            cupy=cupy,
            packages=packages,
            conda_packages={name: release for name, release in self.conda_packages.items() if not is_cupy(name)},
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


class SourceState(str, Enum):
    """How the asking of one source ended."""

    ANSWERED = "answered"
    ABSENT = "absent"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    NOT_ASKED = "not-asked"


class Source(NamedTuple):
    """One source that was asked.

    Attributes:
        name: ``kernel``, ``nvml``, ``libcuda``, ``nvidia-smi``, ``nvcc``, ``target``, ``libraries`` or
            ``files``.
        detail: the file that answered, the error, or the signal.
        duration: seconds.
        started: seconds between the beginning of the probing and of this asking.
    """

    name: str
    state: SourceState
    detail: str | None = None
    duration: float = 0.0
    started: float = 0.0


class Snapshot(NamedTuple):
    """Everything that was read, in one record.

    Attributes:
        schema: name and major version of the form.
        gpuenv_version: of the program that read it.
        taken_at: when, ISO 8601 by UTC; null where nothing was asked.
        gpus: one record a GPU, in the order of the first source that lists any.
        gpu_count: how many GPUs the driver has, asked of each source.
        visible_count: how many CUDA devices this process sees.
        pci_gpus: display and 3D controllers on the PCI bus; null where the bus could not be read.
        toolkits: the CUDA toolkits on the host and in the target.
        pointing_nowhere: the variables CUDA_PATH and CUDA_HOME, where they name a folder that is not there.
        amd_gpus: the AMD GPUs that the kernel's KFD nodes tell of.
        rocm: the ROCm release on the host.
        kernel_log: the lines of the kernel's log that concern the driver, the newest last; at most 50.
        container_support: what gives containers their GPUs.
        grant: the GPUs that a scheduler or a container engine has granted to this process.
        environment: the CUDA-related environment variables.
        sources: who was asked, and how that ended.
        assumed: paths of the facts that the caller replaced.
    """

    schema: str = SCHEMA
    gpuenv_version: str = ""
    taken_at: str | None = None
    host: Host = Host()
    driver: Driver = Driver()
    gpus: tuple[Gpu, ...] = ()
    gpu_count: Reading[int] = Reading()
    visible_count: Reading[int] = Reading()
    pci_gpus: tuple[PciGpu, ...] | None = None
    toolkits: tuple[Toolkit, ...] = ()
    pointing_nowhere: tuple[str, ...] = ()
    amd_gpus: tuple[AmdGpu, ...] = ()
    rocm: Reading[str] = Reading()
    kernel_log: Reading[tuple[KernelMessage, ...]] = Reading()
    container_support: ContainerSupport = ContainerSupport()
    grant: Grant = Grant()
    mps: Mps = Mps()
    target: Target = Target()
    environment: Mapping[str, str] = _EMPTY
    sources: tuple[Source, ...] = ()
    assumed: tuple[str, ...] = ()

    def source(self, name: str) -> Source:
        """How the asking of a source ended; ``not-asked`` where it was not."""
        for source in self.sources:
            if source.name == name:
                return source
        return Source(name, SourceState.NOT_ASKED)

    def assuming(self, *paths: str) -> "Snapshot":
        """The same with the facts of these paths marked as the caller's."""
        return self._replace(assumed=tuple(dict.fromkeys((*self.assumed, *paths))))
