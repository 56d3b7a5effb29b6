"""Streams: order, default streams, overlap, timing, graphs and asynchronous errors."""

import numpy as np

from gpuenv.smoke.payload.cupy_device import FAULT_KERNELS
from gpuenv.smoke.payload.expected import approx, exact
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.payload.tests.kernels import RawKernel

# %globaltimer counts nanoseconds (PTX ISA, Special Registers); its steps are about a microsecond on many GPUs.
SOURCE = r"""
__device__ unsigned long long gpuenv_now() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void gpuenv_delayed_fill(int *x, int n, int value, unsigned long long nanoseconds) {
    unsigned long long start = gpuenv_now();
    while (gpuenv_now() - start < nanoseconds) { }
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        x[i] = value + i;
    }
}

extern "C" __global__ void gpuenv_take(const int *x, int *y, int n) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        y[i] = x[i] * 2;
    }
}
"""


class Delayed(GpuTest):
    """A test with a kernel of known duration, which reveals a missing order."""

    KERNELS = {"gpuenv_delayed_fill": SOURCE}
    # Overrides a 1 set for debugging: each launch then waits for its kernel (CUDA C++ Programming Guide,
    # CUDA Environment Variables), and neither order nor time could be tested.
    ENVIRONMENT = {"CUDA_LAUNCH_BLOCKING": "0"}
    DELAYS = (0.001, 0.005)  # seconds: far longer than a launch, so that a missing order shows in every round

    def inputs(self, random, size):
        return {"delays": random.uniform(*self.DELAYS, size=size["rounds"]), "start": int(random.integers(1, 1000))}

    def kernels(self, gpu):
        """Returns the producer, which waits before it writes, and the consumer."""
        fill, take = gpu.compile(SOURCE, "gpuenv_delayed_fill"), gpu.compile(SOURCE, "gpuenv_take")
        # Compiles both first: that takes longer than any delay.
        fill.compile()
        take.compile()
        return fill, take

    def produce(self, kernel, x, value, seconds):
        """Fills x with value, value + 1, ... after a delay, on the current stream."""
        kernel((1,), (256,), (x, np.int32(x.size), np.int32(value), np.uint64(int(seconds * 1e9))))

    def consume(self, kernel, x, y):
        """Writes 2 * x into y, on the current stream."""
        kernel((1,), (256,), (x, y, np.int32(x.size)))

    def filled(self, n, value):
        """Returns the doubled values that the consumer should see."""
        return 2 * (np.arange(n, dtype=np.int32) + value).astype(np.int32)


class Order(Delayed):
    """A consumer stream repeatedly waits for a slow producer stream through an event."""

    TITLE = "order across streams by events"
    LEVELS = {"quick": {"rounds": 10}, "normal": {"rounds": 40}, "deep": {"rounds": 400}}
    TOLERANCE = "exact: integers; a consumer that does not wait sees those of the previous round"
    N = 2048

    def expect(self, data):
        rounds = data["delays"].size
        seen = [self.filled(self.N, data["start"] + 7 * number) for number in range(rounds)]
        return {"seen": exact(np.stack(seen))}

    def run(self, gpu, data):
        cp, rounds = gpu.cp, data["delays"].size
        producer, consumer = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
        x, seen = cp.full(self.N, -1, dtype=np.int32), cp.full((rounds, self.N), -1, dtype=np.int32)
        fill, take = self.kernels(gpu)
        cp.cuda.Device().synchronize()
        for number, seconds in enumerate(data["delays"]):
            with producer:
                self.produce(fill, x, data["start"] + 7 * number, seconds)
            gpu.order_streams(producer, consumer)
            with consumer:
                self.consume(take, x, seen[number])
            # The next round must not overwrite what this one still reads; no fault removes this order.
            producer.wait_event(consumer.record())
        producer.synchronize()
        consumer.synchronize()
        return {"seen": gpu.to_host(seen)}


