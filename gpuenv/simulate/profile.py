"""Reads a machine profile: strict, so that a misspelt key is an error, not a silent default."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TypeVar

from gpuenv.files import read_at_most
from gpuenv.matrix.strict_yaml import LARGEST, Plain, YamlError, parse
from gpuenv.model.causes import Cause
from gpuenv.model.nvidia import WANTED
from gpuenv.model.text import reason_of, text_of
from gpuenv.report.report import Status
from gpuenv.simulate.records import (
    CompatSpec,
    Container,
    DeviceNodeSpec,
    DriverSpec,
    Expectation,
    GpuSpec,
    HostSpec,
    MigSpec,
    Module,
    PciSpec,
    Planted,
    Profile,
    Shown,
    TargetSpec,
)

__all__ = [  # whoever reads a profile has its records from here
    "CompatSpec",
    "Container",
    "DeviceNodeSpec",
    "DriverSpec",
    "Expectation",
    "GpuSpec",
    "HostSpec",
    "MigSpec",
    "Module",
    "PciSpec",
    "Planted",
    "Profile",
    "ProfileError",
    "Shown",
    "TargetSpec",
    "load",
]

_ADDRESS = r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]"
_ADDRESSES = "addresses as sysfs writes them, 0000:3b:00.0"
_ID, _FOUR_DIGITS = r"[0-9a-f]{4}", "four hexadecimal digits"
# What somebody's own profile, which no test holds anybody to, says of expectations.
_NOTHING = Expectation(exit_code=0, status=Status.UNKNOWN.value, primary=None, causes=(), wheel=None, facts={})


def load(path: Path) -> Profile:
    """Reads one profile; what it is about, where its facts come from and what to expect may be left out.

    Raises:
        ProfileError: for anything that is not as expected.
    """
    try:
        document = parse(text_of(read_at_most(path, LARGEST)))
    except YamlError as error:
        raise ProfileError(f"{path.name}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f"{path.name}: {reason_of(error)}") from error
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
    top = Part(path.name, value).only(
        "about", "source", "inferred", "host", "driver", "gpus", "other_devices", "toolkit", "found_first", "files",
        "links", "environment", "stub", "target", "timeout", "expect",
    )  # fmt: skip
    timeout = top.of_form("timeout", r"\d{1,4}(\.\d{1,3})?", "seconds", "")
    return Profile(
        name=path.stem,
        about=top.text("about", path.stem),
        source=top.texts("source"),
        inferred=top.texts("inferred"),
        host=_host(top.part("host")),
        driver=_driver(top.part("driver")),
        gpus=_numbered(gpu for part in top.parts("gpus") for gpu in _gpus(part)),
        other_devices=tuple(_device(part) for part in top.parts("other_devices")),
        toolkit=_toolkit(top) if "toolkit" in value else None,
        found_first=_found_first(top.part("found_first")),
        files=top.places("files"),
        links=top.places("links"),
        environment=top.mapping("environment"),
        stub=_stub(top),
        target=_target(top.part("target")),
        timeout=float(timeout) if timeout else None,
        expect=_expectation(top.part("expect")) if "expect" in value else _NOTHING,
    )


def _stub(top: Part) -> dict[str, str]:
    """The stub driver's keys, but for the one that names a file to write to, which tests alone need."""
    if "calls" in top.part("stub").values:
        raise ProfileError(f"{top.where}: stub: calls is no key here")
    return top.mapping("stub")


def _toolkit(top: Part) -> str:
    """A toolkit of a major version whose libraries are known by name."""
    majors = [str(major) for major in WANTED]
    expected = f"a CUDA version such as 12.4, of major {', '.join(majors)}"
    return top.of_form("toolkit", rf"({'|'.join(majors)})\.\d", expected)


def _host(part: Part) -> HostSpec:
    part.only("arch", "kernel", "distribution", "container", "kernel_files")
    return HostSpec(
        arch=part.file_name("arch", "x86_64"),
        kernel=part.file_name("kernel") if "kernel" in part.values else None,
        distribution=part.text("distribution", "ubuntu 22.04"),
        container=part.one_of("container", Container, Container.NONE),
        kernel_files=part.flag("kernel_files", default=True),
    )


def _found_first(part: Part) -> dict[str, Planted]:
    for name in part.values:
        if not re.fullmatch(r"lib[\w-]+\.so(\.\d+)*", name):
            raise ProfileError(f"{part.where}: {name} is no file name of a library")
    return {name: part.one_of(name, Planted) for name in part.values}


def _target(part: Part) -> TargetSpec:
    part.only("packages", "elsewhere", "lib64")
    return TargetSpec(part.texts("packages"), part.texts("elsewhere"), part.flag("lib64", default=False))


def _driver(part: Part) -> DriverSpec:
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


