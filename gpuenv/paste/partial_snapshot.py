"""Converts a paste to a partial Snapshot; facts not in the paste are unknown, and needed ones are listed as missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from gpuenv.matrix.needs import cuda_of_branch, driver_absent
from gpuenv.matrix.products import capability_by_beginning, capability_by_name
from gpuenv.matrix.tables import Matrix
from gpuenv.model.cupy import cuda_major_of, is_cupy, line_of_build
from gpuenv.model.nvidia import CUDA_LIBRARIES, NVIDIA, Cuda
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import (
    AmdGpu,
    ComputeMode,
    Container,
    ContainerSupport,
    CupyInstallation,
    Driver,
    Fabric,
    Gpu,
    GpuHealth,
    Host,
    Library,
    MigInstance,
    Module,
    PcieLink,
    PciGpu,
    Snapshot,
    Source,
    SourceState,
    Target,
    Toolkit,
)
from gpuenv.model.strings import pattern
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion
from gpuenv.paste import outputs
from gpuenv.paste.content import MissingFact, PasteContent, PastedGpu, ReportedValue
from gpuenv.paste.merge import NOT_IN_PASTE, amd_gpus, answers, count, merged_gpus, reading, visible
from gpuenv.probe.scripts.target_shared import RELEVANT

T = TypeVar("T")

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
# CPython 3.8, Lib/platform.py: platform() reports the C library that the interpreter was linked with; from 3.9 on the
# one in use (measured on Debian 12 with 3.8.18, which reports 2.34 instead of 2.36, and with 3.9.18).
_FIRST_WITH_LIBC_IN_USE = PythonVersion(3, 9)
# Names of the driver's modules in distributions: nvidia_drm, nvidia_current_drm, nvidia_535; nvidiafb is the kernel's.
_DRIVER_MODULE = pattern(r"nvidia(?:[_-](?:drm|uvm|modeset|current|tesla|legacy|open|\d{3})[\w-]*)?$")
_MODES = {
    "default": ComputeMode.DEFAULT,
    "e. process": ComputeMode.EXCLUSIVE_PROCESS,
    "exclusive_process": ComputeMode.EXCLUSIVE_PROCESS,
    "e. thread": ComputeMode.EXCLUSIVE_THREAD,
    "exclusive_thread": ComputeMode.EXCLUSIVE_THREAD,
    "prohibited": ComputeMode.PROHIBITED,
}
# cudaError_t, CUDA Runtime API 13.0, "Data types used by CUDA Runtime": the errors that cuInit returns too.
_INIT = {
    "cudaErrorNoDevice": Cuda.NO_DEVICE,
    "cudaErrorStubLibrary": Cuda.STUB_LIBRARY,
    "cudaErrorSystemNotReady": Cuda.SYSTEM_NOT_READY,
    "cudaErrorSystemDriverMismatch": Cuda.SYSTEM_DRIVER_MISMATCH,
    "cudaErrorCompatNotSupportedOnDevice": Cuda.COMPAT_NOT_SUPPORTED_ON_DEVICE,
    "cudaErrorUnknown": Cuda.UNKNOWN,
}
_UNKNOWN_FILE = "a file that is not in the paste"
_UNKNOWN_FOLDER = "a folder that is not in the paste"
_PIP_LIST, _CONDA_LIST = "python -m pip list", "conda list"


def to_snapshot(content: PasteContent, matrix: Matrix) -> Snapshot:
    """Converts a paste to a Snapshot.

    The matrix has a GPU's compute capability and a driver's CUDA version, if they are not in the paste.
    """
    output, gpus = merged_gpus(content)
    target = _target(content)
    lacks_cupy = bool(content.listings) and not target.cupy
    return Snapshot(
        host=_host(content),
        driver=_driver(content, matrix),
        gpus=tuple(_gpu(gpu, f"pasted {output}", matrix) for gpu in gpus),
        gpu_count=count(content),
        visible_count=visible(content),
        pci_gpus=_devices(content),
        toolkits=_toolkits(content),
        amd_gpus=tuple(AmdGpu(node, name, gfx) for node, (name, gfx) in enumerate(amd_gpus(content))),
        rocm=reading(content, "rocm-release", str),
        kernel_log=known(content.log, f"pasted {outputs.DMESG}") if content.log else Reading(),
        container_support=ContainerSupport(
            runtimes=reading(content, "runtimes", lambda text: tuple(text.split())),
            default_runtime=reading(content, "default-runtime", str),
        ),
        target=target,
        environment={
            entry.fact.removeprefix("env."): entry.value
            for entry in reversed(content.values)
            if entry.fact.startswith("env.")
        },
        sources=tuple(_sources(content)),
        assumed=(*(("target.cupy",) if lacks_cupy else ()), *(("driver.version",) if _no_driver(content) else ())),
    )


def known_keys(snapshot: Snapshot) -> frozenset[str]:
    """The known facts of a Snapshot, by their keys for ``--assume``.

    A GPU without a driver counts as known, since an assumed GPU would be one with a driver.
    """
    host, driver, target = snapshot.host, snapshot.driver, snapshot.target
    lacks_driver = driver.module.value in (Module.NOT_LOADED, Module.NOT_INSTALLED)
    known_facts = {
        "os": host.os.known,
        "arch": host.arch.known,
        "libc": host.libc.known,
        "wsl": host.wsl.known,
        "driver": driver.version.known,
        "driver-cuda": driver.cuda.known,
        "gpu": bool(snapshot.gpus) or lacks_driver,
        "compute-capability": lacks_driver or any(gpu.compute_capability.known for gpu in snapshot.gpus),
        "python": target.python.known,
        "numpy": target.numpy.known,
        "cupy": bool(target.cupy),
        "toolkit": bool(snapshot.toolkits),
    }
    return frozenset(key for key, is_known in known_facts.items() if is_known)


# The host


def _host(content: PasteContent) -> Host:
    kernel = reading(content, "kernel", str)
    # This variable of the NVIDIA container toolkit is set for programs in a container.
    visible_devices = reading(content, "env.NVIDIA_VISIBLE_DEVICES", str)
    is_tegra = (kernel.value or "").endswith("-tegra")  # a kernel that only a Tegra board has
    return Host(
        os=reading(content, "os", str),
        distribution=_distribution(content),
        kernel=kernel,
        container=known(Container.OTHER, str(visible_devices.source)) if visible_devices.known else Reading(),
        arch=reading(content, "arch", lambda name: _ARCHITECTURES.get(name, name)),
        libc=_libc(content),
        wsl=reading(content, "wsl", lambda text: text == "yes"),
        tegra=known(f"kernel {kernel.value}", str(kernel.source)) if is_tegra else NOT_IN_PASTE,
        secure_boot=NOT_IN_PASTE,
    )


def _libc(content: PasteContent) -> Reading[Libc]:
    """The C library; an old Python reports the one that it was linked with, which is not used."""
    libc = reading(content, "libc", Libc.parse)
    python = reading(content, "python", PythonVersion.parse).value
    if libc.known or python is None or python < _FIRST_WITH_LIBC_IN_USE:
        return libc
    return reading(content, "libc-by-python", Libc.parse)


def _distribution(content: PasteContent) -> Reading[str]:
    """``ubuntu 22.04`` of os-release, else the name that other outputs report."""
    name, release = answers(content, "distribution-id"), answers(content, "distribution-release")
    if name:
        text = f"{name[0].value} {release[0].value}" if release else name[0].value
        return known(text, name[0].source)
    return reading(content, "distribution", str)


def _devices(content: PasteContent) -> tuple[PciGpu, ...] | None:
    """The listed controllers; None if none is NVIDIA's, since the list may be filtered."""
    if not any(device.vendor == NVIDIA for device in content.devices):
        return None
    return tuple(
        PciGpu(device.pci, device.vendor, device.device, device.name, device.kernel_driver)
        for device in content.devices
    )


