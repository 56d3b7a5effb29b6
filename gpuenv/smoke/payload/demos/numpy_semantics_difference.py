"""Indices that are out of bounds, and elements that are written twice."""

WHY = "CuPy does not check integer-array indices: they wrap around. NumPy raises. Check the indices yourself."


def mistake(cp):
    """NumPy would raise IndexError here."""
    x = cp.arange(10)
    found = int(x[cp.array([12])][0])
    return "element 12 of 10 is %d" % found, False


def cure(cp):
    """The bounds are checked before."""
    x, wanted = cp.arange(10), cp.array([12])
    if bool((wanted >= x.size).any()):
        return "an index beyond the end was found before it was used", True
    return "element 12 of 10 is %d" % int(x[wanted][0]), False
