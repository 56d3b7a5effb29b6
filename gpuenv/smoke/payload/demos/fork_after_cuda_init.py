"""A process that is forked after CUDA was initialised."""

WHY = "A CUDA context does not survive a fork. Start workers with spawn, or fork before the first use of the GPU."


def mistake(cp):
    """The parent has used the GPU; its forked child cannot."""
    import os

    cp.arange(3).sum()
    cp.cuda.Device().synchronize()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            answer = "the sum is %d" % int(cp.arange(10).sum())
        except Exception as error:  # noqa: BLE001 - whatever it raises is what is to be shown
            answer = "%s: %s" % (type(error).__name__, error)
        os.write(writing, answer.encode()[:4000])
        os._exit(0)
    os.close(writing)
    answer = os.read(reading, 4000).decode() or "nothing"
    os.waitpid(child, 0)
    return "in the child: %s" % answer, answer == "the sum is 45"


def cure(cp):
    """The worker is started afresh."""
    import subprocess
    import sys

    cp.arange(3).sum()
    cp.cuda.Device().synchronize()
    program = "import cupy; print('the sum is', int(cupy.arange(10).sum()))"
    command = [sys.executable, "-c", program]
    answer = subprocess.check_output(command).decode().strip()
    return "in the child: %s" % answer, answer == "the sum is 45"