# The driver, NVML and libcuda


def _driver(content: PasteContent, matrix: Matrix) -> Driver:
    version = reading(content, "driver", DriverVersion.parse)
    cuda = reading(content, "driver-cuda", CudaVersion.parse)
    branch: Reading[int] = Reading()
    if version.value is not None:
        branch = known(version.value.branch, str(version.source))
        level = cuda_of_branch(version.value, matrix) if cuda.value is None else None
        cuda = known(level, f"the level of driver branch {version.value.branch}") if level else cuda
    # Only the driver's file in /proc and its log line have the module's version; other outputs have the libraries'.
    proc_version = reading(content, "driver", DriverVersion.parse, only=outputs.DRIVER_FILE)
    failed = _nvml(content)
    return Driver(
        version=version,
        cuda=cuda,
        branch=branch,
        module=_module(content),
        module_version=proc_version if proc_version.known else reading(content, "module-version", DriverVersion.parse),
        library_version=reading(content, "library-version", DriverVersion.parse),
        flavor=reading(content, "flavor", str),
        nouveau=reading(content, "nouveau", bool),
        nvml_init=known(int(failed.value), failed.source) if failed else Reading(),
        cuda_init=reading(content, "cuda-init", lambda name: int(_INIT[name])) if _init_error(content) else Reading(),
    )


