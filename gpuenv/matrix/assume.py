"""``--assume KEY=VALUE``: replaces one fact of a Snapshot. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

from gpuenv.matrix.assumed_values import one_of, read_arch, read_container, read_count, read_yes
from gpuenv.matrix.needs import cuda_of_branch
from gpuenv.matrix.products import ProductError, find_product
from gpuenv.matrix.ranges import is_version
from gpuenv.matrix.records import Matrix
from gpuenv.model.lines import is_cupy
from gpuenv.model.reading import Reading, assumed, missing
from gpuenv.model.record import replace
from gpuenv.model.sizes import parse_size
from gpuenv.model.snapshot import CupyInstallation, Driver, Gpu, Snapshot, Toolkit
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion
from gpuenv.model.visible import visible_entries

_NONE = "none"
_OPERATING_SYSTEMS = ("linux", "windows", "darwin")


class AssumeError(ValueError):
    """An assumption that cannot be understood; the message names it and what was expected."""


def assume(snapshot: Snapshot, given: Sequence[str], matrix: Matrix) -> Snapshot:
    """A Snapshot with the given facts in place of those that were read, each marked as assumed.

    Args:
        snapshot: what was read, or an empty one.
        given: texts of the form ``KEY=VALUE``; ``gpu`` may be repeated for several GPUs.
        matrix: looks up a GPU's compute capability and a driver's CUDA level.

    Raises:
        AssumeError: at the first that cannot be understood.
    """
    gpus = [text.partition("=")[2].strip() for text in given if text.partition("=")[0].strip() == "gpu"]
    if gpus:
        snapshot = _assume_gpus(snapshot, gpus, matrix)
    for text in given:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key or not (value or key.startswith("env.")):
            raise AssumeError(f"--assume {text}: expected KEY=VALUE, such as driver=580.95.05")
        if key == "gpu":
            continue
        try:
            snapshot = _one(snapshot, key, value, matrix)
        except ValueError as error:
            raise AssumeError(f"--assume {text}: {error}") from error
    return _hidden(snapshot)


def _hidden(snapshot: Snapshot) -> Snapshot:
    """What an assumed CUDA_VISIBLE_DEVICES, or assumed GPUs under the variable that is there, leave visible."""
    told = snapshot.environment.get("CUDA_VISIBLE_DEVICES")
    if not {"gpus", "environment.CUDA_VISIBLE_DEVICES"} & set(snapshot.assumed):
        return snapshot
    count = len(snapshot.gpus) if told is None else visible_entries(told, snapshot.gpus)
    return replace(snapshot, visible_count=assumed(count))


def _one(snapshot: Snapshot, key: str, value: str, matrix: Matrix) -> Snapshot:
    if key.startswith("env."):
        return _assume_variable(snapshot, key.removeprefix("env."), value)
    if key.startswith("package."):
        return _assume_package(snapshot, _canonical(key.removeprefix("package.")), value)
    function = _KEYS.get(key)
    if function is None:
        known = ("gpu", *_KEYS, "env.NAME", "package.NAME")
        near = difflib.get_close_matches(key, known, 1)
        raise AssumeError(f"unknown key{f'; did you mean {near[0]}?' if near else ''} (one of {', '.join(known)})")
    return function(snapshot, value, matrix)


def _noted(snapshot: Snapshot, *paths: str) -> Snapshot:
    return replace(snapshot, assumed=tuple(dict.fromkeys((*snapshot.assumed, *paths))))


def _host(field: str, read: Callable[[str], object]) -> Callable[[Snapshot, str, Matrix], Snapshot]:
    """An assumption that replaces one field of the host."""

    def apply(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
        del matrix
        host = replace(snapshot.host, **{field: assumed(read(value))})  # type: ignore[arg-type]
        return _noted(replace(snapshot, host=host), f"host.{field}")

    return apply


def _assume_driver(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    """A driver version, or none, in place of all that was read of a driver.

    Its CUDA level follows from its branch unless it is assumed too.
    """
    if value.lower() == _NONE:
        gone: Reading[DriverVersion] = missing("assumed to be absent")
        return _with_driver(snapshot, Driver(version=gone, cuda=missing(str(gone.reason))))
    version = DriverVersion.parse(value)
    if version.is_bare_branch:
        row = next((entry for entry in matrix.driver_branches if entry.branch == version.branch), None)
        version = row.first if row and row.first else version
    cuda = snapshot.driver.cuda
    if "driver.cuda" not in snapshot.assumed:
        level = cuda_of_branch(version, matrix)
        said = f"the level of driver branch {version.branch}"
        cuda = Reading(level, said) if level else missing("the branch is not in the matrix")
    return _with_driver(snapshot, Driver(version=assumed(version), branch=assumed(version.branch), cuda=cuda))


def _with_driver(snapshot: Snapshot, driver: Driver) -> Snapshot:
    """What the real driver said no longer counts."""
    told = {"nvml", "libcuda", "nvidia-smi"}
    sources = tuple(source for source in snapshot.sources if source.name not in told)
    return _noted(replace(snapshot, driver=driver, sources=sources), "driver.version")


def _assume_driver_cuda(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    del matrix
    driver = replace(snapshot.driver, cuda=assumed(CudaVersion.parse(value)))
    return _noted(replace(snapshot, driver=driver), "driver.cuda")


def _assume_gpus(snapshot: Snapshot, names: Sequence[str], matrix: Matrix) -> Snapshot:
    """GPUs by model; ``none`` for a machine without."""
    if any(name.lower() == _NONE for name in names):
        if len(names) > 1:
            raise AssumeError("--assume gpu=none: stands beside another gpu")
        return _noted(replace(snapshot, gpus=(), pci_gpus=(), gpu_count=assumed(0)), "gpus")
    gpus = []
    for index, name in enumerate(names):
        try:
            product = find_product(name, matrix)
        except ProductError as error:
            raise AssumeError(f"--assume gpu={name}: {error}") from error
        gpus.append(
            Gpu(
                index=assumed(index), name=assumed(product.name), compute_capability=assumed(product.compute_capability)
            )
        )
    return _with_gpus(snapshot, gpus)


def _with_gpus(snapshot: Snapshot, gpus: Sequence[Gpu]) -> Snapshot:
    return _noted(replace(snapshot, gpus=tuple(gpus), gpu_count=assumed(len(gpus))), "gpus")


def _assume_capability(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    del matrix
    capability = assumed(ComputeCapability.parse(value))
    gpus = snapshot.gpus or (Gpu(index=assumed(0)),)
    return _with_gpus(snapshot, [replace(gpu, compute_capability=capability) for gpu in gpus])


def _assume_count(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    del matrix
    kinds = snapshot.gpus or (Gpu(),)
    gpus = [replace(kinds[number % len(kinds)], index=assumed(number)) for number in range(read_count(value))]
    return _with_gpus(snapshot, gpus)


def _assume_memory(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    del matrix
    size = assumed(parse_size(value))
    gpus = snapshot.gpus or (Gpu(index=assumed(0)),)
    return _with_gpus(snapshot, [replace(gpu, memory_total=size, memory_free=size) for gpu in gpus])


def _assume_python(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    del matrix
    target = replace(snapshot.target, python=assumed(PythonVersion.parse(value)), implementation=assumed("cpython"))
    return _noted(replace(snapshot, target=target), "target.python")


def _assume_cupy(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    """``cupy-cuda12x==14.2.0``, also as ``cupy-cuda12x[ctk]==14.2.0; sys_platform == "linux"``, or none."""
    del matrix
    if value.lower() == _NONE:
        kept = {name: release for name, release in snapshot.target.packages.items() if not is_cupy(name)}
        target = snapshot.target.with_cupy((), kept)
        return _noted(replace(snapshot, target=target), "target.cupy")
    name, release = _cupy_of(value)
    kept = {entry: version for entry, version in snapshot.target.packages.items() if not is_cupy(entry)}
    target = snapshot.target.with_cupy((CupyInstallation(name, release),), {**kept, name: release})
    return _noted(replace(snapshot, target=target), "target.cupy")


def _cupy_of(value: str) -> tuple[str, str]:
    """The distribution and the version in a requirement of pip's; its extras and its marker are no facts.

    Raises:
        ValueError: for another distribution, or where it leaves the version open.
    """
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only where one is given

    expected = "expected a distribution of CuPy and its version, such as cupy-cuda12x==14.2.0"
    try:
        read = Requirement(value)
    except InvalidRequirement as error:
        raise ValueError(expected) from error
    pins = [entry.version for entry in read.specifier if entry.operator in ("==", "===")]
    name = _canonical(read.name)
    if is_cupy(name) and read.specifier and (len(read.specifier) > 1 or not pins or not is_version(pins[0])):
        raise ValueError(f"{expected}; a range is no fact: preflight --require 'cupy{read.specifier}' asks for one")
    if not is_cupy(name) or not pins:
        raise ValueError(expected)
    return name, pins[0]


def _assume_numpy(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    del matrix
    return _assume_package(snapshot, "numpy", value)


def _assume_package(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    if is_cupy(name):
        return _assume_cupy_package(snapshot, name, value)
    if value.lower() != _NONE and not is_version(value):
        raise ValueError("expected a version, or none")
    packages = {entry: release for entry, release in snapshot.target.packages.items() if entry != name}
    if value.lower() != _NONE:
        packages[name] = value
    target = replace(snapshot.target, packages=packages)
    if name == "numpy":
        target = replace(target, numpy=missing("assumed to be absent") if value.lower() == _NONE else assumed(value))
    return _noted(replace(snapshot, target=target), f"target.packages.{name}")


def _assume_cupy_package(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    """One CuPy distribution beside those that are there, or one of them gone."""
    if value.lower() != _NONE and not is_version(value):
        raise ValueError("expected a version, or none")
    others = tuple(entry for entry in snapshot.target.cupy if entry.distribution != name)
    packages = {entry: release for entry, release in snapshot.target.packages.items() if entry != name}
    if value.lower() != _NONE:
        others += (CupyInstallation(name, value),)
        packages[name] = value
    target = snapshot.target.with_cupy(others, packages)
    return _noted(replace(snapshot, target=target), "target.cupy")


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _assume_toolkit(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    del matrix
    if value.lower() == _NONE:
        return _noted(replace(snapshot, toolkits=()), "toolkits")
    toolkit = Toolkit(
        "an assumed folder", "assumed", assumed(CudaVersion.parse(value)), has_nvrtc=True, has_headers=True
    )
    return _noted(replace(snapshot, toolkits=(toolkit,)), "toolkits")


def _assume_variable(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    variables = {**snapshot.environment, name: value}  # "none" is a value that NVIDIA_VISIBLE_DEVICES has
    return _noted(replace(snapshot, environment=variables), f"environment.{name}")


_KEYS: dict[str, Callable[[Snapshot, str, Matrix], Snapshot]] = {
    "os": _host("os", one_of(_OPERATING_SYSTEMS)),
    "arch": _host("arch", read_arch),
    "libc": _host("libc", Libc.parse),
    "container": _host("container", read_container),
    "wsl": _host("wsl", read_yes),
    "python": _assume_python,
    "driver-cuda": _assume_driver_cuda,
    "driver": _assume_driver,
    "compute-capability": _assume_capability,
    "gpu-count": _assume_count,
    "gpu-memory": _assume_memory,
    "cupy": _assume_cupy,
    "numpy": _assume_numpy,
    "toolkit": _assume_toolkit,
}
