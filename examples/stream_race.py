"""One stream reads an array before another one has written it.

Streams run independently. What one writes is there for another only after an event or a synchronization.

    python examples/stream_race.py

With CUDA_LAUNCH_BLOCKING=1 each launch waits for its kernel, and there is no race to see.
"""

import require_gpu

import cupy as cp

SOURCE = r"""
extern "C" __global__ void slow_fill(float *x, int n) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < 20000000ull);
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        x[i] = 1.0f;
    }
}
"""
fill = cp.RawKernel(SOURCE, "slow_fill")
producer, consumer = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
with consumer:
    cp.zeros(1000, dtype=cp.float32).sum()  # compiled beforehand: that takes longer than the race

for title, in_order in (("without an event", False), ("with an event", True)):
    x = cp.zeros(1000, dtype=cp.float32)
    cp.cuda.Device().synchronize()
    with producer:
        fill((1,), (256,), (x, cp.int32(x.size)))
        written = producer.record()
    if in_order:
        consumer.wait_event(written)
    with consumer:
        print(f"{title}: the sum of 1000 ones is {float(x.sum()):g}")
    producer.synchronize()
