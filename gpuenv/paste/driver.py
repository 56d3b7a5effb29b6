"""The driver and the GPUs that a paste tells of, and how NVML and libcuda have answered there. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from gpuenv.matrix.needs import cuda_of_branch
from gpuenv.matrix.products import capability_by_beginning, capability_by_name
from gpuenv.matrix.records import Matrix
from gpuenv.model.codes import Cuda
from gpuenv.model.identity import NVIDIA
from gpuenv.model.pattern import pattern
from gpuenv.model.reading import Reading, known
from gpuenv.model.snapshot import (
    ComputeMode,
    Driver,
    Fabric,
    Gpu,
    GpuHealth,
    MigInstance,
    Module,
    Source,
    SourceState,
)
from gpuenv.model.versions import ComputeCapability, CudaVersion, DriverVersion
from gpuenv.paste import forms
from gpuenv.paste.merge import UNSAID, answers, reading
from gpuenv.paste.records import Pasted, PastedGpu, Said

T = TypeVar("T")

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


def pasted_driver(pasted: Pasted, matrix: Matrix) -> Driver:
    """The driver, as far as it is told."""
    version = reading(pasted, "driver", DriverVersion.parse)
    cuda = reading(pasted, "driver-cuda", CudaVersion.parse)
    branch: Reading[int] = Reading()
    if version.value is not None:
        branch = known(version.value.branch, str(version.source))
        level = cuda_of_branch(version.value, matrix) if cuda.value is None else None
        cuda = known(level, f"the level of driver branch {version.value.branch}") if level else cuda
    failed = _nvml(pasted)
    return Driver(
        version=version,
        cuda=cuda,
        branch=branch,
        module=_module(pasted),
        module_version=_module_version(pasted),
        library_version=reading(pasted, "library-version", DriverVersion.parse),
        flavor=reading(pasted, "flavor", str),
        nouveau=reading(pasted, "nouveau", bool),
        nvml_init=known(int(failed.value), _place(failed)) if failed else Reading(),
        cuda_init=_cuda_init(pasted),
    )


def _module(pasted: Pasted) -> Reading[Module]:
    """Loaded, if an output states so; else as the modules that know the device, which are those of the running kernel.

    pciutils, lspci -k
    """
    loaded = reading(pasted, "module", Module)
    names = [name for device in pasted.devices if device.vendor == NVIDIA for name in device.modules]
    if loaded.known or not names or _is_at_work(pasted):
        return loaded
    is_installed = any(_IS_OF_THE_DRIVER.match(name) for name in names)
    return known(Module.NOT_LOADED if is_installed else Module.NOT_INSTALLED, f"pasted {forms.LSPCI}")


def _is_at_work(pasted: Pasted) -> bool:
    """Whether a program has listed GPUs that only a loaded driver shows; torch's list is that of nvidia-smi."""
    listed = (*forms.ALL_GPUS, forms.SHOW_CONFIG, *(() if answers(pasted, "nvml") else (forms.COLLECT_ENV,)))
    return any(pasted.gpus.get(form) for form in listed)


def _module_version(pasted: Pasted) -> Reading[DriverVersion]:
    """What the driver's own file or its line in the log says; other outputs tell of the libraries."""
    told = reading(pasted, "driver", DriverVersion.parse, only=forms.DRIVER_FILE)
    return told if told.known else reading(pasted, "module-version", DriverVersion.parse)


def _nvml(pasted: Pasted) -> Said | None:
    """What nvidia-smi complains of, where no other nvidia-smi there has answered."""
    answered = any(entry.form in (forms.SMI, forms.SMI_Q) for entry in answers(pasted, "driver"))
    told = answers(pasted, "nvml")
    # Whoever has listed GPUs since then has asked NVML too: the log may tell of the time before the last start.
    since = forms.GPU_TRUST if told and told[0].form == forms.DMESG else forms.ALL_GPUS
    return told[0] if told and not answered and not any(pasted.gpus.get(form) for form in since) else None


def _cuda_init(pasted: Pasted) -> Reading[int]:
    return reading(pasted, "cuda-init", lambda told: _INIT[told]) if _refused(pasted) else Reading()


def _refused(pasted: Pasted) -> Said | None:
    """The error with which CUDA has not started, as CuPy repeats it."""
    told = answers(pasted, "cuda-init")
    return told[0] if told and all(entry.value in _INIT for entry in told) else None


def pasted_sources(pasted: Pasted) -> tuple[Source, ...]:
    """NVML and libcuda where they have failed, and a whole list of packages; else each fact names its output."""
    listed = tuple(Source("target", SourceState.ANSWERED, f"pasted {form}") for form in pasted.whole[:1])
    return (*_failures(pasted), *listed)


def _failures(pasted: Pasted) -> Iterator[Source]:
    nvml, refused = _nvml(pasted), _refused(pasted)
    if nvml is not None and nvml.value != "0":
        yield Source("nvml", SourceState.FAILED, f"return code {nvml.value} ({_place(nvml)})")
    if refused is not None:
        yield Source("libcuda", SourceState.FAILED, f"{refused.value} ({_place(refused)})")
        return
    unfound = answers(pasted, "libcuda-none")
    if unfound and not answers(pasted, "driver-cuda"):
        yield Source("nvml", SourceState.ANSWERED, f"pasted {forms.SMI}")
        yield Source("libcuda", SourceState.ABSENT, f"CUDA Version: N/A ({_place(unfound[0])})")


def _place(said: Said) -> str:
    return f"pasted {said.form}, line {said.line}"


def no_driver(pasted: Pasted) -> tuple[str, ...]:
    """That there is no driver, where CUDA says so and no other output tells of one."""
    told_of = any(answers(pasted, fact) for fact in ("driver", "driver-cuda", "nvml")) or any(pasted.gpus.values())
    return ("driver.version",) if answers(pasted, "driver-none") and not told_of else ()


def gpu_of(gpu: PastedGpu, source: str, matrix: Matrix) -> Gpu:
    """A GPU as a record of the Snapshot."""
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
        compute_capability=_capability(gpu, source, matrix),
        compute_mode=_from(_MODES.get((gpu.compute_mode or "").lower()), source),
        mig=_from(gpu.mig, source),
        mig_instances=tuple(MigInstance(uuid, name) for uuid, name in gpu.mig_instances),
        fault=Reading() if gpu.fault is None else known(gpu.fault, source),
        persistence=_from(gpu.persistence, source),
        processes=_from(None if gpu.users is None else len(gpu.users), source),
        users=gpu.users or (),
        virtualization=_from(gpu.virtualization, source),
        health=GpuHealth(**{name: known(value, source) for name, value in gpu.health.items()}),
        fabric=Fabric(_from(gpu.fabric, source)),
    )


def _from(value: T | None, source: str) -> Reading[T]:
    return UNSAID if value is None else known(value, source)


def _capability(gpu: PastedGpu, source: str, matrix: Matrix) -> Reading[ComputeCapability]:
    """As it is told, else that of its name, else that of all whose names begin so."""
    told = _parsed(gpu.capability)
    if told is not None:
        return known(told, source)
    by_name = capability_by_name(gpu.name, matrix) if gpu.name else None
    if by_name is not None:
        return known(by_name, "its name")
    begins = capability_by_beginning(gpu.name_begins, matrix) if gpu.name_begins and not gpu.name else None
    return known(begins, "the beginning of its name") if begins is not None else Reading()


def _parsed(told: str | None) -> ComputeCapability | None:
    """``90`` of CuPy, ``9.0`` of nvidia-smi."""
    try:
        return ComputeCapability.parse(told or "")
    except ValueError:
        return None
