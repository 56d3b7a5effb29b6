"""Raw facts as input and expected output of tests, and short helpers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from gpuenv.model.codec import encode, is_record
from gpuenv.model.reading import Reading
from gpuenv.model.snapshot import Gpu
from gpuenv.probe.assembly import assemble
from gpuenv.probe.raw import Raw, RawFacts

if TYPE_CHECKING:
    from typing_extensions import Self

MIB = 1024 * 1024
ONE, TWO = "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584", "GPU-48aeb943-9458-4282-da24-e5f49e0db44b"
MIG = ("MIG-fb42055e-9e53-5764-9278-438605a3014c", "MIG-3d4db13e-c42d-5555-98f4-8b50389791bc")


class Facts(Raw):
    """Facts as a source prints them, those in ``names`` also by position, without null values."""

    names: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, object]] = {}

    def __init__(self, *values: object, **facts: object) -> None:
        facts_by_name = {**self.defaults, **dict(zip(self.names, values, strict=False)), **facts}
        plain = json.loads(json.dumps({name: _plain(value) for name, value in facts_by_name.items()}))
        super().__init__({name: value for name, value in plain.items() if value is not None})

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """The facts that a source printed."""
        return cls(**{name: value for name, value in raw._facts.items() if name != "done"})  # noqa: SLF001 - their tests

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any fact
        if name.startswith("_"):
            raise AttributeError(name)
        return _read(self._facts.get(name))

    def __eq__(self, other: object) -> bool:
        plain = _plain(other)
        return isinstance(plain, dict) and self._facts == Facts(**plain)._facts

    def __hash__(self) -> int:
        return hash(json.dumps(self._facts, sort_keys=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._facts})"


def _plain(value: Any) -> Any:  # noqa: ANN401 - plain values, records and facts
    if isinstance(value, Raw):
        return value._facts  # noqa: SLF001 - their tests
    if isinstance(value, (tuple, list)) and not is_record(type(value)):
        return [_plain(entry) for entry in value]
    return {str(key): _plain(entry) for key, entry in value.items()} if isinstance(value, Mapping) else encode(value)


def _read(value: Any) -> Any:  # noqa: ANN401 - plain values
    if isinstance(value, list):
        return tuple(_read(entry) for entry in value)
    return Facts(**value) if isinstance(value, dict) else value


class KernelFacts(Facts):
    """Facts of the kernel's child."""


class KernelModules(Facts):
    """Kernel modules; null is unknown."""

    names = ("nvidia_loaded", "nouveau_loaded", "module_installed")


class Uname(Facts):
    """The output of uname."""

    names = ("os", "kernel", "arch")


class DriverGpu(Facts):
    """A GPU in the list of the kernel module."""

    names = ("name", "uuid", "pci", "excluded")


class RawToolkit(Facts):
    """A CUDA toolkit's folder."""

    names = ("path", "found_via", "toolkit", "source")


class RawLibrary(Facts):
    """A file of libcuda or libnvidia-ml."""

    names = ("path", "mounted")


class AmdNode(Facts):
    """A node of AMD's compute driver."""

    names = ("node", "name", "properties", "memory")


class RawLog(Facts):
    """Lines of the kernel log."""

    names = ("source", "lines", "reason")


class RawRules(Facts):
    """The control group's rules."""

    names = ("rules", "reason")


class RawEngine(Facts):
    """Docker's program and its configuration."""

    names = ("program", "configured", "runtimes", "default_runtime")
    defaults: ClassVar[Mapping[str, object]] = {"configured": False}


class RawContainerToolkit(Facts):
    """The NVIDIA container toolkit."""

    names = ("installed", "release")
    defaults: ClassVar[Mapping[str, object]] = {"installed": False}


class RawMps(Facts):
    """The folder of the MPS daemon's pipe."""

    names = ("folder", "configured", "daemon")
    defaults: ClassVar[Mapping[str, object]] = {"configured": False, "daemon": False}


class NvmlFacts(Facts):
    """Facts of NVML's child."""

    names = ("init", "message", "library", "driver_version", "cuda", "count")


class NvmlGpu(Facts):
    """A GPU as NVML describes it."""

    names = ("index", "uuid", "name", "pci", "compute_capability")


class CudaFacts(Facts):
    """Facts of libcuda's child."""


class CudaDevice(Facts):
    """A CUDA device."""

    names = ("ordinal", "name", "pci", "uuid", "compute_capability", "memory_total")


class TargetFacts(Facts):
    """Facts of the target's interpreter."""

    names = ("python", "implementation", "executable", "prefix", "platform", "kind", "libc")


class Distribution(Facts):
    """A distribution in the target."""

    names = ("distribution", "release", "location")


class CupyModule(Facts):
    """A package ``cupy`` on the path."""

    names = ("module", "loads")


class LibraryFacts(Facts):
    """Facts of the target's loader."""

    names = ("libraries",)


class LibraryFact(Facts):
    """A CUDA library as the target's loader finds it."""

    names = ("name", "soname", "path", "found_via", "error")


class FileFacts(Facts):
    """Facts of the installed files."""


def gpus_of(**sources: Any) -> tuple[Gpu, ...]:  # noqa: ANN401 - fields of RawFacts
    return assemble(RawFacts(**sources), None).gpus


def value_and_source(reading: Reading[Any]) -> tuple[str, str | None]:
    return str(reading.value), reading.source


def nvml_gpu(index: int, uuid: str, pci: str, **more: Any) -> NvmlGpu:  # noqa: ANN401 - facts of a GPU
    memory = {"memory_total": 143771 * MIB, "memory_free": 143000 * MIB}
    return NvmlGpu(index, uuid, "NVIDIA H200", pci, compute_capability="9.0", **memory, **more)
