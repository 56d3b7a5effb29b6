"""A paste as a partial Snapshot; what it does not say stays unknown, and what is needed of that is a gap."""

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
    PciGpu,
    Snapshot,
    Source,
    SourceState,
    Target,
    Toolkit,
)
from gpuenv.model.strings import pattern
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion, Libc, PythonVersion
from gpuenv.paste import forms
from gpuenv.paste.merge import UNSAID, amd_gpus, answers, count, merged_gpus, reading, visible
from gpuenv.paste.records import Gap, Pasted, PastedGpu, Said
from gpuenv.probe.scripts.target_shared import RELEVANT

T = TypeVar("T")

_ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64"}
# CPython 3.8, Lib/platform.py: platform() takes what the interpreter was linked with; from 3.9 on the C library's own
# answer (measured on Debian 12 with 3.8.18, which tells 2.34 of 2.36, and with 3.9.18).
_FIRST_TO_ASK_LIBC = PythonVersion(3, 9)
# As distributions name the driver's modules: nvidia_drm, nvidia_current_drm, nvidia_535; nvidiafb is the kernel's own.
_IS_OF_THE_DRIVER = pattern(r"nvidia(?:[_-](?:drm|uvm|modeset|current|tesla|legacy|open|\d{3})[\w-]*)?$")
_MODES = {
    "default": ComputeMode.DEFAULT,
    "e. process": ComputeMode.EXCLUSIVE_PROCESS,
    "exclusive_process": ComputeMode.EXCLUSIVE_PROCESS,
    "e. thread": ComputeMode.EXCLUSIVE_THREAD,
    "exclusive_thread": ComputeMode.EXCLUSIVE_THREAD,
    "prohibited": ComputeMode.PROHIBITED,
}
# cudaError_t, CUDA Runtime API 13.0, "Data types used by CUDA Runtime": those that cuInit has of the same number.
_INIT = {
    "cudaErrorNoDevice": Cuda.NO_DEVICE,
    "cudaErrorStubLibrary": Cuda.STUB_LIBRARY,
    "cudaErrorSystemNotReady": Cuda.SYSTEM_NOT_READY,
    "cudaErrorSystemDriverMismatch": Cuda.SYSTEM_DRIVER_MISMATCH,
    "cudaErrorCompatNotSupportedOnDevice": Cuda.COMPAT_NOT_SUPPORTED_ON_DEVICE,
    "cudaErrorUnknown": Cuda.UNKNOWN,
}
_UNNAMED = "a file that the paste does not name"
_NOWHERE = "a folder that the paste does not name"
_LIST, _LIST_OF_CONDA = "python -m pip list", "conda list"


def to_snapshot(pasted: Pasted, matrix: Matrix) -> Snapshot:
    """The Snapshot of what a paste says.

    Args:
        pasted: the paste.
        matrix: looks up a GPU's compute capability and a driver's CUDA level, where the paste does not say them.
    """
    form, gpus = merged_gpus(pasted)
    target = _target(pasted)
    is_missing = bool(pasted.listings) and not target.cupy
    return Snapshot(
        host=_host(pasted),
        driver=_driver(pasted, matrix),
        gpus=tuple(_gpu(gpu, f"pasted {form}", matrix) for gpu in gpus),
        gpu_count=count(pasted),
        visible_count=visible(pasted),
        pci_gpus=_devices(pasted),
        toolkits=_toolkits(pasted),
        amd_gpus=tuple(AmdGpu(node, name, gfx) for node, (name, gfx) in enumerate(amd_gpus(pasted))),
        rocm=reading(pasted, "rocm-release", str),
        kernel_log=known(pasted.log, f"pasted {forms.DMESG}") if pasted.log else Reading(),
        container_support=ContainerSupport(
            runtimes=reading(pasted, "runtimes", lambda text: tuple(text.split())),
            default_runtime=reading(pasted, "default-runtime", str),
        ),
        target=target,
        environment={
            entry.fact.removeprefix("env."): entry.value
            for entry in reversed(pasted.said)
            if entry.fact.startswith("env.")
        },
        sources=tuple(_sources(pasted)),
        assumed=(*(("target.cupy",) if is_missing else ()), *(("driver.version",) if _no_driver(pasted) else ())),
    )


