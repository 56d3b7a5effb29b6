"""The GPU as a test sees it: CuPy, measurements, and the steps where a fault can be injected."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Callable, Dict, Optional, Set, Tuple

import numpy as np

from gpuenv.smoke.payload.expected import Array, ExpectedArray
from gpuenv.smoke.payload.failures import MEMORY_ALLOCATION, cuda_status, free_and_total, is_integrated

INVALID_VALUE = 1  # cudaErrorInvalidValue (driver_types.h)
MAX_SECONDS, MAX_ROUNDS = 0.4, 200  # of a measurement, whichever comes first
MIN_BYTES, MIN_SECONDS = (
    256 << 20,
    1e-3,
)  # a round this large or long is dominated by the GPU
MAX_COMPARED = 1 << 23  # elements compared at once
MIN_PINNED = 1 << 17  # elements
DEVICES = "/sys/bus/pci/devices"

# Faults that ``GPUENV_SMOKE_FAULT`` can inject, to show that the tests catch them; the result names the fault. For
# testing gpuenv itself.
FAULTS = {
    "no-order": "the consumer's stream does not wait for the producer's event",
    "no-sync": "an asynchronous copy is read without synchronization",
    "no-op-kernel": "the body of every kernel in the tests is empty",
    "flip-element": "one bit of one element of each answer is flipped on the GPU",
    "illegal-access": "a kernel writes to an unallocated address before the test",
    "endless-kernel": "an endless kernel runs before the test",
    "pool-limit": "the memory pool is limited to one mebibyte",
}
# A write to address 16, which no allocation contains; a loop on a flag that never changes.
FAULT_KERNELS = {
    "gpuenv_illegal": r"""
extern "C" __global__ void gpuenv_illegal(unsigned long long address) {
    *(volatile int *)address = 1;
}
""",
    "gpuenv_endless": r"""
