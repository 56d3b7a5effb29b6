"""``--assume KEY=VALUE``: replaces one fact of a Snapshot."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from gpuenv.matrix.needs import cuda_of_branch
from gpuenv.matrix.products import ProductError, find_product
from gpuenv.matrix.ranges import is_version
from gpuenv.matrix.tables import Matrix
from gpuenv.model.cupy import cuda_major_of, is_cupy
from gpuenv.model.gpus import visible_entries
from gpuenv.model.nvidia import CUDA_LIBRARIES
from gpuenv.model.reading import ASSUMED, Reading, assumed, missing
from gpuenv.model.snapshot import (
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
from gpuenv.model.strings import parse_integer, parse_size
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion

_NONE = "none"
# A value of its own, by which no GPU is accessible and the driver's capabilities are; "void or empty or unset" come to
# the same (NVIDIA Container Toolkit 1.16.0, Specialized Configurations with Docker, GPU Enumeration, read 2026-11-22).
_WITH_NONE = "NVIDIA_VISIBLE_DEVICES"
_OF_A_GPU = ("gpu", "gpu-count", "gpu-memory", "compute-capability")
_MOST_GPUS = 1024  # more than any machine has
_CUPY = "target.cupy"
_FOLDER = "an assumed folder"
_OF_THE_CUPY = ("libraries", "files")  # the sources that answer for the CuPy that is there, and for no other


class AssumeError(ValueError):
    """An assumption that cannot be understood or contradicts another; the message names it and what was expected."""


def assume(snapshot: Snapshot, given: Sequence[str], matrix: Matrix) -> Snapshot:
    """A Snapshot with the given facts in place of those that were read, each marked as assumed.

    Args:
        snapshot: what was read, or an empty one.
        given: texts of the form ``KEY=VALUE``; ``gpu`` may be repeated for several GPUs.
        matrix: looks up a GPU's compute capability and a driver's CUDA level.

    Raises:
        AssumeError: at the first that cannot be understood.
    """
    pairs = [_read_pair(text) for text in given]
    no_gpu = next((pair for pair in pairs if _is_no_gpu(*pair)), None)
    of_a_gpu = next((pair for pair in pairs if pair[0] in _OF_A_GPU and not _is_no_gpu(*pair)), None)
    if no_gpu and of_a_gpu:
        raise AssumeError(f"--assume {'='.join(no_gpu)}: stands beside {'='.join(of_a_gpu)}, which only a GPU has")
    gpus = [value for key, value in pairs if key == "gpu"]
    if gpus:
        snapshot = _assume_gpus(snapshot, gpus, matrix)
    # Another system first: with the former one other facts go.
    for (key, value), text in sorted(zip(pairs, given, strict=True), key=lambda entry: entry[0][0] != "os"):
        try:
            snapshot = snapshot if key == "gpu" else _assume_one(snapshot, key, value, matrix)
        except ValueError as error:
            raise AssumeError(f"--assume {text}: {error}") from error
    if snapshot.host.os.value != "linux" and "host.os" in snapshot.assumed:  # without glibc and musl
        facts = tuple(path for path in snapshot.assumed if path != "host.libc")
        snapshot = snapshot._replace(host=snapshot.host._replace(libc=Reading()), assumed=facts)
    return _with_libraries(_with_visible_count(snapshot))


def assumed_keys(given: Iterable[str]) -> set[str]:
    """The keys of assumptions, however they are written.

    Raises:
        AssumeError: for what is no assumption.
    """
    return {_read_pair(text)[0] for text in given}


def _read_pair(text: str) -> tuple[str, str]:
    """Key and value of an assumption; ``glibc=2.36`` is another way to write ``libc=glibc-2.36``."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key or not (value or key.startswith("env.")):
        raise AssumeError(f"--assume {text}: expected KEY=VALUE, such as driver=580.95.05")
    return ("libc", f"{key}-{value}") if key in ("glibc", "musl") else (key, value)


def _is_no_gpu(key: str, value: str) -> bool:
    return (key == "gpu" and value.lower() == _NONE) or (key == "gpu-count" and value.strip("0") == "" != value)


def _with_visible_count(snapshot: Snapshot) -> Snapshot:
    """What an assumed CUDA_VISIBLE_DEVICES, or assumed GPUs under the variable that is there, leave visible."""
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
    near = difflib.get_close_matches(key, known, 1)
    raise AssumeError(f"unknown key{f'; did you mean {near[0]}?' if near else ''} (one of {', '.join(known)})")


def _assume_host(field: str, read: Callable[[str], object]) -> Callable[[Snapshot, str], Snapshot]:
    """An assumption that replaces one field of the host."""

    def apply(snapshot: Snapshot, value: str) -> Snapshot:
        host = snapshot.host._replace(**{field: assumed(read(value))})  # type: ignore[arg-type]
        return snapshot._replace(host=host).assuming(f"host.{field}")

    return apply


