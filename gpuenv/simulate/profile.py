"""Reads a machine profile: strict, so that a misspelt key is an error, not a silent default."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from gpuenv.files import read_at_most
from gpuenv.matrix.strict_yaml import LARGEST, Plain, YamlError, parse
from gpuenv.model.causes import Cause
from gpuenv.model.cuda_libraries import WANTED
from gpuenv.model.unread import reason_of, text_of
from gpuenv.report.report import Status
from gpuenv.simulate.reader import Part, ProfileError
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
