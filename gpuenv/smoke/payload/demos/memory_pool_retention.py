"""Memory that the pool keeps is no leak."""

WHY = "CuPy keeps what it has freed in a pool, to use it again. nvidia-smi, and other programs, see it as taken."


def mistake(cp):
    """Deleting an array is taken for giving its memory back to the GPU."""
    before = cp.cuda.runtime.memGetInfo()[0]
    x = cp.zeros(1 << 26, dtype=cp.float32)
    del x
    missing = before - cp.cuda.runtime.memGetInfo()[0]
    said = "%d MiB are still taken from the GPU" % (missing >> 20)
    return said, missing < 1 << 27


def cure(cp):
    """The pool is told to give back; used_bytes tells what arrays hold."""
    before = cp.cuda.runtime.memGetInfo()[0]
    pool = cp.get_default_memory_pool()
    x = cp.zeros(1 << 26, dtype=cp.float32)
    del x
    used = pool.used_bytes()
    pool.free_all_blocks()
    missing = before - cp.cuda.runtime.memGetInfo()[0]
    said = "arrays hold %d MiB, %d MiB are taken" % (used >> 20, missing >> 20)
    return said, missing < 1 << 27
