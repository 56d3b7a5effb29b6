"""Snapshot of a machine, its driver and GPUs, and a target environment: the input of every decision.

The paths (``driver.version``, ``gpus[].name`` and so on) are a contract: additions only.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from gpuenv.model.codec import to_json
from gpuenv.model.cupy import is_cupy
from gpuenv.model.notebook import Printer, text_html
from gpuenv.model.reading import Reading
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

SCHEMA = "gpuenv.snapshot/1"
_EMPTY: Mapping[str, str] = MappingProxyType({})


class Container(str, Enum):
    """The kind of container that this process runs in."""

    NONE = "none"
    DOCKER = "docker"
    PODMAN = "podman"
    KUBERNETES = "kubernetes"
    APPTAINER = "apptainer"
    LXC = "lxc"
    NSPAWN = "systemd-nspawn"
    OTHER = "other"


def operating_system(name: str) -> str:
    """Normalizes a name (``Windows``, ``macOS``) to ``linux``, ``windows`` or ``darwin``."""
    lowered = name.strip().lower()
    return {"macos": "darwin", "win32": "windows"}.get(lowered, lowered)


def architecture(name: str) -> str:
    """Normalizes a name (``amd64``, ``arm64``) to ``x86_64`` or ``aarch64``."""
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
        container: the kind of container that this process runs in.
        sandbox: ``gvisor`` if that kernel replaces Linux; its files say nothing about the driver.
        wsl: whether this is the Windows Subsystem for Linux.
        tegra: the release line of a Jetson's root file system.
        secure_boot: whether the firmware starts only signed kernels, which then reject unsigned modules.
        lockdown: the kernel's lockdown mode: ``none``, ``integrity`` or ``confidentiality``.
        module_signatures: whether the kernel rejects modules without a valid signature.
        suspends: number of suspends since boot.
        overcommit: the kernel's vm.overcommit_memory; with 2 it refuses large reservations of addresses.
        address_limit: bytes of addresses that this process may reserve (``ulimit -v``); null without a limit.
        image: ``ostree`` if the root is an image with layered packages, as in Fedora Silverblue.
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
    overcommit: Reading[int] = Reading()
    address_limit: Reading[int] = Reading()
    image: Reading[str] = Reading()

    @property
    def contained(self) -> bool:
        """Whether this process is known to be in a container."""
        return self.container.value not in (None, Container.NONE)


class KernelMessage(NamedTuple):
    """A line of the kernel log about the driver.

    Attributes:
        text: the line without its time stamp.
        xid: number of the Xid event that it reports.
        pci: PCI address of the named GPU.
    """

    text: str
    xid: int | None = None
    pci: str | None = None


class CdiFile(NamedTuple):
    """A file that describes devices for container engines (Container Device Interface).

    Attributes:
        kind: ``nvidia.com/gpu`` and so on; null if the file could not be parsed.
        devices: the names of its devices.
    """

    path: str
    kind: str | None = None
    devices: tuple[str, ...] = ()


class ContainerSupport(NamedTuple):
    """GPU support of containers: inside one, its device rules; on a host, the engine's configuration.

    Attributes:
        device_rules: the device rules of the control group (version 1).
        docker: the ``docker`` program on this host.
        has_toolkit: whether the NVIDIA container toolkit is installed.
        toolkit: release of the NVIDIA container toolkit.
        runtimes: the runtimes in the engine's configuration.
        default_runtime: the runtime used by default.
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
    """The GPUs that a scheduler or a container engine granted to this process.

    Attributes:
        by: ``slurm``, ``kubernetes``, ``container-engine`` and so on.
        gpus: how many; null if all or unknown.
        devices: their indices or UUIDs as granted.
    """

    by: Reading[str] = Reading()
    gpus: Reading[int] = Reading()
    devices: Reading[tuple[str, ...]] = Reading()


class Mps(NamedTuple):
    """NVIDIA's Multi-Process Service.

    Attributes:
        pipe_directory: where clients look for the control daemon.
        daemon: whether it has the pipe of a control daemon.
    """

    pipe_directory: Reading[str] = Reading()
    daemon: Reading[bool] = Reading()


