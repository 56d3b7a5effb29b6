"""Lays out a profile's machine in a folder: kernel files, driver libraries, nvidia-smi and toolkit as real files."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gpuenv.files import is_file
from gpuenv.model.nvidia import NVIDIA
from gpuenv.simulate.profile import (
    ContainerEngine,
    DeviceNodeSpec,
    GpuSpec,
    KernelModule,
    LibraryFault,
    PciSpec,
    PciVisibility,
    Profile,
    ProfileError,
)
from gpuenv.simulate.stub_driver import StubDriver, compile_library, lay_out

_DRIVER_NODES = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
_NOT_LOADED = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
_REMEDY = " Make sure that the latest NVIDIA driver is installed and running.\\n"
SYSTEM_PATH = "/usr/bin:/bin"  # sh, awk and sleep, which the stub nvidia-smi needs
_NO_PERMISSION = "4"  # NVML
_ELF = "\x7fELF"
_PROGRAM = re.compile(r"\.?nvidia-[\w.-]+")
_LIBRARY = re.compile(
    r"lib(?:nv|cuda|cublas|cudnn|cufft|cufile|cupti|curand|cusolver|cusparse|cutensor|nccl|\w+_nvidia)[\w.+-]*\.so[\w.]*"
)
_ABORTING = "#include <stdlib.h>\n__attribute__((constructor)) static void when_loaded(void) { abort(); }\n"


@dataclass(frozen=True, slots=True)
class SimulatedMachine:
    """A laid-out machine.

    Attributes:
        environment: all variables of a program that runs on it.
        root: its driver root.
    """

    environment: Mapping[str, str]
    root: Path


def materialise(
    profile: Profile, folder: Path, stub: StubDriver, cuda_libraries: Callable[[str], Path]
) -> SimulatedMachine:
    """Lays a machine out in an empty folder.

    ``cuda_libraries`` returns the folder with the compiled CUDA libraries of a release.

    Raises:
        ProfileError: for a file with code, or a link that leads out of the machine.
        OSError: when a file cannot be written, or two entries of the profile have the same path.
    """
    for path, text in profile.files.items():
        if text.startswith(_ELF):
            raise ProfileError(f"{profile.name}: files: {path} is a program or a library")
    root = folder / "root"
    for path, text in (kernel_files(profile) | dict(profile.files)).items():
        _write(root / path, text)
    for device in devices_on_bus(profile):
        if device.kernel_driver is not None:  # sysfs links a device to its kernel driver
            (root / "sys/bus/pci/drivers" / device.kernel_driver).mkdir(parents=True, exist_ok=True)
            link = root / "sys/bus/pci/devices" / device.pci / "driver"
            link.symlink_to(f"../../drivers/{device.kernel_driver}")
    for node in _nodes(profile):
        _write(root / "dev" / node.name, "")
        (root / "dev" / node.name).chmod(node.mode & 0o666)  # a node is no program
    libraries = [
        *_broken_libraries(profile, root),
        *_driver_libraries(profile, root, stub),
        *_toolkit_libraries(profile, root, cuda_libraries),
    ]
    smi = _smi(profile, root, stub)
    _create_links(profile, root, smi, libraries)
    table = folder / "stub.txt"
    _write(table, _lines(stub_table(profile)))
    (folder / "home").mkdir()
    environment = {
        "PATH": f"{smi}:{SYSTEM_PATH}",
        "HOME": str(folder / "home"),
        "LC_ALL": "C.UTF-8",
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "GPUENV_DRIVER_ROOT": str(root),
        "GPUENV_STUB": str(table),
    }
    if profile.host.kernel or profile.host.arch != os.uname().machine:
        environment["LD_PRELOAD"] = str(stub.uname)
    if profile.host.container is ContainerEngine.KUBERNETES:
        environment["KUBERNETES_SERVICE_HOST"] = "10.96.0.1"
    if profile.host.container is ContainerEngine.APPTAINER:
        environment["APPTAINER_CONTAINER"] = "/images/cupy.sif"
    return SimulatedMachine(environment | dict(profile.environment), root)


def _check_name(what: str, path: Path, programs: Path, libraries: Iterable[Path]) -> None:
    """Refuses a link in a folder of programs or libraries, unless its name is that of one of NVIDIA's.

    Another name could replace a program or a library that the command uses.
    """
    parent = Path(os.path.realpath(path.parent))
    searched = {Path(os.path.realpath(folder)): _LIBRARY for folder in libraries}
    for folder, names in {**searched, Path(os.path.realpath(programs)): _PROGRAM}.items():
        if parent.is_relative_to(folder) and not (parent == folder and names.fullmatch(path.name)):
            raise ProfileError(f"{what} is in a folder from which programs load code; only NVIDIA's may be there")


def _create_links(profile: Profile, root: Path, programs: Path, libraries: Iterable[Path]) -> None:
    """Creates the profile's own links, after all files, so that nothing is written through them.

    An absolute target is one of the machine, and no link leads out of it.
    """
    inside = os.path.realpath(root)
    for path, target in profile.links.items():
        parent = Path(os.path.realpath((root / path).parent))
        if not parent.is_relative_to(inside):
            raise ProfileError(f"{profile.name}: links: {path} is below a link that leads out of the machine")
        _check_name(f"{profile.name}: links: {path}", root / path, programs, libraries)
        parent.mkdir(parents=True, exist_ok=True)
        is_absolute = target.startswith("/")
        (root / path).symlink_to(os.path.relpath(root / target.lstrip("/"), parent) if is_absolute else target)
    for path in profile.links:  # a later link can change where an earlier one leads
        if not Path(os.path.realpath(root / path)).is_relative_to(inside):
            raise ProfileError(f"{profile.name}: links: {path} leads out of the machine")


def stub_table(profile: Profile) -> dict[str, str]:
    """The stub driver's keys; those in the profile's ``stub`` take precedence."""
    driver, host = profile.driver, profile.host
    gpus = counted(profile)
    table = {
        "driver.version": driver.version,
        "driver.cuda": str(driver.cuda),
        "host.arch": host.arch,
        "gpu.count": str(len(gpus)),
    }
    if host.kernel:
        table["host.kernel"] = host.kernel
    if driver.compat:
        table["cuda.driver"] = str(driver.compat.cuda)
    for number, gpu in enumerate(gpus):
        table |= {f"gpu.{number}.{key}": value for key, value in _stub_gpu(gpu)}
        if gpu.shown is PciVisibility.COUNTED:
            table[f"nvml.return.nvmlDeviceGetHandleByIndex_v2@{number}"] = _NO_PERMISSION
            table[f"gpu.{number}.denied"] = "1"
    if driver.module is KernelModule.INSTALLED_NOT_LOADED:
        table |= {
            "nvml.return.nvmlInitWithFlags": "9",
            "nvml.return.nvmlInit_v2": "9",
            "cuda.return.cuInit": "100",
            "smi.exit": "9",
            "smi.text": _NOT_LOADED + _REMEDY,
        }
    return table | dict(profile.stub)


def counted(profile: Profile) -> tuple[GpuSpec, ...]:
    """The GPUs that NVML counts, in its order."""
    return tuple(gpu for gpu in profile.gpus if gpu.shown in (PciVisibility.NVML, PciVisibility.COUNTED))


def _stub_gpu(gpu: GpuSpec) -> Iterator[tuple[str, str]]:
    domain, _, rest = gpu.pci.partition(":")
    yield "name", gpu.name
    yield "uuid", gpu.uuid
    yield "pci", f"{int(domain, 16):08X}:{rest.upper()}"
    yield "pci.device", f"0x{gpu.device}{NVIDIA}"
    yield "cc", gpu.capability
    yield "memory.total", "none" if gpu.memory is None else str(gpu.memory)
    if gpu.mig is None:
        return
    yield "mig", "1" if gpu.mig else "0"
    instances = [kind for kind in gpu.mig for _ in range(kind.count)]
    yield "mig.count", str(len(instances))
    for number, instance in enumerate(instances):
        yield f"mig.{number}.profile", instance.profile
        yield f"mig.{number}.memory.total", str(instance.memory)


def _nodes(profile: Profile) -> tuple[DeviceNodeSpec, ...]:
    if profile.driver.nodes is not None:
        return profile.driver.nodes
    if not profile.driver.module.is_loaded or not profile.host.kernel_files:
        return ()
    names = [f"nvidia{number}" for number, gpu in enumerate(profile.gpus) if gpu.shown is not PciVisibility.BUS]
    return tuple(DeviceNodeSpec(name, 0o666) for name in (*names, *_DRIVER_NODES))


def _driver_libraries(profile: Profile, root: Path, stub: StubDriver) -> list[Path]:
    """Creates the folders of NVML and libcuda; that of a cuda-compat package comes first."""
    driver, compat = profile.driver, profile.driver.compat
    folder = root / (driver.folder or f"usr/lib/{profile.host.arch}-linux-gnu")
    folders = [lay_out(stub, folder, driver.library, with_nvml=driver.nvml, with_cuda=driver.libcuda)]
    if compat is not None:
        compat_folder = root / f"usr/local/cuda-{compat.cuda // 1000}.{compat.cuda % 1000 // 10}/compat"
        folders.insert(0, lay_out(stub, compat_folder, compat.version, with_nvml=False))
    return folders


def _smi(profile: Profile, root: Path, stub: StubDriver) -> Path:
    """Creates the folder of nvidia-smi, which prints only the GPUs that NVML may open."""
    driver, folder = profile.driver, root / "usr/bin"
    lay_out(stub, folder, driver.library, with_nvml=False, with_cuda=False, with_smi=driver.smi)
    if driver.smi and any(gpu.shown is PciVisibility.COUNTED for gpu in profile.gpus):
        opened = replace(profile, gpus=tuple(gpu for gpu in profile.gpus if gpu.shown is PciVisibility.NVML))
        table, real = folder / ".nvidia-smi.txt", folder / ".nvidia-smi"
        _write(table, _lines(stub_table(opened)))
        (folder / "nvidia-smi").rename(real)
        _write(folder / "nvidia-smi", f'#!/bin/sh\nGPUENV_STUB={table} exec {real} "$@"\n')
        (folder / "nvidia-smi").chmod(0o755)
    return folder


def _broken_libraries(profile: Profile, root: Path) -> list[Path]:
    """Creates a folder of broken libraries, first on the loader's path."""
    if not profile.found_first:
        return []
    folder = root / "usr/local/lib"
    for name, fault in profile.found_first.items():
        _write(folder / name, "")
        if fault is LibraryFault.ABORTS:
            source = root.parent / "aborting.c"
            _write(source, _ABORTING)
            compile_library(source, name, folder / name)
    return [folder]


