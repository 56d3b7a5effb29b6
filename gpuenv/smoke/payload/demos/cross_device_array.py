"""An array of one GPU, used while another one is current."""

WHY = "An array lives on the GPU that was current when it was made. Another GPU needs a copy, or peer access."


def mistake(cp):
    """The array of GPU 0 is used on GPU 1."""
    with cp.cuda.Device(0):
        x = cp.arange(10)
    with cp.cuda.Device(1):
        try:
            y = x * 2
        except ValueError as error:
            return "ValueError: %s" % error, False
        where = y.device.id
    return "it went over the bus, element by element, and the result is on GPU %d" % where, False


def cure(cp):
    """The array is copied once."""
    with cp.cuda.Device(0):
        x = cp.arange(10)
    with cp.cuda.Device(1):
        y = cp.asarray(x) * 2
        return "the sum is %d, on GPU %d" % (int(y.sum()), y.device.id), int(y.sum()) == 90


GPUS = 2
