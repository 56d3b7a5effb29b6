"""DLPack and the CUDA array interface, within CuPy: the memory is shared, not copied."""

import numpy as np

from gpuenv.smoke.payload.answers import exact

TITLE = "DLPack and the CUDA array interface"
LEVELS = {"quick": {"n": 5003}, "normal": {"n": 100003}}
TOLERANCE = "exact: whole numbers; 1 where the memory is the same"


class Stranger:
    """An object of somebody else's that has an array on the GPU."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


def inputs(random, size):
    return {"x": random.integers(-(2**60), 2**60, size=(3, size["n"]), dtype=np.int64)}


def expect(given):
    x = given["x"] + 1
    return {"dlpack": exact(x), "interface": exact(x[:, ::2].copy()), "shared": exact(np.array([1, 1]))}


def run(gpu, given):
    cp, x = gpu.cp, gpu.up(given["x"])
    dlpack, interface = cp.from_dlpack(x), cp.asarray(Stranger(x[:, ::2]))
    shared = [int(dlpack.data.ptr == x.data.ptr), int(interface.data.ptr == x.data.ptr)]
    x += 1  # what was only lent sees it
    return {"dlpack": gpu.down(dlpack), "interface": gpu.down(interface), "shared": np.array(shared)}