class Default(Delayed):
    """The default streams: the legacy one waits for blocking streams, the per-thread one for the legacy one."""

    TITLE = "null stream and per-thread default stream"
    LEVELS = {"normal": {"rounds": 10}, "deep": {"rounds": 100}}
    TOLERANCE = "exact: integers"
    # With 1, CuPy replaces the null stream by the per-thread stream.
    ENVIRONMENT = {**Delayed.ENVIRONMENT, "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "0"}
    N = 1024
    DELAYS = (0.001, 0.004)

    def expect(self, data):
        rounds, start = data["delays"].size, data["start"]
        seen = np.stack([self.filled(self.N, start + number) for number in range(rounds)])
        return {"null": exact(seen), "per_thread": exact(seen)}

    def run(self, gpu, data):
        """The null stream synchronizes with blocking streams, and the per-thread one with the null stream.

        CUDA Runtime API, Stream synchronization behavior.
        """
        cp = gpu.cp
        blocking = cp.cuda.Stream(non_blocking=False)
        return {
            "null": gpu.to_host(self.rounds(gpu, data, blocking, cp.cuda.Stream.null)),
            "per_thread": gpu.to_host(self.rounds(gpu, data, cp.cuda.Stream.ptds, cp.cuda.Stream.null)),
        }

    def rounds(self, gpu, data, before, after):
        cp, rounds = gpu.cp, data["delays"].size
        x, seen = cp.full(self.N, -1, dtype=np.int32), cp.full((rounds, self.N), -1, dtype=np.int32)
        fill, take = self.kernels(gpu)
        cp.cuda.Device().synchronize()
        for number, seconds in enumerate(data["delays"]):
            with before:
                self.produce(fill, x, data["start"] + number, seconds)
            with after:
                self.consume(take, x, seen[number])
        cp.cuda.Device().synchronize()
        return seen


class Overlap(Delayed):
    """Copies run while a kernel computes; the overlap is measured, not required."""

    TITLE = "overlap of copies and computation"
    LEVELS = {"normal": {"mib": 64}, "deep": {"mib": 512}}
    TOLERANCE = "exact: integers; the overlap depends on the GPU's copy engines and is only measured"
    ALONE = ["normal", "deep"]
    SHRINKS = "mib"
    BYTES = 2 << 20
    N = 1024

    def inputs(self, random, size):
        n = (size["mib"] << 20) // 8
        return {"x": random.integers(0, 2**62, size=n, dtype=np.int64), "start": int(random.integers(1, 1000))}

    def expect(self, data):
        return {"copied": exact(data["x"]), "seen": exact(self.filled(self.N, data["start"]))}

    def run(self, gpu, data):
        cp, host, n = gpu.cp, data["x"], self.N
        pinned = gpu.pinned(host.size, host.dtype)
        pinned[...] = host[: pinned.size]
        target, x, y = cp.empty(host.shape, dtype=host.dtype), cp.zeros(n, dtype=np.int32), cp.zeros(n, dtype=np.int32)
        target.set(host)
        part = target[: pinned.size]
        part.fill(0)
        fill, take = self.kernels(gpu)
        copier, worker = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)

        def copy():
            part.set(pinned, stream=copier)

        copy_time = gpu.best_time(copy)

        def compute():
            with worker:
                self.produce(fill, x, data["start"], copy_time)

        def both():
            compute()
            copy()

        compute()
        compute_time, both_time = gpu.best_time(compute), gpu.best_time(both)
        hidden = (compute_time + copy_time - both_time) / min(compute_time, copy_time)
        gpu.measure("overlap", max(0.0, min(1.0, hidden)), "1")
        cp.cuda.Device().synchronize()
        self.consume(take, x, y)
        return {"copied": gpu.to_host(target), "seen": gpu.to_host(y)}


