"""Several GPUs in one process."""

import numpy as np

from gpuenv.smoke.payload.cupy_device import Skip
from gpuenv.smoke.payload.expected import exact
from gpuenv.smoke.payload.tests import GpuTest
from gpuenv.smoke.payload.tests.kernels import RawKernel

MAX_GPUS = 16


class Each(GpuTest):
    """Each GPU in one process computes its own answer in its own memory."""

    TITLE = "each of several GPUs in one process"
    LEVELS = {"quick": {"n": 20011}, "normal": {"n": 500009}}
    NEEDS = ["gpus:2"]
    TOLERANCE = "exact: integers"
    KERNELS = RawKernel.KERNELS
    HOST = 16  # all rows; a GPU has few at a time
    BYTES = 4 * 8

    def inputs(self, random, size):
        return {"x": random.integers(-(2**40), 2**40, size=(MAX_GPUS, size["n"]), dtype=np.int64)}

    def expect(self, data):
        x = data["x"]
        return {"z": exact((x << 1) - x[::-1] + np.arange(x.shape[1], dtype=np.int64))}

    def run(self, gpu, data):
        cp, x = gpu.cp, data["x"]
        count, n, rows = gpu.runtime.getDeviceCount(), x.shape[1], []
        for number in range(max(MAX_GPUS, count)):
            with cp.cuda.Device(number % count):
                first, second = gpu.to_device(x[number % MAX_GPUS]), gpu.to_device(x[MAX_GPUS - 1 - number % MAX_GPUS])
                z = cp.full(n, -1, dtype=np.int64)
                self.kernel(gpu, "gpuenv_mix")(((n + 255) // 256,), (256,), (first, second, z, np.int64(n)))
                if z.device.id != number % count:
                    raise ValueError("the array is on device %d, not on %d" % (z.device.id, number % count))
                rows.append(gpu.to_host(z))
        for number in range(MAX_GPUS, count):
            if not np.array_equal(rows[number], rows[number - MAX_GPUS]):
                raise ValueError("the answers of devices %d and %d differ" % (number - MAX_GPUS, number))
        gpu.measure("devices", count, "1")
        return {"z": np.stack(rows[:MAX_GPUS])}


class Peer(GpuTest):
    """Copies between GPUs, and the use of an array from another GPU."""

    TITLE = "peer copies of every pair, and arrays of another GPU"
    LEVELS = {"normal": {"n": 1000003}, "deep": {"n": 30000001}}
    NEEDS = ["gpus:2"]
    TOLERANCE = "exact: integers; an array of another GPU is rejected, or works through peer access"
    SHRINKS = "n"
    BYTES = 5 * 8

    def expect(self, data):
        x = data["x"]
        pairs = exact(np.zeros((MAX_GPUS, MAX_GPUS), dtype=np.int64))
        return {"copied": exact(x), "back": exact(x + 1), "raw": exact(x), "used": exact(x * 2), "wrong_by_pair": pairs}

    def run(self, gpu, data):
        cp, host = gpu.cp, data["x"]
        first, second = cp.cuda.Device(0), cp.cuda.Device(1)
        with first:
            x = gpu.to_device(host)
        first.synchronize()  # the per-thread default streams of two devices are not ordered
        with second:
            y = cp.asarray(x)  # CuPy copies an array of another device
            raw = cp.zeros(host.shape, dtype=host.dtype)
            gpu.runtime.memcpyPeer(raw.data.ptr, 1, x.data.ptr, 0, x.nbytes)
            got = {"copied": gpu.to_host(y), "raw": gpu.to_host(raw)}
            y += 1
        second.synchronize()
        with first:
            got["back"] = gpu.to_host(cp.asarray(y))
        # Computes on the second GPU with the array of the first; with an explicit copy if that is rejected.
        with second:
            try:
                got["used"] = gpu.to_host(x * 2)
            except ValueError:  # Array device must be same as the current device
                got["used"] = gpu.to_host(cp.asarray(x) * 2)
        gpu.measure("peer_access", gpu.runtime.deviceCanAccessPeer(0, 1), "1")
        got["wrong_by_pair"] = self.wrong_by_pair(gpu, host)
        return got

    def wrong_by_pair(self, gpu, host):
        """Returns the number of wrong elements in a copy from each GPU (row) to each other (column)."""
        cp, count = gpu.cp, min(gpu.runtime.getDeviceCount(), MAX_GPUS)
        wrong, direct = np.zeros((MAX_GPUS, MAX_GPUS), dtype=np.int64), 0
        for source in range(count):
            with cp.cuda.Device(source):
                x = gpu.to_device(host)
            cp.cuda.Device(source).synchronize()
            for target in range(count):
                if source == target:
                    continue
                with cp.cuda.Device(target):
                    right, y = gpu.to_device(host), cp.zeros(host.shape, dtype=host.dtype)
                    gpu.runtime.memcpyPeer(y.data.ptr, target, x.data.ptr, source, x.nbytes)
                    wrong[source, target] = int(gpu.to_host(cp.count_nonzero(y != right)))
                    direct += gpu.runtime.deviceCanAccessPeer(target, source)
                    del right, y
        gpu.measure("peer_pairs", direct, "1")
        return wrong


class Nccl(GpuTest):
    """A sum over all GPUs with NCCL."""

    TITLE = "a sum over all GPUs with NCCL"
    LEVELS = {"normal": {"n": 100003}}
    NEEDS = ["gpus:2"]
    TOLERANCE = "exact: integers"
    SECONDS = {"normal": 120}

    def inputs(self, random, size):
        return {"x": random.integers(-(2**30), 2**30, size=(MAX_GPUS, size["n"]), dtype=np.int64)}

    def expect(self, data):
        # One row per GPU is summed and the host adds the rest, so that the answer does not depend on the machine.
        return {"sum": exact(data["x"].sum(axis=0))}

    def run(self, gpu, data):
        cp, x = gpu.cp, data["x"]
        try:
            from cupy.cuda import nccl
        except ImportError as error:
            raise Skip("NCCL is not installed: %s" % error) from error
        if not getattr(nccl, "available", True):
            raise Skip("NCCL is not installed, or not found by CuPy")
        count = min(gpu.runtime.getDeviceCount(), MAX_GPUS)
        ranks = nccl.NcclCommunicator.initAll(list(range(count)))
        arrays, sums, streams = [], [], []
        for number in range(count):
            with cp.cuda.Device(number):
                streams.append(cp.cuda.Stream(non_blocking=True))
                arrays.append(gpu.to_device(x[number]))
                sums.append(cp.zeros(x.shape[1], dtype=np.int64))
                cp.cuda.Device(number).synchronize()
        nccl.groupStart()
        for number, rank in enumerate(ranks):
            with cp.cuda.Device(number):
                send, receive = arrays[number].data.ptr, sums[number].data.ptr
                rank.allReduce(send, receive, x.shape[1], nccl.NCCL_INT64, nccl.NCCL_SUM, streams[number].ptr)
        nccl.groupEnd()
        totals = []
        for number in range(count):
            with cp.cuda.Device(number):
                streams[number].synchronize()
                totals.append(gpu.to_host(sums[number]))
        if any(not np.array_equal(totals[0], total) for total in totals):
            raise ValueError("the GPUs do not agree on the sum")
        return {"sum": totals[0] + x[count:].sum(axis=0)}