def _module(content: PasteContent) -> Reading[Module]:
    """Loaded, if an output reports so; else by the modules of the running kernel that support the device.

    pciutils, lspci -k. A program that lists GPUs had a loaded driver; torch's list is that of nvidia-smi.
    """
    loaded = reading(content, "module", Module)
    names = [name for device in content.devices if device.vendor == NVIDIA for name in device.modules]
    working = (*outputs.ALL_GPUS, outputs.SHOW_CONFIG, *(() if answers(content, "nvml") else (outputs.COLLECT_ENV,)))
    if loaded.known or not names or any(content.gpus.get(output) for output in working):
        return loaded
    is_installed = any(_DRIVER_MODULE.match(name) for name in names)
    return known(Module.NOT_LOADED if is_installed else Module.NOT_INSTALLED, f"pasted {outputs.LSPCI}")


def _nvml(content: PasteContent) -> ReportedValue | None:
    """The error of nvidia-smi, unless another nvidia-smi in the paste succeeded."""
    errors = answers(content, "nvml")
    has_answered = any(entry.output in (outputs.SMI, outputs.SMI_Q) for entry in answers(content, "driver"))
    # The log may be older than a program that lists GPUs, which has called NVML too.
    newer = outputs.GPU_TRUST if errors and errors[0].output == outputs.DMESG else outputs.ALL_GPUS
    is_over = has_answered or any(content.gpus.get(output) for output in newer)
    return errors[0] if errors and not is_over else None


def _init_error(content: PasteContent) -> ReportedValue | None:
    """The error of CUDA's initialisation, as CuPy reports it."""
    errors = answers(content, "cuda-init")
    return errors[0] if errors and all(entry.value in _INIT for entry in errors) else None


def _sources(content: PasteContent) -> Iterator[Source]:
    """NVML and libcuda if they failed, and a complete list of packages; the source of other facts is their output."""
    nvml, init_error, absence = _nvml(content), _init_error(content), answers(content, "libcuda-none")
    if nvml is not None and nvml.value != "0":
        yield Source("nvml", SourceState.FAILED, f"return code {nvml.value} ({nvml.source})")
    if init_error is not None:
        yield Source("libcuda", SourceState.FAILED, f"{init_error.value} ({init_error.source})")
    elif absence and not answers(content, "driver-cuda"):
        yield Source("nvml", SourceState.ANSWERED, f"pasted {outputs.SMI}")
        yield Source("libcuda", SourceState.ABSENT, f"CUDA Version: N/A ({absence[0].source})")
    for output in content.complete[:1]:
        yield Source("target", SourceState.ANSWERED, f"pasted {output}")


def _no_driver(content: PasteContent) -> bool:
    """Whether CUDA reports that there is no driver, and no other output reports one."""
    has_values = any(answers(content, fact) for fact in ("driver", "driver-cuda", "nvml"))
    return bool(answers(content, "driver-none")) and not (has_values or any(content.gpus.values()))


