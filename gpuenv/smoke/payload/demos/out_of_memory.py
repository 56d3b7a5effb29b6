"""More than there is, at once or in pieces."""

WHY = "An expression makes an array for each step. In pieces, with the result of each taken away, any size is done."


def mistake(cp):
    """All at once, in a pool that may hold 64 MiB."""
    cp.get_default_memory_pool().set_limit(size=64 << 20)
    try:
        x = cp.arange(20000000, dtype=cp.float64)
        total = float((x % 7).sum())
    except cp.cuda.memory.OutOfMemoryError as error:
        return "OutOfMemoryError: %s" % error, False
    return "the sum is %.0f" % total, total == 59999997


def cure(cp):
    """Piece by piece, in the same pool."""
    cp.get_default_memory_pool().set_limit(size=64 << 20)
    total = 0.0
    for start in range(0, 20000000, 1000000):
        x = cp.arange(start, start + 1000000, dtype=cp.float64)
        total += float((x % 7).sum())
    return "the sum is %.0f" % total, total == 59999997