def _toolkit_libraries(profile: Profile, root: Path, cuda_libraries: Callable[[str], Path]) -> list[Path]:
    """Creates the toolkit in its default folder, with the libraries that CuPy loads, if the profile has one."""
    if profile.toolkit is None:
        return []
    major, minor = map(int, profile.toolkit.split("."))
    folder = root / f"usr/local/cuda-{profile.toolkit}"
    _write(folder / "version.json", f'{{"cuda": {{"name": "CUDA SDK", "version": "{profile.toolkit}.0"}}}}\n')
    _write(folder / "include/cuda.h", f"#define CUDA_VERSION {major * 1000 + minor * 10}\n")
    _write(folder / "include/cuda_runtime.h", "")
    (root / "usr/local/cuda").symlink_to(folder.name)
    # Copied, so that processes map files of this machine.
    shutil.copytree(cuda_libraries(profile.toolkit), folder / "lib64")
    return [folder / "lib64"]


def _lines(table: Mapping[str, str]) -> str:
    """The table as the stub driver reads it; a value of several lines would set other keys.

    Raises:
        ProfileError: for such a value.
    """
    for key, value in table.items():
        if "\n" in key + value or "\0" in key + value or "=" in key:
            raise ProfileError(f"{key.splitlines()[0] if key else key}: expected one line without NUL; found {value!r}")
    return "".join(f"{key}={value}\n" for key, value in table.items())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


