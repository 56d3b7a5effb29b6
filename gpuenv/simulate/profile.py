"""Machine profiles: records, the strict YAML reader, for which an unknown key is an error, and their Snapshots."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TypeVar

from gpuenv.data import data_path
from gpuenv.files import read_at_most
from gpuenv.matrix.assume import assume
from gpuenv.matrix.strict_yaml import MAX_CHARACTERS, Plain, YamlError, parse
from gpuenv.matrix.tables import Matrix
from gpuenv.model.causes import Cause
from gpuenv.model.nvidia import CUDA_LIBRARIES
from gpuenv.model.reading import assumed
from gpuenv.model.snapshot import Gpu, PciGpu, Snapshot
from gpuenv.model.strings import decode_text, did_you_mean, error_reason, parse_integer
from gpuenv.model.versions import ComputeCapability, CudaVersion
from gpuenv.report.report import Status


class KernelModule(Enum):
    """The kernel module that drives the GPU."""

    OPEN = "open"
    PROPRIETARY = "proprietary"
    NONE = "none"
    INSTALLED_NOT_LOADED = "installed-not-loaded"
    NOUVEAU = "nouveau"

    @property
    def is_loaded(self) -> bool:
        """Whether NVIDIA's own module is loaded."""
        return self in (KernelModule.OPEN, KernelModule.PROPRIETARY)


class ContainerEngine(Enum):
    """The engine that started the container, or none."""

    NONE = "none"
    DOCKER = "docker"
    KUBERNETES = "kubernetes"
    APPTAINER = "apptainer"


class PciVisibility(Enum):
    """How far a GPU on the PCI bus is visible to a process of this machine."""

    NVML = "nvml"
    """NVML, libcuda and the kernel module list it."""
    COUNTED = "counted"
    """NVML counts it and may not open it, as under the device control group of a job; nvidia-smi leaves it out."""
    KERNEL = "kernel"
    """Only the kernel module lists it: it belongs to another process, or could not be initialised."""
    BUS = "bus"
    """The kernel module has not claimed it: this driver does not support it."""


class LibraryFault(Enum):
    """The fault of a library that the loader finds first."""

    EMPTY = "empty"
    """An empty file, which the loader refuses."""
    ABORTS = "aborts"
    """A library that aborts the process when it is loaded."""


@dataclass(frozen=True, slots=True)
class HostSpec:
    """The operating system.

    Attributes:
        kernel_files: whether the driver's files in ``/proc`` and ``/sys`` are visible.
    """

    arch: str
    kernel: str | None
    distribution: str
    container: ContainerEngine
    kernel_files: bool


@dataclass(frozen=True, slots=True)
class DeviceNodeSpec:
    """A regular file in place of a device node."""

    name: str
    mode: int


@dataclass(frozen=True, slots=True)
class CompatSpec:
    """A libcuda of a cuda-compat package, which the loader finds first."""

    version: str
    cuda: int


@dataclass(frozen=True, slots=True)
class DriverSpec:
    """The driver.

    Attributes:
        version: the version of the kernel module and NVML.
        built: the text after the version in ``/proc/driver/nvidia/version``: builder and date.
        library: the version in the user-space files' names.
        cuda: the CUDA level, as the driver's number.
        folder: the libraries' folder below the root; None for the distribution's default.
        nodes: the device nodes; None for those of a loaded module.
    """

    module: KernelModule
    version: str
    built: str
    library: str
    cuda: int
    folder: str | None
    nvml: bool
    libcuda: bool
    smi: bool
    nodes: tuple[DeviceNodeSpec, ...] | None
    compat: CompatSpec | None


@dataclass(frozen=True, slots=True)
class MigSpec:
    """MIG instances of one kind on one GPU."""

    profile: str
    memory: int
    count: int


@dataclass(frozen=True, slots=True)
class GpuSpec:
    """One GPU.

    Attributes:
        name: NVML's name for it.
        memory: bytes; None if NVML does not report it.
        pci: address in sysfs's form.
        shown: how far a GPU on the bus is visible.
        mig: its MIG instances; None without MIG support.
    """

    name: str
    capability: str
    memory: int | None
    pci: str
    device: str
    pci_class: str
    uuid: str
    on_bus: bool
    shown: PciVisibility
    mig: tuple[MigSpec, ...] | None


