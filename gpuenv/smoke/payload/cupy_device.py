"""What a test is given to work with: CuPy, and the few steps into which a fault can be planted."""

from __future__ import annotations

import os
import re
import time
from typing import Any, Callable, Dict, Optional, Set, Tuple

import numpy as np

from gpuenv.smoke.payload.expected import Array
from gpuenv.smoke.payload.failures import MEMORY_ALLOCATION, cuda_status, free_and_total, is_integrated

INVALID_VALUE = 1  # cudaErrorInvalidValue (driver_types.h)
MAX_SECONDS, MAX_ROUNDS = 0.4, 200  # seconds and rounds of a measurement: whichever comes first
MIN_BYTES, MIN_SECONDS = (
    256 << 20,
    1e-3,
)  # bytes that a round moves, or its seconds, from which on its time is the GPU's own
MIN_PINNED = 1 << 17  # elements
DEVICES = "/sys/bus/pci/devices"

# Faults that can be planted into a test, so that it can be shown to catch them; only where ``GPUENV_SMOKE_FAULT`` names
# one, and a result says so. It is meant for the tests of this program.
FAULTS = {
    "no-order": "the consumer's stream does not wait for the producer's event",
    "no-sync": "an asynchronous copy is read without a synchronisation",
    "no-op-kernel": "every kernel of the tests' own has an empty body",
    "flip-element": "one bit of one element of each answer is changed on the GPU",
    "illegal-access": "a kernel writes to an address that is nobody's, before the test",
    "endless-kernel": "a kernel that never ends is running, before the test",
    "pool-limit": "the memory pool may hold one mebibyte",
}
# A write to address 16, which no allocation has; and a loop until a flag changes, which it never does.
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


class Skip(Exception):  # noqa: N818 - no error: the test does not apply here
    """Ends a test that cannot say anything here; the text says why."""


