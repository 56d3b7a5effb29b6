"""Implements ``--assume KEY=VALUE``, which replaces facts of a Snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from gpuenv.matrix.needs import cuda_of_branch
from gpuenv.matrix.products import ProductError, find_gpu
from gpuenv.matrix.ranges import is_version
from gpuenv.matrix.tables import AmdProduct, Matrix
from gpuenv.model.cupy import cuda_major_of, is_cupy
from gpuenv.model.errors import GpuenvError
from gpuenv.model.gpus import is_gfx, visible_entries
from gpuenv.model.nvidia import CUDA_LIBRARIES
from gpuenv.model.reading import ASSUMED, Reading, assumed, missing
from gpuenv.model.snapshot import (
    AmdGpu,
    Container,
    CupyInstallation,
    Driver,
    Gpu,
    Host,
    Library,
    Snapshot,
    SourceState,
    Toolkit,
    architecture,
    operating_system,
)
from gpuenv.model.strings import did_you_mean, parse_integer, parse_size
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

_NONE = "none"
# For this variable "none" is a value: no GPU is accessible, but the driver's capabilities are; "void or empty or unset"
# are equivalent to each other (NVIDIA Container Toolkit 1.16.0, Specialized Configurations with Docker, GPU
# Enumeration, read 2026-11-22).
_WITH_NONE = "NVIDIA_VISIBLE_DEVICES"
_NVIDIA_KEYS = ("compute-capability", "gpu-memory")
_GPU_KEYS = ("gpu", "gpu-count", "gpu-memory", "compute-capability", "gfx")
_MAX_GPUS = 1024  # more than any machine has
_CUPY = "target.cupy"
_FOLDER = "an assumed folder"
_CUPY_SOURCES = ("libraries", "files")  # sources about the installed CuPy


class AssumeError(GpuenvError, ValueError):
    """An invalid or contradictory assumption; the message names it and what was expected."""


def assume(snapshot: Snapshot, assumptions: Sequence[str], matrix: Matrix) -> Snapshot:
    """Returns a Snapshot with assumed facts, each marked as such.

    Assumptions have the form ``KEY=VALUE``; ``gpu`` may be repeated for several GPUs.

    Raises:
        AssumeError: for the first invalid assumption.
    """
    pairs = [_read_pair(text) for text in assumptions]
    no_gpu = next((pair for pair in pairs if _is_no_gpu(*pair)), None)
    gpu_fact = next((pair for pair in pairs if pair[0] in _GPU_KEYS and not _is_no_gpu(*pair)), None)
    if no_gpu and gpu_fact:
        raise AssumeError(f"--assume {'='.join(no_gpu)}: contradicts {'='.join(gpu_fact)}, which needs a GPU")
    gpus = [value for key, value in pairs if key == "gpu"]
    if gpus:
        snapshot = _assume_gpus(snapshot, gpus, matrix)
    are_of_amd = bool(gpus and snapshot.amd_gpus and not snapshot.gpus)
    amd_fact = next((pair for pair in pairs if pair[0] == "gfx" or (pair[0] == "gpu" and are_of_amd)), None)
    nvidia_fact = next((pair for pair in pairs if pair[0] in _NVIDIA_KEYS), None)
    if amd_fact and nvidia_fact:
        raise AssumeError(f"--assume {'='.join(nvidia_fact)}: contradicts {'='.join(amd_fact)}, a GPU of AMD's")
    # The system first: replacing it discards other facts.
    for (key, value), text in sorted(zip(pairs, assumptions, strict=True), key=lambda entry: entry[0][0] != "os"):
        try:
            snapshot = snapshot if key == "gpu" else _assume_one(snapshot, key, value, matrix)
        except ValueError as error:
            raise AssumeError(f"--assume {text}: {error}") from error
    if snapshot.host.os.value != "linux" and "host.os" in snapshot.assumed:  # without glibc and musl
        facts = tuple(path for path in snapshot.assumed if path != "host.libc")
        snapshot = snapshot._replace(host=snapshot.host._replace(libc=Reading()), assumed=facts)
    return _with_libraries(_with_visible_count(snapshot))


def assumed_keys(assumptions: Iterable[str]) -> set[str]:
    """Returns the normalized keys of assumptions.

    Raises:
        AssumeError: for an invalid assumption.
    """
    return {_read_pair(text)[0] for text in assumptions}


def _read_pair(text: str) -> tuple[str, str]:
    """Returns key and value of an assumption; ``glibc=2.36`` is short for ``libc=glibc-2.36``."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key or not (value or key.startswith("env.")):
        raise AssumeError(f"--assume {text}: expected KEY=VALUE, such as driver=580.95.05")
    return ("libc", f"{key}-{value}") if key in ("glibc", "musl") else (key, value)