class AmdGpu(NamedTuple):
    """An AMD GPU as the kernel's KFD nodes describe it.

    Attributes:
        node: the number of its KFD node.
        name: the kernel's code name, such as ``aldebaran``.
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
    """A device file; ``accessible`` if this process may read and write it."""

    path: str
    accessible: bool
    mode: str
    owner: str


class DkmsBuild(NamedTuple):
    """A driver's kernel module in DKMS's tree.

    Attributes:
        module: DKMS's name for it, such as ``nvidia``.
        kernel: the kernel it was built for; null if only added.
        state: ``added``, ``built`` or ``failed``.
        compiler: the compiler that the kernel was built with, such as ``gcc-12``, if the build failed because it is
            not installed.
    """

    module: str
    release: str
    kernel: str | None = None
    state: str = "added"
    compiler: str | None = None


class LibraryOrigin(str, Enum):
    """Origin of a driver library."""

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
        path: the file, with links resolved.
        release: the driver version in its name.
        mounted: whether it is mounted and thus not part of a container image; null if mounts are not visible.
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
        nvml_library: the file that the loader finds for ``libnvidia-ml.so.1``.
        cuda_library: the file that the loader finds for ``libcuda.so.1``.
        cuda_origin: origin of that file: ``compat`` is a forward-compatibility package.
        libraries: every libcuda and libnvidia-ml file in the folders that drivers use.
        dkms: the driver's modules in the DKMS tree.
        module_kernels: other kernels that have a module, if the running one has none.
        module_files: the files of those modules below ``/lib/modules``; the path shows what installed them.
        module_blocks: configuration lines and kernel parameters that block the module.
        module_options: configuration lines and kernel parameters that exclude GPUs or restrict device nodes, and what
            the loaded module excludes.
        excluded_gpus: the PCI addresses of the GPUs that the loaded module excludes.
        uninstaller: the program that removes the driver of NVIDIA's .run file, if that installed it.
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
    module_options: Reading[tuple[str, ...]] = Reading()
    excluded_gpus: Reading[tuple[str, ...]] = Reading()
    uninstaller: Reading[str] = Reading()
    nvml_init: Reading[int] = Reading()
    cuda_init: Reading[int] = Reading()
    device_nodes: tuple[DeviceNode, ...] = ()


class MigInstance(NamedTuple):
    """A MIG instance of a GPU; memory in bytes."""

    uuid: str
    name: str | None = None
    memory_total: int | None = None


class ComputeMode(str, Enum):
    """Which processes may use a GPU."""

    DEFAULT = "default"
    EXCLUSIVE_THREAD = "exclusive-thread"
    PROHIBITED = "prohibited"
    EXCLUSIVE_PROCESS = "exclusive-process"


class Virtualization(str, Enum):
    """How a GPU is virtualized for this system."""

    NONE = "none"
    PASSTHROUGH = "passthrough"
    VGPU = "vgpu"
    HOST_VGPU = "host-vgpu"
    HOST_VSGA = "host-vsga"


# Throttle reasons that indicate heat, power or a fault; the others are normal.
SEVERE_THROTTLE_REASONS = frozenset(
    {"hardware-slowdown", "software-thermal", "hardware-thermal", "hardware-power-brake"}
)


class GpuHealth(NamedTuple):
    """The state of a GPU's memory, heat, power and clock.

    Attributes:
        ecc: whether error correction is enabled.
        ecc_pending: whether it will be enabled after the next reboot.
        ecc_corrected: corrected memory errors since the driver was loaded.
        ecc_corrected_ever: corrected memory errors over the GPU's life.
        ecc_uncorrected: uncorrected memory errors since the driver was loaded.
        ecc_uncorrected_ever: uncorrected memory errors over the GPU's life.
        pages_retired: number of retired memory pages.
        pages_pending: whether a page is pending retirement at the next reboot.
        rows_corrected: memory rows remapped after corrected errors.
        rows_uncorrected: memory rows remapped after uncorrected errors.
        rows_pending: whether a row is pending remapping at the next reset.
        rows_failed: whether a remapping failed.
        temperature: degrees Celsius.
        power: current watts.
        power_limit: maximum watts.
        power_limit_default: maximum watts as the board's vendor set them.
        clock: current MHz of the multiprocessors.
        clock_most: maximum MHz.
        throttle_reasons: why the clock is reduced; an idle GPU has ``gpu-idle``.
        inforom_valid: whether the checksums of the board's infoROM are right.
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
    power_limit_default: Reading[float] = Reading()
    clock: Reading[int] = Reading()
    clock_most: Reading[int] = Reading()
    throttle_reasons: Reading[tuple[str, ...]] = Reading()
    inforom_valid: Reading[bool] = Reading()


