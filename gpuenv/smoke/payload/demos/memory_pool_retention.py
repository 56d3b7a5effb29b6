"""Memory that the pool keeps is no leak."""

WHY = "CuPy keeps what it has freed in a pool, to use it again. nvidia-smi, and other programs, see it as taken."


def mistake(cp):
    """Deleting an array is taken for giving its memory back to the GPU."""
    x = cp.zeros(1 << 26, dtype=cp.float32)
    del x
    held = cp.get_default_memory_pool().total_bytes()
    return "%d MiB are still taken from the GPU" % (held >> 20), held == 0


def cure(cp):
    """The pool is told to give back; used_bytes tells what arrays hold."""
    pool = cp.get_default_memory_pool()
    x = cp.zeros(1 << 26, dtype=cp.float32)
    del x
    used = pool.used_bytes()
    pool.free_all_blocks()
    held = pool.total_bytes()
    said = "arrays hold %d MiB, %d MiB are taken" % (used >> 20, held >> 20)
    return said, held == 0
