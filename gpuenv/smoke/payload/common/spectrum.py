"""Fourier transforms: the expected answer in double precision, and how far one in another type may be off."""

from __future__ import annotations

import math

import numpy as np

from gpuenv.smoke.payload.answers import UNIT, Answer, near


def transform_bound(x, axes, unit):
    """The largest error of one element of an unnormalised transform.

    A transform of n points errs, in the 2-norm, by at most log2(n) eta relative to its result, with eta a small
    multiple of the unit roundoff (Higham, Accuracy and Stability, section 24.1); 16 log2(n) u leaves room for lengths
    with large primes, which take three transforms of at least twice the length. The 2-norm of the result is sqrt(n)
    that of x, and no element errs by more than the whole.
    """
    points = float(np.prod([x.shape[axis] for axis in axes]))
    norm = np.sqrt((np.abs(x.astype(np.complex128)) ** 2).sum(axis=tuple(axes), keepdims=True))
    return 16.0 * max(math.log2(points), 1.0) * unit * math.sqrt(points) * norm


def transform(x, axes, dtype) -> Answer:
    """The forward transform along axes; the bound has room for NumPy's own errors too."""
    value = np.fft.fftn(x.astype(np.complex128), axes=axes)
    return near(value, np.broadcast_to(1.1 * transform_bound(x, axes, UNIT[dtype]), value.shape), dtype)


def back(x, axes, dtype) -> Answer:
    """The input itself, after a transform forth and back: two errors, the second on a normalised transform."""
    points = float(np.prod([x.shape[axis] for axis in axes]))
    unit = UNIT[dtype]
    bound = np.broadcast_to(2.2 * transform_bound(x, axes, unit) / math.sqrt(points), x.shape)
    return near(x, bound, dtype)


def random_signal(random, shape, dtype):
    """Complex noise."""
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)