class PcieLink(NamedTuple):
    """The PCIe link; it normally slows down when idle.

    Attributes:
        generation: current generation of the link.
        generation_most: the highest that both GPU and slot support.
        width: current lanes.
        width_most: maximum lanes.
    """

    generation: Reading[int] = Reading()
    generation_most: Reading[int] = Reading()
    width: Reading[int] = Reading()
    width_most: Reading[int] = Reading()


class NvLink(NamedTuple):
    """One NVLink of a GPU; ``link`` is its number."""

    link: int
    active: bool


class Fabric(NamedTuple):
    """State of a GPU in an NVSwitch fabric.

    Attributes:
        state: ``not-supported``, ``not-started``, ``in-progress`` or ``completed``; CUDA starts only
            after completion.
        status: NVML's return code of the completed registration.
    """

    state: Reading[str] = Reading()
    status: Reading[int] = Reading()


class PeerAccess(NamedTuple):
    """Connection of a GPU to another one.

    Attributes:
        index: NVML index of the other GPU.
        connection: topology between them: ``internal``, ``single-switch``, ``multiple-switches``, ``host-bridge``,
            ``node`` or ``system``.
        read: whether one can directly read the other's memory: ``ok``, or why not.
    """

    index: int  # type: ignore[assignment] # hides tuple.index
    connection: str | None = None
    read: str | None = None


class GpuUser(NamedTuple):
    """A compute process on a GPU that NVML shows to this user.

    Attributes:
        pid: process id on the host.
        name: the kernel's short name for it, if visible.
        memory: bytes of GPU memory.
    """

    pid: int
    name: str | None = None
    memory: int | None = None


