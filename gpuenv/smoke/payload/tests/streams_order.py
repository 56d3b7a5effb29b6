"""A consumer on one stream waits by an event for a slow producer on another one, again and again."""

import numpy as np

from gpuenv.smoke.payload.answers import exact
from gpuenv.smoke.payload.common import delay

TITLE = "order across streams by events"
LEVELS = {"quick": {"rounds": 10}, "normal": {"rounds": 40}, "deep": {"rounds": 400}}
TOLERANCE = "exact: whole numbers; a consumer that does not wait sees those of the round before"
KERNELS = delay.KERNELS
ENVIRONMENT = delay.ENVIRONMENT
N = 2048


def inputs(random, size):
    # Between 1 and 5 milliseconds: far longer than a launch takes, so that a missing order shows in every round.
    return {"delays": random.uniform(0.001, 0.005, size=size["rounds"]), "start": int(random.integers(1, 1000))}


def expect(given):
    rounds = given["delays"].size
    return {"seen": exact(np.stack([delay.filled(N, given["start"] + 7 * number) for number in range(rounds)]))}


def run(gpu, given):
    cp, rounds = gpu.cp, given["delays"].size
    producer, consumer = cp.cuda.Stream(non_blocking=True), cp.cuda.Stream(non_blocking=True)
    x, seen = cp.full(N, -1, dtype=np.int32), cp.full((rounds, N), -1, dtype=np.int32)
    fill, take = delay.kernels(gpu)
    cp.cuda.Device().synchronize()
    for number, seconds in enumerate(given["delays"]):
        with producer:
            delay.produce(fill, x, given["start"] + 7 * number, seconds)
        gpu.order(producer, consumer)
        with consumer:
            delay.consume(take, x, seen[number])
        # The next round may not overwrite what this one still reads; this order is never removed.
        producer.wait_event(consumer.record())
    producer.synchronize()
    consumer.synchronize()
    return {"seen": gpu.down(seen)}