def _gpu(gpu: PastedGpu, source: str, matrix: Matrix) -> Gpu:
    free = None
    if gpu.memory_total is not None and gpu.memory_used is not None:
        free = max(gpu.memory_total - gpu.memory_used, 0)
    names = (
        *("index", "name", "uuid", "pci", "memory_total"),
        *("mig", "mig_pending", "persistence", "virtualization", "licensed"),
    )
    readings: dict[str, Any] = {name: _from(getattr(gpu, name), source) for name in names}
    return Gpu(
        **readings,
        memory_free=_from(free, source),
        compute_capability=_capability(gpu, source, matrix),
        compute_mode=_from(_MODES.get((gpu.compute_mode or "").lower()), source),
        mig_instances=tuple(MigInstance(uuid, name) for uuid, name in gpu.mig_instances),
        fault=Reading() if gpu.fault is None else known(gpu.fault, source),
        processes=_from(None if gpu.users is None else len(gpu.users), source),
        users=gpu.users or (),
        pcie=PcieLink(**{name: known(value, source) for name, value in gpu.pcie.items()}),
        health=GpuHealth(**{name: known(value, source) for name, value in gpu.health.items()}),
        fabric=Fabric(_from(gpu.fabric, source)),
    )


def _from(value: T | None, source: str) -> Reading[T]:
    return NOT_IN_PASTE if value is None else known(value, source)


def _capability(gpu: PastedGpu, source: str, matrix: Matrix) -> Reading[ComputeCapability]:
    """The capability listed (``90`` by CuPy, ``9.0`` by nvidia-smi), else by the name, or the beginning of it."""
    listed = _parsed(ComputeCapability.parse, gpu.capability)
    if listed is not None:
        return known(listed, source)
    by_name = capability_by_name(gpu.name, matrix) if gpu.name else None
    if by_name is not None:
        return known(by_name, "its name")
    by_beginning = capability_by_beginning(gpu.name_begins, matrix) if gpu.name_begins and not gpu.name else None
    return known(by_beginning, "the beginning of its name") if by_beginning is not None else Reading()


def _parsed(parse: Callable[[str], T], text: str | None) -> T | None:
    try:
        return parse(text or "")
    except ValueError:
        return None


# The target environment: its packages, its CuPy, its libraries


def _target(content: PasteContent) -> Target:
    packages = {name: release for name, (release, _) in content.packages.items() if RELEVANT.match(f"{name}-{release}")}
    by_conda = {name: release for name, (release, by) in content.packages.items() if by == "conda"}
    numpy = reading(content, "numpy", str)
    if "numpy" in packages:
        numpy = known(packages["numpy"], "pasted list of packages")
    for torch in answers(content, "package.torch")[:1]:
        packages["torch"] = max(torch.value, packages.get("torch", ""), key=len)  # one may lack the local version
    cupy = _cupy(content, packages)
    packages = {**packages, **{entry.distribution: entry.release for entry in cupy}}
    if numpy.value is not None:
        packages.setdefault("numpy", numpy.value)
    python = reading(content, "python", PythonVersion.parse)
    conda_python = _parsed(PythonVersion.parse, by_conda.get("python"))
    return Target(
        kind=Reading("conda", f"pasted {outputs.CONDA}") if by_conda else Reading(),
        python=python if python.known or conda_python is None else known(conda_python, f"pasted {outputs.CONDA}"),
        implementation=NOT_IN_PASTE,
        cupy=cupy,
        numpy=numpy,
        packages=packages,
        conda_packages={name: release for name, release in by_conda.items() if name in packages},
        cuda_path=reading(content, "cuda-path", str),
        libraries=tuple(_libraries(content, cupy, packages)),
    )


