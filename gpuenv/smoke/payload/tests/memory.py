"""Memory: CuPy's pool, the driver's pool, managed and pinned memory, and exhaustion."""

import ctypes
import os
import time

import numpy as np

from gpuenv.smoke.payload.cupy_device import Busy, Skip
from gpuenv.smoke.payload.expected import approx, exact
from gpuenv.smoke.payload.failures import cuda_status, explain_lack_of_memory
from gpuenv.smoke.payload.tests import GpuTest


class Pool(GpuTest):
    """The memory pool reuses freed blocks and returns free memory to the GPU on request."""

    TITLE = "pool: reuse, growth and return"
    LEVELS = {"quick": {"kib": 4096}, "normal": {"kib": 65536}}
    TOLERANCE = "exact: bytes, and integers"

    def inputs(self, random, size):
        # A multiple of 512 bytes, to which CuPy rounds up allocations.
        n = size["kib"] * 1024 // 8
        return {
            "x": random.integers(0, 2**62, size=n, dtype=np.int64),
            "y": random.integers(0, 2**62, size=n, dtype=np.int64),
        }

    def expect(self, data):
        n = data["x"].nbytes
        return {
            "x": exact(data["x"]),
            "y": exact(data["y"]),
            # After each step: an array, freed, a second one at its address, a third one, all freed.
            "used": exact(np.array([n, 0, n, 2 * n, 0])),
            "held": exact(np.array([n, n, n, 2 * n, 2 * n])),
            "same_address": exact(np.array([1])),
            "returned": exact(np.array([0, 0])),
        }

    def run(self, gpu, data):
        cp = gpu.cp
        # A separate pool, independent of the limit and the allocator in the caller's environment.
        pool = cp.cuda.MemoryPool()
        pool.set_limit(size=gpu.pool.get_limit())
        used, held, got = [], [], {}

        def note():
            used.append(pool.used_bytes())
            held.append(pool.total_bytes())

        with cp.cuda.using_allocator(pool.malloc):
            x = cp.empty(data["x"].shape, dtype=np.int64)
            x.set(data["x"])
            note()
            got["x"] = gpu.to_host(x)
            address = x.data.ptr
            del x
            note()
            y = cp.empty(data["y"].shape, dtype=np.int64)
            y.set(data["y"])
            note()
            got["same_address"] = np.array([int(y.data.ptr == address)])
            got["y"] = gpu.to_host(y)
            z = cp.empty(data["y"].shape, dtype=np.int64)
            note()
            del y, z
            note()
        pool.free_all_blocks()
        got["returned"] = np.array([pool.total_bytes(), pool.n_free_blocks()])
        got["used"], got["held"] = np.array(used), np.array(held)
        return got

    def memory(self, size):
        return size["kib"] * 1024 * 3


