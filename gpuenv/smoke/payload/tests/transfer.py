"""Copies between the host and the GPU."""

import numpy as np

from gpuenv.smoke.payload.expected import exact
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.payload.tests.streams import Delayed


class Types(GpuTest):
    """Every type there, copied on the GPU, and back: bit for bit."""

    TITLE = "every type both ways"
    LEVELS = {"quick": {"n": 10007}, "normal": {"n": 200003}, "deep": {"n": 5000011}}
    TOLERANCE = "exact: the bytes, NaN with its payload"
    SHRINKS = "n"
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

    def memory(self, size):
        return size["n"] * 16 * 4


class Layouts(GpuTest):
    """Views that are not contiguous, Fortran order, broadcasts and no elements at all, both ways."""

    TITLE = "non-contiguous arrays and Fortran order"
    LEVELS = {"normal": {"n": 120}, "deep": {"n": 900}}
    TOLERANCE = "exact: whole numbers; 1 where the order in memory is the one asked for"
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
        there = gpu.to_device(x)
        got = {"up_" + name: gpu.to_host(gpu.to_device(view)) for name, view in self.views(x).items()}
        for name, view in self.views(there).items():
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
    """Host and device arrays do not mix: the documented errors are raised, and explicit transfers work."""

    TITLE = "mixing host and device arrays raises TypeError"
    LEVELS = {"normal": {"n": 1009}}
    TOLERANCE = "exact: 1 for each attempt that raised TypeError, and whole numbers"
    # The setting of CuPy (Environment variables) under which the conversion is allowed.
    ENVIRONMENT = {"CUPY_ENABLE_UMP": "0"}

    def inputs(self, random, size):
        whole = random.integers(-1000, 1000, size=(2, size["n"]), dtype=np.int64)
        return {"x": whole[0], "y": whole[1]}

    def expect(self, data):
        return {"raised": exact(np.array([1, 1, 1])), "sum": exact(data["x"] + data["y"])}

    def run(self, gpu, data):
        host, there = data["y"], gpu.to_device(data["x"])
        raised = []
        for attempt in (lambda: there + host, lambda: np.asarray(there), lambda: gpu.cp.add(there, host)):
            try:
                attempt()
                raised.append(0)
            except TypeError:
                raised.append(1)
        return {"raised": np.array(raised), "sum": gpu.to_host(there + gpu.to_device(host))}


class InPlace(GpuTest):
    """Operations in place change the array itself: no new memory, no copy to the host."""

    TITLE = "operations in place"
    LEVELS = {"normal": {"n": 200003}}
    TOLERANCE = "exact: whole numbers; 1 where the place in memory is the same"

    def expect(self, data):
        x = (data["x"] + 7) * 3
        x[::2] -= 1
        return {"x": exact(x), "view": exact(x[10:5000:7].copy()), "same_place": exact(np.array([1]))}

    def run(self, gpu, data):
        x = gpu.to_device(data["x"])
        place, view = x.data.ptr, x[10:5000:7]
        x += 7
        x *= 3
        x[::2] -= 1
        return {"x": gpu.to_host(x), "view": gpu.to_host(view), "same_place": np.array([int(x.data.ptr == place)])}


class Async(Delayed):
    """A copy back on a stream, behind slow work, into pinned memory: right once the stream was waited for."""

    TITLE = "asynchronous copies with synchronisation"
    LEVELS = {"normal": {"rounds": 10}, "deep": {"rounds": 100}}
    TOLERANCE = "exact: whole numbers; a copy that is read too early holds those of the round before"
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
                # By the runtime: ndarray.get waits for the stream itself from CuPy 13 on.
                gpu.runtime.memcpyAsync(pinned.ctypes.data, x.data.ptr, x.nbytes, 2, stream.ptr)  # 2: device to host
            gpu.wait(stream)
            seen[number] = pinned
        stream.synchronize()
        return {"seen": seen, "last": gpu.to_host(x)}


class Rates(GpuTest):
    """Rates of copies: host to device and back, pageable and pinned, and within the device."""

    TITLE = "rates of copies"
    LEVELS = {"normal": {"mib": 256}, "deep": {"mib": 1024}}
    TOLERANCE = "exact: whole numbers"
    ALONE = ["normal", "deep"]
    SHRINKS = "mib"

    def inputs(self, random, size):
        return {"x": random.integers(0, 2**62, size=(size["mib"] << 20) // 8, dtype=np.int64)}

    def expect(self, data):
        return {name: exact(data["x"]) for name in ("pageable", "pinned", "device")}

    def run(self, gpu, data):
        gpu.use_local_cpus()
        cp, host = gpu.cp, data["x"]
        there, other = cp.zeros(host.shape, dtype=host.dtype), cp.zeros(host.shape, dtype=host.dtype)
        pageable, pinned = np.zeros_like(host), gpu.pinned(host.size, host.dtype)
        pinned[...] = host[: pinned.size]
        part, got, size, less = there[: pinned.size], {}, float(host.nbytes), float(pinned.nbytes)

        gpu.measure("h2d_pageable", size / gpu.best_time(lambda: there.set(host)), "B/s")
        got["pageable"] = gpu.to_host(there)
        part.fill(0)
        gpu.measure_rate("h2d_pinned", less, less, gpu.best_time(lambda: part.set(pinned)), "B/s")
        got["pinned"] = gpu.to_host(there)
        gpu.measure("d2h_pageable", size / gpu.best_time(lambda: there.get(out=pageable)), "B/s")
        pinned[...] = 0
        gpu.measure_rate("d2h_pinned", less, less, gpu.best_time(lambda: part.get(out=pinned)), "B/s")
        # A copy reads and writes every byte. 3: device to device.
        to, of, stream = other.data.ptr, there.data.ptr, cp.cuda.get_current_stream().ptr
        took = gpu.steady_time(lambda: gpu.runtime.memcpyAsync(to, of, there.nbytes, 3, stream))
        gpu.measure_rate("device_copy", 2.0 * size, size, took, "B/s")
        got["device"] = gpu.to_host(other)
        if not (np.array_equal(pageable, host) and np.array_equal(pinned, host[: pinned.size])):
            raise ValueError("what was copied back while it was measured is not what was sent")
        return got

    def memory(self, size):
        return (size["mib"] << 20) * 3
