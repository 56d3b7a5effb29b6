"""``--assume KEY=VALUE``: replaces one fact of a Snapshot. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from gpuenv.matrix.assumed_target import (
    assume_cupy,
    assume_numpy,
    assume_package,
    assume_python,
    assume_toolkit,
    with_libraries,
)
from gpuenv.matrix.assumed_values import one_of, read_arch, read_container, read_count, read_yes
from gpuenv.matrix.contradictions import AssumeError, read_pair, refuse_contradictions
from gpuenv.matrix.needs import cuda_of_branch
from gpuenv.matrix.products import ProductError, find_product
from gpuenv.matrix.records import Matrix
from gpuenv.model.host import operating_system
from gpuenv.model.reading import Reading, assumed, missing
from gpuenv.model.sizes import parse_size
from gpuenv.model.snapshot import Driver, Gpu, Host, Snapshot
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc
from gpuenv.model.visible import visible_entries

__all__ = ["AssumeError", "assume", "assumed_keys"]

_NONE = "none"
# A value of its own, by which no GPU is accessible and the driver's capabilities are; "void or empty or unset" come to
# the same (NVIDIA Container Toolkit 1.16.0, Specialized Configurations with Docker, GPU Enumeration, read 2026-11-22).
_WITH_NONE = "NVIDIA_VISIBLE_DEVICES"
_OPERATING_SYSTEMS = ("linux", "windows", "darwin")


def assume(snapshot: Snapshot, given: Sequence[str], matrix: Matrix) -> Snapshot:
    """A Snapshot with the given facts in place of those that were read, each marked as assumed.

    Args:
        snapshot: what was read, or an empty one.
        given: texts of the form ``KEY=VALUE``; ``gpu`` may be repeated for several GPUs.
        matrix: looks up a GPU's compute capability and a driver's CUDA level.

    Raises:
        AssumeError: at the first that cannot be understood.
    """
    pairs = [read_pair(text) for text in given]
    refuse_contradictions(pairs)
    gpus = [value for key, value in pairs if key == "gpu"]
    if gpus:
        snapshot = _assume_gpus(snapshot, gpus, matrix)
    # Another system first: with the former one other facts go.
    for (key, value), text in sorted(zip(pairs, given, strict=True), key=lambda entry: entry[0][0] != "os"):
        if key == "gpu":
            continue
        try:
            snapshot = _one(snapshot, key, value, matrix)
        except ValueError as error:
            raise AssumeError(f"--assume {text}: {error}") from error
    return with_libraries(_hidden(_of_its_system(snapshot)))


def _of_its_system(snapshot: Snapshot) -> Snapshot:
    """A system without glibc and musl has none, whoever named one."""
    if snapshot.host.os.value == "linux" or "host.os" not in snapshot.assumed:
        return snapshot
    assumed_facts = tuple(path for path in snapshot.assumed if path != "host.libc")
    return replace(snapshot, host=replace(snapshot.host, libc=Reading()), assumed=assumed_facts)


def assumed_keys(given: Iterable[str]) -> set[str]:
    """The keys of assumptions, however they are written.

    Raises:
        AssumeError: for what is no assumption.
    """
    return {read_pair(text)[0] for text in given}


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
        return assume_package(snapshot, key.removeprefix("package."), value)
    function = _KEYS.get(key)
    if function is None:
        known = ("gpu", *_KEYS, "env.NAME", "package.NAME")
        near = difflib.get_close_matches(key, known, 1)
        raise AssumeError(f"unknown key{f'; did you mean {near[0]}?' if near else ''} (one of {', '.join(known)})")
    return function(snapshot, value, matrix)


def _host(field: str, read: Callable[[str], object]) -> Callable[[Snapshot, str, Matrix], Snapshot]:
    """An assumption that replaces one field of the host."""

    def apply(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
        del matrix
        host = replace(snapshot.host, **{field: assumed(read(value))})  # type: ignore[arg-type]
        return replace(snapshot, host=host).assuming(f"host.{field}")

    return apply


def _assume_system(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    """An operating system; what was read of another one goes with it, and so does what that one alone has."""
    del matrix
    name = one_of(_OPERATING_SYSTEMS)(operating_system(value))
    before = snapshot.host.os.value
    if before not in (None, name) or (name != "linux" and before is None):
        target = replace(snapshot.target, platform=Reading())
        snapshot = replace(snapshot, host=Host(arch=snapshot.host.arch), target=target)
    return replace(snapshot, host=replace(snapshot.host, os=assumed(name))).assuming("host.os")


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
    return replace(snapshot, driver=driver, sources=sources).assuming("driver.version")


def _assume_driver_cuda(snapshot: Snapshot, value: str, matrix: Matrix) -> Snapshot:
    del matrix
    driver = replace(snapshot.driver, cuda=assumed(CudaVersion.parse(value)))
    return replace(snapshot, driver=driver).assuming("driver.cuda")


def _assume_gpus(snapshot: Snapshot, names: Sequence[str], matrix: Matrix) -> Snapshot:
    """GPUs by model; ``none`` for a machine without."""
    if names[0].lower() == _NONE:
        return _with_gpus(snapshot, ())
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
    """These GPUs; where there are none, the bus has none either."""
    on_bus = snapshot.pci_gpus if gpus else ()
    return replace(snapshot, gpus=tuple(gpus), gpu_count=assumed(len(gpus)), pci_gpus=on_bus).assuming("gpus")


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


def _assume_variable(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    """A variable of the environment, or none."""
    if not name:
        raise ValueError("expected the name of a variable, such as env.CUDA_VISIBLE_DEVICES")
    variables = {told: text for told, text in snapshot.environment.items() if told != name}
    if value.lower() != _NONE or name == _WITH_NONE:
        variables[name] = value
    return replace(snapshot, environment=variables).assuming(f"environment.{name}")


_KEYS: dict[str, Callable[[Snapshot, str, Matrix], Snapshot]] = {
    "os": _assume_system,
    "arch": _host("arch", read_arch),
    "libc": _host("libc", Libc.parse),
    "container": _host("container", read_container),
    "wsl": _host("wsl", read_yes),
    "python": assume_python,
    "driver-cuda": _assume_driver_cuda,
    "driver": _assume_driver,
    "compute-capability": _assume_capability,
    "gpu-count": _assume_count,
    "gpu-memory": _assume_memory,
    "cupy": assume_cupy,
    "numpy": assume_numpy,
    "toolkit": assume_toolkit,
}
