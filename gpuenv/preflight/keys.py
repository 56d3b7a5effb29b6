"""Every key that a requirement may have. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gpuenv.model.host import architecture, operating_system
from gpuenv.model.lines import is_published
from gpuenv.preflight import kinds, seen
from gpuenv.preflight.kinds import Kind
from gpuenv.preflight.seen import Seen, of_each_gpu

T = TypeVar("T")
_LINES = ("cupy-cuda11x", "cupy-cuda12x", "cupy-cuda13x", "cupy-cuda14x", "cupy", "cupy-core")
_SYSTEM = kinds.one_of(("linux", "windows", "darwin"), usual=operating_system)
_PROCESSOR = kinds.one_of(("x86_64", "aarch64"), usual=architecture)


@dataclass(frozen=True, slots=True)
class Key(Generic[T]):
    """Something that can be required.

    Attributes:
        name: as it is written.
        kind: what its values are.
        look: what a machine has of it.
        meaning: one line of help.
        example: a requirement with it.
        of_host: whether another host could meet it where this one does not.
        counts: whether it is a number or a sum of GPUs, which those that are not to be seen make smaller.
    """

    name: str
    kind: Kind[T]
    look: Callable[[Any], Seen[T]]
    meaning: str
    example: str
    of_host: bool = True
    counts: bool = False


_ALL: tuple[Key[Any], ...] = (
    Key("gpu", kinds.COUNT, seen.gpu_count, "how many GPUs a program sees here", "gpu>=1", counts=True),
    Key(
        "cc",
        kinds.CAPABILITY,
        of_each_gpu("compute_capability", lambda gpu: gpu.compute_capability),
        "compute capability of each GPU",
        "cc>=8.0",
    ),
    Key("name", kinds.NAME, of_each_gpu("name", lambda gpu: gpu.name), "a word in each GPU's name", "name~=H100|H200"),
    Key("memory", kinds.SIZE, seen.memory, "memory of each GPU (each MIG instance)", "memory>=40GiB"),
    Key(
        "total-memory",
        kinds.SIZE,
        seen.total_memory,
        "memory of all GPUs together",
        "total-memory>=320GiB",
        counts=True,
    ),
    Key(
        "free-memory",
        kinds.SIZE,
        of_each_gpu("memory_free", lambda gpu: gpu.memory_free),
        "free memory of each GPU",
        "free-memory>=20GiB",
    ),
    Key("no-other-processes", kinds.SWITCH, seen.alone, "no compute process holds a GPU", "no-other-processes"),
    Key("nvlink", kinds.SWITCH, seen.nvlink, "each GPU has an NVLink that is up", "nvlink"),
    Key("p2p", kinds.SWITCH, seen.peer_to_peer, "each GPU reads every other's memory", "p2p"),
    Key("mig", kinds.SWITCH, seen.mig, "MIG mode of each GPU", "mig==off"),
    Key("ecc", kinds.SWITCH, seen.ecc, "error correction of each GPU", "ecc==on"),
    Key("driver", kinds.DRIVER, seen.driver, "the driver's version, or its branch", "driver>=550"),
    Key("driver-cuda", kinds.CUDA, seen.driver_cuda, "newest CUDA that the driver supports", "driver-cuda>=12.4"),
    Key("os", _SYSTEM, seen.operating_system, "operating system", "os==linux"),
    Key("arch", _PROCESSOR, seen.architecture, "processor architecture", "arch==x86_64"),
    Key("libc", kinds.LIBC, seen.libc, "the C library", "libc>=glibc-2.28", of_host=False),
    Key("container", kinds.SWITCH, seen.container, "inside a container", "container==no", of_host=False),
    Key("toolkit", kinds.CUDA, seen.toolkit, "the CUDA toolkit on the host", "toolkit>=12.4", of_host=False),
    Key("python", kinds.PYTHON, seen.python, "the target's Python", "python>=3.11,<3.14", of_host=False),
    Key("cupy", kinds.PACKAGE, seen.cupy, "CuPy's version; none: not there", "cupy>=14,<15", of_host=False),
    Key(
        "line",
        kinds.one_of(_LINES, is_published),
        seen.line,
        "the wheel line of CuPy",
        "line==cupy-cuda12x",
        of_host=False,
    ),
    Key("numpy", kinds.PACKAGE, seen.numpy, "NumPy's version; none: not there", "numpy>=2", of_host=False),
)
KEYS: dict[str, Key[Any]] = {key.name: key for key in _ALL}
"""Every key by its name, in the order in which they are listed."""

TRANSIENT = ("free-memory", "no-other-processes")
"""The keys whose violation may pass by itself, once others have left the GPU."""
