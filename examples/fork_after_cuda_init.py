"""A process is forked after CUDA was initialized.

A CUDA context does not survive a fork. Start workers with the method "spawn", or fork before the first use of the
GPU.

    python examples/fork_after_cuda_init.py
"""

import multiprocessing

import require_gpu

import cupy as cp


def work() -> None:
    """Use the GPU in a worker."""
    try:
        print(f"the sum is {int(cp.arange(10).sum())}", flush=True)
    except RuntimeError as error:
        print(f"{type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    cp.arange(3).sum()
    cp.cuda.Device().synchronize()
    for method in ("fork", "spawn"):
        print(f"{method}: ", end="", flush=True)
        multiprocessing.set_start_method(method, force=True)
        worker = multiprocessing.Process(target=work)
        worker.start()
        worker.join()
        if worker.exitcode:
            print(f"the worker ended with {worker.exitcode}")