class Gpu(NamedTuple):
    """One GPU, known by UUID or PCI address.

    Attributes:
        index: the NVML index, in PCI order.
        ordinal: the CUDA device number in this process; null if the GPU is not visible.
        hidden_by: why this process does not see the GPU: a variable, a mode or a control group.
        uuid: ``GPU-…``.
        pci: PCI address, ``00000000:17:00.0``.
        name: product name reported by the driver.
        compute_capability: such as 9.0.
        architecture: ``hopper`` and so on.
        brand: ``geforce``, ``tesla``, ``nvidia`` and so on, as in an image's NVIDIA_REQUIRE_CUDA.
        memory_total: bytes.
        memory_free: bytes.
        mig: whether MIG mode is enabled.
        mig_pending: whether it will be enabled after the next reset.
        mig_instances: its MIG instances.
        fault: NVML's return code if it could not open the GPU.
        compute_mode: which processes may use it.
        persistence: whether the driver stays loaded when unused.
        processes: number of compute processes on it that NVML shows to this user.
        users: these processes.
        virtualization: how it is virtualized for this system.
        licensed: whether a licence for virtual GPUs is in use.
        health: memory errors, heat, power and clock.
        pcie: the link to the host.
        nvlinks: the links to other GPUs or switches.
        nvlink_count: number of links; null without an answer.
        fabric: its state in an NVSwitch fabric.
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
    mig_pending: Reading[bool] = Reading()
    mig_instances: tuple[MigInstance, ...] = ()
    fault: Reading[int] = Reading()
    compute_mode: Reading[ComputeMode] = Reading()
    persistence: Reading[bool] = Reading()
    processes: Reading[int] = Reading()
    users: tuple[GpuUser, ...] = ()
    virtualization: Reading[Virtualization] = Reading()
    licensed: Reading[bool] = Reading()
    health: GpuHealth = GpuHealth()
    pcie: PcieLink = PcieLink()
    nvlinks: tuple[NvLink, ...] = ()
    nvlink_count: Reading[int] = Reading()
    fabric: Fabric = Fabric()
    peers: tuple[PeerAccess, ...] = ()


class PciGpu(NamedTuple):
    """A display or 3D controller on the PCI bus.

    Attributes:
        pci: PCI address, ``0000:17:00.0``.
        vendor: ``10de`` for NVIDIA.
        device: PCI device id, four hexadecimal digits.
        name: product name from the machine's PCI id table, if known.
        kernel_driver: the kernel driver bound to it; null without one.
    """

    pci: str
    vendor: str
    device: str
    name: str | None = None
    kernel_driver: str | None = None


class Toolkit(NamedTuple):
    """A CUDA toolkit on the host or in the target, independent of the driver.

    Attributes:
        path: its folder, with links resolved.
        found_via: ``CUDA_PATH``, ``CUDA_HOME``, ``PATH``, the folder searched, ``conda``, or ``wheels`` in the target.
        toolkit: its CUDA version.
        has_nvrtc: whether it has NVRTC.
        has_headers: whether it has the CUDA headers.
    """

    path: str
    found_via: str
    toolkit: Reading[CudaVersion] = Reading()
    has_nvrtc: bool = False
    has_headers: bool = False

    @property
    def in_target(self) -> bool:
        """Whether it belongs to the target environment instead of the host."""
        return self.found_via in ("conda", "wheels")


class PackageLocation(str, Enum):
    """Location of an importable distribution: in the environment, or out of reach of its installers."""

    ENVIRONMENT = "environment"
    PYTHONPATH = "pythonpath"
    USER = "user"
    SYSTEM = "system"  # the packages of the base Python, which the virtual environment includes
    ELSEWHERE = "elsewhere"


class CupyInstallation(NamedTuple):
    """A CuPy distribution in the target.

    Attributes:
        distribution: ``cupy-cuda12x`` and so on.
        location: its folder.
        tags: the wheel's tags, such as ``cp312-cp312-manylinux2014_x86_64``.
        for_this_interpreter: whether this interpreter can load its extension modules.
        module: the file of the ``cupy`` package next to its metadata.
        requires: its requirements as in its metadata: ``fastrlock>=0.5``.
        cuda_major: the CUDA that its modules link to, if not in its name; null for a wheel line.
        place: whether the folder belongs to the environment, or what leads to it; null if unknown.
    """

    distribution: str
    release: str
    location: str | None = None
    tags: tuple[str, ...] = ()
    for_this_interpreter: bool | None = None
    module: str | None = None
    requires: tuple[str, ...] = ()
    cuda_major: int | None = None
    place: PackageLocation | None = None

    @property
    def is_own(self) -> bool:
        """Whether the environment's installers can remove it, as far as known."""
        return self.place in (None, PackageLocation.ENVIRONMENT)

    @property
    def label(self) -> str:
        """``cupy-cuda12x 14.2.0``."""
        return f"{self.distribution} {self.release}"