def known_keys(snapshot: Snapshot) -> frozenset[str]:
    """The facts of a Snapshot that are known, by the names that ``--assume`` has for them.

    Of a GPU whose driver is not there, nothing is left to assume: one that is assumed would be driven.
    """
    host, driver, target = snapshot.host, snapshot.driver, snapshot.target
    undriven = driver.module.value in (Module.NOT_LOADED, Module.NOT_INSTALLED)
    known_facts = {
        "os": host.os.known,
        "arch": host.arch.known,
        "libc": host.libc.known,
        "wsl": host.wsl.known,
        "driver": driver.version.known,
        "driver-cuda": driver.cuda.known,
        "gpu": bool(snapshot.gpus) or undriven,
        "compute-capability": undriven or any(gpu.compute_capability.known for gpu in snapshot.gpus),
        "python": target.python.known,
        "numpy": target.numpy.known,
        "cupy": bool(target.cupy),
        "toolkit": bool(snapshot.toolkits),
    }
    return frozenset(key for key, is_known in known_facts.items() if is_known)


# The host


def _host(pasted: Pasted) -> Host:
    kernel = reading(pasted, "kernel", str)
    # A variable that tells the NVIDIA container toolkit what to hand over is set for a container's own program.
    handed = reading(pasted, "env.NVIDIA_VISIBLE_DEVICES", str)
    is_tegra = (kernel.value or "").endswith("-tegra")  # a kernel that only a Tegra board has
    return Host(
        os=reading(pasted, "os", str),
        distribution=_distribution(pasted),
        kernel=kernel,
        container=known(Container.OTHER, str(handed.source)) if handed.known else Reading(),
        arch=reading(pasted, "arch", lambda name: _ARCHITECTURES.get(name, name)),
        libc=_libc(pasted),
        wsl=reading(pasted, "wsl", lambda word: word == "yes"),
        tegra=known(f"kernel {kernel.value}", str(kernel.source)) if is_tegra else UNSAID,
        secure_boot=UNSAID,
    )


def _libc(pasted: Pasted) -> Reading[Libc]:
    """The C library; an old Python only knows the one that it was linked with."""
    libc = reading(pasted, "libc", Libc.parse)
    python = reading(pasted, "python", PythonVersion.parse).value
    if libc.known or python is None or python < _FIRST_TO_ASK_LIBC:
        return libc
    return reading(pasted, "libc-by-python", Libc.parse)


def _distribution(pasted: Pasted) -> Reading[str]:
    """``ubuntu 22.04`` of os-release, else the line that others make of it."""
    name, release = answers(pasted, "distribution-id"), answers(pasted, "distribution-release")
    if name:
        words = f"{name[0].value} {release[0].value}" if release else name[0].value
        return known(words, f"pasted {forms.OS_RELEASE}, line {name[0].line}")
    return reading(pasted, "distribution", str)


def _devices(pasted: Pasted) -> tuple[PciGpu, ...] | None:
    """The controllers that are listed; a list without any of NVIDIA's may have been searched for others."""
    if not any(device.vendor == NVIDIA for device in pasted.devices):
        return None
    return tuple(
        PciGpu(device.pci, device.vendor, device.device, device.name, device.kernel_driver) for device in pasted.devices
    )


# The driver, and how NVML and libcuda have answered


