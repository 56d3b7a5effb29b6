"""A paste as a partial Snapshot; what it does not say stays unknown. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from gpuenv.matrix.needs import cuda_of_branch
from gpuenv.matrix.products import capability_by_name
from gpuenv.matrix.records import Matrix
from gpuenv.model.lines import cuda_major_of, is_cupy
from gpuenv.model.reading import Reading, known, missing
from gpuenv.model.snapshot import ComputeMode, CupyInstallation, Driver, Gpu, Host, Library, Snapshot, Target, Toolkit
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion
from gpuenv.paste import forms
from gpuenv.paste.merge import answers, count, merged_gpus, reading, visible
from gpuenv.paste.records import Pasted, PastedGpu
from gpuenv.probe.cuda_libraries import WANTED

T = TypeVar("T")

_MODES = {
    "default": ComputeMode.DEFAULT,
    "e. process": ComputeMode.EXCLUSIVE_PROCESS,
    "exclusive_process": ComputeMode.EXCLUSIVE_PROCESS,
    "e. thread": ComputeMode.EXCLUSIVE_THREAD,
    "exclusive_thread": ComputeMode.EXCLUSIVE_THREAD,
    "prohibited": ComputeMode.PROHIBITED,
}
_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
_UNNAMED = "a file that the paste does not name"
_WHEEL_MAJORS = (11, 12, 13)  # cupy-cuda11x and so on; older lines are one a minor release


def to_snapshot(pasted: Pasted, matrix: Matrix) -> Snapshot:
    """The Snapshot of what a paste says.

    Args:
        pasted: the paste.
        matrix: looks up a GPU's compute capability and a driver's CUDA level, where the paste does not say them.
    """
    form, gpus = merged_gpus(pasted)
    target = _target(pasted)
    nothing_there = bool(pasted.listings) and not target.cupy
    return Snapshot(
        host=_host(pasted),
        driver=_driver(pasted, matrix),
        gpus=tuple(_gpu(gpu, f"pasted {form}", matrix) for gpu in gpus),
        gpu_count=count(pasted),
        visible_count=visible(pasted),
        toolkits=_toolkits(pasted),
        target=target,
        environment={
            entry.fact.removeprefix("env."): entry.value
            for entry in reversed(pasted.said)
            if entry.fact.startswith("env.")
        },
        assumed=(*(("target.cupy",) if nothing_there else ()), *_no_driver(pasted)),
    )


def known_keys(snapshot: Snapshot) -> frozenset[str]:
    """The facts of a Snapshot that are known, by the names that ``--assume`` has for them."""
    host, driver, target = snapshot.host, snapshot.driver, snapshot.target
    known_facts = {
        "os": host.os.known,
        "arch": host.arch.known,
        "libc": host.libc.known,
        "wsl": host.wsl.known,
        "driver": driver.version.known,
        "driver-cuda": driver.cuda.known,
        "gpu": bool(snapshot.gpus),
        "compute-capability": any(gpu.compute_capability.known for gpu in snapshot.gpus),
        "python": target.python.known,
        "numpy": target.numpy.known,
        "cupy": bool(target.cupy),
        "toolkit": bool(snapshot.toolkits),
    }
    return frozenset(key for key, is_known in known_facts.items() if is_known)


def _host(pasted: Pasted) -> Host:
    return Host(
        os=reading(pasted, "os", str),
        distribution=_distribution(pasted),
        kernel=reading(pasted, "kernel", str),
        arch=reading(pasted, "arch", lambda told: _ARCHITECTURES.get(told, told)),
        libc=reading(pasted, "libc", Libc.parse),
        wsl=reading(pasted, "wsl", lambda told: told == "yes"),
    )


def _distribution(pasted: Pasted) -> Reading[str]:
    """``ubuntu 22.04`` of os-release, else the line that collect_env makes of it."""
    name, release = answers(pasted, "distribution-id"), answers(pasted, "distribution-release")
    if name:
        told = f"{name[0].value} {release[0].value}" if release else name[0].value
        return known(told, f"pasted {forms.OS_RELEASE}, line {name[0].line}")
    return reading(pasted, "distribution", str)


def _driver(pasted: Pasted, matrix: Matrix) -> Driver:
    version = reading(pasted, "driver", DriverVersion.parse)
    cuda = reading(pasted, "driver-cuda", CudaVersion.parse)
    if version.value is None:
        return Driver(version=version, cuda=cuda)
    if cuda.value is None:
        level = cuda_of_branch(version.value, matrix)
        cuda = known(level, f"the level of driver branch {version.value.branch}") if level else cuda
    return Driver(version=version, cuda=cuda, branch=known(version.value.branch, str(version.source)))


def _no_driver(pasted: Pasted) -> tuple[str, ...]:
    """That there is no driver, where CUDA says so and no other output tells of one."""
    told_of = any(answers(pasted, fact) for fact in ("driver", "driver-cuda")) or any(pasted.gpus.values())
    return ("driver.version",) if answers(pasted, "driver-none") and not told_of else ()


def _gpu(gpu: PastedGpu, source: str, matrix: Matrix) -> Gpu:
    capability: Reading[ComputeCapability] = Reading()
    by_name = capability_by_name(gpu.name, matrix) if gpu.name else None
    told = _capability(gpu.capability)
    if told is not None:
        capability = known(told, source)
    elif by_name is not None:
        capability = known(by_name, "its name")
    free = None
    if gpu.memory_total is not None and gpu.memory_used is not None:
        free = max(gpu.memory_total - gpu.memory_used, 0)
    return Gpu(
        index=_from(gpu.index, source),
        name=_from(gpu.name, source),
        uuid=_from(gpu.uuid, source),
        pci=_from(gpu.pci, source),
        memory_total=_from(gpu.memory_total, source),
        memory_free=_from(free, source),
        compute_capability=capability,
        compute_mode=_from(_MODES.get((gpu.compute_mode or "").lower()), source),
        mig=_from(gpu.mig, source),
    )


def _from(value: T | None, source: str) -> Reading[T]:
    return missing("the paste does not say it") if value is None else known(value, source)


def _capability(told: str | None) -> ComputeCapability | None:
    """``90`` of CuPy, ``9.0`` of numba."""
    try:
        return ComputeCapability.parse(told or "")
    except ValueError:
        return None


def _toolkits(pasted: Pasted) -> tuple[Toolkit, ...]:
    """A toolkit whose nvcc answers is taken for a whole one."""
    level = reading(pasted, "toolkit", CudaVersion.parse)
    if level.value is None:
        return ()
    return (Toolkit("a folder that the paste does not name", "PATH", level, has_nvrtc=True, has_headers=True),)


def _target(pasted: Pasted) -> Target:
    packages = {name: release for name, (release, _) in pasted.packages.items()}
    by_conda = {name: release for name, (release, by) in pasted.packages.items() if by == "conda"}
    numpy = reading(pasted, "numpy", str)
    if "numpy" in packages:
        numpy = known(packages["numpy"], "pasted list of packages")
    for torch in answers(pasted, "package.torch")[:1]:
        packages.setdefault("torch", torch.value)
    cupy = _cupy(pasted, packages)
    packages = {**packages, **{entry.distribution: entry.release for entry in cupy}}
    if numpy.value is not None:
        packages.setdefault("numpy", numpy.value)
    python = reading(pasted, "python", PythonVersion.parse)
    return Target(
        kind=Reading("conda", f"pasted {forms.CONDA}") if by_conda else Reading(),
        python=python,
        implementation=reading(pasted, "implementation", str),
        cupy=cupy,
        numpy=numpy,
        packages=packages,
        conda_packages=by_conda,
        cuda_path=reading(pasted, "cuda-path", str),
        libraries=_libraries(pasted, cupy, packages),
    )


def _libraries(pasted: Pasted, cupy: tuple[CupyInstallation, ...], packages: dict[str, str]) -> tuple[Library, ...]:
    """The libraries that CuPy has asked for their release, or could not load."""
    nvrtc = reading(pasted, "nvrtc", CudaVersion.parse).value
    major = cuda_major_of(cupy[0].distribution, packages) if cupy else None
    found = []
    for entry in WANTED.get(major or 0, ()):
        library = Library(entry.name, entry.soname, found_via=forms.SHOW_CONFIG)
        missing = answers(pasted, f"missing.{entry.name}")
        if missing:
            found.append(replace(library, error=missing[0].value))
        elif entry.name == "nvrtc" and nvrtc is not None:
            found.append(replace(library, path=_UNNAMED, release=str(nvrtc)))
    return tuple(found)


def _cupy(pasted: Pasted, packages: dict[str, str]) -> tuple[CupyInstallation, ...]:
    """CuPy as a list of packages has it, else as it says itself, which tells its CUDA and not its distribution."""
    listed = [name for name in packages if is_cupy(name)]
    if "cupy" in listed:  # conda's cupy stands on its cupy-core: one installation
        listed = [name for name in listed if name != "cupy-core"]
    if listed:
        return tuple(CupyInstallation(name, packages[name]) for name in sorted(listed))
    release, cuda = answers(pasted, "cupy-release"), answers(pasted, "cupy-cuda")
    if not release or not cuda:
        return ()
    major = CudaVersion.parse(cuda[0].value).major
    if major not in _WHEEL_MAJORS:
        return ()
    return (CupyInstallation(f"cupy-cuda{major}x", release[0].value),)