extern "C" __global__ void gpuenv_endless(volatile int *flag) {
    while (*flag == 0) { }
}
""",
}


class Skip(Exception):  # noqa: N818 - not an error: the test does not apply
    """Ends a test that does not apply; the message says why."""


class Busy(Exception):  # noqa: N818 - not an error: other processes use the GPU
    """Ends a test that other processes disturb; the message says how."""


class CupyDevice:
    """One GPU, used through CuPy.

    Attributes:
        cp: the ``cupy`` module.
        level: ``quick``, ``normal`` or ``deep``.
        measured: name -> (value, unit).
        free: bytes of memory free at the start, up to the pool's limit.
        total: bytes of memory.
    """

    def __init__(self, cp: Any, level: str, fault: Optional[str], free: int, total: int) -> None:
        self.cp = cp
        self.level = level
        self.free = free
        self.total = total
        self.measured: Dict[str, Tuple[float, str]] = {}
        self._fault = fault
        self._kept: Any = None

    @property
    def runtime(self) -> Any:
        """CuPy's wrapper of the CUDA runtime."""
        return self.cp.cuda.runtime

    @property
    def pool(self) -> Any:
        """CuPy's memory pool."""
        return self.cp.get_default_memory_pool()

    def attribute(self, number: int) -> int:
        """Returns a device attribute by its number in cudaDeviceAttr (driver_types.h); 0 if the driver is too old."""
        try:
            return int(self.runtime.deviceGetAttribute(number, self.cp.cuda.Device().id))
        except self.runtime.CUDARuntimeError as error:
            if error.status != INVALID_VALUE:
                raise
            return 0

    def is_shared(self) -> bool:
        """Whether several processes can use it; 20 is cudaDevAttrComputeMode, 0 its default (driver_types.h)."""
        return self.attribute(20) == 0

    def is_integrated(self) -> bool:
        """Whether it shares its memory with the host."""
        return is_integrated(self.cp)

    def free_memory(self) -> int:
        """Returns the bytes of memory free now."""
        return free_and_total(self.cp)[0]

    def to_device(self, array: Array) -> Array:
        """Returns a copy on the GPU."""
        return self.cp.asarray(array)

    def to_host(self, array: Array) -> Array:
        """Returns a copy on the host, once the work of the array's stream is done."""
        if not isinstance(array, self.cp.ndarray):
            raise TypeError("the answer is a %s, not an array of the GPU" % type(array).__name__)
        if self._fault == "flip-element" and array.size:
            array = array.copy(order="C")
            raw = array.reshape(-1).view(self.cp.uint8)
            offset = (array.size // 2) * array.itemsize + min(array.itemsize, 8) - 1
            # For floats, a high bit of the exponent: the sign of a zero would change nothing.
            raw[offset] = raw[offset] ^ (1 if array.dtype.kind == "b" else 0x40)
        return self.cp.asnumpy(array)

    def count_wrong(self, got: Array, answer: ExpectedArray, rows: Array, columns: Optional[Array] = None) -> Array:
        """Counts the wrong elements of a large matrix on the GPU, without copying it to the host.

        Row ``i`` of the matrix must equal row ``rows[i]`` of ``answer``; columns the same, unless ``columns`` is None.
        """
        value = self.to_device(answer.value)
        bound = self.to_device(np.broadcast_to(answer.bound, answer.value.shape))
        count, step = self.cp.zeros((), dtype=np.int64), max(MAX_COMPARED // got.shape[1], 1)
        all_columns = slice(None) if columns is None else self.to_device(columns)
        for first in range(0, got.shape[0], step):
            part = self.to_device(rows[first : first + step])
            error = abs(got[first : first + step] - value[part][:, all_columns])
            count += (~(error <= bound[part][:, all_columns])).sum()  # NaN is wrong
        return self.to_host(count)

    def compile(self, source: str, name: str) -> Any:
        """Returns a kernel of the test."""
        return self.cp.RawKernel(self.source(source), name)

    def source(self, source: str) -> str:
        """Returns the source to compile."""
        return empty_kernels(source) if self._fault == "no-op-kernel" else source

    def order_streams(self, before: Any, after: Any) -> None:
        """Makes the stream ``after`` wait for the work submitted to the stream ``before``."""
        if self._fault != "no-order":
            after.wait_event(before.record())

    def wait(self, stream: Any) -> None:
        """Waits for a stream on the host."""
        if self._fault != "no-sync":
            stream.synchronize()

    def round_time(self, work: Callable[[], Any], rounds: int = 10, warm: int = 2) -> float:
        """Returns the time of one round on the current stream, measured by events after warm-up rounds."""
        for _ in range(warm):
            work()
        start, end = self.cp.cuda.Event(), self.cp.cuda.Event()
        stream = self.cp.cuda.get_current_stream()
        stream.synchronize()
        start.record(stream)
        for _ in range(rounds):
            work()
        end.record(stream)
        end.synchronize()
        return float(self.cp.cuda.get_elapsed_time(start, end)) / 1000.0 / rounds

    def steady_time(self, work: Callable[[], Any]) -> float:
        """Returns the time of one round of sustained work.

        The clock of an idle GPU takes a while to rise (Triton's do_bench warms up for 25 ms), so as many rounds as are
        measured run before.
        """
        rounds = round_count(self.round_time(work, rounds=1, warm=1))
        return self.round_time(work, rounds=rounds, warm=rounds)

    def best_time(self, work: Callable[[], Any], rounds: int = 5) -> float:
        """Returns the shortest of several synchronized times on the host's clock."""
        times = []
        for _ in range(rounds):
            self.runtime.deviceSynchronize()
            started = time.perf_counter()
            work()
            self.runtime.deviceSynchronize()
            times.append(time.perf_counter() - started)
        return min(times)

    def measure(self, name: str, value: float, unit: str) -> None:
        """Adds a measured number to the result."""
        self.measured[name] = (float(value), unit)

    def measure_rate(self, name: str, amount: float, moved: float, seconds: float, unit: str) -> None:
        """Adds an amount per second to the result if it reflects the GPU or its link.

        A round that is too short is dominated by its launch, and one that moves too little memory by a cache: after a
        size was halved for lack of memory, a healthy GPU would look slower than others or than in an earlier run.
        """
        if moved >= MIN_BYTES or seconds >= MIN_SECONDS:
            self.measure(name, amount / seconds, unit)

    def pinned(self, count: int, dtype: Any) -> Array:
        """Returns an uninitialized array in pinned host memory with ``count`` elements or fewer."""
        import cupyx

        return allocate_pinned(lambda n: cupyx.empty_pinned((n,), dtype=dtype), count)

    def use_local_cpus(self) -> None:
        """Binds this thread, and so the memory that it pins, to the GPU's socket if that is known.

        Copies from another socket may reach only a third of the rate, and which socket a program starts on is random:
        a healthy GPU would look slower than others or than in an earlier run.
        """
        if not hasattr(os, "sched_setaffinity"):
            return
        try:
            address = self.runtime.deviceGetPCIBusId(self.cp.cuda.Device().id).lower()
            with open("%s/%s/local_cpulist" % (DEVICES, address)) as file:
                local = parse_cpu_list(file.read()) & os.sched_getaffinity(0)
        except (self.runtime.CUDARuntimeError, OSError):
            return
        if local:
            os.sched_setaffinity(0, local)

    def inject_fault(self) -> None:
        """Injects a fault that takes effect before the test."""
        if self._fault == "illegal-access":
            kernel = self.cp.RawKernel(FAULT_KERNELS["gpuenv_illegal"], "gpuenv_illegal")
            kernel((1,), (1,), (np.uint64(16),))
        elif self._fault == "endless-kernel":
            self._kept = self.cp.zeros(1, dtype=np.int32)
            kernel = self.cp.RawKernel(FAULT_KERNELS["gpuenv_endless"], "gpuenv_endless")
            kernel((1,), (1,), (self._kept,))
        elif self._fault == "pool-limit":
            self.pool.set_limit(size=1 << 20)


def round_count(seconds: float, most: int = MAX_ROUNDS) -> int:
    """Returns how many rounds to measure if one takes that many seconds."""
    return max(2, min(most, int(MAX_SECONDS / max(seconds, 1e-6))))


def allocate_pinned(make: Callable[[int], Any], count: int) -> Any:
    """Halves the size of an array until it can be pinned: WSL and some containers pin little memory."""
    while True:
        try:
            return make(count)
        except RuntimeError as error:
            if cuda_status(error) != MEMORY_ALLOCATION or count <= MIN_PINNED:
                raise
            count //= 2


def parse_cpu_list(text: str) -> Set[int]:
    """Parses a CPU list of the kernel, such as ``0-15,32``."""
    found: Set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return found


def empty_kernels(source: str) -> str:
    """Returns the source with the body of every kernel removed."""
    parts, position = [], 0
    for match in re.finditer(r"__global__[^{};]*\{", source):
        if match.end() <= position:
            continue
        parts.append(source[position : match.end()])
        position, depth = match.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(source[position], 0)
            position += depth > 0
    return "".join(parts) + source[position:]