def _driver(pasted: Pasted, matrix: Matrix) -> Driver:
    version = reading(pasted, "driver", DriverVersion.parse)
    cuda = reading(pasted, "driver-cuda", CudaVersion.parse)
    branch: Reading[int] = Reading()
    if version.value is not None:
        branch = known(version.value.branch, str(version.source))
        level = cuda_of_branch(version.value, matrix) if cuda.value is None else None
        cuda = known(level, f"the level of driver branch {version.value.branch}") if level else cuda
    # Only the driver's own file and its line in the log are of the module; other outputs have the libraries' version.
    of_module = reading(pasted, "driver", DriverVersion.parse, only=forms.DRIVER_FILE)
    failed = _nvml(pasted)
    return Driver(
        version=version,
        cuda=cuda,
        branch=branch,
        module=_module(pasted),
        module_version=of_module if of_module.known else reading(pasted, "module-version", DriverVersion.parse),
        library_version=reading(pasted, "library-version", DriverVersion.parse),
        flavor=reading(pasted, "flavor", str),
        nouveau=reading(pasted, "nouveau", bool),
        nvml_init=known(int(failed.value), _place(failed)) if failed else Reading(),
        cuda_init=reading(pasted, "cuda-init", lambda name: int(_INIT[name])) if _refused(pasted) else Reading(),
    )


def _module(pasted: Pasted) -> Reading[Module]:
    """Loaded, if an output states so; else as the modules that know the device, which are those of the running kernel.

    pciutils, lspci -k. A program that has listed GPUs had a loaded driver; torch's list is that of nvidia-smi.
    """
    loaded = reading(pasted, "module", Module)
    names = [name for device in pasted.devices if device.vendor == NVIDIA for name in device.modules]
    working = (*forms.ALL_GPUS, forms.SHOW_CONFIG, *(() if answers(pasted, "nvml") else (forms.COLLECT_ENV,)))
    if loaded.known or not names or any(pasted.gpus.get(form) for form in working):
        return loaded
    is_installed = any(_IS_OF_THE_DRIVER.match(name) for name in names)
    return known(Module.NOT_LOADED if is_installed else Module.NOT_INSTALLED, f"pasted {forms.LSPCI}")


def _nvml(pasted: Pasted) -> Said | None:
    """What nvidia-smi complains of, where no other nvidia-smi there has answered."""
    complaints = answers(pasted, "nvml")
    answered = any(entry.form in (forms.SMI, forms.SMI_Q) for entry in answers(pasted, "driver"))
    # A program that has listed GPUs since then has called NVML too: the log may be of the time before the last start.
    since = forms.GPU_TRUST if complaints and complaints[0].form == forms.DMESG else forms.ALL_GPUS
    is_over = answered or any(pasted.gpus.get(form) for form in since)
    return complaints[0] if complaints and not is_over else None


def _refused(pasted: Pasted) -> Said | None:
    """The error with which CUDA has not started, as CuPy repeats it."""
    errors = answers(pasted, "cuda-init")
    return errors[0] if errors and all(entry.value in _INIT for entry in errors) else None


def _sources(pasted: Pasted) -> Iterator[Source]:
    """NVML and libcuda where they have failed, and a whole list of packages; else each fact names its output."""
    nvml, refused, without = _nvml(pasted), _refused(pasted), answers(pasted, "libcuda-none")
    if nvml is not None and nvml.value != "0":
        yield Source("nvml", SourceState.FAILED, f"return code {nvml.value} ({_place(nvml)})")
    if refused is not None:
        yield Source("libcuda", SourceState.FAILED, f"{refused.value} ({_place(refused)})")
    elif without and not answers(pasted, "driver-cuda"):
        yield Source("nvml", SourceState.ANSWERED, f"pasted {forms.SMI}")
        yield Source("libcuda", SourceState.ABSENT, f"CUDA Version: N/A ({_place(without[0])})")
    for form in pasted.whole[:1]:
        yield Source("target", SourceState.ANSWERED, f"pasted {form}")


def _place(said: Said) -> str:
    return f"pasted {said.form}, line {said.line}"