def _is_no_gpu(key: str, value: str) -> bool:
    return (key == "gpu" and value.lower() == _NONE) or (key == "gpu-count" and value.strip("0") == "" != value)


def _with_visible_count(snapshot: Snapshot) -> Snapshot:
    """Derives the visible count from an assumed CUDA_VISIBLE_DEVICES or assumed GPUs."""
    if not {"gpus", "environment.CUDA_VISIBLE_DEVICES"} & set(snapshot.assumed):
        return snapshot
    value = snapshot.environment.get("CUDA_VISIBLE_DEVICES")
    count = len(snapshot.gpus) if value is None else visible_entries(value, snapshot.gpus)
    return snapshot._replace(visible_count=assumed(count))


def _assume_one(snapshot: Snapshot, key: str, value: str, matrix: Matrix) -> Snapshot:
    if key.startswith("env."):
        return _assume_variable(snapshot, key.removeprefix("env."), value)
    if key.startswith("package."):
        return _assume_package(snapshot, key.removeprefix("package."), value)
    keys = _keys(matrix)
    if key in keys:
        return keys[key](snapshot, value)
    known = ("gpu", *keys, "env.NAME", "package.NAME")
    raise AssumeError(f"unknown key{did_you_mean(key, known, before='; ')} (one of {', '.join(known)})")


def _assume_host(field: str, read: Callable[[str], object]) -> Callable[[Snapshot, str], Snapshot]:
    """Returns a function that assumes one field of the host."""

    def apply(snapshot: Snapshot, value: str) -> Snapshot:
        host = snapshot.host._replace(**{field: assumed(read(value))})  # type: ignore[arg-type]
        return snapshot._replace(host=host).assuming(f"host.{field}")

    return apply


def _assume_system(snapshot: Snapshot, value: str) -> Snapshot:
    """Assumes an operating system and discards the facts of another one."""
    name = _one_of("linux", "windows", "darwin")(operating_system(value))
    before = snapshot.host.os.value
    if before not in (None, name) or (name != "linux" and before is None):
        target = snapshot.target._replace(platform=Reading())
        snapshot = snapshot._replace(host=Host(arch=snapshot.host.arch), target=target)
    return snapshot._replace(host=snapshot.host._replace(os=assumed(name))).assuming("host.os")