def _cupy(content: PasteContent, packages: Mapping[str, str]) -> tuple[CupyInstallation, ...]:
    """CuPy from a list of packages, else from ``cupy.show_config()``, which reports its CUDA but no distribution."""
    listed = [name for name in packages if is_cupy(name)]
    if "cupy" in listed:  # conda's cupy depends on cupy-core: one installation
        listed = [name for name in listed if name != "cupy-core"]
    if listed:
        return tuple(CupyInstallation(name, packages[name]) for name in sorted(listed))
    release, cuda = answers(content, "cupy-release"), answers(content, "cupy-cuda")
    if not release or not cuda or answers(content, "rocm"):
        return ()
    line = line_of_build(release[0].value, CudaVersion.parse(cuda[0].value))
    return (CupyInstallation(line, release[0].value),) if line else ()


def _libraries(
    content: PasteContent, cupy: tuple[CupyInstallation, ...], packages: Mapping[str, str]
) -> Iterator[Library]:
    """The libraries that CuPy reports a version of, or failed to load."""
    nvrtc = reading(content, "nvrtc", CudaVersion.parse).value
    major = cuda_major_of(cupy[0].distribution, packages) if cupy else None
    for entry in CUDA_LIBRARIES.get(major or 0, ()):
        library = Library(entry.name, entry.soname, found_via=outputs.SHOW_CONFIG)
        missing = answers(content, f"missing.{entry.name}")
        if missing:
            yield library._replace(error=missing[0].value)
        elif entry.name == "nvrtc" and nvrtc is not None:
            yield library._replace(path=_UNKNOWN_FILE, release=str(nvrtc))


def _toolkits(content: PasteContent) -> tuple[Toolkit, ...]:
    """A toolkit with a working nvcc is taken as complete; one that CuPy found may lack NVRTC."""
    toolkits = answers(content, "toolkit")
    path = reading(content, "cuda-path", str).value
    by_cupy = bool(toolkits) and toolkits[0].output == outputs.SHOW_CONFIG
    if not toolkits or (by_cupy and path is None):
        return ()
    has_nvrtc = not by_cupy or bool(answers(content, "nvrtc"))
    level = reading(content, "toolkit", CudaVersion.parse)
    location, found_via = (str(path), "CuPy") if by_cupy else (_UNKNOWN_FOLDER, "PATH")
    return (Toolkit(location, found_via, level, has_nvrtc=has_nvrtc, has_headers=True),)


# Missing facts


def gaps(content: PasteContent, snapshot: Snapshot) -> Iterator[MissingFact]:
    """The missing facts that a decision needs, the most important first."""
    is_windows = snapshot.host.os.value == "windows"
    if not (snapshot.driver.version.known or snapshot.driver.cuda.known or driver_absent(snapshot)):
        yield MissingFact("driver", "the driver", "nvidia-smi")
    yield from _gpu_gaps(snapshot)
    if not snapshot.target.python.known:
        ask = "python -VV" if is_windows else "python --version"
        yield MissingFact("python", "the Python version", ask)
    yield from _cupy_gaps(content, snapshot)
    if not (snapshot.host.os.known and snapshot.host.arch.known):
        ask = "python -VV" if is_windows else "uname -a"
        yield MissingFact("arch", "the operating system and its architecture", ask)
    if snapshot.host.os.value in (None, "linux") and not snapshot.host.libc.known:
        yield MissingFact("libc", "the C library", "ldd --version")


def _gpu_gaps(snapshot: Snapshot) -> Iterator[MissingFact]:
    if not (snapshot.gpus or snapshot.pci_gpus or snapshot.amd_gpus):
        yield MissingFact("gpu", "the GPU", "nvidia-smi -L")
    elif not all(gpu.compute_capability.known for gpu in snapshot.gpus):
        yield MissingFact("gpu", "the full name of the GPU", "nvidia-smi -L")


def _cupy_gaps(content: PasteContent, snapshot: Snapshot) -> Iterator[MissingFact]:
    ask = _CONDA_LIST if "/envs/" in (snapshot.target.cuda_path.value or "") else _PIP_LIST
    if not snapshot.target.cupy and not content.listings:
        yield MissingFact("cupy", "the installed CuPy", ask)
    elif not any(is_cupy(name) for name in content.packages) and snapshot.target.cupy:
        taken = f"the name of the installed CuPy (taken for {snapshot.target.cupy[0].distribution})"
        yield MissingFact("cupy", taken, ask)