def _assume_system(snapshot: Snapshot, value: str) -> Snapshot:
    """An operating system; what was read of another one goes with it, and so does what that one alone has."""
    name = _one_of("linux", "windows", "darwin")(operating_system(value))
    before = snapshot.host.os.value
    if before not in (None, name) or (name != "linux" and before is None):
        target = snapshot.target._replace(platform=Reading())
        snapshot = snapshot._replace(host=Host(arch=snapshot.host.arch), target=target)
    return snapshot._replace(host=snapshot.host._replace(os=assumed(name))).assuming("host.os")


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
        source = f"the level of driver branch {version.branch}"
        cuda = Reading(level, source) if level else missing("the branch is not in the matrix")
    return _with_driver(snapshot, Driver(version=assumed(version), branch=assumed(version.branch), cuda=cuda))


def _with_driver(snapshot: Snapshot, driver: Driver) -> Snapshot:
    """What the real driver answered no longer counts."""
    answered = {"nvml", "libcuda", "nvidia-smi"}
    sources = tuple(source for source in snapshot.sources if source.name not in answered)
    return snapshot._replace(driver=driver, sources=sources).assuming("driver.version")


def _assume_driver_cuda(snapshot: Snapshot, value: str) -> Snapshot:
    driver = snapshot.driver._replace(cuda=assumed(CudaVersion.parse(value)))
    return snapshot._replace(driver=driver).assuming("driver.cuda")


def _assume_gpus(snapshot: Snapshot, names: Sequence[str], matrix: Matrix) -> Snapshot:
    """GPUs by model; ``none`` for a machine without."""
    if names[0].lower() == _NONE:
        return _with_gpus(snapshot, ())
    gpus = []
    for index, name in enumerate(names):
        try:
            found = find_product(name, matrix)
        except ProductError as error:
            raise AssumeError(f"--assume gpu={name}: {error}") from error
        gpus.append(Gpu(assumed(index), name=assumed(found.name), compute_capability=assumed(found.compute_capability)))
    return _with_gpus(snapshot, gpus)


def _with_gpus(snapshot: Snapshot, gpus: Sequence[Gpu]) -> Snapshot:
    """These GPUs; where there are none, the bus has none either."""
    on_bus = snapshot.pci_gpus if gpus else ()
    return snapshot._replace(gpus=tuple(gpus), gpu_count=assumed(len(gpus)), pci_gpus=on_bus).assuming("gpus")


def _assume_capability(snapshot: Snapshot, value: str) -> Snapshot:
    capability = assumed(ComputeCapability.parse(value))
    gpus = snapshot.gpus or (Gpu(index=assumed(0)),)
    return _with_gpus(snapshot, [gpu._replace(compute_capability=capability) for gpu in gpus])


def _assume_count(snapshot: Snapshot, value: str) -> Snapshot:
    kinds = snapshot.gpus or (Gpu(),)
    gpus = [kinds[number % len(kinds)]._replace(index=assumed(number)) for number in range(_read_count(value))]
    return _with_gpus(snapshot, gpus)


def _assume_memory(snapshot: Snapshot, value: str) -> Snapshot:
    size = assumed(parse_size(value))
    gpus = snapshot.gpus or (Gpu(index=assumed(0)),)
    return _with_gpus(snapshot, [gpu._replace(memory_total=size, memory_free=size) for gpu in gpus])