class SideBySide(GpuTest):
    """Two kernels on two streams that wait for each other run at the same time; whether they do is measured."""

    TITLE = "two kernels side by side"
    LEVELS = {"normal": {"milliseconds": 200}}
    TOLERANCE = "exact: integers; whether the kernels met is only measured, as CUDA does not promise it"
    # A single connection puts the kernels of all streams into one queue (CUDA C++ Programming Guide, CUDA Environment
    # Variables).
    ENVIRONMENT = {"CUDA_LAUNCH_BLOCKING": "0", "CUDA_DEVICE_MAX_CONNECTIONS": "8"}
    ALONE = ["normal", "deep"]
    KERNELS = {
        "gpuenv_meet": r"""
__device__ unsigned long long gpuenv_now() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    return now;
}

extern "C" __global__ void gpuenv_meet(volatile int *flags, int me, int value, int *met,
                                       unsigned long long nanoseconds) {
    unsigned long long start = gpuenv_now();
    flags[me] = value + me;
    __threadfence();
    while (flags[1 - me] == 0 && gpuenv_now() - start < nanoseconds) { }
    met[me] = flags[1 - me] != 0;
}
"""
    }

    def inputs(self, random, size):
        return {"nanoseconds": int(size["milliseconds"] * 1e6), "value": int(random.integers(1, 2**30))}

    def expect(self, data):
        return {"flags": exact(np.array([data["value"], data["value"] + 1], dtype=np.int32))}

    def run(self, gpu, data):
        cp, meet = gpu.cp, self.kernel(gpu, "gpuenv_meet")
        meet.compile()
        flags, met = cp.zeros(2, dtype=np.int32), cp.zeros(2, dtype=np.int32)
        streams = [cp.cuda.Stream(non_blocking=True) for _ in range(2)]
        cp.cuda.Device().synchronize()
        for me, stream in enumerate(streams):
            with stream:
                arguments = (flags, np.int32(me), np.int32(data["value"]), met, np.uint64(data["nanoseconds"]))
                meet((1,), (1,), arguments)
        for stream in streams:
            stream.synchronize()
        gpu.measure("side_by_side", float(gpu.to_host(met).all()), "1")
        return {"flags": gpu.to_host(flags)}


class Timing(Delayed):
    """Events measure the time of a kernel with a known duration."""

    TITLE = "timing by events"
    LEVELS = {"normal": {"milliseconds": 40}}
    TOLERANCE = "from one to two times the duration of the kernel: other work on the GPU may run in between"
    ALONE = ["normal", "deep"]
    N = 512
    ROUNDS = 1000  # launches in a row

    def inputs(self, random, size):
        return {"milliseconds": float(size["milliseconds"]), "start": int(random.integers(1, 1000))}

    def expect(self, data):
        wait = data["milliseconds"]
        return {
            "milliseconds": approx(np.array(1.5 * wait), 0.51 * wait, "d"),
            "done": exact(np.array([0, 1])),
            "seen": exact(self.filled(self.N, data["start"])),
        }

    def run(self, gpu, data):
        cp = gpu.cp
        x, y = cp.full(self.N, -1, dtype=np.int32), cp.full(self.N, -1, dtype=np.int32)
        fill, take = self.kernels(gpu)
        self.produce(fill, x, 0, 0.001)  # the first launch loads the module
        start, end = cp.cuda.Event(), cp.cuda.Event()
        cp.cuda.Device().synchronize()
        start.record()
        self.produce(fill, x, data["start"], data["milliseconds"] / 1000)
        end.record()
        done = [int(end.done)]
        end.synchronize()
        done.append(int(end.done))
        milliseconds = cp.cuda.get_elapsed_time(start, end)
        self.consume(take, x, y)
        # Time between two launches of a tiny kernel.
        took = gpu.best_time(lambda: [self.consume(take, x, y) for _ in range(self.ROUNDS)], rounds=3)
        gpu.measure("launch_latency", took / self.ROUNDS, "s")
        return {"milliseconds": np.array(float(milliseconds)), "done": np.array(done), "seen": gpu.to_host(y)}