def _assume_driver(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    """Assumes a driver version, or none, and discards the driver that was read.

    The CUDA level follows from the branch unless it is assumed too.
    """
    if value.lower() == _NONE:
        absent: Reading[DriverVersion] = missing("assumed to be absent")
        return _with_driver(snapshot, Driver(version=absent, cuda=missing(str(absent.reason))))
    version = DriverVersion.parse(value)
    if version.is_bare_branch:
        row = next((entry for entry in matrix.driver_branches if entry.branch == version.branch), None)
        version = row.first if row and row.first else version
    cuda = snapshot.driver.cuda
    if "driver.cuda" not in snapshot.assumed:
        level = cuda_of_branch(version, matrix)
        source = f"the level of driver branch {version.branch}"
        cuda = Reading(level, source) if level else missing("the branch is not in the matrix")
    return _with_driver(snapshot, Driver(version=assumed(version), branch=assumed(version.branch), cuda=cuda))


def _with_driver(snapshot: Snapshot, driver: Driver) -> Snapshot:
    """Replaces the driver and discards the sources of the real one."""
    answered = {"nvml", "libcuda", "nvidia-smi"}
    sources = tuple(source for source in snapshot.sources if source.name not in answered)
    return snapshot._replace(driver=driver, sources=sources).assuming("driver.version")


def _assume_driver_cuda(snapshot: Snapshot, value: str) -> Snapshot:
    driver = snapshot.driver._replace(cuda=assumed(CudaVersion.parse(value)))
    return snapshot._replace(driver=driver).assuming("driver.cuda")


def _assume_gpus(snapshot: Snapshot, names: Sequence[str], matrix: Matrix) -> Snapshot:
    """Assumes GPUs by model; ``none`` for a machine without one."""
    if names[0].lower() == _NONE:
        return _with_gpus(snapshot, ())
    gpus: list[Gpu] = []
    of_amd: list[AmdGpu] = []
    for name in names:
        try:
            found = find_gpu(name, matrix)
        except ProductError as error:
            raise AssumeError(f"--assume gpu={name}: {error}") from error
        if isinstance(found, AmdProduct):
            of_amd.append(AmdGpu(len(of_amd), found.name, found.gfx))
            continue
        capability = assumed(found.compute_capability)
        gpus.append(Gpu(assumed(len(gpus)), name=assumed(found.name), compute_capability=capability))
    snapshot = _with_gpus(snapshot, gpus)
    return snapshot._replace(amd_gpus=tuple(of_amd)) if of_amd else snapshot


def _with_gpus(snapshot: Snapshot, gpus: Sequence[Gpu]) -> Snapshot:
    """Replaces the GPUs; without any, the bus has none either."""
    on_bus = snapshot.pci_gpus if gpus else ()
    return snapshot._replace(gpus=tuple(gpus), gpu_count=assumed(len(gpus)), pci_gpus=on_bus).assuming("gpus")


def _assume_capability(snapshot: Snapshot, value: str) -> Snapshot:
    capability = assumed(ComputeCapability.parse(value))
    gpus = snapshot.gpus or (Gpu(index=assumed(0)),)
    return _with_gpus(snapshot, [gpu._replace(compute_capability=capability) for gpu in gpus])


def _assume_gfx(snapshot: Snapshot, value: str) -> Snapshot:
    """Assumes the target of AMD GPUs, and no GPU of NVIDIA's."""
    if not is_gfx(value):
        raise ValueError("expected the target of an AMD GPU, such as gfx942")
    of_amd = tuple(gpu._replace(gfx=value) for gpu in snapshot.amd_gpus or (AmdGpu(0),))
    return _with_gpus(snapshot, ())._replace(amd_gpus=of_amd)


def _assume_rocm(snapshot: Snapshot, value: str) -> Snapshot:
    """Assumes a ROCm release, or none."""
    if value.lower() != _NONE and not is_version(value):
        raise ValueError("expected a release of ROCm, such as 7.0, or none")
    rocm = missing("assumed to be absent") if value.lower() == _NONE else assumed(value)
    return snapshot._replace(rocm=rocm).assuming("rocm")


def _assume_count(snapshot: Snapshot, value: str) -> Snapshot:
    if snapshot.amd_gpus and not snapshot.gpus:
        of_amd = snapshot.amd_gpus
        more = (of_amd[number % len(of_amd)]._replace(node=number) for number in range(_read_count(value)))
        return _with_gpus(snapshot, ())._replace(amd_gpus=tuple(more))
    kinds = snapshot.gpus or (Gpu(),)
    gpus = [kinds[number % len(kinds)]._replace(index=assumed(number)) for number in range(_read_count(value))]
    return _with_gpus(snapshot, gpus)


def _assume_memory(snapshot: Snapshot, value: str) -> Snapshot:
    size = assumed(parse_size(value))
    gpus = snapshot.gpus or (Gpu(index=assumed(0)),)
    return _with_gpus(snapshot, [gpu._replace(memory_total=size, memory_free=size) for gpu in gpus])


def _assume_variable(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    """Assumes an environment variable, or its absence."""
    if not name:
        raise ValueError("expected the name of a variable, such as env.CUDA_VISIBLE_DEVICES")
    variables = {other: text for other, text in snapshot.environment.items() if other != name}
    if value.lower() != _NONE or name == _WITH_NONE:
        variables[name] = value
    return snapshot._replace(environment=variables).assuming(f"environment.{name}")


def _one_of(*names: str) -> Callable[[str], str]:
    """Returns a parser of these names, case-insensitive."""

    def read(value: str) -> str:
        if value.lower() not in names:
            raise ValueError(f"expected one of {', '.join(names)}")
        return value.lower()

    return read


def _read_arch(value: str) -> str:
    return architecture(_one_of("x86_64", "amd64", "aarch64", "arm64")(value))


def _read_yes(value: str) -> bool:
    if value.lower() not in ("yes", "no", "true", "false"):
        raise ValueError("expected yes or no")
    return value.lower() in ("yes", "true")


def _read_container(value: str) -> Container:
    return Container.OTHER if _read_yes(value) else Container.NONE


def _read_count(value: str) -> int:
    number = parse_integer(value)
    if number is None or number > _MAX_GPUS:
        raise ValueError(f"expected an integer up to {_MAX_GPUS}")
    return number


def _assume_python(snapshot: Snapshot, value: str) -> Snapshot:
    """Assumes a CPython of this version."""
    target = snapshot.target._replace(python=assumed(PythonVersion.parse(value)), implementation=assumed("cpython"))
    return snapshot._replace(target=target).assuming("target.python")


def _assume_cupy(snapshot: Snapshot, value: str) -> Snapshot:
    """Assumes ``cupy-cuda12x==14.2.0``, also as ``cupy-cuda12x[ctk]==14.2.0; sys_platform == "linux"``, or none."""
    others = {entry: version for entry, version in snapshot.target.packages.items() if not is_cupy(entry)}
    if value.lower() == _NONE:
        return _with_cupy(snapshot, (), others)
    name, release = _cupy_of(value)
    if [(entry.distribution, entry.release) for entry in snapshot.target.cupy] == [(name, release)]:
        return snapshot.assuming(_CUPY)  # its other facts remain valid
    return _with_cupy(snapshot, (CupyInstallation(name, release),), {**others, name: release})


def _with_cupy(snapshot: Snapshot, cupy: tuple[CupyInstallation, ...], packages: Mapping[str, str]) -> Snapshot:
    """Replaces CuPy; the files and libraries of the new one are unknown."""
    sources = tuple(source for source in snapshot.sources if source.name not in _CUPY_SOURCES)
    return snapshot._replace(target=snapshot.target.with_cupy(cupy, packages), sources=sources).assuming(_CUPY)


def _with_libraries(snapshot: Snapshot) -> Snapshot:
    """Adds the libraries of an assumed toolkit for a CuPy of its CUDA major version without known libraries."""
    target, was_probed = snapshot.target, snapshot.source("libraries").state is not SourceState.NOT_ASKED
    if "toolkits" not in snapshot.assumed or not target.cupy or target.libraries or was_probed:
        return snapshot
    major = cuda_major_of(target.cupy[0].distribution, target.packages)
    levels = (kit.toolkit.value for kit in snapshot.toolkits)
    level = next((level for level in levels if level and level.major == major), None)
    if level is None:
        return snapshot
    found = tuple(
        Library(
            wanted.name,
            wanted.soname,
            f"{_FOLDER}/{wanted.soname}",
            ASSUMED,
            release=str(level) if wanted.name == "nvrtc" else None,
        )
        for wanted in CUDA_LIBRARIES.get(level.major, ())
    )
    return snapshot._replace(target=target._replace(libraries=found))


def _cupy_of(value: str) -> tuple[str, str]:
    """Returns the distribution and the version of a pip requirement; ignores extras and marker."""
    expected = "expected a distribution of CuPy and its version, such as cupy-cuda12x==14.2.0"
    try:
        read = Requirement(value)
    except InvalidRequirement as error:
        raise ValueError(expected) from error
    pins = [entry.version for entry in read.specifier if entry.operator in ("==", "===")]
    name = canonicalize_name(read.name)
    if is_cupy(name) and read.specifier and (len(read.specifier) > 1 or not pins or not is_version(pins[0])):
        raise ValueError(f"{expected}; a range is not a fact: use preflight --require 'cupy{read.specifier}'")
    if not is_cupy(name) or not pins:
        raise ValueError(expected)
    return name, pins[0]


def _assume_package(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    """Assumes a distribution of this version, or none."""
    try:
        name = canonicalize_name(name, validate=True)
    except ValueError as error:
        raise ValueError("expected the name of a distribution, such as package.torch") from error
    is_absent = value.lower() == _NONE
    if not is_absent and not is_version(value):
        raise ValueError("expected a version, or none")
    target = snapshot.target
    packages = {entry: release for entry, release in target.packages.items() if entry != name}
    packages |= {} if is_absent else {name: value}
    if is_cupy(name):  # in addition to other CuPys
        others = tuple(entry for entry in target.cupy if entry.distribution != name)
        return _with_cupy(snapshot, others if is_absent else (*others, CupyInstallation(name, value)), packages)
    if name == "numpy":
        target = target._replace(numpy=missing("assumed to be absent") if is_absent else assumed(value))
    return snapshot._replace(target=target._replace(packages=packages)).assuming(f"target.packages.{name}")


def _assume_toolkit(snapshot: Snapshot, value: str) -> Snapshot:
    """Assumes a complete CUDA toolkit, or none."""
    if value.lower() == _NONE:
        return snapshot._replace(toolkits=()).assuming("toolkits")
    toolkit = Toolkit(_FOLDER, ASSUMED, assumed(CudaVersion.parse(value)), has_nvrtc=True, has_headers=True)
    return snapshot._replace(toolkits=(toolkit,)).assuming("toolkits")


def _keys(matrix: Matrix) -> dict[str, Callable[[Snapshot, str], Snapshot]]:
    """Returns the functions of all keys but ``gpu``, ``env.NAME`` and ``package.NAME``."""
    return {
        "os": _assume_system,
        "arch": _assume_host("arch", _read_arch),
        "libc": _assume_host("libc", Libc.parse),
        "container": _assume_host("container", _read_container),
        "wsl": _assume_host("wsl", _read_yes),
        "python": _assume_python,
        "driver-cuda": _assume_driver_cuda,
        "driver": partial(_assume_driver, matrix=matrix),
        "compute-capability": _assume_capability,
        "gpu-count": _assume_count,
        "gpu-memory": _assume_memory,
        "gfx": _assume_gfx,
        "rocm": _assume_rocm,
        "cupy": _assume_cupy,
        "numpy": lambda snapshot, value: _assume_package(snapshot, "numpy", value),
        "toolkit": _assume_toolkit,
    }


_NO_ROWS = Matrix("", "", {}, (), (), (), (), (), ())


def validate_assumptions(assumptions: Sequence[str]) -> None:
    """Validates assumptions without a matrix; the names of GPUs need one and are not checked.

    Raises:
        AssumeError: for the first invalid assumption.
    """
    others = []
    for text in assumptions:
        key, _, value = (part.strip() for part in text.partition("="))
        if key != "gpu":
            others.append(text)
        elif not value:
            raise AssumeError(f"--assume {text}: expected KEY=VALUE, such as driver=580.95.05")
    assume(Snapshot(), others, _NO_ROWS)