@dataclass(frozen=True, slots=True)
class PciSpec:
    """Another device on the PCI bus: its class as the kernel writes it, its ids in hexadecimal digits, its driver."""

    pci: str
    pci_class: str
    vendor: str
    device: str
    kernel_driver: str | None


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """The target environment; distributions are written as requirements: ``cupy-cuda12x==14.2.0``.

    Attributes:
        packages: the installed distributions.
        elsewhere: distributions in a second folder, which a .pth file appends to the path.
        lib64: whether the path has the folder of the distributions again through the link ``lib64``, as in Fedora's
            Python.
    """

    packages: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()
    lib64: bool = False


@dataclass(frozen=True, slots=True)
class Expectation:
    """The correct answers about a machine.

    Attributes:
        primary: the cause to fix first.
        wheel: the distribution that ``resolve`` selects; None if none fits.
        facts: values in ``probe``'s output by path: ``driver.cuda_origin``, ``amd_gpus.0.gfx``; ``none`` for a missing
            fact.
    """

    exit_code: int
    status: str
    primary: str | None
    causes: tuple[str, ...]
    wheel: str | None
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Profile:
    """A machine, its target environment and the correct answers about them.

    Attributes:
        name: the file's name without its suffix.
        inferred: facts derived by a rule, not observed.
        other_devices: further devices on the PCI bus.
        toolkit: the CUDA toolkit in ``/usr/local``, whose libraries the loader finds; None without one.
        found_first: broken libraries in ``/usr/local/lib``, by file name, which the loader finds first.
        files: further files below the driver root, by path.
        links: links below the driver root: path to target.
        stub: raw keys of the stub driver, which override the derived ones.
        timeout: seconds for ``--timeout``; None for the default.
    """

    name: str
    about: str
    source: tuple[str, ...]
    inferred: tuple[str, ...]
    host: HostSpec
    driver: DriverSpec
    gpus: tuple[GpuSpec, ...]
    other_devices: tuple[PciSpec, ...]
    toolkit: str | None
    found_first: Mapping[str, LibraryFault]
    files: Mapping[str, str]
    links: Mapping[str, str]
    environment: Mapping[str, str]
    stub: Mapping[str, str]
    target: TargetSpec
    timeout: float | None
    expect: Expectation


E = TypeVar("E", bound=Enum)

_MIB = 1024 * 1024
_BELOW = "paths below the machine's root, such as etc/os-release"
_CLASSES = {"3d": "0x030200", "vga": "0x030000", "bridge": "0x068000"}


