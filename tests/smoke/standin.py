"""A stand-in for CuPy, computed by NumPy, with a sickness planted into its products and transforms.

A tool of these tests: it shows that a test of the payload notices a sick GPU, where there is no GPU. It has what the
tests of matrix products, transforms, element-wise functions and health use, and a clock of its own.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from gpuenv.smoke.payload.cupy_device import CupyDevice
from gpuenv.smoke.payload.expected import find_wrong
from tests.smoke.payload import gpu_test

Array = Any  # an array of NumPy
SECONDS_PER_OPERATION = 1e-8
SICKNESSES = ("1 % scale", "one wrong element", "one wrong block", "transposed", "zeros", "unwritten")


def spoiled(value: Array, sickness: str | None) -> Array:
    """The result of a sick GPU; ``value`` has at least one element."""
    if sickness not in SICKNESSES:
        return value
    wrong = np.array(value)
    if sickness == "1 % scale":
        wrong = (wrong * 1.01).astype(wrong.dtype)
    elif sickness == "one wrong element":
        flat = wrong.reshape(-1)
        flat[flat.size // 2] = flat[flat.size // 2] * 2 + 1
    elif sickness == "one wrong block":
        wrong[..., -min(wrong.shape[-1], 16) :] = np.roll(wrong[..., -min(wrong.shape[-1], 16) :], 1, axis=-1)
    elif sickness == "transposed":
        order = wrong.T if wrong.ndim > 1 else wrong[::-1]
        wrong = np.ascontiguousarray(order).reshape(wrong.shape)
    elif sickness == "zeros":
        wrong[...] = 0
    else:  # what was in the memory before
        wrong = (
            np.full(wrong.shape, 0x5A, dtype=np.uint8)[..., None].repeat(wrong.itemsize, -1).view(value.dtype)[..., 0]
        )
    return wrong


def as_tf32(x: Array) -> Array:
    """Single precision with the 11 significant bits of TF32."""
    bits = np.ascontiguousarray(x).view(np.uint32)
    return ((bits + 0x1000) & 0xFFFFE000).astype(np.uint32).view(np.float32)


class Device:
    """A device of the stand-in, the current one by default."""

    def __init__(self, number: int | None = None) -> None:
        self.id = STATE.device if number is None else number
        self.outer = STATE.device

    def __enter__(self) -> None:
        self.outer, STATE.device = STATE.device, self.id

    def __exit__(self, *_: object) -> None:
        STATE.device = self.outer

    def synchronize(self) -> None:
        """Nothing is asynchronous here."""


class GpuArray(np.ndarray):
    """An array of the stand-in."""

    @property
    def device(self) -> Device:  # type: ignore[override]  # NumPy 2: "cpu"
        return Device()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        plain = [entry.view(np.ndarray) if isinstance(entry, GpuArray) else entry for entry in inputs]
        if "out" in kwargs:
            kwargs["out"] = tuple(entry.view(np.ndarray) for entry in kwargs["out"])
        if ufunc is np.matmul:
            return on_gpu(STATE.product(*plain))
        result = getattr(ufunc, method)(*plain, **kwargs)
        return on_gpu(result) if isinstance(result, np.ndarray | np.generic) else result


def on_gpu(value: Array) -> Array:
    """The array as one of the GPU."""
    return np.asarray(value).view(GpuArray)


class State:
    """The sickness, from which product on it shows, and the clock in seconds."""

    def __init__(self) -> None:
        self.sickness: str | None = None
        self.after = 0
        self.products = 0
        self.clock = 0.0
        self.slowdown = 1.0  # by which each product takes longer than the one before
        self.wrong_words = 0
        self.device = 0  # the current one
        self.devices = 1
        self.wrong_device: int | None = None

    def product(self, a: Array, b: Array) -> Array:
        self.products += 1
        pace = SECONDS_PER_OPERATION * self.slowdown**self.products
        self.clock += 2.0 * a.size * b.shape[-1] * pace
        is_sick = self.products > self.after
        if a.dtype == np.float32 and b.dtype == np.float32 and self.sickness == "TF32" and is_sick:
            a, b = as_tf32(a), as_tf32(b)
        # Half precision is summed in single precision, as on tensor cores.
        value = (a.astype("f") @ b.astype("f")).astype("e") if a.dtype == np.float16 else a @ b
        return spoiled(value, self.sickness if is_sick else None)


STATE = State()


class Event:
    """A moment of the stand-in's clock."""

    def __init__(self) -> None:
        self.moment = 0.0

    def record(self, stream: object = None) -> None:
        del stream
        self.moment = STATE.clock

    def synchronize(self) -> None:
        """Nothing is asynchronous here."""