def _no_driver(pasted: Pasted) -> bool:
    """Whether CUDA says that there is no driver, and no other output has one."""
    is_seen = any(answers(pasted, fact) for fact in ("driver", "driver-cuda", "nvml")) or any(pasted.gpus.values())
    return bool(answers(pasted, "driver-none")) and not is_seen


def _gpu(gpu: PastedGpu, source: str, matrix: Matrix) -> Gpu:
    free = None
    if gpu.memory_total is not None and gpu.memory_used is not None:
        free = max(gpu.memory_total - gpu.memory_used, 0)
    names = ("index", "name", "uuid", "pci", "memory_total", "mig", "persistence", "virtualization")
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
        health=GpuHealth(**{name: known(value, source) for name, value in gpu.health.items()}),
        fabric=Fabric(_from(gpu.fabric, source)),
    )


def _from(value: T | None, source: str) -> Reading[T]:
    return UNSAID if value is None else known(value, source)


def _capability(gpu: PastedGpu, source: str, matrix: Matrix) -> Reading[ComputeCapability]:
    """As it is listed (``90`` by CuPy, ``9.0`` by nvidia-smi), else by its name, or the beginning of it."""
    listed = _parsed(ComputeCapability.parse, gpu.capability)
    if listed is not None:
        return known(listed, source)
    by_name = capability_by_name(gpu.name, matrix) if gpu.name else None
    if by_name is not None:
        return known(by_name, "its name")
    begins = capability_by_beginning(gpu.name_begins, matrix) if gpu.name_begins and not gpu.name else None
    return known(begins, "the beginning of its name") if begins is not None else Reading()


def _parsed(parse: Callable[[str], T], text: str | None) -> T | None:
    try:
        return parse(text or "")
    except ValueError:
        return None


# The target environment: its packages, its CuPy, its libraries


def _target(pasted: Pasted) -> Target:
    packages = {name: release for name, (release, _) in pasted.packages.items() if RELEVANT.match(f"{name}-{release}")}
    by_conda = {name: release for name, (release, by) in pasted.packages.items() if by == "conda"}
    numpy = reading(pasted, "numpy", str)
    if "numpy" in packages:
        numpy = known(packages["numpy"], "pasted list of packages")
    for torch in answers(pasted, "package.torch")[:1]:
        packages["torch"] = max(torch.value, packages.get("torch", ""), key=len)  # one of them may lack the local part
    cupy = _cupy(pasted, packages)
    packages = {**packages, **{entry.distribution: entry.release for entry in cupy}}
    if numpy.value is not None:
        packages.setdefault("numpy", numpy.value)
    python = reading(pasted, "python", PythonVersion.parse)
    of_conda = _parsed(PythonVersion.parse, by_conda.get("python"))
    return Target(
        kind=Reading("conda", f"pasted {forms.CONDA}") if by_conda else Reading(),
        python=python if python.known or of_conda is None else known(of_conda, f"pasted {forms.CONDA}"),
        implementation=UNSAID,
        cupy=cupy,
        numpy=numpy,
        packages=packages,
        conda_packages={name: release for name, release in by_conda.items() if name in packages},
        cuda_path=reading(pasted, "cuda-path", str),
        libraries=tuple(_libraries(pasted, cupy, packages)),
    )


def _cupy(pasted: Pasted, packages: Mapping[str, str]) -> tuple[CupyInstallation, ...]:
    """CuPy as a list of packages has it, else as it describes itself: with its CUDA and not its distribution."""
    listed = [name for name in packages if is_cupy(name)]
    if "cupy" in listed:  # conda's cupy stands on its cupy-core: one installation
        listed = [name for name in listed if name != "cupy-core"]
    if listed:
        return tuple(CupyInstallation(name, packages[name]) for name in sorted(listed))
    release, cuda = answers(pasted, "cupy-release"), answers(pasted, "cupy-cuda")
    if not release or not cuda or answers(pasted, "rocm"):
        return ()
    line = line_of_build(release[0].value, CudaVersion.parse(cuda[0].value))
    return (CupyInstallation(line, release[0].value),) if line else ()