class Library(NamedTuple):
    """A CUDA library that CuPy loads at run time.

    Attributes:
        name: ``nvrtc``, ``cublas`` and so on.
        soname: the name searched for, such as ``libnvrtc.so.12``.
        path: the file that would be loaded; null if none.
        found_via: ``loader``, the location that cuda-pathfinder reports, or ``dependency`` of another library.
        finder_path: the file that cuda-pathfinder loads first, possibly of another CUDA major version.
        release: the version that the library reports, such as ``12.9``.
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
    """An installed file that differs from its RECORD entry or has two owners.

    Attributes:
        distributions: the distributions whose RECORD lists it.
    """

    path: str
    state: FileState
    distributions: tuple[str, ...]


class StaleMetadata(NamedTuple):
    """Metadata without files, left over from an interrupted removal or update.

    Attributes:
        release: as in the metadata; null without one.
        has_files: whether it belongs to CuPy and a ``cupy`` package, even of broken links, lies next to it.
    """

    path: str
    name: str
    release: str | None = None
    has_files: bool = False


class JupyterKernel(NamedTuple):
    """A Jupyter kernel of the target: its name and its interpreter."""

    name: str
    executable: str


class Dependent(NamedTuple):
    """A distribution that depends on another: its name, release and requirement, ``cupy-cuda12x<14,>=12``."""

    name: str
    release: str
    requirement: str


class OpenTransaction(NamedTuple):
    """An install or rollback of gpuenv that was interrupted while it changed the environment.

    Attributes:
        number: of the recorded install.
        step: what was interrupted: its ``install`` or its ``rollback``.
        since: when its journal was written, ISO 8601.
    """

    number: str
    step: str
    since: str

    @property
    def label(self) -> str:
        """``install 0002`` or ``the rollback of install 0002``."""
        return f"install {self.number}" if self.step == "install" else f"the rollback of install {self.number}"


class Target(NamedTuple):
    """The environment that has or should have CuPy.

    Attributes:
        executable: its interpreter.
        prefix: ``sys.prefix``.
        kind: ``venv``, ``conda`` or ``system``.
        made_by: the tool that created it, if recorded: ``venv``, ``virtualenv``, ``uv``, ``conda``, ``pixi``.
        python: its Python version.
        implementation: ``cpython``, ``pypy`` and so on.
        platform: ``linux-x86_64`` and so on, as the interpreter reports.
        externally_managed: whether the system forbids installing into it.
        writable: whether this user may install into it.
        user_site: the user's site-packages folder, if this interpreter uses it.
        cupy: its CuPy distributions.
        cupy_module: the file that ``import cupy`` loads in the current folder with ``python -m`` or ``python -c``;
            ``python script.py`` searches the script's folder first instead.
        numpy: NumPy's release.
        numpy_module: the file that ``import numpy`` loads.
        numpy_fault: why this interpreter cannot import it as NumPy.
        pathfinder_hidden_by: a module named ``cuda`` that hides cuda.pathfinder.
        packages: its GPU-related distributions by canonical name.
        conda_packages: those installed by conda.
        conda_needs: conda packages' requirements on ``cuda-version``, which stands for CUDA's version there.
        libraries: the CUDA libraries that this CuPy loads.
        cuda_path: the toolkit folder that this CuPy uses, according to its own code.
        headers: the folders where run-time compilation searches for CUDA headers, in order.
        headers_cuda: the CUDA version of the first headers found.
        preload: the libraries that the wheel's configuration preloads, with versions.
        file_faults: modified or missing files of CuPy and CUDA distributions; at most 50.
        file_faults_count: their number; null if not checked.
        left_metadata: metadata without files: duplicate or empty.
        kernels: its Jupyter kernels.
        needs_of_cupy: other distributions' requirements on CuPy.
        cuda_dependents: their requirements on CUDA's wheels and bindings, also those of extras; null if not read.
        extension: CuPy's core extension module, as found by the loader.
        kernel_cache: CuPy's kernel cache folder.
        kernel_cache_fault: why this user cannot write to it.
        kernel_cache_owners: number of other users that own it or its files.
        starts_without: if it does not start: the variable without which it does; or ``variables``, those of Python, or
            ``startup``, its startup files.
        startup_files: if it does not start, the startup files of the environment and of PYTHONPATH.
        unstartable: why it cannot be executed: its link target is missing or inaccessible.
        venv_python: the release of Python that its virtual environment was created with.
        unreadable: package folders of the environment that this user cannot read.
        lost_environment: the interpreter's virtual environment, if its pyvenv.cfg is missing.
        environments_near: other environments that the user may have intended: the target of the interpreter's link and,
            for a system Python, those in the current folder.
        examined_as: the user as whom root examined it, since its files belong to that user: ``uid 1000``.
        open_transaction: an interrupted install or rollback of gpuenv, which ``gpuenv rollback`` undoes.
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
    conda_needs: tuple[Dependent, ...] = ()
    libraries: tuple[Library, ...] = ()
    cuda_path: Reading[str] = Reading()
    headers: Reading[tuple[str, ...]] = Reading()
    headers_cuda: Reading[CudaVersion] = Reading()
    preload: Mapping[str, str] = _EMPTY
    file_faults: tuple[FileFault, ...] = ()
    file_faults_count: Reading[int] = Reading()
    left_metadata: tuple[StaleMetadata, ...] = ()
    kernels: tuple[JupyterKernel, ...] = ()
    needs_of_cupy: tuple[Dependent, ...] = ()
    cuda_dependents: tuple[Dependent, ...] | None = None
    extension: Reading[str] = Reading()
    kernel_cache: Reading[str] = Reading()
    kernel_cache_fault: Reading[str] = Reading()
    kernel_cache_owners: Reading[int] = Reading()
    starts_without: Reading[str] = Reading()
    startup_files: tuple[str, ...] = ()
    unstartable: Reading[str] = Reading()
    venv_python: Reading[str] = Reading()
    unreadable: tuple[str, ...] = ()
    lost_environment: Reading[str] = Reading()
    environments_near: tuple[str, ...] = ()
    examined_as: Reading[str] = Reading()
    open_transaction: Reading[OpenTransaction] = Reading()

    def with_cupy(self, cupy: tuple[CupyInstallation, ...], packages: Mapping[str, str]) -> "Target":
        """Returns the environment with another CuPy; the facts that depend on its files become unknown."""
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
    """State of a probed source."""

    ANSWERED = "answered"
    ABSENT = "absent"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    CRASHED = "crashed"
    NOT_ASKED = "not-asked"


