"""Machine profiles: the records, the strict reader, and a profile as a Snapshot without the machine.

A misspelt key is an error, not a silent default.
"""

from __future__ import annotations

import difflib
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
from gpuenv.model.strings import decode_text, error_reason
from gpuenv.model.versions import ComputeCapability, CudaVersion
from gpuenv.report.report import Status


class Module(Enum):
    """The kernel module that has the GPU."""

    OPEN = "open"
    PROPRIETARY = "proprietary"
    NONE = "none"
    INSTALLED_NOT_LOADED = "installed-not-loaded"
    NOUVEAU = "nouveau"

    @property
    def loaded(self) -> bool:
        """Whether NVIDIA's own module is loaded."""
        return self in (Module.OPEN, Module.PROPRIETARY)


class Container(Enum):
    """The engine that started the container, or none."""

    NONE = "none"
    DOCKER = "docker"
    KUBERNETES = "kubernetes"
    APPTAINER = "apptainer"


class Shown(Enum):
    """How far a GPU on the PCI bus is shown to a process of this machine."""

    NVML = "nvml"
    """NVML and libcuda list it, as does the kernel module."""
    COUNTED = "counted"
    """NVML counts it and may not open it, as under the device control group of a job; nvidia-smi leaves it out."""
    KERNEL = "kernel"
    """The kernel module lists it, and the libraries do not: it belongs to another process, or could not be started."""
    BUS = "bus"
    """The kernel module has not taken it: it is none that this driver supports."""


class Planted(Enum):
    """What is the matter with a library that the loader finds first."""

    EMPTY = "empty"
    """A file of no bytes, which the loader refuses."""
    ABORTS = "aborts"
    """A real library that ends the process when it is loaded."""


@dataclass(frozen=True, slots=True)
class HostSpec:
    """The operating system and what of it can be seen.

    Attributes:
        kernel_files: whether the driver's files in ``/proc`` and ``/sys`` are to be seen.
    """

    arch: str
    kernel: str | None
    distribution: str
    container: Container
    kernel_files: bool


@dataclass(frozen=True, slots=True)
class DeviceNodeSpec:
    """An ordinary file in the place of a device node."""

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
        version: what the kernel module and NVML say.
        built: what ``/proc/driver/nvidia/version`` says after the version: builder and date.
        library: the version in the names of the user-space files.
        cuda: the CUDA level, as the driver's number.
        folder: where the libraries lie below the root; None for the distribution's usual place.
        nodes: the device nodes; None for those that a loaded module has.
        compat: a libcuda of a cuda-compat package.
    """

    module: Module
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
        name: as NVML has it.
        memory: bytes; None where NVML has no number.
        pci: address, as sysfs writes it.
        on_bus: whether the PCI bus shows it.
        shown: how far one on the bus is shown.
        mig: its MIG instances; None where it knows no MIG mode.
    """

    name: str
    capability: str
    memory: int | None
    pci: str
    device: str
    pci_class: str
    uuid: str
    on_bus: bool
    shown: Shown
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
    """The target environment; distributions are given as requirements: ``cupy-cuda12x==14.2.0``.

    Attributes:
        packages: what is installed in it.
        elsewhere: what lies in a second folder, which a .pth file puts on the path behind the first.
        lib64: whether the path has the folder of the distributions once more through the link ``lib64``, as Fedora's
            Python has it.
    """

    packages: tuple[str, ...]
    elsewhere: tuple[str, ...] = ()
    lib64: bool = False