def _node(part: Part, text: str) -> DeviceNodeSpec:
    """``nvidia0``, or with its mode ``nvidia0 0660``."""
    match = re.fullmatch(r"([\w-]+(?:/[\w-]+)*)(?: (0[0-7]{3}))?", text, re.ASCII)
    if match is None:
        raise part.fault("nodes", "a name below /dev, and a mode where it is not 0666")
    return DeviceNodeSpec(match[1], int(match[2] or "0666", 8))


def _gpus(part: Part) -> tuple[GpuSpec, ...]:
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


def _mig(part: Part) -> MigSpec:
    part.only("profile", "memory", "count")
    return MigSpec(part.text("profile"), part.mebibytes("memory") or 0, part.number("count", 1))


def _numbered(gpus: Iterable[GpuSpec]) -> tuple[GpuSpec, ...]:
    """A GPU without a UUID of its own gets one from its number."""
    return tuple(
        gpu if gpu.uuid else replace(gpu, uuid=f"GPU-6e7a3c10-52d4-4b1f-9c00-{number:012x}")
        for number, gpu in enumerate(gpus)
    )


def _device(part: Part) -> PciSpec:
    part.only("pci", "class", "vendor", "device", "kernel_driver")
    return PciSpec(
        pci=part.of_form("pci", _ADDRESS, _ADDRESSES),
        pci_class=part.pci_class(),
        vendor=part.of_form("vendor", _ID, _FOUR_DIGITS),
        device=part.of_form("device", _ID, _FOUR_DIGITS),
        kernel_driver=part.file_name("kernel_driver") if "kernel_driver" in part.values else None,
    )


def _expectation(part: Part) -> Expectation:
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


E = TypeVar("E", bound=Enum)

_MIB = 1024 * 1024
_BELOW = "paths below the machine's root, such as etc/os-release"
_CLASSES = {"3d": "0x030200", "vga": "0x030000", "bridge": "0x068000"}


class ProfileError(ValueError):
    """A profile that does not say what it should; the message names the file, the line and the key."""


@dataclass(frozen=True, slots=True)
class Part:
    """A mapping of the file, and where it stands; every reader raises ``ProfileError`` for another kind of value."""

    where: str
    values: Mapping[str, Plain]

    def fault(self, key: str, expected: str) -> ProfileError:
        """What was expected of a key, and what stands there."""
        found = f"found {self.values[key]!r}" if key in self.values else "it is missing"
        return ProfileError(f"{self.where}: {key}: expected {expected}; {found}")

    def only(self, *known: str) -> Part:
        """The part itself, where it has no key but these."""
        for key in self.values:
            if key not in known:
                near = difflib.get_close_matches(key, known, 1, 0.5)
                hint = f"; did you mean {near[0]}?" if near else ""
                raise ProfileError(f"{self.where}: {key} is no key here{hint}; known are {', '.join(known)}")
        return self

    def optional(self, key: str) -> str | None:
        """A text, or None."""
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
        """A text that is to be a part of a file's name."""
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
        """A whole number."""
        value = self.text(key, None if default is None else str(default))
        if not re.fullmatch(r"\d+", value):
            raise self.fault(key, "a whole number")
        return int(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """``yes`` or ``no``."""
        value = self.text(key, "yes" if default else "no")
        if value not in ("yes", "no"):
            raise self.fault(key, "yes or no")
        return value == "yes"

    def one_of(self, key: str, kind: type[E], default: E | None = None) -> E:
        """A value of an enumeration."""
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
        """The PCI class that a word stands for."""
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
        """A mapping of texts."""
        values = self.part(key).values
        texts = {name: text for name, text in values.items() if isinstance(text, str)}
        if len(texts) != len(values):
            raise self.fault(key, "a mapping of texts")
        return texts

    def places(self, key: str) -> dict[str, str]:
        """A mapping of texts by a path below the machine's root."""
        texts = self.mapping(key)
        for path in texts:
            if not _is_below(path):
                raise ProfileError(f"{self.where}: {key}: expected {_BELOW}; found {path!r}")
        return texts

    def part(self, key: str) -> Part:
        """A mapping within this one; an empty one where it is missing."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.fault(key, "a mapping")
        return Part(f"{self.where}: {key}", value or {})

    def parts(self, key: str) -> tuple[Part, ...]:
        """A list of mappings."""
        value = self.values.get(key)
        entries = value if isinstance(value, list) else []
        parts = tuple(
            Part(f"{self.where}: {key}[{number}]", entry)
            for number, entry in enumerate(entries)
            if isinstance(entry, dict)
        )
        if (value is not None and not isinstance(value, list)) or len(parts) != len(entries):
            raise self.fault(key, "a list of mappings")
        return parts


def _is_below(path: str) -> bool:
    """Whether a path, as it is written, names something below the folder that it is joined to."""
    return all(part not in ("", ".", "..") for part in path.split("/")) and "\0" not in path