def _libraries(pasted: Pasted, cupy: tuple[CupyInstallation, ...], packages: Mapping[str, str]) -> Iterator[Library]:
    """The libraries whose release CuPy has, or that it could not load."""
    nvrtc = reading(pasted, "nvrtc", CudaVersion.parse).value
    major = cuda_major_of(cupy[0].distribution, packages) if cupy else None
    for entry in CUDA_LIBRARIES.get(major or 0, ()):
        library = Library(entry.name, entry.soname, found_via=forms.SHOW_CONFIG)
        missing = answers(pasted, f"missing.{entry.name}")
        if missing:
            yield library._replace(error=missing[0].value)
        elif entry.name == "nvrtc" and nvrtc is not None:
            yield library._replace(path=_UNNAMED, release=str(nvrtc))


def _toolkits(pasted: Pasted) -> tuple[Toolkit, ...]:
    """A toolkit whose nvcc answers is taken for a whole one; what CuPy has found may lack NVRTC."""
    found = answers(pasted, "toolkit")
    path = reading(pasted, "cuda-path", str).value
    by_cupy = bool(found) and found[0].form == forms.SHOW_CONFIG
    if not found or (by_cupy and path is None):
        return ()
    has_nvrtc = not by_cupy or bool(answers(pasted, "nvrtc"))
    level = reading(pasted, "toolkit", CudaVersion.parse)
    place, found_via = (str(path), "CuPy") if by_cupy else (_NOWHERE, "PATH")
    return (Toolkit(place, found_via, level, has_nvrtc=has_nvrtc, has_headers=True),)


# What is left open


def gaps(pasted: Pasted, snapshot: Snapshot) -> Iterator[Gap]:
    """The facts that are missing to decide, the weightiest first."""
    windows = snapshot.host.os.value == "windows"
    if not (snapshot.driver.version.known or snapshot.driver.cuda.known or driver_absent(snapshot)):
        yield Gap("driver", "the driver", "which CUDA it supports decides which wheels can start", "nvidia-smi")
    yield from _of_gpus(snapshot)
    if not snapshot.target.python.known:
        ask = "python -VV" if windows else "python --version"
        yield Gap("python", "the Python version", "a wheel is made for one", ask)
    yield from _of_cupy(pasted, snapshot)
    if not (snapshot.host.os.known and snapshot.host.arch.known):
        ask = "python -VV" if windows else "uname -a"
        yield Gap("arch", "the operating system and its architecture", "a wheel is made for one", ask)
    if snapshot.host.os.value in (None, "linux") and not snapshot.host.libc.known:
        yield Gap("libc", "the C library", "wheels need one that is new enough", "ldd --version")


def _of_gpus(snapshot: Snapshot) -> Iterator[Gap]:
    if not (snapshot.gpus or snapshot.pci_gpus or snapshot.amd_gpus):
        yield Gap("gpu", "the GPU", "its compute capability decides which wheels have code for it", "nvidia-smi -L")
    elif not all(gpu.compute_capability.known for gpu in snapshot.gpus):
        yield Gap(
            "gpu", "the GPU's name in full", "it is cut or not known, so its compute capability is not", "nvidia-smi -L"
        )


def _of_cupy(pasted: Pasted, snapshot: Snapshot) -> Iterator[Gap]:
    ask = _LIST_OF_CONDA if "/envs/" in (snapshot.target.cuda_path.value or "") else _LIST
    if not snapshot.target.cupy and not pasted.listings:
        yield Gap("cupy", "the installed CuPy", "what is there may be the fault", ask)
    elif not any(is_cupy(name) for name in pasted.packages) and snapshot.target.cupy:
        yield Gap(
            "cupy",
            "the name of the installed CuPy",
            f"taken for {snapshot.target.cupy[0].distribution}; a second one or a build from source cannot be seen",
            ask,
        )