PATTERN = 0x9E3779B97F4A7C15


def pattern(words: int, seed: int, flip: int) -> Array:
    word = np.arange(words, dtype=np.uint64) * np.uint64(PATTERN) + np.uint64(seed)
    return ~word if flip else word


def write_pattern(x: Array, words: int, seed: int, flip: int) -> None:
    x[:words] = pattern(int(words), int(seed), int(flip))
    if STATE.wrong_words:
        x[:1] ^= np.uint64(1)


def read_pattern(x: Array, words: int, seed: int, flip: int, found: Array) -> None:
    found[0] += x[:words].sum(dtype=np.uint64)
    found[1] += np.count_nonzero(np.asarray(x)[:words] != pattern(int(words), int(seed), int(flip)))


def mix(x: Array, y: Array, z: Array, n: int) -> None:
    z[...] = (x << 1) - y + np.arange(n)
    if STATE.device == STATE.wrong_device:
        z[-1] += 1


KERNELS: dict[str, Any] = {"gpuenv_write": write_pattern, "gpuenv_read": read_pattern, "gpuenv_mix": mix}
REDUCTIONS = {"gpuenv_unequal": lambda x, y: np.count_nonzero(np.asarray(x) != np.asarray(y))}


def kernel(source: str, name: str) -> Any:  # noqa: ANN401 - a function of grid, block and arguments
    del source
    return lambda _grid, _block, arguments: KERNELS[name](*arguments)


def transform(name: str) -> Any:  # noqa: ANN401 - a function of arrays
    def compute(x: Array, *arguments: Any, **options: Any) -> Array:  # noqa: ANN401
        value = getattr(np.fft, name)(np.asarray(x), *arguments, **options)
        if x.dtype in (np.float32, np.complex64):  # NumPy 1 transforms in double precision
            value = value.astype("F" if np.iscomplexobj(value) else "f")
        return on_gpu(spoiled(value, STATE.sickness))

    return compute


def result_on_gpu(function: Any) -> Any:  # noqa: ANN401 - a function of arrays
    return lambda *arguments, **options: on_gpu(function(*arguments, **options))


def make() -> Any:  # noqa: ANN401 - a module
    """The stand-in for the module ``cupy``."""
    runtime = SimpleNamespace(
        deviceSynchronize=lambda: None,
        deviceGetAttribute=lambda *_: 0,
        getDeviceCount=lambda: STATE.devices,
        CUDARuntimeError=RuntimeError,
    )
    cuda = SimpleNamespace(
        runtime=runtime,
        Event=Event,
        Device=Device,
        get_current_stream=lambda: SimpleNamespace(synchronize=lambda: None),
        get_elapsed_time=lambda start, end: (end.moment - start.moment) * 1000.0,
    )
    names = (
        *("empty", "zeros", "full", "eye", "arange", "tile", "asfortranarray", "outer", "vdot", "cumsum", "einsum"),
        *("zeros_like", "empty_like", "sin", "exp", "log", "tanh", "power"),
    )
    made = {name: result_on_gpu(getattr(np, name)) for name in names}
    return SimpleNamespace(
        **made,
        ndarray=GpuArray,
        add=np.add,
        multiply=np.multiply,
        asarray=lambda x: on_gpu(np.array(x)),
        asnumpy=lambda x: np.array(x).view(np.ndarray),
        matmul=lambda a, b: on_gpu(STATE.product(np.asarray(a), np.asarray(b))),
        dot=lambda a, b: on_gpu(STATE.product(np.asarray(a)[None], np.asarray(b)[:, None])[0, 0]),
        cuda=cuda,
        fft=SimpleNamespace(**{name: transform(name) for name in ("fft", "fftn", "rfft", "irfft", "rfft2", "irfft2")}),
        RawKernel=kernel,
        ReductionKernel=lambda *parts: lambda *arrays: on_gpu(REDUCTIONS[parts[-1]](*arrays)),
        get_default_memory_pool=lambda: SimpleNamespace(free_all_blocks=lambda: None),
    )


def errors(which: str, size: dict[str, Any], sickness: str | None = None, **state: Any) -> tuple[list[str], CupyDevice]:  # noqa: ANN401
    """What a test of the payload finds wrong on the stand-in, and the device with its measurements."""
    global STATE  # noqa: PLW0603 - one GPU
    STATE = State()
    STATE.sickness = sickness
    for name, value in state.items():
        setattr(STATE, name, value)
    test, device = gpu_test(which), CupyDevice(make(), "deep", None, 1 << 30, 2 << 30)
    inputs = test.inputs(np.random.default_rng(7), size)
    with np.errstate(all="ignore"):
        return find_wrong(test.expect(inputs), test.run(device, inputs)), device
