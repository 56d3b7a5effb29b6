"""Copies between the host and the GPU."""

import time

import numpy as np

from gpuenv.smoke.payload.expected import exact
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.payload.tests.kernels import RawKernel
from gpuenv.smoke.payload.tests.streams import Delayed


class Types(GpuTest):
    """Arrays of every dtype, copied to, on and from the GPU, compared bitwise."""

    TITLE = "every dtype in both directions"
    LEVELS = {"quick": {"n": 10007}, "normal": {"n": 200003}, "deep": {"n": 5000011}}
    TOLERANCE = "exact: the bytes, NaN with its payload"
    SHRINKS = "n"
    BYTES = 4 * 16
    TYPES = "?bBhHiIqQefdFD"

    def inputs(self, random, size):
        data = {}
        for code in self.TYPES:
            kind = np.dtype(code)
            raw = random.integers(0, 256, size=size["n"] * kind.itemsize, dtype=np.uint8)
            data[code] = (raw & 1).view(kind) if code == "?" else raw.view(kind)
        return data

    def expect(self, data):
        return {"type_" + x.dtype.name: exact(x.view(np.uint8)) for x in data.values()}

    def run(self, gpu, data):
        got = {}
        for x in data.values():
            back = gpu.to_host(gpu.to_device(x).copy())
            if back.dtype != x.dtype:
                raise TypeError("%s came back as %s" % (x.dtype, back.dtype))
            got["type_" + x.dtype.name] = back.view(np.uint8)
        return got


class Layouts(GpuTest):
    """Non-contiguous views, Fortran order and empty arrays in both directions."""

    TITLE = "non-contiguous arrays and Fortran order"
    LEVELS = {"normal": {"n": 120}, "deep": {"n": 900}}
    TOLERANCE = "exact: integers; 1 if the memory order is the requested one"
    SHRINKS = "n"

    def inputs(self, random, size):
        n = size["n"]
        return {"x": random.integers(-(2**60), 2**60, size=(n, n + 7, 3), dtype=np.int64)}

    def views(self, x):
        return {
            "stepped": x[::2, 1::3],
            "reversed": x[::-1, :, ::-1],
            "transposed": x.transpose(2, 0, 1),
            "inner": x[1:-1, 2:-3, 1],
            "none": x[:0],
        }

    def expect(self, data):
        x = data["x"]
        host = {"up_" + name: exact(view.copy()) for name, view in self.views(x).items()}
        device = {"down_" + name: exact(view.copy()) for name, view in self.views(x).items()}
        return dict(host, orders=exact(np.array([1, 1, 1])), fortran=exact(x[..., 0].copy()), **device)

    def run(self, gpu, data):
        cp, x = gpu.cp, data["x"]
        on_gpu = gpu.to_device(x)
        got = {"up_" + name: gpu.to_host(gpu.to_device(view)) for name, view in self.views(x).items()}
        for name, view in self.views(on_gpu).items():
            got["down_" + name] = gpu.to_host(view)
        fortran = cp.array(x[..., 0], order="F")
        back = cp.asnumpy(fortran, order="F")
        orders = [fortran.flags.f_contiguous, back.flags.f_contiguous]
        orders.append(cp.asnumpy(fortran, order="C").flags.c_contiguous)
        got["fortran"] = gpu.to_host(fortran)
        got["orders"] = np.array([int(bool(flag)) for flag in orders])
        return got

    def memory(self, size):
        return (size["n"] + 7) ** 2 * 3 * 8 * 4


class Mixing(GpuTest):
    """Mixing host and device arrays raises the documented errors; explicit transfers work."""

    TITLE = "mixing host and device arrays raises TypeError"
    LEVELS = {"normal": {"n": 1009}}
    TOLERANCE = "exact: 1 for each attempt that raised TypeError, and integers"
    # 1 allows the conversion (CuPy documentation, Environment variables).
    ENVIRONMENT = {"CUPY_ENABLE_UMP": "0"}

    def inputs(self, random, size):
        integers = random.integers(-1000, 1000, size=(2, size["n"]), dtype=np.int64)
        return {"x": integers[0], "y": integers[1]}

    def expect(self, data):
        return {"raised": exact(np.array([1, 1, 1])), "sum": exact(data["x"] + data["y"])}

    def run(self, gpu, data):
        host, on_gpu = data["y"], gpu.to_device(data["x"])
        raised = []
        for attempt in (lambda: on_gpu + host, lambda: np.asarray(on_gpu), lambda: gpu.cp.add(on_gpu, host)):
            try:
                attempt()
                raised.append(0)
            except TypeError:
                raised.append(1)
        return {"raised": np.array(raised), "sum": gpu.to_host(on_gpu + gpu.to_device(host))}