_MODULES = ("nvidia_drm", "nvidia_uvm", "nvidia_modeset", "nvidia")


def kernel_files(profile: Profile) -> dict[str, str]:
    """The files of the kernel and the distribution, by path below the root."""
    name, _, release = profile.host.distribution.partition(" ")
    files = {"etc/os-release": f'ID={name}\nVERSION_ID="{release}"\n'}
    if profile.host.container is not ContainerEngine.NONE:
        in_pod = profile.host.container is ContainerEngine.KUBERNETES
        files["proc/1/cgroup"] = "0::/kubepods.slice/kubepods-burstable.slice\n" if in_pod else "0::/\n"
        files |= {".dockerenv": ""} if profile.host.container is ContainerEngine.DOCKER else {}
    if not profile.host.kernel_files:
        return files
    files |= _module_files(profile)
    for device in devices_on_bus(profile):
        folder = f"sys/bus/pci/devices/{device.pci}"
        files[f"{folder}/class"] = f"{device.pci_class}\n"
        files[f"{folder}/vendor"] = f"0x{device.vendor}\n"
        files[f"{folder}/device"] = f"0x{device.device}\n"
    # A bus without display controllers is not empty.
    files["sys/bus/pci/devices/0000:00:00.0/class"] = "0x060000\n"
    return files


