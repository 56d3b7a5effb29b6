"""Two streams without an order."""

WHY = "Streams run independently. What one writes is there for another only after an event or a synchronisation."
ENVIRONMENT = {"CUDA_LAUNCH_BLOCKING": "0"}
KERNEL = r"""
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


def mistake(cp):
    """The consumer does not wait for the producer."""
    producer = cp.cuda.Stream(non_blocking=True)
    consumer = cp.cuda.Stream(non_blocking=True)
    x = cp.zeros(1000, dtype=cp.float32)
    fill = cp.RawKernel(KERNEL, "slow_fill")
    with consumer:
        x.sum()  # compiled and given memory: that takes longer than a race
    cp.cuda.Device().synchronize()
    with producer:
        fill((1,), (256,), (x, cp.int32(x.size)))
    with consumer:
        total = x.sum()
        found = float(total)
    producer.synchronize()
    return "the sum of 1000 ones is %g" % found, found == 1000


def cure(cp):
    """The consumer waits for an event of the producer."""
    producer = cp.cuda.Stream(non_blocking=True)
    consumer = cp.cuda.Stream(non_blocking=True)
    x = cp.zeros(1000, dtype=cp.float32)
    fill = cp.RawKernel(KERNEL, "slow_fill")
    with consumer:
        x.sum()  # compiled and given memory: that takes longer than a race
    cp.cuda.Device().synchronize()
    with producer:
        fill((1,), (256,), (x, cp.int32(x.size)))
        written = producer.record()
    consumer.wait_event(written)
    with consumer:
        total = x.sum()
        found = float(total)
    return "the sum of 1000 ones is %g" % found, found == 1000