class InPlace(GpuTest):
    """In-place operations change the array itself: no new memory, no copy to the host."""

    TITLE = "in-place operations"
    LEVELS = {"normal": {"n": 200003}}
    TOLERANCE = "exact: integers; 1 if the address is unchanged"

    def expect(self, data):
        x = (data["x"] + 7) * 3
        x[::2] -= 1
        return {"x": exact(x), "view": exact(x[10:5000:7].copy()), "same_address": exact(np.array([1]))}

    def run(self, gpu, data):
        x = gpu.to_device(data["x"])
        address, view = x.data.ptr, x[10:5000:7]
        x += 7
        x *= 3
        x[::2] -= 1
        return {"x": gpu.to_host(x), "view": gpu.to_host(view), "same_address": np.array([int(x.data.ptr == address)])}


class Async(Delayed):
    """A copy into pinned memory after slow work on a stream, read after a synchronization."""

    TITLE = "asynchronous copies with synchronization"
    LEVELS = {"normal": {"rounds": 10}, "deep": {"rounds": 100}}
    TOLERANCE = "exact: integers; a copy that is read too early has those of the previous round"
    N = 4096
    DELAYS = (0.002, 0.006)

    def expect(self, data):
        rounds, start = data["delays"].size, data["start"]
        seen = np.stack([start + number + np.arange(self.N, dtype=np.int32) for number in range(rounds)])
        return {"seen": exact(seen.astype(np.int32)), "last": exact(seen[-1].astype(np.int32))}

    def run(self, gpu, data):
        cp, rounds = gpu.cp, data["delays"].size
        stream = cp.cuda.Stream(non_blocking=True)
        x = cp.full(self.N, -1, dtype=np.int32)
        pinned = gpu.pinned(self.N, np.int32)
        pinned[...] = -1
        seen = np.full((rounds, self.N), -1, dtype=np.int32)
        fill, _ = self.kernels(gpu)
        cp.cuda.Device().synchronize()
        for number, seconds in enumerate(data["delays"]):
            with stream:
                self.produce(fill, x, data["start"] + number, seconds)
                # Through the runtime: ndarray.get synchronizes from CuPy 13 on.
                gpu.runtime.memcpyAsync(pinned.ctypes.data, x.data.ptr, x.nbytes, 2, stream.ptr)  # 2: device to host
            gpu.wait(stream)
            seen[number] = pinned
        stream.synchronize()
        return {"seen": seen, "last": gpu.to_host(x)}