def _module_files(profile: Profile) -> dict[str, str]:
    driver, host = profile.driver, profile.host
    loaded = [*_MODULES] if driver.module.is_loaded else ["nouveau"] if driver.module is KernelModule.NOUVEAU else []
    if not any(gpu.on_bus for gpu in profile.gpus) and "nvidia_uvm" in loaded:
        loaded.remove("nvidia_uvm")  # Tegra has none
    files = {"proc/modules": "".join(f"{name} 1048576 0 - Live 0x0000000000000000\n" for name in (*loaded, "ext4"))}
    if host.container is ContainerEngine.NONE:  # images lack the modules of the host's kernel
        built = ["kernel/drivers/gpu/drm/nouveau/nouveau.ko: kernel/drivers/gpu/drm/drm.ko"]
        if driver.module.is_loaded or driver.module is KernelModule.INSTALLED_NOT_LOADED:
            built.append("updates/dkms/nvidia.ko:")
        kernel = host.kernel or os.uname().release
        files[f"lib/modules/{kernel}/modules.dep"] = "\n".join(built) + "\n"
    if driver.module.is_loaded:
        files["sys/module/nvidia/version"] = f"{driver.version}\n"
        files["proc/driver/nvidia/version"] = _version_text(profile)
        for number, gpu in enumerate(profile.gpus):
            if gpu.on_bus and gpu.shown is not PciVisibility.BUS:
                files[f"proc/driver/nvidia/gpus/{gpu.pci}/information"] = _information(gpu, number)
    return files


def _version_text(profile: Profile) -> str:
    """The text of /proc/driver/nvidia/version; two blanks surround the version and precede the date."""
    driver, arch = profile.driver, profile.host.arch
    if driver.module is KernelModule.OPEN:
        kind = f"NVIDIA UNIX Open Kernel Module for {arch}  {driver.version}  Release Build"
    else:
        kind = f"NVIDIA UNIX {arch} Kernel Module  {driver.version}"
    return f"NVRM version: {kind}  {driver.built}\nGCC version:  gcc version 11.4.0 (Ubuntu 11.4.0-1ubuntu1~22.04)\n"


def _information(gpu: GpuSpec, number: int) -> str:
    return (
        f"Model: \t\t {gpu.name}\nIRQ:   \t\t {77 + number}\nGPU UUID: \t {gpu.uuid}\nBus Type: \t PCI\n"
        f"Bus Location: \t {gpu.pci}\nDevice Minor: \t {number}\nGPU Excluded:\t No\n"
    )


def devices_on_bus(profile: Profile) -> tuple[PciSpec, ...]:
    """The devices on the PCI bus, the GPUs first; none if the kernel's files are not visible."""
    if not profile.host.kernel_files:
        return ()
    module = profile.driver.module
    holder = "nvidia" if module.is_loaded else "nouveau" if module is KernelModule.NOUVEAU else None
    gpus = (
        PciSpec(gpu.pci, gpu.pci_class, NVIDIA, gpu.device, None if gpu.shown is PciVisibility.BUS else holder)
        for gpu in profile.gpus
        if gpu.on_bus
    )
    return (*gpus, *profile.other_devices)


_NVIDIA_SMI = "nvidia-smi"
_TOOLKIT = re.compile(r"/(?:usr/local|opt)/cuda(?:-\d[^/]*)?(?:/|$)")


def search_path(machine: SimulatedMachine, path: str | None) -> str:
    """PATH of a program on the machine, without the host's CUDA toolkit.

    The caller's folders come before the system's, so that an activated environment stays active. On a machine without
    nvidia-smi, a folder that has one is replaced by links to the other programs in it.
    """
    machine_folder = machine.root / "usr/bin"
    callers = [folder for folder in path.split(os.pathsep) if not _TOOLKIT.match(folder)] if path else []
    others = [*callers, *(folder for folder in SYSTEM_PATH.split(os.pathsep) if folder not in callers)]
    if not (machine_folder / _NVIDIA_SMI).exists():
        others = [_without_smi(folder, machine.root.parent / f"path-{number}") for number, folder in enumerate(others)]
    return os.pathsep.join([str(machine_folder), *others])


def _without_smi(folder: str, links: Path) -> str:
    original = Path(folder).absolute()
    if not is_file(original / _NVIDIA_SMI):
        return folder
    links.mkdir()
    with contextlib.suppress(PermissionError):  # a folder that may not be listed
        for program in original.iterdir():
            if program.name != _NVIDIA_SMI:
                (links / program.name).symlink_to(program)
    return str(links)