class Source(NamedTuple):
    """A probed source.

    Attributes:
        name: ``kernel``, ``nvml``, ``libcuda``, ``nvidia-smi``, ``nvcc``, ``target``, ``libraries`` or
            ``files``.
        detail: the file that answered, the error, or the signal.
        duration: seconds.
        started: seconds from the start of the probing to this probe.
    """

    name: str
    state: SourceState
    detail: str | None = None
    duration: float = 0.0
    started: float = 0.0


class Snapshot(NamedTuple):
    """All facts that were read.

    Attributes:
        schema: name and major version of the format.
        gpuenv_version: version of gpuenv that read it.
        taken_at: ISO 8601 in UTC; null if nothing was probed.
        gpus: one record per GPU, in the order of the first source that lists any.
        gpu_count: number of GPUs of the driver, from each source.
        visible_count: number of CUDA devices that this process sees.
        pci_gpus: display and 3D controllers on the PCI bus; null where the bus could not be read.
        toolkits: the CUDA toolkits on the host and in the target.
        pointing_nowhere: CUDA_PATH and CUDA_HOME, if their folder does not exist.
        amd_gpus: the AMD GPUs of the kernel's KFD nodes.
        rocm: the ROCm release on the host.
        kernel_log: the lines of the kernel log about the driver, the newest last; at most 50.
        container_support: GPU support of containers.
        grant: the GPUs that a scheduler or a container engine granted to this process.
        environment: the CUDA-related environment variables.
        sources: the probed sources and their states.
        assumed: paths of the facts that the caller assumed.
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
        """Returns the state of a source; ``not-asked`` if it was not probed."""
        found = (source for source in self.sources if source.name == name)
        return next(found, Source(name, SourceState.NOT_ASKED))

    @property
    def is_probed(self) -> bool:
        """Whether a machine was probed; a paste and assumptions have other sources."""
        return self.source("kernel").state is not SourceState.NOT_ASKED

    def to_json(self) -> str:
        """The snapshot as JSON; nothing is redacted."""
        return to_json(self)

    def __str__(self) -> str:
        rows = [("driver", str(self.driver.version.value or "none"))]
        rows += [("GPU", gpu.name.value or gpu.pci.value or "unknown") for gpu in self.gpus]
        rows += [("Python", str(self.target.python.value or "none"))]
        rows += [("CuPy", cupy.label) for cupy in self.target.cupy]
        return "\n".join(f"{label:6}  {value}" for label, value in rows)

    def _repr_html_(self) -> str:
        return text_html(str(self))

    def _repr_pretty_(self, printer: Printer, _cycle: object) -> None:
        printer.text(str(self))

    def assuming(self, *paths: str) -> "Snapshot":
        """Returns the snapshot with these paths marked as assumed."""
        return self._replace(assumed=tuple(dict.fromkeys((*self.assumed, *paths))))