class Graphs(GpuTest):
    """A graph: kernels captured from a stream once and launched many times."""

    TITLE = "graphs"
    LEVELS = {"normal": {"launches": 50}, "deep": {"launches": 2000}}
    TOLERANCE = "exact: integers, modulo 2**32"
    KERNELS = {
        "gpuenv_step": r"""
extern "C" __global__ void gpuenv_step(unsigned int *x, int n) {
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n) {
        x[i] = x[i] * 3u + (unsigned int)i;
    }
}
"""
    }
    N = 4099

    def inputs(self, random, size):
        return {"x": random.integers(0, 2**32, size=self.N, dtype=np.uint32), "launches": size["launches"]}

    def expect(self, data):
        x = data["x"].astype(np.uint64)
        for _ in range(2 * data["launches"]):
            x = (x * np.uint64(3) + np.arange(self.N, dtype=np.uint64)) & np.uint64(0xFFFFFFFF)
        return {"x": exact(x.astype(np.uint32)), "captured": exact(data["x"])}

    def run(self, gpu, data):
        cp = gpu.cp
        x, step = gpu.to_device(data["x"]), self.kernel(gpu, "gpuenv_step")
        step((1,), (1,), (x, np.int32(0)))  # loads the kernel before the capture, without work
        stream = cp.cuda.Stream(non_blocking=True)
        cp.cuda.Device().synchronize()
        with stream:
            stream.begin_capture()
            for _ in range(2):
                step(((self.N + 127) // 128,), (128,), (x, np.int32(self.N)))
            graph = stream.end_capture()
        stream.synchronize()
        captured = gpu.to_host(x)  # a capture runs nothing
        with stream:
            for _ in range(data["launches"]):
                graph.launch()
        stream.synchronize()
        return {"x": gpu.to_host(x), "captured": captured}


class AsyncError(GpuTest):
    """After an illegal write the launch succeeds, and the synchronization and the next call fail."""

    TITLE = "asynchronous errors surface at the synchronization"
    LEVELS = {"normal": {"n": 2053}}
    TOLERANCE = "exact: 0 for the launch, 700 if the synchronization and the next call report the illegal access"
    # From NVIDIA's Xid Errors: an MMU fault (31) and its consequences.
    LEAVES = "Xid 31, and perhaps 13, 43 or 45, in the kernel log"
    # With 1, a launch waits for its kernel and reports the error itself (CUDA C++ Programming Guide, CUDA Environment
    # Variables), and a fault in a kernel ends the program with a core file (CUDA-GDB, GPU core dump support).
    ENVIRONMENT = {"CUDA_LAUNCH_BLOCKING": "0", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "0"}
    KERNELS = {"gpuenv_illegal": FAULT_KERNELS["gpuenv_illegal"]}
    # cudaErrorIllegalAddress, or on some systems cudaErrorLaunchFailure: "common causes include dereferencing an
    # invalid device pointer" (driver_types.h). Jetson reports the second (jetson-utils, issue 215).
    ILLEGAL_ACCESS = (700, 719)

    def expect(self, data):
        x = data["x"]
        return {
            "before": exact((x << 1) - x + np.arange(x.size, dtype=np.int64)),
            "codes": exact(np.array([0, 700, 700])),
        }

    def run(self, gpu, data):
        cp, n = gpu.cp, data["x"].size
        x, z = gpu.to_device(data["x"]), cp.zeros(n, dtype=np.int64)
        sound = gpu.compile(RawKernel.KERNELS["gpuenv_mix"], "gpuenv_mix")
        sound(((n + 255) // 256,), (256,), (x, x, z, np.int64(n)))
        before = gpu.to_host(z)
        kernel = self.kernel(gpu, "gpuenv_illegal")
        kernel.compile()
        stream = cp.cuda.Stream(non_blocking=True)

        def launch():
            with stream:
                kernel((1,), (1,), (np.uint64(16),))

        codes = []
        for step in (launch, stream.synchronize, cp.cuda.runtime.deviceSynchronize):
            try:
                step()
                codes.append(0)
            except (cp.cuda.runtime.CUDARuntimeError, cp.cuda.driver.CUDADriverError) as error:
                codes.append(error.status)
        return {"before": before, "codes": self.unified(codes)}

    def unified(self, codes):
        """Replaces each code of an illegal access by the first of them."""
        return np.array([self.ILLEGAL_ACCESS[0] if code in self.ILLEGAL_ACCESS else code for code in codes])
