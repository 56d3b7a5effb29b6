"""Arrays of the host and of the device in one expression."""

WHY = "CuPy never copies between host and device unasked: such copies are slow, and would be hidden."


def mistake(cp):
    """A NumPy array is added to an array on the GPU."""
    import numpy as np

    try:
        total = float((cp.ones(10) + np.ones(10)).sum())
    except TypeError as error:
        return "TypeError: %s" % error, False
    return "the sum is %g" % total, total == 20


def cure(cp):
    """The copy is asked for: cp.asarray to the GPU, cp.asnumpy back."""
    import numpy as np

    total = float(cp.asnumpy(cp.ones(10) + cp.asarray(np.ones(10))).sum())
    return "the sum is %g" % total, total == 20