@dataclass(frozen=True, slots=True)
class Expectation:
    """What is right to say of a machine.

    Attributes:
        primary: the cause to fix first.
        wheel: the distribution that ``resolve`` names; None where none fits.
        facts: what ``probe`` says, by path: ``driver.cuda_origin``, ``amd_gpus.0.gfx``; ``none`` is a fact that is
            missing.
    """

    exit_code: int
    status: str
    primary: str | None
    causes: tuple[str, ...]
    wheel: str | None
    facts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Profile:
    """A machine, its target environment and what is right to say of them.

    Attributes:
        name: the file's name without its ending.
        source: where the facts come from.
        inferred: what follows from a rule and has not been seen.
        other_devices: further ones on the PCI bus.
        toolkit: the CUDA toolkit in ``/usr/local``, whose libraries the loader finds; None where there is none.
        found_first: broken libraries in ``/usr/local/lib``, by file name, which the loader finds before all others.
        files: further files below the driver root, by path.
        links: links below the driver root, by path, with where each leads.
        stub: raw keys of the stub driver, which win over the derived ones.
        timeout: seconds to hand to ``--timeout``; None leaves the default.
        expect: what the doctor and the resolver must say.
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
    found_first: Mapping[str, Planted]
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
    """A profile that does not say what it should; the message names the file, the line and the key."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A mapping of the file, and where it stands; every reader raises ``ProfileError`` for another kind of value."""

    where: str
    values: Mapping[str, Plain]

    def fault(self, key: str, expected: str) -> ProfileError:
        found = f"found {self.values[key]!r}" if key in self.values else "it is missing"
        return ProfileError(f"{self.where}: {key}: expected {expected}; {found}")

    def only(self, *known: str) -> _Part:
        """The part itself, where it has no key but these."""
        for key in self.values:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.5)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ProfileError(f"{self.where}: {key} is no key here{hint}; known are {', '.join(known)}")
        return self

    def optional(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.fault(key, "a text")

    def text(self, key: str, default: str | None = None) -> str:
        """A text that must be there, or has a default."""
        value = self.optional(key)
        if value is not None:
            return value
        if default is None:
            raise self.fault(key, "a text")
        return default

    def of_form(self, key: str, form: str, expected: str, default: str | None = None) -> str:
        """A text that the regular expression ``form`` describes whole, in ASCII, or the default."""
        value = self.text(key, default)
        if value != default and not re.fullmatch(form, value, re.ASCII):
            raise self.fault(key, expected)
        return value

    def file_name(self, key: str, default: str | None = None) -> str:
        return self.of_form(key, r"\w[\w.+~-]*", "letters, digits, dots and dashes", default)

    def place(self, key: str) -> str | None:
        """A path below the machine's root, or None."""
        value = self.optional(key)
        if value is not None and not _is_below(value):
            raise self.fault(key, _BELOW)
        return value

    def unless_none(self, key: str) -> str | None:
        """A text that must be there; ``none`` says that there is nothing."""
        value = self.text(key)
        return None if value == "none" else value

    def number(self, key: str, default: int | None = None) -> int:
        value = self.text(key, None if default is None else str(default))
        if not re.fullmatch(r"\d+", value):
            raise self.fault(key, "a whole number")
        return int(value)

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
        match = re.fullmatch(r"(\d+) MiB", value)
        if value != "none" and match is None:
            raise self.fault(key, "'<number> MiB' or none")
        return int(match[1]) * _MIB if match else None

    def cuda(self, key: str, default: str | None = None) -> int:
        """``12.4`` as the driver's number 12040."""
        match = re.fullmatch(r"(\d+)\.(\d)", self.text(key, default))
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
        values = self.part(key).values
        texts = {name: text for name, text in values.items() if isinstance(text, str)}
        if len(texts) != len(values):
            raise self.fault(key, "a mapping of texts")
        return texts

    def places(self, key: str) -> dict[str, str]:
        texts = self.mapping(key)
        for path in texts:
            if not _is_below(path):
                raise ProfileError(f"{self.where}: {key}: expected {_BELOW}; found {path!r}")
        return texts

    def part(self, key: str) -> _Part:
        """A mapping within this one; an empty one where it is missing."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.fault(key, "a mapping")
        return _Part(f"{self.where}: {key}", value or {})

    def parts(self, key: str) -> tuple[_Part, ...]:
        value = self.values.get(key)
        entries = value if isinstance(value, list) else []
        parts = tuple(
            _Part(f"{self.where}: {key}[{number}]", entry)
            for number, entry in enumerate(entries)
            if isinstance(entry, dict)
        )
        if (value is not None and not isinstance(value, list)) or len(parts) != len(entries):
            raise self.fault(key, "a list of mappings")
        return parts


_ADDRESS = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_ADDRESSES = "addresses as sysfs writes them, 0000:3b:00.0"
_ID, _FOUR_DIGITS = r"[0-9a-f]{4}", "four hexadecimal digits"
# The expectations of a user's own profile, which no test reads.
_NOTHING = Expectation(exit_code=0, status=Status.UNKNOWN.value, primary=None, causes=(), wheel=None, facts={})


def load(path: Path) -> Profile:
    """Reads one profile; what it is about, where its facts come from and what to expect may be left out.

    Raises:
        ProfileError: for anything that is not as expected.
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
        raise ProfileError(_placed(str(error), document.lines)) from error


def _placed(message: str, lines: Mapping[str, int]) -> str:
    """The message with the line of the deepest part that it names."""
    file, _, rest = message.partition(": ")
    path, line = "", 1
    for part in rest.split(": "):
        deeper = f"{path}.{part.split(' ')[0]}".lstrip(".")
        if deeper not in lines:
            break
        path, line = deeper, lines[deeper]
    return f"{file}: line {line}: {rest}"


def _profile(path: Path, value: Mapping[str, Plain]) -> Profile:
    top = _Part(path.name, value).only(
        "about", "source", "inferred", "host", "driver", "gpus", "other_devices", "toolkit", "found_first", "files",
        "links", "environment", "stub", "target", "timeout", "expect",
    )  # fmt: skip
    if "calls" in top.part("stub").values:  # the stub driver's key for a file to write to, which tests alone need
        raise ProfileError(f"{top.where}: stub: calls is no key here")
    target = top.part("target").only("packages", "elsewhere", "lib64")
    timeout = top.of_form("timeout", r"\d{1,4}(\.\d{1,3})?", "seconds", "")
    return Profile(
        name=path.stem,
        about=top.text("about", path.stem),
        source=top.texts("source"),
        inferred=top.texts("inferred"),
        host=_host(top.part("host")),
        driver=_driver(top.part("driver")),
        gpus=tuple(
            # A GPU without a UUID of its own gets one from its number.
            gpu if gpu.uuid else replace(gpu, uuid=f"GPU-6e7a3c10-52d4-4b1f-9c00-{number:012x}")
            for number, gpu in enumerate(gpu for part in top.parts("gpus") for gpu in _gpus(part))
        ),
        other_devices=tuple(_device(part) for part in top.parts("other_devices")),
        toolkit=_toolkit(top) if "toolkit" in value else None,
        found_first=_found_first(top.part("found_first")),
        files=top.places("files"),
        links=top.places("links"),
        environment=top.mapping("environment"),
        stub=top.mapping("stub"),
        target=TargetSpec(target.texts("packages"), target.texts("elsewhere"), target.flag("lib64", default=False)),
        timeout=float(timeout) if timeout else None,
        expect=_expectation(top.part("expect")) if "expect" in value else _NOTHING,
    )


def _toolkit(top: _Part) -> str:
    """A toolkit of a major version whose libraries are known by name."""
    majors = [str(major) for major in CUDA_LIBRARIES]
    expected = f"a CUDA version such as 12.4, of major {', '.join(majors)}"
    return top.of_form("toolkit", rf"({'|'.join(majors)})\.\d", expected)


def _host(part: _Part) -> HostSpec:
    part.only("arch", "kernel", "distribution", "container", "kernel_files")
    return HostSpec(
        arch=part.file_name("arch", "x86_64"),
        kernel=part.file_name("kernel") if "kernel" in part.values else None,
        distribution=part.text("distribution", "ubuntu 22.04"),
        container=part.one_of("container", Container, Container.NONE),
        kernel_files=part.flag("kernel_files", default=True),
    )


def _found_first(part: _Part) -> dict[str, Planted]:
    for name in part.values:
        if not re.fullmatch(r"lib[\w-]+\.so(\.\d+)*", name):
            raise ProfileError(f"{part.where}: {name} is no file name of a library")
    return {name: part.one_of(name, Planted) for name in part.values}


def _driver(part: _Part) -> DriverSpec:
    part.only("module", "version", "built", "library", "cuda", "folder", "nvml", "libcuda", "smi", "nodes", "compat")
    module = part.one_of("module", Module)
    there = module.loaded or module is Module.INSTALLED_NOT_LOADED
    version = part.file_name("version", None if there else "none")
    compat = part.part("compat").only("version", "cuda")
    return DriverSpec(
        module=module,
        version=version,
        built=part.text("built", "Thu Jan  1 00:00:00 UTC 1970"),
        library=part.file_name("library", version),
        cuda=part.cuda("cuda", None if there else "0.0"),
        folder=part.place("folder"),
        nvml=part.flag("nvml", default=there),
        libcuda=part.flag("libcuda", default=there),
        smi=part.flag("smi", default=there),
        nodes=tuple(_node(part, text) for text in part.texts("nodes")) if "nodes" in part.values else None,
        compat=CompatSpec(compat.file_name("version"), compat.cuda("cuda")) if compat.values else None,
    )


def _node(part: _Part, text: str) -> DeviceNodeSpec:
    """``nvidia0``, or with its mode ``nvidia0 0660``."""
    match = re.fullmatch(r"([\w-]+(?:/[\w-]+)*)(?: (0[0-7]{3}))?", text, re.ASCII)
    if match is None:
        raise part.fault("nodes", "a name below /dev, and a mode where it is not 0666")
    return DeviceNodeSpec(match[1], int(match[2] or "0666", 8))


def _gpus(part: _Part) -> tuple[GpuSpec, ...]:
    """One entry with several PCI addresses is as many GPUs of a kind."""
    part.only("name", "capability", "memory", "pci", "device", "class", "uuid", "on_bus", "shown", "mig")
    on_bus = part.flag("on_bus", default=True)
    if not on_bus and "shown" in part.values:
        raise part.fault("shown", "nothing for a GPU that is not on the bus")
    addresses = part.texts("pci")
    if not all(re.fullmatch(_ADDRESS, address) for address in addresses):
        raise part.fault("pci", _ADDRESSES)
    if not addresses:
        raise part.fault("pci", "at least one address")
    return tuple(
        GpuSpec(
            name=part.text("name"),
            capability=part.of_form("capability", r"\d{1,2}\.\d", "a compute capability such as 9.0"),
            memory=part.mebibytes("memory"),
            pci=address,
            device=part.of_form("device", _ID, _FOUR_DIGITS) if on_bus else "0000",
            pci_class=part.pci_class() if on_bus else "",
            uuid=part.text("uuid", ""),
            on_bus=on_bus,
            shown=part.one_of("shown", Shown, Shown.NVML),
            mig=tuple(_mig(instance) for instance in part.parts("mig")) if "mig" in part.values else None,
        )
        for address in addresses
    )


def _mig(part: _Part) -> MigSpec:
    part.only("profile", "memory", "count")
    return MigSpec(part.text("profile"), part.mebibytes("memory") or 0, part.number("count", 1))


def _device(part: _Part) -> PciSpec:
    part.only("pci", "class", "vendor", "device", "kernel_driver")
    return PciSpec(
        pci=part.of_form("pci", _ADDRESS, _ADDRESSES),
        pci_class=part.pci_class(),
        vendor=part.of_form("vendor", _ID, _FOUR_DIGITS),
        device=part.of_form("device", _ID, _FOUR_DIGITS),
        kernel_driver=part.file_name("kernel_driver") if "kernel_driver" in part.values else None,
    )


def _expectation(part: _Part) -> Expectation:
    part.only("exit_code", "status", "primary", "causes", "wheel", "facts")
    causes, primary = part.texts("causes"), part.unless_none("primary")
    unknown = [slug for slug in causes if slug not in set(Cause)]
    if unknown or (primary and primary not in causes):
        raise part.fault("causes", "known causes, the primary one among them")
    return Expectation(
        exit_code=part.number("exit_code"),
        status=part.one_of("status", Status).value,
        primary=primary,
        causes=causes,
        wheel=part.unless_none("wheel"),
        facts=part.mapping("facts"),
    )


def _is_below(path: str) -> bool:
    """Whether a path, as it is written, names something below the folder that it is joined to."""
    return all(part not in ("", ".", "..") for part in path.split("/")) and "\0" not in path


PYTHON = "3.12"  # a profile is of a machine; the interpreter is the user's
_LIBC = "glibc-2.36"


def snapshot_of(profile: Profile, matrix: Matrix) -> Snapshot:
    """The facts of a profile that a wheel is chosen by.

    Raises:
        AssumeError: for a profile whose facts cannot be understood.
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
    yield from ("os=linux", f"arch={profile.host.arch}", f"libc={_LIBC}", f"python={PYTHON}")
    yield f"wsl={'yes' if profile.driver.folder == 'usr/lib/wsl/lib' else 'no'}"
    has_one = driver.nvml or driver.libcuda or driver.module.loaded
    yield f"driver={driver.version if has_one else 'none'}"
    if has_one:
        yield f"driver-cuda={CudaVersion.from_number(driver.cuda)}"
    if profile.toolkit:
        yield f"toolkit={profile.toolkit}"
    for text in (*profile.target.packages, *profile.target.elsewhere):
        name, _, release = text.partition("==")  # as the profiles are written
        yield f"package.{name.strip()}={release.strip()}"


def shipped_machines(matrix: Matrix) -> Mapping[str, Snapshot]:
    """The machine of each profile that comes with the program, by the profile's name."""
    profiles = (load(path) for path in sorted(data_path("machines").glob("*.yaml")))
    return {profile.name: snapshot_of(profile, matrix) for profile in profiles}