class ProfileError(ValueError):
    """An invalid profile; the message names the file, the line and the key."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A mapping in the file with its location; every method raises ``ProfileError`` for a value of another kind."""

    where: str
    values: Mapping[str, Plain]

    def fault(self, key: str, expected: str) -> ProfileError:
        found = f"found {self.values[key]!r}" if key in self.values else "it is missing"
        return ProfileError(f"{self.where}: {key}: expected {expected}; {found}")

    def only(self, *known: str) -> _Section:
        """The section itself, if all its keys are known."""
        for key in self.values:
            if key not in known:
                hint = did_you_mean(key, known, before="; ", cutoff=0.5)
                raise ProfileError(f"{self.where}: {key}: unknown key{hint}; expected one of {', '.join(known)}")
        return self

    def optional(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.fault(key, "a text")

    def text(self, key: str, default: str | None = None) -> str:
        """A text; required without a default."""
        value = self.optional(key)
        if value is not None:
            return value
        if default is None:
            raise self.fault(key, "a text")
        return default

    def of_form(self, key: str, form: str, expected: str, default: str | None = None) -> str:
        """A text that fully matches the regular expression ``form`` in ASCII, or the default."""
        value = self.text(key, default)
        if value != default and not re.fullmatch(form, value, re.ASCII):
            raise self.fault(key, expected)
        return value

    def file_name(self, key: str, default: str | None = None) -> str:
        return self.of_form(key, r"\w[\w.+~-]*", "letters, digits, dots and dashes", default)

    def path(self, key: str) -> str | None:
        """A path below the machine's root, or None."""
        value = self.optional(key)
        if value is not None and not _is_below(value):
            raise self.fault(key, _BELOW)
        return value

    def unless_none(self, key: str) -> str | None:
        """A required text; None for ``none``."""
        value = self.text(key)
        return None if value == "none" else value

    def number(self, key: str, default: int | None = None) -> int:
        number = parse_integer(self.text(key, None if default is None else str(default)))
        if number is None:
            raise self.fault(key, "a whole number")
        return number

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.text(key, "yes" if default else "no")
        if value not in ("yes", "no"):
            raise self.fault(key, "yes or no")
        return value == "yes"

    def one_of(self, key: str, kind: type[E], default: E | None = None) -> E:
        value = self.text(key, None if default is None else str(default.value))
        try:
            return kind(value)
        except ValueError:
            raise self.fault(key, " or ".join(str(member.value) for member in kind)) from None

    def mebibytes(self, key: str) -> int | None:
        """``81559 MiB``, or ``none``."""
        value = self.text(key)
        match = re.fullmatch(r"(\d{1,9}) MiB", value)
        if value != "none" and match is None:
            raise self.fault(key, "'<number> MiB' or none")
        return int(match[1]) * _MIB if match else None

    def cuda(self, key: str, default: str | None = None) -> int:
        """``12.4`` as the driver's number 12040."""
        match = re.fullmatch(r"(\d{1,9})\.(\d)", self.text(key, default))
        if match is None:
            raise self.fault(key, "a CUDA version such as 12.4")
        return int(match[1]) * 1000 + int(match[2]) * 10

    def pci_class(self) -> str:
        value = self.text("class")
        if value not in _CLASSES:
            raise self.fault("class", " or ".join(_CLASSES))
        return _CLASSES[value]

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts; a single text is a list of one."""
        value = self.values.get(key)
        found: list[Plain] = value if isinstance(value, list) else [] if value is None else [value]
        texts = tuple(item for item in found if isinstance(item, str))
        if len(texts) != len(found):
            raise self.fault(key, "a list of texts")
        return texts

    def mapping(self, key: str) -> dict[str, str]:
        values = self.section(key).values
        texts = {name: text for name, text in values.items() if isinstance(text, str)}
        if len(texts) != len(values):
            raise self.fault(key, "a mapping of texts")
        return texts

    def path_mapping(self, key: str) -> dict[str, str]:
        texts = self.mapping(key)
        for path in texts:
            if not _is_below(path):
                raise ProfileError(f"{self.where}: {key}: expected {_BELOW}; found {path!r}")
        return texts

    def section(self, key: str) -> _Section:
        """A nested mapping; empty if missing."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.fault(key, "a mapping")
        return _Section(f"{self.where}: {key}", value or {})

    def sections(self, key: str) -> tuple[_Section, ...]:
        value = self.values.get(key)
        entries = value if isinstance(value, list) else []
        sections = tuple(
            _Section(f"{self.where}: {key}[{number}]", entry)
            for number, entry in enumerate(entries)
            if isinstance(entry, dict)
        )
        if (value is not None and not isinstance(value, list)) or len(sections) != len(entries):
            raise self.fault(key, "a list of mappings")
        return sections


_ADDRESS = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_ADDRESSES = "addresses as sysfs writes them, 0000:3b:00.0"
_ID, _FOUR_DIGITS = r"[0-9a-f]{4}", "four hexadecimal digits"
# For a user's own profile, which no test reads.
_NO_EXPECTATION = Expectation(exit_code=0, status=Status.UNKNOWN.value, primary=None, causes=(), wheel=None, facts={})


def load(path: Path) -> Profile:
    """Reads one profile; ``about``, ``source`` and ``expect`` are optional.

    Raises:
        ProfileError: for an invalid profile.
    """
    try:
        document = parse(decode_text(read_at_most(path, MAX_CHARACTERS)))
    except YamlError as error:
        raise ProfileError(f"{path.name}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path.name}: {error_reason(error)}") from error
    if not isinstance(document.value, dict):
        raise ProfileError(f"{path.name}: line 1: expected a mapping")
    try:
        return _profile(path, document.value)
    except ProfileError as error:
        raise ProfileError(_with_line(str(error), document.lines)) from error


def _with_line(message: str, lines: Mapping[str, int]) -> str:
    """Adds the line of the deepest section that the message names."""
    file, _, rest = message.partition(": ")
    path, line = "", 1
    for part in rest.split(": "):
        deeper = f"{path}.{part.split(' ')[0]}".lstrip(".")
        if deeper not in lines:
            break
        path, line = deeper, lines[deeper]
    return f"{file}: line {line}: {rest}"


def _profile(path: Path, value: Mapping[str, Plain]) -> Profile:
    top = _Section(path.name, value).only(
        "about", "source", "inferred", "host", "driver", "gpus", "other_devices", "toolkit", "found_first", "files",
        "links", "environment", "stub", "target", "timeout", "expect",
    )  # fmt: skip
    if "calls" in top.section("stub").values:  # names a file that the stub driver writes; only for tests
        raise ProfileError(f"{top.where}: stub: calls: unknown key")
    target = top.section("target").only("packages", "elsewhere", "lib64")
    timeout = top.of_form("timeout", r"\d{1,4}(\.\d{1,3})?", "seconds", "")
    return Profile(
        name=path.stem,
        about=top.text("about", path.stem),
        source=top.texts("source"),
        inferred=top.texts("inferred"),
        host=_host(top.section("host")),
        driver=_driver(top.section("driver")),
        gpus=tuple(
            # A GPU without a UUID of its own gets one from its number.
            gpu if gpu.uuid else replace(gpu, uuid=f"GPU-6e7a3c10-52d4-4b1f-9c00-{number:012x}")
            for number, gpu in enumerate(gpu for part in top.sections("gpus") for gpu in _gpus(part))
        ),
        other_devices=tuple(_device(part) for part in top.sections("other_devices")),
        toolkit=_toolkit(top) if "toolkit" in value else None,
        found_first=_found_first(top.section("found_first")),
        files=top.path_mapping("files"),
        links=top.path_mapping("links"),
        environment=_environment(top),
        stub=top.mapping("stub"),
        target=TargetSpec(target.texts("packages"), target.texts("elsewhere"), target.flag("lib64", default=False)),
        timeout=float(timeout) if timeout else None,
        expect=_expectation(top.section("expect")) if "expect" in value else _NO_EXPECTATION,
    )


# The variables that a profile may set: those of drivers, container engines and schedulers, without any that makes a
# program load code or a file, such as BASH_ENV, LD_PRELOAD, CUDA_INJECTION64_PATH, CUDA_CACHE_PATH and SLURM_CONF.
_VARIABLES = re.compile(
    r"""(?x)
    NVIDIA_ (VISIBLE_DEVICES | DRIVER_CAPABILITIES | REQUIRE_\w+ | DISABLE_REQUIRE | IMEX_CHANNELS | GDS | MOFED
            | MIG_(CONFIG|MONITOR)_DEVICES | PRODUCT_NAME | CUDA_END_OF_LIFE)
    | CUDA_ (VISIBLE_DEVICES | DEVICE_ORDER | LAUNCH_BLOCKING | MODULE_LOADING | VERSION | CACHE_(DISABLE|MAXSIZE)
            | FORCE_PTX_JIT | DISABLE_PTX_JIT | DEVICE_MAX_CONNECTIONS
            | MPS_(PIPE_DIRECTORY | ACTIVE_THREAD_PERCENTAGE | PINNED_DEVICE_MEM_LIMIT | CLIENT_PRIORITY))
    | GPU_DEVICE_ORDINAL | HIP_VISIBLE_DEVICES | ROCR_VISIBLE_DEVICES | HSA_OVERRIDE_GFX_VERSION
    | SLURM_ (JOB | JOBID | STEP | STEPID | GPU | GPUS | NODEID | NODENAME | NNODES | NTASKS | PROCID | LOCALID
            | CLUSTER_NAME | CPUS)(_\w+)?
    | PBS_(JOBID|JOBNAME|NODENUM) | LSB_JOBID | _CONDOR_(AssignedGPUs|SLOT)
    | OMPI_COMM_WORLD_((LOCAL_)?(RANK|SIZE)) | PMI_(RANK|SIZE) | RANK | LOCAL_RANK | WORLD_SIZE
    | KUBERNETES_SERVICE_(HOST|PORT) | container | APPTAINER_CONTAINER | SINGULARITY_CONTAINER | WSL_DISTRO_NAME
    """
)
_SETTABLE = "variables of the driver, a container engine or a scheduler that name no code, as CUDA_VISIBLE_DEVICES"


def _environment(top: _Section) -> dict[str, str]:
    """The variables of the machine; others are refused, since they could make a program load code."""
    variables = top.mapping("environment")
    for name, value in variables.items():
        if not _VARIABLES.fullmatch(name):
            raise ProfileError(f"{top.where}: environment: {name}: expected {_SETTABLE}")
        if "\0" in value:
            raise ProfileError(f"{top.where}: environment: {name}: expected a value without a NUL character")
    return variables


def _toolkit(top: _Section) -> str:
    """A toolkit whose major version's libraries are known."""
    majors = [str(major) for major in CUDA_LIBRARIES]
    expected = f"a CUDA version such as 12.4, of major {', '.join(majors)}"
    return top.of_form("toolkit", rf"({'|'.join(majors)})\.\d", expected)


def _host(section: _Section) -> HostSpec:
    section.only("arch", "kernel", "distribution", "container", "kernel_files")
    return HostSpec(
        arch=section.file_name("arch", "x86_64"),
        kernel=section.file_name("kernel") if "kernel" in section.values else None,
        distribution=section.text("distribution", "ubuntu 22.04"),
        container=section.one_of("container", ContainerEngine, ContainerEngine.NONE),
        kernel_files=section.flag("kernel_files", default=True),
    )


def _found_first(section: _Section) -> dict[str, LibraryFault]:
    for name in section.values:
        if not re.fullmatch(r"lib[\w-]+\.so(\.\d+)*", name):
            raise ProfileError(f"{section.where}: {name} is not a library's file name")
    return {name: section.one_of(name, LibraryFault) for name in section.values}


def _driver(section: _Section) -> DriverSpec:
    section.only("module", "version", "built", "library", "cuda", "folder", "nvml", "libcuda", "smi", "nodes", "compat")
    module = section.one_of("module", KernelModule)
    is_installed = module.is_loaded or module is KernelModule.INSTALLED_NOT_LOADED
    version = section.file_name("version", None if is_installed else "none")
    compat = section.section("compat").only("version", "cuda")
    return DriverSpec(
        module=module,
        version=version,
        built=section.text("built", "Thu Jan  1 00:00:00 UTC 1970"),
        library=section.file_name("library", version),
        cuda=section.cuda("cuda", None if is_installed else "0.0"),
        folder=section.path("folder"),
        nvml=section.flag("nvml", default=is_installed),
        libcuda=section.flag("libcuda", default=is_installed),
        smi=section.flag("smi", default=is_installed),
        nodes=tuple(_node(section, text) for text in section.texts("nodes")) if "nodes" in section.values else None,
        compat=CompatSpec(compat.file_name("version"), compat.cuda("cuda")) if compat.values else None,
    )


def _node(section: _Section, text: str) -> DeviceNodeSpec:
    """A node such as ``nvidia0``, or with its mode ``nvidia0 0660``."""
    match = re.fullmatch(r"([\w-]+(?:/[\w-]+)*)(?: (0[0-7]{3}))?", text, re.ASCII)
    if match is None:
        raise section.fault("nodes", "a name below /dev, and its mode unless 0666")
    return DeviceNodeSpec(match[1], int(match[2] or "0666", 8))


def _gpus(section: _Section) -> tuple[GpuSpec, ...]:
    """One GPU for each PCI address of the entry."""
    section.only("name", "capability", "memory", "pci", "device", "class", "uuid", "on_bus", "shown", "mig")
    on_bus = section.flag("on_bus", default=True)
    if not on_bus and "shown" in section.values:
        raise section.fault("shown", "no such key for a GPU that is not on the bus")
    addresses = section.texts("pci")
    if not all(re.fullmatch(_ADDRESS, address) for address in addresses):
        raise section.fault("pci", _ADDRESSES)
    if not addresses:
        raise section.fault("pci", "at least one address")
    return tuple(
        GpuSpec(
            name=section.text("name"),
            capability=section.of_form("capability", r"\d{1,2}\.\d", "a compute capability such as 9.0"),
            memory=section.mebibytes("memory"),
            pci=address,
            device=section.of_form("device", _ID, _FOUR_DIGITS) if on_bus else "0000",
            pci_class=section.pci_class() if on_bus else "",
            uuid=section.text("uuid", ""),
            on_bus=on_bus,
            shown=section.one_of("shown", PciVisibility, PciVisibility.NVML),
            mig=tuple(map(_mig, section.sections("mig"))) if "mig" in section.values else None,
        )
        for address in addresses
    )


def _mig(section: _Section) -> MigSpec:
    section.only("profile", "memory", "count")
    return MigSpec(section.text("profile"), section.mebibytes("memory") or 0, section.number("count", 1))


def _device(section: _Section) -> PciSpec:
    section.only("pci", "class", "vendor", "device", "kernel_driver")
    return PciSpec(
        pci=section.of_form("pci", _ADDRESS, _ADDRESSES),
        pci_class=section.pci_class(),
        vendor=section.of_form("vendor", _ID, _FOUR_DIGITS),
        device=section.of_form("device", _ID, _FOUR_DIGITS),
        kernel_driver=section.file_name("kernel_driver") if "kernel_driver" in section.values else None,
    )


def _expectation(section: _Section) -> Expectation:
    section.only("exit_code", "status", "primary", "causes", "wheel", "facts")
    causes, primary = section.texts("causes"), section.unless_none("primary")
    unknown = [slug for slug in causes if slug not in set(Cause)]
    if unknown or (primary and primary not in causes):
        raise section.fault("causes", "known causes, the primary one among them")
    return Expectation(
        exit_code=section.number("exit_code"),
        status=section.one_of("status", Status).value,
        primary=primary,
        causes=causes,
        wheel=section.unless_none("wheel"),
        facts=section.mapping("facts"),
    )


def _is_below(path: str) -> bool:
    """Whether a relative path stays below the folder that it is joined to, without following links."""
    return all(part not in ("", ".", "..") for part in path.split("/")) and "\0" not in path


def snapshot_of(profile: Profile, matrix: Matrix) -> Snapshot:
    """The facts of a profile that determine the choice of a wheel.

    Raises:
        AssumeError: for a profile with invalid facts.
    """
    snapshot = assume(Snapshot(), tuple(_facts(profile)), matrix)
    gpus = tuple(
        Gpu(
            assumed(number), name=assumed(gpu.name), compute_capability=assumed(ComputeCapability.parse(gpu.capability))
        )
        for number, gpu in enumerate(profile.gpus)
    )
    others = tuple(
        PciGpu(device.pci, device.vendor, device.device)
        for device in profile.other_devices
        if device.pci_class.startswith("0x03")
    )
    return snapshot._replace(gpus=gpus, pci_gpus=others, gpu_count=assumed(len(gpus)))


def _facts(profile: Profile) -> Iterator[str]:
    driver = profile.driver
    yield from ("os=linux", f"arch={profile.host.arch}", "libc=glibc-2.36", "python=3.12")  # two are in no profile
    yield f"wsl={'yes' if driver.folder == 'usr/lib/wsl/lib' else 'no'}"
    has_driver = driver.nvml or driver.libcuda or driver.module.is_loaded
    yield f"driver={driver.version if has_driver else 'none'}"
    if has_driver:
        yield f"driver-cuda={CudaVersion.from_number(driver.cuda)}"
    if profile.toolkit:
        yield f"toolkit={profile.toolkit}"
    for text in (*profile.target.packages, *profile.target.elsewhere):
        name, _, release = text.partition("==")  # the form in profiles
        yield f"package.{name.strip()}={release.strip()}"


def shipped_machines(matrix: Matrix) -> Mapping[str, Snapshot]:
    """The Snapshots of the profiles that ship with gpuenv, by name."""
    profiles = (load(path) for path in sorted(data_path("machines").glob("*.yaml")))
    return {profile.name: snapshot_of(profile, matrix) for profile in profiles}