class Fragmentation(GpuTest):
    """Freed blocks are merged with free neighbours; the contents of other blocks stay intact."""

    TITLE = "fragmentation: free neighbours are merged"
    LEVELS = {"normal": {"blocks": 64}, "deep": {"blocks": 512}}
    HOST = 0.1  # almost none
    TOLERANCE = "exact: bytes, and integers"
    BLOCK = 1 << 20

    def inputs(self, random, size):
        return {"blocks": size["blocks"], "start": int(random.integers(1, 2**30))}

    def expect(self, data):
        blocks = data["blocks"]
        values = data["start"] + np.arange(blocks, dtype=np.int64)
        total = blocks * self.BLOCK
        return {
            # One large block is split into small ones; once all are freed, they merge and serve the next large
            # allocation: otherwise the pool would then hold twice as much.
            "held": exact(np.array([total, total, total, total, total])),
            "used": exact(np.array([0, total, total // 2, 0, total])),
            "values": exact(values[1::2]),
            "large": exact(values),
        }

    def run(self, gpu, data):
        cp, blocks, start, words = gpu.cp, data["blocks"], data["start"], self.BLOCK // 8
        pool, held, used = cp.cuda.MemoryPool(), [], []

        def note():
            held.append(pool.total_bytes())
            used.append(pool.used_bytes())

        with cp.cuda.using_allocator(pool.malloc):
            large = cp.empty(blocks * words, dtype=np.int64)
            del large
            note()
            pieces = [cp.full(words, start + number, dtype=np.int64) for number in range(blocks)]
            note()
            del pieces[::2]
            note()
            values = np.array([int(gpu.to_host(piece[-1:])[0]) for piece in pieces])
            del pieces
            note()
            large = cp.empty(blocks * words, dtype=np.int64)
            note()
            large[::words] = cp.arange(start, start + blocks, dtype=np.int64)
            got = {"large": gpu.to_host(large[::words]), "values": values}
            del large
        pool.free_all_blocks()
        got["held"], got["used"] = np.array(held), np.array(used)
        return got

    def memory(self, size):
        return size["blocks"] * self.BLOCK * 2


class Leak(GpuTest):
    """A thousand rounds of allocating, computing and freeing leak nothing."""

    TITLE = "no leak over a thousand rounds"
    LEVELS = {"normal": {"rounds": 1000}, "deep": {"rounds": 20000}}
    ALONE = ["normal", "deep"]
    TOLERANCE = (
        "exact for the pool; of the GPU's free memory 64 MiB may go, which others or the driver may take meanwhile"
    )
    N = 100000
    MAY_GO = 64 << 20  # bytes
    WAIT = 2.0  # seconds

    def inputs(self, random, size):
        return {"x": random.integers(0, 1000, size=self.N, dtype=np.int64), "rounds": size["rounds"]}

    def expect(self, data):
        return {
            "x": exact(data["x"] + data["rounds"]),
            "grown": exact(np.array([1, 1])),
            "free": approx(np.array(1.0), self.MAY_GO / float(1 << 30), "d"),
        }

    def run(self, gpu, data):
        cp, x = gpu.cp, gpu.to_device(data["x"])

        def one(x):
            kept = [cp.empty(self.N + 512 * number, dtype=np.float64) for number in range(4)]
            del kept
            return x + 1

        for _ in range(20):
            one(x)
        cp.cuda.Device().synchronize()
        held, used, answers = gpu.pool.total_bytes(), gpu.pool.used_bytes(), []

        def all_rounds():
            nonlocal x
            free = gpu.free_memory()
            for _ in range(data["rounds"]):
                x = one(x)
            cp.cuda.Device().synchronize()
            lost = free - gpu.free_memory()
            answers.append(gpu.to_host(x))
            return lost

        def wait():
            free, until = gpu.free_memory(), time.perf_counter() + self.WAIT
            while time.perf_counter() < until:
                time.sleep(0.01)
            return free - gpu.free_memory()

        lost = self.leaked(all_rounds, wait)
        grown = [int(gpu.pool.total_bytes() == held), int(gpu.pool.used_bytes() == used)]
        # One minus the lost gibibytes.
        return {"x": answers[0], "grown": np.array(grown), "free": np.array(1.0 - max(lost, 0) / float(1 << 30))}

    def leaked(self, all_rounds, wait):
        """Returns the bytes lost in all rounds; repeats the rounds if that is too much, since a leak recurs.

        Another program or a desktop that starts meanwhile takes memory only once. One that grows takes it while this
        process does nothing, too, or another amount each time, where a leak takes the same.

        Raises:
            Busy: another program grows.
        """
        lost = all_rounds()
        again = all_rounds() if lost > self.MAY_GO else 0
        if min(lost, again) <= self.MAY_GO:
            return min(lost, again)
        if wait() > 0 or max(lost, again) > 2 * min(lost, again):
            raise Busy("another program takes memory of this GPU while the test runs")
        return min(lost, again)


class Limit(GpuTest):
    """A pool with a limit rejects allocations beyond it and serves those within."""

    TITLE = "a limit is respected, and what follows works"
    LEVELS = {"normal": {"mib": 64}}
    TOLERANCE = "exact: 1 where an allocation was refused with OutOfMemoryError, and integers"

    def inputs(self, random, size):
        limit = size["mib"] << 20
        return {"limit": limit, "x": random.integers(0, 2**62, size=limit // 2 // 8, dtype=np.int64)}

    def expect(self, data):
        return {
            "refused": exact(np.array([1, 0, 1])),
            "limit": exact(np.array(data["limit"])),
            "x": exact(data["x"]),
        }

    def run(self, gpu, data):
        cp, limit = gpu.cp, data["limit"]
        pool = cp.cuda.MemoryPool()
        pool.set_limit(size=limit)
        refused, kept = [], []
        with cp.cuda.using_allocator(pool.malloc):
            for count in (2 * limit, limit // 4, limit):
                try:
                    kept.append(cp.empty(count, dtype=np.uint8))
                    refused.append(0)
                except cp.cuda.memory.OutOfMemoryError:
                    refused.append(1)
            kept.clear()
            pool.free_all_blocks()
            x = cp.empty(data["x"].shape, dtype=np.int64)
            x.set(data["x"])
            got = {"x": x.get(), "limit": np.array(pool.get_limit())}
            del x
        # Copies once more with the default pool.
        got["x"] = gpu.to_host(gpu.to_device(got["x"]))
        got["refused"] = np.array(refused)
        pool.free_all_blocks()
        return got

    def memory(self, size):
        return size["mib"] << 21


class Chunks(GpuTest):
    """Processes an array in chunks within a pool that can hold two of them."""

    TITLE = "an array larger than the pool, in chunks"
    LEVELS = {"normal": {"mib": 64, "pieces": 16}, "deep": {"mib": 512, "pieces": 32}}
    HOST = 30  # all chunks
    TOLERANCE = "exact: integers, and the maximum bytes of the pool"
    SHRINKS = "mib"

    def inputs(self, random, size):
        n = max(size["mib"], 1) * (1 << 20) // 8 // size["pieces"]
        return {"x": random.integers(0, 2**40, size=(size["pieces"], n), dtype=np.int64)}

    def expect(self, data):
        x = data["x"]
        return {"x": exact((x ^ 0x5A5A5A) + 1), "within": exact(np.array([1]))}

    def run(self, gpu, data):
        cp, x = gpu.cp, data["x"]
        pool, answer, most = cp.cuda.MemoryPool(), np.empty_like(x), 0
        limit = 3 * x[0].nbytes + (1 << 20)
        pool.set_limit(size=limit)
        with cp.cuda.using_allocator(pool.malloc):
            for number in range(x.shape[0]):
                piece = cp.empty(x[number].shape, dtype=np.int64)
                piece.set(x[number])
                piece ^= 0x5A5A5A
                piece += 1
                answer[number] = piece.get()
                most = max(most, pool.total_bytes())
                del piece
        pool.free_all_blocks()
        answer[-1] = gpu.to_host(gpu.to_device(answer[-1]))
        return {"x": answer, "within": np.array([int(0 < most <= limit)])}

    def memory(self, size):
        return (size["mib"] << 20) // size["pieces"] * 5


class _Integers(GpuTest):
    """An array of integers."""

    def inputs(self, random, size):
        return {"x": random.integers(0, 2**40, size=size["n"], dtype=np.int64)}


class Exhausted(_Integers):
    """An allocation beyond the GPU's memory raises OutOfMemoryError, and the next allocation works."""

    TITLE = "recovery from an allocation beyond the memory"
    LEVELS = {"normal": {"n": 500009}}
    TOLERANCE = "exact: 1 where the allocation was refused, 0 where others were blamed for it, and integers"
    WSL = "/dev/dxg"

    def expect(self, data):
        return {"refused": exact(np.array([1])), "blamed_others": exact(np.array([0])), "x": exact(data["x"] - 5)}

    def obstacle(self, *, integrated, wsl):
        """Returns why the memory must not be exhausted; empty if it may be."""
        if integrated:
            return "this GPU shares the host's memory: exhausting it may freeze the machine"
        return "in WSL, Windows extends the GPU memory by host memory" if wsl else ""

    def run(self, gpu, data):
        obstacle = self.obstacle(integrated=gpu.is_integrated(), wsl=os.path.exists(self.WSL))
        if obstacle:
            raise Skip(obstacle)
        cp, refused, kept, blamed = gpu.cp, 0, None, 0
        wanted = gpu.total + (1 << 30)
        try:
            kept = cp.empty(wanted, dtype=np.uint8)
        except cp.cuda.memory.OutOfMemoryError:
            refused = 1
            free = int(gpu.runtime.memGetInfo()[0])
            trouble = explain_lack_of_memory(wanted, gpu.pool.total_bytes(), free, gpu.total, 0)
            blamed = int(trouble.trouble == "memory-held-by-others")
        del kept
        gpu.pool.free_all_blocks()
        return {
            "refused": np.array([refused]),
            "blamed_others": np.array([blamed]),
            "x": gpu.to_host(gpu.to_device(data["x"]) - 5),
        }


class AsyncPool(_Integers):
    """The driver's own pool: stream-ordered allocation through MemoryAsyncPool."""

    TITLE = "the asynchronous pool"
    LEVELS = {"normal": {"n": 1000003, "rounds": 30}}
    BYTES = 4 * 8
    TOLERANCE = "exact: integers"
    SUPPORTED = 115  # cudaDevAttrMemoryPoolsSupported (driver_types.h)

    def inputs(self, random, size):
        return dict(super().inputs(random, size), rounds=size["rounds"])

    def expect(self, data):
        return {"x": exact(data["x"] + 3 * data["rounds"])}

    def run(self, gpu, data):
        cp = gpu.cp
        if not gpu.attribute(self.SUPPORTED):
            raise Skip("this GPU or driver has no stream-ordered memory pools")
        pool = cp.cuda.MemoryAsyncPool()
        stream = cp.cuda.Stream(non_blocking=True)
        with cp.cuda.using_allocator(pool.malloc), stream:
            x = cp.empty(data["x"].shape, dtype=np.int64)
            x.set(data["x"], stream=stream)
            for _ in range(data["rounds"]):
                x = x + 3
            stream.synchronize()
            answer = gpu.to_host(x)
            del x
            stream.synchronize()
        return {"x": answer}


class Managed(_Integers):
    """Managed memory, written by the GPU and read on the host by address."""

    TITLE = "managed memory"
    LEVELS = {"normal": {"n": 1000003}}
    BYTES = 3 * 8
    TOLERANCE = "exact: integers"
    MANAGED = 83  # cudaDevAttrManagedMemory (driver_types.h)
    NOT_SUPPORTED = 801  # cudaErrorNotSupported (driver_types.h)

    def expect(self, data):
        return {"device": exact(data["x"] + 11), "host": exact(data["x"] + 11)}

    def run(self, gpu, data):
        cp = gpu.cp
        if not gpu.attribute(self.MANAGED):
            raise Skip("this GPU has no managed memory")
        pool = cp.cuda.MemoryPool(cp.cuda.malloc_managed)
        with cp.cuda.using_allocator(pool.malloc):
            x = self.allocate(lambda: cp.empty(data["x"].shape, dtype=np.int64))
            x.set(data["x"])
            x += 11
            cp.cuda.Device().synchronize()
            got = {"device": gpu.to_host(x)}
            raw = (ctypes.c_int64 * x.size).from_address(x.data.ptr)
            got["host"] = np.frombuffer(raw, dtype=np.int64).copy()
            del raw, x
        pool.free_all_blocks()
        return got

    def allocate(self, make):
        """Allocates managed memory; skips the test if a vGPU or a sandbox refuses it although the GPU supports it.

        NVIDIA AI Enterprise Release Notes, Unified Memory Support; gvisor, issue 9593.
        """
        try:
            return make()
        except RuntimeError as error:
            if cuda_status(error) != self.NOT_SUPPORTED:
                raise
            raise Skip("this GPU has no managed memory here: %s" % error) from error


class PinnedPool(_Integers):
    """The pool of pinned host memory reuses freed blocks; copies from it are correct."""

    TITLE = "the pool of pinned memory"
    LEVELS = {"normal": {"n": 300007}}
    TOLERANCE = "exact: integers"

    def expect(self, data):
        return {"x": exact(data["x"] * 3), "y": exact(data["x"] * 5), "same_address": exact(np.array([1]))}

    def run(self, gpu, data):
        cp, host = gpu.cp, data["x"]
        pool, got, addresses = cp.cuda.PinnedMemoryPool(), {}, []
        for name, factor in (("x", 3), ("y", 5)):
            block = pool.malloc(host.nbytes)
            addresses.append(block.ptr)
            pinned = np.frombuffer(block, dtype=np.int64, count=host.size)
            pinned[...] = host
            on_gpu = cp.empty(host.shape, dtype=np.int64)
            on_gpu.set(pinned)
            cp.cuda.Device().synchronize()
            got[name] = gpu.to_host(on_gpu * factor)
            del pinned, block
        got["same_address"] = np.array([int(addresses[0] == addresses[1])])
        pool.free_all_blocks()
        return got
