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
    said = "each element went over the bus; the result is on GPU %d" % where
    return said, False


def cure(cp):
    """The array is copied once."""
    with cp.cuda.Device(0):
        x = cp.arange(10)
    with cp.cuda.Device(1):
        y = cp.asarray(x) * 2
        total, where = int(y.sum()), y.device.id
    return "the sum is %d, on GPU %d" % (total, where), total == 90


GPUS = 2