class CupyDevice:
    """One GPU, by way of CuPy.

    Attributes:
        cp: the module.
        level: ``quick``, ``normal`` or ``deep``.
        measured: name -> (value, unit).
        free: bytes of memory that were free at the start, as far as the pool's limit lets it be taken.
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
        """The CUDA runtime as CuPy wraps it."""
        return self.cp.cuda.runtime

    @property
    def pool(self) -> Any:
        """CuPy's memory pool."""
        return self.cp.get_default_memory_pool()

    def attribute(self, number: int) -> int:
        """A device attribute by its number in cudaDeviceAttr (driver_types.h); 0 where the driver is too old for it."""
        try:
            return int(self.runtime.deviceGetAttribute(number, self.cp.cuda.Device().id))
        except self.runtime.CUDARuntimeError as error:
            if error.status != INVALID_VALUE:
                raise
            return 0

    def is_shared(self) -> bool:
        """Whether it lets in several processes; 20 is cudaDevAttrComputeMode, 0 its default (driver_types.h)."""
        return self.attribute(20) == 0

    def is_integrated(self) -> bool:
        """Whether its memory is that of the whole machine."""
        return is_integrated(self.cp)

    def room(self) -> int:
        """Bytes of memory that are free now."""
        return free_and_total(self.cp)[0]

    def up(self, array: Array) -> Array:
        """A copy on the GPU."""
        return self.cp.asarray(array)

    def down(self, array: Array) -> Array:
        """A copy on the host, once the work of the array's stream is done."""
        if not isinstance(array, self.cp.ndarray):
            raise TypeError("the answer is a %s, not an array of the GPU" % type(array).__name__)
        if self._fault == "flip-element" and array.size:
            array = array.copy(order="C")
            raw = array.reshape(-1).view(self.cp.uint8)
            place = (array.size // 2) * array.itemsize + min(array.itemsize, 8) - 1
            # Of a float, a high bit of the exponent: the sign of a zero would change nothing.
            raw[place] = raw[place] ^ (1 if array.dtype.kind == "b" else 0x40)
        return self.cp.asnumpy(array)

    def compile(self, source: str, name: str) -> Any:
        """A kernel of the test's own."""
        return self.cp.RawKernel(self.source(source), name)

    def source(self, source: str) -> str:
        """The source that is really compiled."""
        return empty_kernels(source) if self._fault == "no-op-kernel" else source

    def order(self, before: Any, after: Any) -> None:
        """Lets the stream ``after`` wait for what the stream ``before`` has been given so far."""
        if self._fault != "no-order":
            after.wait_event(before.record())

    def settle(self, stream: Any) -> None:
        """Waits on the host for a stream."""
        if self._fault != "no-sync":
            stream.synchronize()

    def seconds(self, work: Callable[[], Any], rounds: int = 10, warm: int = 2) -> float:
        """The time of one round of work on the current stream, by events, after rounds that are not counted."""
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

    def steady(self, work: Callable[[], Any]) -> float:
        """The time of one round of work that goes on for a while.

        What runs first finds the clock of an idle GPU, which takes a while to rise (Triton's do_bench warms up for 25
        ms): as many rounds as are counted go before.
        """
        rounds = round_count(self.seconds(work, rounds=1, warm=1))
        return self.seconds(work, rounds=rounds, warm=rounds)

    def best(self, work: Callable[[], Any], rounds: int = 5) -> float:
        """The shortest of several times on the host's clock, each with everything done."""
        times = []
        for _ in range(rounds):
            self.runtime.deviceSynchronize()
            started = time.perf_counter()
            work()
            self.runtime.deviceSynchronize()
            times.append(time.perf_counter() - started)
        return min(times)

    def measure(self, name: str, value: float, unit: str) -> None:
        """Notes a number for the result."""
        self.measured[name] = (float(value), unit)

    def rate(self, name: str, amount: float, moved: float, seconds: float, unit: str) -> None:
        """Notes an amount a second, where it is that of the GPU or its link.

        Not of a round so short that the host's asking for it counts, and of so little memory that a cache holds it: a
        size that was halved for want of room would make a sound GPU look slow beside its sisters or its own yesterday.
        """
        if moved >= MIN_BYTES or seconds >= MIN_SECONDS:
            self.measure(name, amount / seconds, unit)

    def pinned(self, count: int, dtype: Any) -> Array:
        """An array of so many elements, or of fewer, in pinned memory of the host; its contents are undefined."""
        import cupyx

        return allocate_pinned(lambda n: cupyx.empty_pinned((n,), dtype=dtype), count)

    def stay_near(self) -> None:
        """Runs this thread, and so the memory that it pins, on the GPU's socket; anywhere if that is unknown.

        On a host with several sockets the way from the other one may be a third as fast, and which one a program
        starts on is chance: a sound GPU's copies would look slow next to its sisters' or to its own of yesterday.
        """
        if not hasattr(os, "sched_setaffinity"):
            return
        try:
            place = self.runtime.deviceGetPCIBusId(self.cp.cuda.Device().id).lower()
            with open("%s/%s/local_cpulist" % (DEVICES, place)) as file:
                near = parse_cpu_list(file.read()) & os.sched_getaffinity(0)
        except (self.runtime.CUDARuntimeError, OSError):
            return
        if near:
            os.sched_setaffinity(0, near)

    def plant(self) -> None:
        """Does what is to be done before a test, where a fault is to be planted."""
        if self._fault == "illegal-access":
            kernel = self.cp.RawKernel(FAULT_KERNELS["gpuenv_illegal"], "gpuenv_illegal")
            kernel((1,), (1,), (np.uint64(16),))
        elif self._fault == "endless-kernel":
            self._kept = self.cp.zeros(1, dtype=np.int32)
            kernel = self.cp.RawKernel(FAULT_KERNELS["gpuenv_endless"], "gpuenv_endless")
            kernel((1,), (1,), (self._kept,))
        elif self._fault == "pool-limit":
            self.pool.set_limit(size=1 << 20)


def round_count(seconds: float) -> int:
    """How many rounds of work to measure of which one takes that long."""
    return max(2, min(MAX_ROUNDS, int(MAX_SECONDS / max(seconds, 1e-6))))


def allocate_pinned(make: Callable[[int], Any], count: int) -> Any:
    """An array of so many elements, or of half as many, and so on: WSL and some containers pin little memory."""
    while True:
        try:
            return make(count)
        except RuntimeError as error:
            if cuda_status(error) != MEMORY_ALLOCATION or count <= MIN_PINNED:
                raise
            count //= 2


def parse_cpu_list(text: str) -> Set[int]:
    """The processors of a list as the kernel writes it, such as ``0-15,32``."""
    found: Set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            found.update(range(int(first), int(last or first) + 1))
    return found


def empty_kernels(source: str) -> str:
    """The source with an empty body for every kernel; all else stays."""
    kept, place = [], 0
    for match in re.finditer(r"__global__[^{};]*\{", source):
        if match.end() <= place:
            continue
        kept.append(source[place : match.end()])
        place, depth = match.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(source[place], 0)
            place += depth > 0
    return "".join(kept) + source[place:]