def _assume_variable(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    """A variable of the environment, or none."""
    if not name:
        raise ValueError("expected the name of a variable, such as env.CUDA_VISIBLE_DEVICES")
    variables = {other: text for other, text in snapshot.environment.items() if other != name}
    if value.lower() != _NONE or name == _WITH_NONE:
        variables[name] = value
    return snapshot._replace(environment=variables).assuming(f"environment.{name}")


def _one_of(*names: str) -> Callable[[str], str]:
    """What reads one of these names, in whichever case."""

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
    if number is None or number > _MOST_GPUS:
        raise ValueError(f"expected a whole number up to {_MOST_GPUS}")
    return number


def _assume_python(snapshot: Snapshot, value: str) -> Snapshot:
    """A CPython of this version."""
    target = snapshot.target._replace(python=assumed(PythonVersion.parse(value)), implementation=assumed("cpython"))
    return snapshot._replace(target=target).assuming("target.python")


def _assume_cupy(snapshot: Snapshot, value: str) -> Snapshot:
    """``cupy-cuda12x==14.2.0``, also as ``cupy-cuda12x[ctk]==14.2.0; sys_platform == "linux"``, or none."""
    kept = {entry: version for entry, version in snapshot.target.packages.items() if not is_cupy(entry)}
    if value.lower() == _NONE:
        return _with_cupy(snapshot, (), kept)
    name, release = _cupy_of(value)
    if [(entry.distribution, entry.release) for entry in snapshot.target.cupy] == [(name, release)]:
        return snapshot.assuming(_CUPY)  # what is known of it stands
    return _with_cupy(snapshot, (CupyInstallation(name, release),), {**kept, name: release})


def _with_cupy(snapshot: Snapshot, cupy: tuple[CupyInstallation, ...], packages: Mapping[str, str]) -> Snapshot:
    """Another CuPy, whose files and libraries are unknown."""
    sources = tuple(source for source in snapshot.sources if source.name not in _OF_THE_CUPY)
    return snapshot._replace(target=snapshot.target.with_cupy(cupy, packages), sources=sources).assuming(_CUPY)


def _with_libraries(snapshot: Snapshot) -> Snapshot:
    """What an assumed toolkit brings to a CuPy of its CUDA major version whose libraries are unknown."""
    target, asked = snapshot.target, snapshot.source("libraries").state is not SourceState.NOT_ASKED
    if "toolkits" not in snapshot.assumed or not target.cupy or target.libraries or asked:
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
    """The distribution and the version in a requirement of pip's; its extras and its marker are no facts."""
    from packaging.requirements import InvalidRequirement, Requirement  # noqa: PLC0415 - only where one is given
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - only where one is given

    expected = "expected a distribution of CuPy and its version, such as cupy-cuda12x==14.2.0"
    try:
        read = Requirement(value)
    except InvalidRequirement as error:
        raise ValueError(expected) from error
    pins = [entry.version for entry in read.specifier if entry.operator in ("==", "===")]
    name = canonicalize_name(read.name)
    if is_cupy(name) and read.specifier and (len(read.specifier) > 1 or not pins or not is_version(pins[0])):
        raise ValueError(f"{expected}; a range is no fact: preflight --require 'cupy{read.specifier}' asks for one")
    if not is_cupy(name) or not pins:
        raise ValueError(expected)
    return name, pins[0]


def _assume_package(snapshot: Snapshot, name: str, value: str) -> Snapshot:
    """A distribution of this version, or none."""
    from packaging.utils import canonicalize_name  # noqa: PLC0415 - only where one is given

    try:
        name = canonicalize_name(name, validate=True)
    except ValueError as error:
        raise ValueError("expected the name of a distribution, such as package.torch") from error
    is_gone = value.lower() == _NONE
    if not is_gone and not is_version(value):
        raise ValueError("expected a version, or none")
    target = snapshot.target
    packages = {entry: release for entry, release in target.packages.items() if entry != name}
    packages |= {} if is_gone else {name: value}
    if is_cupy(name):  # next to the other CuPys
        others = tuple(entry for entry in target.cupy if entry.distribution != name)
        return _with_cupy(snapshot, others if is_gone else (*others, CupyInstallation(name, value)), packages)
    if name == "numpy":
        target = target._replace(numpy=missing("assumed to be absent") if is_gone else assumed(value))
    return snapshot._replace(target=target._replace(packages=packages)).assuming(f"target.packages.{name}")


def _assume_toolkit(snapshot: Snapshot, value: str) -> Snapshot:
    """One CUDA toolkit with all that is in one, or none."""
    if value.lower() == _NONE:
        return snapshot._replace(toolkits=()).assuming("toolkits")
    toolkit = Toolkit(_FOLDER, ASSUMED, assumed(CudaVersion.parse(value)), has_nvrtc=True, has_headers=True)
    return snapshot._replace(toolkits=(toolkit,)).assuming("toolkits")


def _keys(matrix: Matrix) -> dict[str, Callable[[Snapshot, str], Snapshot]]:
    """What assumes each key, but for those with a name of their own in them and ``gpu``, which may be repeated."""
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
        "cupy": _assume_cupy,
        "numpy": lambda snapshot, value: _assume_package(snapshot, "numpy", value),
        "toolkit": _assume_toolkit,
    }


_NO_ROWS = Matrix("", "", {}, (), (), (), (), (), ())


def refuse_unread(given: Sequence[str]) -> None:
    """Refuses what no matrix would make sense of; which GPUs there are, a matrix alone can tell.

    Args:
        given: texts of the form ``KEY=VALUE``.

    Raises:
        AssumeError: at the first that cannot be understood.
    """
    others = []
    for text in given:
        key, _, value = (part.strip() for part in text.partition("="))
        if key != "gpu":
            others.append(text)
        elif not value:
            raise AssumeError(f"--assume {text}: expected KEY=VALUE, such as driver=580.95.05")
    assume(Snapshot(), others, _NO_ROWS)