class Rates(GpuTest):
    """Rates of copies: host to device and back, pageable and pinned, and within the device."""

    TITLE = "rates of copies"
    LEVELS = {"normal": {"mib": 512}, "deep": {"mib": 1024}}
    TOLERANCE = "exact: integers"
    ALONE = ["normal", "deep"]
    SHRINKS = "mib"
    BYTES = 3 << 20

    def inputs(self, random, size):
        return {"x": random.integers(0, 2**62, size=(size["mib"] << 20) // 8, dtype=np.int64)}

    def expect(self, data):
        return {name: exact(data["x"]) for name in ("pageable", "pinned", "device")}

    def run(self, gpu, data):
        gpu.use_local_cpus()
        cp, host = gpu.cp, data["x"]
        on_gpu, other = cp.zeros(host.shape, dtype=host.dtype), cp.zeros(host.shape, dtype=host.dtype)
        pageable, pinned = np.zeros_like(host), gpu.pinned(host.size, host.dtype)
        pinned[...] = host[: pinned.size]
        part, got, size, less = on_gpu[: pinned.size], {}, float(host.nbytes), float(pinned.nbytes)

        gpu.measure("h2d_pageable", size / gpu.best_time(lambda: on_gpu.set(host)), "B/s")
        got["pageable"] = gpu.to_host(on_gpu)
        part.fill(0)
        gpu.measure_rate("h2d_pinned", less, less, gpu.best_time(lambda: part.set(pinned)), "B/s")
        got["pinned"] = gpu.to_host(on_gpu)
        gpu.measure("d2h_pageable", size / gpu.best_time(lambda: on_gpu.get(out=pageable)), "B/s")
        pinned[...] = 0
        gpu.measure_rate("d2h_pinned", less, less, gpu.best_time(lambda: part.get(out=pinned)), "B/s")
        # A copy reads and writes every byte. 3: device to device.
        to, of, stream = other.data.ptr, on_gpu.data.ptr, cp.cuda.get_current_stream().ptr
        took = gpu.steady_time(lambda: gpu.runtime.memcpyAsync(to, of, on_gpu.nbytes, 3, stream))
        gpu.measure_rate("device_copy", 2.0 * size, size, took, "B/s")
        got["device"] = gpu.to_host(other)
        if not (np.array_equal(pageable, host) and np.array_equal(pinned, host[: pinned.size])):
            raise ValueError("the copies that were measured do not return the input")
        return got


class Profile(GpuTest):
    """One workload, timed by events: the copy to the GPU, a kernel, the copy back, and the wait for them."""

    TITLE = "a profile of one workload"
    LEVELS = {"normal": {"mib": 64}, "deep": {"mib": 512}}
    TOLERANCE = "exact: integers"
    ALONE = ["normal", "deep"]
    ENVIRONMENT = {"CUDA_LAUNCH_BLOCKING": "0"}
    SHRINKS = "mib"
    BYTES = 3 << 20
    KERNELS = RawKernel.KERNELS
    STAGES = ("h2d", "kernel", "d2h")

    def inputs(self, random, size):
        return {"x": random.integers(-(2**40), 2**40, size=(size["mib"] << 20) // 8, dtype=np.int64)}

    def expect(self, data):
        x = data["x"]
        return {"z": exact(x + np.arange(x.size, dtype=np.int64))}  # 2 x - x + i

    def run(self, gpu, data):
        gpu.use_local_cpus()
        cp, host, runtime = gpu.cp, data["x"], gpu.runtime
        pinned = gpu.pinned(host.size, host.dtype)
        pinned[...] = host[: pinned.size]
        n = pinned.size
        x, z = gpu.to_device(host), cp.empty(host.shape, dtype=host.dtype)
        kernel, stream = self.kernel(gpu, "gpuenv_mix"), cp.cuda.Stream(non_blocking=True)
        for _ in range(2):  # the first round loads the kernel
            events = [cp.cuda.Event() for _ in range(4)]
            cp.cuda.Device().synchronize()
            started = time.perf_counter()
            with stream:
                events[0].record()
                runtime.memcpyAsync(x.data.ptr, pinned.ctypes.data, pinned.nbytes, 1, stream.ptr)  # 1: host to device
                events[1].record()
                kernel(((host.size + 255) // 256,), (256,), (x, x, z, np.int64(host.size)))
                events[2].record()
                runtime.memcpyAsync(pinned.ctypes.data, z.data.ptr, pinned.nbytes, 2, stream.ptr)  # 2: device to host
                events[3].record()
            submitted = time.perf_counter()
            stream.synchronize()
            ended = time.perf_counter()
            right = np.array_equal(pinned, host[:n] + np.arange(n, dtype=np.int64))
            pinned[...] = host[:n]
        if not right:
            raise ValueError("the copy back does not return what the kernel wrote")
        for number, name in enumerate(self.STAGES):
            seconds = cp.cuda.get_elapsed_time(events[number], events[number + 1]) / 1000.0
            gpu.measure("profile_" + name, seconds, "s")
        gpu.measure("profile_submit", submitted - started, "s")
        gpu.measure("profile_wait", ended - submitted, "s")
        return {"z": gpu.to_host(z)}
